"""Makes Spark's stateful operators evict by the enumerator's watermark instead of one that Spark computes.

The order of the steps follows from Spark: `withWatermark` takes the highest value of a column over all rows
of a micro-batch; only the metadata key defines which column is the event time, and `withWatermark` removes it
elsewhere. The filter that removes the marker rows is not deterministic, so that Spark pushes neither it nor a user's
filter below the node that computes the watermark (SPARK-21587): rows that are filtered out still move it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from penstock.engine.spark.watermark.columns import MARKER, WATERMARK
from penstock.proto.errors import ConfigurationError, PenstockError
from penstock.table.columns import resolve_columns

_DELAY_KEY: Final = "spark.watermarkDelayMs"


def with_source_watermark(df: DataFrame, event_time: str = "ts", delay_ms: int = 0) -> DataFrame:
    """`df` with its event-time column `event_time` and the watermark of the source, without the source's two columns.

    `df` is what `load()` with the option `eventTime` returned, batch or stream, or derived from it with both columns
    kept. A filter before this call removes rows, and their watermark: put filters after it. A column derived from the
    event time later (a cast, an interval added) is not an event time for Spark. `delay_ms`: the time after the
    watermark for which `dropDuplicatesWithinWatermark` keeps keys.

    ConfigurationError: the source's columns are missing, or `event_time` is not a timestamp column.
    """
    names = df.schema.fieldNames()
    missing = [name for name in (WATERMARK, MARKER) if name not in names]
    if missing:
        raise ConfigurationError(
            f"with_source_watermark: the DataFrame has no column {missing[0]}: load it with the option eventTime, and "
            "keep both columns of the watermark until this call"
        )
    if isinstance(delay_ms, bool) or not isinstance(delay_ms, int) or delay_ms < 0:
        raise ConfigurationError(f"with_source_watermark: delay_ms={delay_ms!r}, expected milliseconds, 0 or more")
    field = _event_time(df.schema, event_time)
    metadata = {**(field.metadata or {}), _DELAY_KEY: delay_ms}
    tagged = df.withWatermark(WATERMARK, "0 seconds").withMetadata(field.name, metadata)
    above = F.spark_partition_id() >= 0
    return tagged.filter(~(F.col(MARKER) & above)).drop(WATERMARK, MARKER)


def _event_time(schema: st.StructType, name: str) -> st.StructField:
    if name in (WATERMARK, MARKER):
        raise ConfigurationError(f"with_source_watermark: {name} is the source's own column, name that of eventTime")
    try:
        (resolved,) = resolve_columns((name,), schema.fieldNames())
    except PenstockError as error:
        raise ConfigurationError(
            f"with_source_watermark: event_time: {error}; convert a field of a struct into a column first"
        ) from error
    field = schema[resolved]
    if not isinstance(field.dataType, st.TimestampType | st.TimestampNTZType):
        raise ConfigurationError(
            f"with_source_watermark: column {resolved} is a {field.dataType.simpleString()}, but Spark's event times "
            "are timestamps: convert it first, under the same or another name, and name the result here, such as "
            f'df.withColumn("{resolved}", timestamp_millis("{resolved}"))'
        )
    return field
