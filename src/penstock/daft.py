"""Hudi tables as Daft DataFrames. Needs the extra `daft`; importing this module does not load Daft."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.adapters.libraries import adapter

if TYPE_CHECKING:
    from penstock.engine.adapters.daft import read

__all__ = ["read"]


def __getattr__(name: str) -> object:
    return adapter("daft", name, __all__)


def __dir__() -> list[str]:
    return __all__
