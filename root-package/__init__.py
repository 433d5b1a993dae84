"""Penstock: consume Apache Hudi tables from Python and Spark, row for row what Hudi returns."""

from penstock.engine.arrow import read
from penstock.version import __version__

__all__ = ["__version__", "read"]
