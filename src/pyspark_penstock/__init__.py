"""The module Spark looks for: any top-level `pyspark_*` with a `DefaultSource` registers its format by itself."""

from penstock.engine.spark.source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
