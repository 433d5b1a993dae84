"""The data source `penstock`, which Spark constructs and pickles, and which creates the schema and the readers.

Every Python process of Spark imports this module, also tasks, which use only the class name. So each method imports its
own dependencies.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from penstock.engine.spark.tracebacks import hidden_traceback

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

    from penstock.engine.spark.batch_reader import PenstockBatchReader
    from penstock.engine.spark.load import Loaded
    from penstock.engine.spark.stream.reader import PenstockStreamReader, RefusedStreamReader
    from penstock.proto.options.registry import EntryPoint

log = logging.getLogger("penstock.engine.spark")
_SET_BY_STREAMS: Final = {
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_LOCAL_DIRS": "",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""What `PythonStreamingSourceRunner.init` puts into the map of a source; Spark replaces these values by its own."""


class PenstockDataSource(DataSource):
    """Apache Hudi tables, batch and stream: `spark.read.format("penstock").load(path)`, or with the option `server`
    (HOST:PORT of `penstock serve`) `.load(name)`.

    Options are those of docs/reference/options.md, in any case. A batch reads the snapshot (`query`, `asOf`, `after`,
    `upto`). A stream reads a snapshot of the table at its start, then ranges of commits (or only commits from `after`
    on), to `upto` if that is given, within `maxCommitsPerTrigger` and the other limits. With `eventTime` rows carry a
    watermark, which `with_source_watermark` passes to Spark. `limit` stops each split after so many rows. Spark prunes
    no columns by itself: use `columns` or `.schema("id bigint, name string")`. A time of day has the type TIME(6),
    which Spark accepts only with `spark.sql.timeType.enabled`; or leave the column out."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options
        self._gave_schema = False

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "penstock"

    @hidden_traceback()
    def schema(self) -> StructType:
        """The schema of the table, meta columns first, projected by `columns`. Not called if `.schema()` is given.

        Errors: `penstock.proto.errors`.
        """
        from penstock.engine.spark.load import entry_point_at_load, loaded
        from penstock.engine.spark.planning import schema_of
        from penstock.engine.spark.stored_options import options_of_new_table, with_stored_options

        created = options_of_new_table(self.options)
        options = self.options if created is None else created
        load = loaded(options, entry_point_at_load(options), os.environ)
        for warning in load.options.warnings:
            log.warning("%s", warning)
        schema = schema_of(load)
        self._gave_schema = True  # Spark pickles this instance after the call, for the readers
        return schema if created is None else with_stored_options(schema, created)

    @hidden_traceback()
    def reader(self, schema: StructType) -> PenstockBatchReader:
        """A reader for a batch of the columns in `schema`."""
        from penstock.engine.spark.batch_reader import PenstockBatchReader
        from penstock.engine.spark.load import loaded
        from penstock.engine.spark.slices.scan_options import planned_slots
        from penstock.proto.options.registry import EntryPoint

        others, planned = planned_slots(self.options)
        if planned is not None:
            return PenstockBatchReader(loaded(others, EntryPoint.BATCH, os.environ), schema, planned)
        return PenstockBatchReader(*self._load(EntryPoint.BATCH, schema))

    def streamReader(self, schema: StructType) -> PenstockStreamReader | RefusedStreamReader:
        """A reader for a stream of the columns in `schema`.

        If the options or the schema are refused, the reader's first call raises that error: Spark hides an error of
        `streamReader` itself, because it then stops a reader that it does not have.
        """
        from penstock.engine.spark.stream.reader import PenstockStreamReader, RefusedStreamReader
        from penstock.proto.errors import InvariantViolation, PenstockError
        from penstock.proto.options.registry import EntryPoint

        try:
            load, columns = self._load(EntryPoint.STREAM, schema)
            return PenstockStreamReader(load, columns, whole_schema=self._gave_schema and not load.options.columns)
        except InvariantViolation:
            raise
        except PenstockError as error:
            return RefusedStreamReader(error)

    @hidden_traceback()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of inserts. Errors of `append_writer`, which name the function that writes other operations."""
        from penstock.engine.spark.write.append.data_source_writer import append_writer

        return append_writer(self.options, schema, overwrite=overwrite)

    @hidden_traceback()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of a stream's inserts. Errors as `writer`; UnsupportedFeature in Spark 4.0."""
        from penstock.engine.spark.write.append.data_source_writer import refuse_stream_of_old_spark

        refuse_stream_of_old_spark()
        from penstock.engine.spark.write.append.stream_writer import append_stream_writer

        return append_stream_writer(self.options, schema, overwrite=overwrite)

    def _load(self, entry_point: EntryPoint, schema: StructType) -> tuple[Loaded, StructType]:
        """What a reader needs; for a table of Spark's catalog with the options that its schema stores."""
        from penstock.engine.spark.load import loaded
        from penstock.engine.spark.stored_options import options_of_read, without_stored_options

        load = loaded(options_of_read(self.options, schema), entry_point, os.environ)
        return load, without_stored_options(schema)


_REGISTERING = threading.Lock()
"""Held while the variables are in the environment of Spark's context, which all sessions of a process share."""


def register(spark: SparkSession) -> None:
    """Registers the format `penstock` with this session. Calling it again has no effect.

    Needed if the module `pyspark_penstock` is not on the Python path of the driver, and before a session starts several
    streams at once: Spark 4 adds environment variables to one map that all streams share, without a lock, and two
    streams that add at once damage it. Every later task of the session then fails (OptionalDataException). The map of
    a source that is registered here has these variables from the start. A session of Spark Connect cannot set them.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        spark.dataSource.register(PenstockDataSource)
        return
    environment = spark.sparkContext.environment  # `register` copies it into the map of the source
    with _REGISTERING:
        added = {name: value for name, value in _SET_BY_STREAMS.items() if name not in environment}
        environment.update(added)
        try:
            spark.dataSource.register(PenstockDataSource)
        finally:
            for name in added:
                environment.pop(name, None)
