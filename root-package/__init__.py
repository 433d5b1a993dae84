"""Penstock: consume Apache Hudi tables from Python and Spark, row for row what Hudi returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.version import __version__

if TYPE_CHECKING:
    from penstock.engine.arrow import read

__all__ = ["__version__", "read"]


def __getattr__(name: str) -> object:
    """`read` is imported on first use: `penstock --help` and Spark's workers do not pay for what they never call."""
    if name != "read":
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from penstock.engine.arrow import read

    globals()["read"] = read
    return read
