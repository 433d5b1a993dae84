"""Penstock: consume Apache Hudi tables from Python and Spark, row for row what Hudi returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.version import __version__

if TYPE_CHECKING:
    from penstock.engine.arrow import read
    from penstock.engine.consumer import Consumer

__all__ = ["Consumer", "__version__", "read"]


def __getattr__(name: str) -> object:
    """Imported on first use: `penstock --help` and Spark's workers do not pay for what they never call."""
    found: object
    match name:
        case "read":
            from penstock.engine.arrow import read as found
        case "Consumer":
            from penstock.engine.consumer import Consumer as found
        case _:
            raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    globals()[name] = found
    return found
