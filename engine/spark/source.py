"""The data source `penstock`: what Spark constructs, pickles and asks for a schema and for readers.

Imported by each of Spark's Python processes, in tasks for its name alone: what a method needs it imports itself.
"""

from __future__ import annotations

import logging
import os
from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from penstock.engine.spark.batch_reader import PenstockBatchReader
    from penstock.engine.spark.stream.reader import PenstockStreamReader

log = logging.getLogger("penstock.engine.spark")


class PenstockDataSource(DataSource):
    """Apache Hudi tables, batch and stream: `spark.read.format("penstock").load(path)`, or with the option `server`
    (HOST:PORT of `penstock serve`) `.load(name)`.

    Options are those of docs/reference/options.md, in any case. A batch reads the snapshot (`query`, `asOf`, `after`,
    `upto`). A stream reads the table as it is at its start, then ranges of commits (or from `after` on), to `upto`
    if that is given, within `maxCommitsPerTrigger` and its like. With `eventTime` rows carry a watermark, which
    `with_source_watermark` makes Spark's. `limit` stops each split after so many rows. Spark prunes no columns by
    itself: use `columns` or `.schema("id bigint, name string")`.
    A time of day shows as TIME(6), which Spark takes only with `spark.sql.timeType.enabled`; or leave the column out.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "penstock"

    def schema(self) -> StructType:
        """The table's schema, the meta columns in front, projected by `columns`. Not asked where `.schema()` is given.

        Errors: `penstock.proto.errors`.
        """
        from penstock.engine.spark.options import door_before_use, loaded
        from penstock.engine.spark.planning import schema_of

        load = loaded(self.options, door_before_use(self.options), os.environ)
        for warning in load.options.warnings:
            log.warning("%s", warning)
        return schema_of(load)

    def reader(self, schema: StructType) -> PenstockBatchReader:
        """A batch read of just these columns."""
        from penstock.engine.spark.batch_reader import PenstockBatchReader
        from penstock.engine.spark.options import loaded
        from penstock.proto.options.registry import EntryPoint

        return PenstockBatchReader(loaded(self.options, EntryPoint.BATCH, os.environ), schema)

    def streamReader(self, schema: StructType) -> PenstockStreamReader:
        """A stream of just these columns."""
        from penstock.engine.spark.options import loaded
        from penstock.engine.spark.stream.reader import PenstockStreamReader
        from penstock.proto.options.registry import EntryPoint

        return PenstockStreamReader(loaded(self.options, EntryPoint.STREAM, os.environ), schema)


def register(spark: SparkSession) -> None:
    """Registers the format `penstock` with this session. Calling it again has no effect.

    Needed only where Spark did not find the module `pyspark_penstock` on the driver's Python path by itself.
    """
    spark.dataSource.register(PenstockDataSource)
