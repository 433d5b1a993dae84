"""The Spark data source `penstock`: batch and stream. The only place that imports pyspark.

What runs where: `source`, `planning`, `batch_reader`, `stream_reader` in Spark's planner processes; `tasks`, `workers`,
`casting`, `narrowing` in its Python workers; `interpreter` starts all of these where it is asked to;
`source_watermark` and `awaiting` in the user's own program; `offsets`, `slots`, `progress`, `types`, `options`,
`reading`, `watermark_columns`, `schema_changes` are pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.engine.spark.source import PenstockDataSource
    from penstock.engine.spark.stream.await_end import await_end
    from penstock.engine.spark.watermark.eviction import with_source_watermark

__all__ = ["PenstockDataSource", "await_end", "register", "with_source_watermark"]


def register(spark: SparkSession) -> None:
    """Makes `spark.read.format("penstock")` known to this session; again is harmless.

    Needed only where Spark did not find the module `pyspark_penstock` on the driver's Python path by itself.
    """
    from penstock.engine.spark.source import PenstockDataSource

    spark.dataSource.register(PenstockDataSource)


def __getattr__(name: str) -> object:
    """Imported on first use: every process of Spark imports this package, and each needs another part of it."""
    found: object
    match name:
        case "PenstockDataSource":
            from penstock.engine.spark.source import PenstockDataSource as found
        case "await_end":
            from penstock.engine.spark.stream.await_end import await_end as found
        case "with_source_watermark":
            from penstock.engine.spark.watermark.eviction import with_source_watermark as found
        case _:
            raise AttributeError(f"module 'penstock.engine.spark' has no attribute {name!r}")
    globals()[name] = found
    return found
