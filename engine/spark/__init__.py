"""The Spark data source `penstock`: batch and stream. The only place that imports pyspark.

What runs where: `source`, `planning`, `batch_reader`, `stream_reader` in Spark's planner processes; `tasks`, `workers`,
`casting` in its Python workers; `offsets`, `slots`, `progress`, `types`, `options` are pure.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.engine.spark.source import PenstockDataSource

__all__ = ["PenstockDataSource", "register"]


def register(spark: SparkSession) -> None:
    """Makes `spark.read.format("penstock")` known to this session; again is harmless.

    Needed only where Spark did not find the module `pyspark_penstock` on the driver's Python path by itself.
    """
    spark.dataSource.register(PenstockDataSource)
