"""The data frame of a write: which of its columns are written, and which data frames are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.engine.spark.write.columns import RESERVED
from penstock.engine.write.planned_write import PlannedWrite
from penstock.proto.errors import ConfigurationError, SchemaMismatch, UnsupportedFeature
from penstock.table.schema.avro import META_COLUMNS
from penstock.table.storage.uris import redacted_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def refuse_frame(df: DataFrame, path: str) -> None:
    """UnsupportedFeature for a data frame of Spark Connect, ConfigurationError for a stream."""
    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise UnsupportedFeature(
            f"table {redacted_uri(path)}: a data frame of Spark Connect cannot be written yet, because its driver is "
            "in another process than this one, which commits: run the program with a classic session (spark-submit, "
            "or SparkSession.builder.master(…))"
        )
    if df.isStreaming:
        raise ConfigurationError(
            f"table {redacted_uri(path)}: got a streaming data frame, expected one of a batch: use "
            "stream.writeStream.foreachBatch(penstock.spark.sink(path, checkpoint=…))"
        )


def refuse_random_rows(df: DataFrame, where: str) -> None:
    """ConfigurationError for a data frame that Spark calls non-deterministic, if it may run a task twice at the same
    time."""
    java: Any = df._jdf
    if df.sparkSession.sparkContext.getConf().get("spark.speculation", "false") == "true" and not (
        java.queryExecution().analyzed().deterministic()
    ):
        raise ConfigurationError(
            f"{where}: spark.speculation is on, and the data frame has other rows in each evaluation, "
            "such as of rand(): two attempts at one task could both be kept, with different rows; nothing was written. "
            "Turn speculation off, or write the data frame into files, and read those"
        )


def data_columns(df: DataFrame, planned: PlannedWrite) -> pa.Schema:
    """The columns of the data frame that the write uses: not Hudi's meta columns, and of deletes those of keys.

    SchemaMismatch for a missing column, one that does not fit the table, or one with a reserved name, before the data
    frame is evaluated.
    """
    data = arrow_columns(df.schema, planned.settings.where)
    if reserved := [name for name in data.names if name.lower().startswith(RESERVED)]:
        raise SchemaMismatch(
            f"{planned.settings.where}: column {reserved[0]!r}: names that begin with {RESERVED} are those of the "
            "steps of a write in Spark; nothing was written. Rename the column, or use penstock.write"
        )
    planned.preparation.rows(planned.early, data.empty_table())
    return planned.preparation.stored(data.empty_table()).schema


def quoted(name: str) -> str:
    """The name of a column in Spark's expressions."""
    return f"`{name.replace('`', '``')}`"


def arrow_columns(schema: StructType, where: str) -> pa.Schema:
    """The columns of a data frame but Hudi's meta columns. SchemaMismatch for a type that no table has."""
    try:
        columns = to_arrow_schema(schema, timezone="UTC")
    except PySparkException as error:
        raise SchemaMismatch(
            f"{where}: the data frame has a column of a type that no table has: {str(error)[:300]}; cast it, or leave "
            "it out"
        ) from None
    return pa.schema([field for field in columns if field.name not in META_COLUMNS])
