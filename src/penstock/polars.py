"""Hudi tables as Polars lazy frames. Needs the extra `polars`; importing this module does not load Polars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.adapters.libraries import adapter

if TYPE_CHECKING:
    from penstock.engine.adapters.polars import scan

__all__ = ["scan"]


def __getattr__(name: str) -> object:
    return adapter("polars", name, __all__)


def __dir__() -> list[str]:
    return __all__
