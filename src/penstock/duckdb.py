"""Hudi tables as relations of DuckDB. Needs the extra `duckdb`; importing this module does not load DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.adapters.libraries import adapter

if TYPE_CHECKING:
    from penstock.engine.adapters.duckdb import register, relation

__all__ = ["register", "relation"]


def __getattr__(name: str) -> object:
    return adapter("duckdb", name, __all__)


def __dir__() -> list[str]:
    return __all__
