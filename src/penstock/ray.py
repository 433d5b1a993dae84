"""Hudi tables as datasets of Ray Data. Needs the extra `ray`; importing this module does not load Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.adapters.libraries import adapter

if TYPE_CHECKING:
    from penstock.engine.adapters.ray import read

__all__ = ["read"]


def __getattr__(name: str) -> object:
    return adapter("ray", name, __all__)


def __dir__() -> list[str]:
    return __all__
