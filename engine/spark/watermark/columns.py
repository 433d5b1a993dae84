"""The two columns that rows have in Spark with the option `eventTime`, and the marker row. Pure.

`penstock.proto.model.streams` defines the watermark, `eviction` passes it to Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import types as st

from penstock.engine.spark.schema.types import arrow_schema
from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.table.columns import resolve_columns

if TYPE_CHECKING:
    from penstock.proto.model.streams import Watermark
    from penstock.proto.options.registry import ParsedOptions

WATERMARK: Final = "_penstock_watermark"
"""The watermark of a row's micro-batch: the same on all of its rows; null while it is unknown."""
MARKER: Final = "_penstock_marker"
"""False on the table's rows; true on a marker row, which only carries a watermark."""

COLUMNS: Final = (
    st.StructField(WATERMARK, st.TimestampType(), True),
    st.StructField(MARKER, st.BooleanType(), True),
)
_NAMES: Final = (WATERMARK, MARKER)
_DAY_US: Final = 86_400_000_000
_UNITS_US: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}


def with_columns(table: st.StructType) -> st.StructType:
    """The table's schema with the two columns after its own. ConfigurationError if it has one of their names."""
    taken = [name for name in table.fieldNames() if name.lower() in _NAMES]
    if taken:
        raise ConfigurationError(
            f"the table has a column {taken[0]} of its own, and that is a column of eventTime too: leave it out by the "
            "option columns, or leave eventTime out"
        )
    return st.StructType([*table.fields, *COLUMNS])


def table_part(schema: st.StructType, options: ParsedOptions) -> st.StructType:
    """The columns of a DataFrame's schema that are in the table; without `eventTime` all of them.

    ConfigurationError: with `eventTime` one of the two columns, or the event-time column, is missing, not nullable, or
    of another type.
    """
    if not options.event_time:
        return schema
    for column in COLUMNS:
        matches = [field for field in schema.fields if field.name.lower() == column.name]
        if [(field.name, field.dataType, field.nullable) for field in matches] != [
            (column.name, column.dataType, True)
        ]:
            raise ConfigurationError(
                f"with the option eventTime the schema holds the column {column.name} once, as a nullable "
                f"{column.dataType.simpleString()}: got {', '.join(_typed(field) for field in matches) or 'none'}; add "
                f"`{WATERMARK} timestamp, {MARKER} boolean` to .schema(), or leave .schema() out"
            )
    own = st.StructType([field for field in schema.fields if field.name not in _NAMES])
    if own.fields:
        event_time_column(own, options)
    return own


def event_time_column(table: st.StructType, options: ParsedOptions) -> st.StructField:
    """The event-time column among a table's columns, by Spark's case rule.

    ConfigurationError: it is missing, not a time (a plain number without `eventTimeUnit`, or a time with one), or
    declared NOT NULL, which a marker row cannot satisfy.
    """
    if not any(name.lower() == options.event_time.lower() for name in table.fieldNames()):
        raise ConfigurationError(
            f"the event-time column {options.event_time[:200]} (option eventTime) is not among the columns that are "
            f"read: got {', '.join(table.fieldNames())[:500]}; name it there, or another column by eventTime"
        )
    (name,) = resolve_columns((options.event_time,), table.fieldNames())
    field = table[name]
    is_number, unit = isinstance(field.dataType, st.LongType), options.event_time_unit
    if not is_number and not isinstance(field.dataType, st.TimestampType | st.TimestampNTZType | st.DateType):
        raise ConfigurationError(
            f"option eventTime={name}: the column's type is {field.dataType.simpleString()}, expected a timestamp, a "
            "date, or a bigint with eventTimeUnit"
        )
    if is_number and unit is None:
        raise ConfigurationError(
            f"option eventTime={name}: the column is a plain bigint, which has no unit; give eventTimeUnit "
            "(s, ms or us)"
        )
    if not is_number and unit is not None:
        raise ConfigurationError(
            f"option eventTimeUnit={unit}: the event-time column {name} is a {field.dataType.simpleString()}, which "
            "needs none; leave the option out"
        )
    if not field.nullable:
        raise ConfigurationError(f"the event-time column {name} is declared NOT NULL; declare it nullable")
    return field


def added(batch: pa.RecordBatch, schema: st.StructType, watermark_us: int | None) -> pa.RecordBatch:
    """The batch of table columns with the two constant columns, in the order of `schema`."""
    rows = batch.num_rows
    constant = {
        WATERMARK: pa.repeat(pa.scalar(watermark_us, pa.timestamp("us", tz="UTC")), rows),
        MARKER: pa.repeat(pa.scalar(False), rows),
    }
    own = iter(batch.columns)
    columns = [constant[name] if name in constant else next(own) for name in schema.fieldNames()]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))


def marker_batch(schema: st.StructType, event_time: str, unit: str | None, watermark: Watermark) -> pa.RecordBatch:
    """One row with the watermark, the marker and an event time: Spark's windows drop rows without one.

    The event time is the highest of the rows before it, so that a filter on times that keeps those rows keeps it too.
    """
    if watermark.at_us is None:
        raise InvariantViolation("a marker row without a watermark")
    at_us = watermark.at_us if watermark.high_us is None else watermark.high_us
    target = arrow_schema(schema)
    columns = []
    for field in target:
        if field.name == WATERMARK:
            value = pa.scalar(watermark.at_us, field.type)
        elif field.name == MARKER:
            value = pa.scalar(True)
        elif field.name == event_time:
            value = _time(at_us, field.type, unit)
        else:
            value = pa.scalar(None, field.type)
        columns.append(pa.array([value.as_py()], field.type) if pa.types.is_null(field.type) else pa.repeat(value, 1))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _time(at_us: int, column: pa.DataType, unit: str | None) -> pa.Scalar:
    if pa.types.is_int64(column):
        return pa.scalar(at_us // _UNITS_US[unit or "us"], column)
    if pa.types.is_date(column):
        return pa.scalar(at_us // _DAY_US, pa.int32()).cast(column)
    return pa.scalar(at_us, column)


def _typed(field: st.StructField) -> str:
    return f"{field.name} {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"
