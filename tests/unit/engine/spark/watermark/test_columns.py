"""The two watermark columns: declared schemas, batches with the columns, marker rows."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from penstock.engine.spark.load import Loaded, resolved
from penstock.engine.spark.schema.types import arrow_schema
from penstock.engine.spark.watermark.columns import (
    COLUMNS,
    added,
    event_time_column,
    marker_batch,
    table_part,
    with_columns,
)
from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.streams import END_OF_TIME_US, Watermark
from penstock.proto.options.registry import ParsedOptions

TS = st.StructField("ts", st.TimestampType())
TABLE = st.StructType([st.StructField("id", st.LongType()), TS])
OPTIONS = ParsedOptions(event_time="ts")


def declared(*fields: st.StructField) -> st.StructType:
    return st.StructType(list(fields))


def test_watermark_columns_follow_the_columns_of_the_table() -> None:
    schema = with_columns(TABLE)
    assert schema.simpleString() == (
        "struct<id:bigint,ts:timestamp,_penstock_watermark:timestamp,_penstock_marker:boolean>"
    )
    assert table_part(schema, OPTIONS) == TABLE


def test_schema_without_event_time_is_unchanged() -> None:
    assert table_part(with_columns(TABLE), ParsedOptions()) == with_columns(TABLE)


def test_table_with_a_column_of_that_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="column _Penstock_Marker of its own"):
        with_columns(declared(TS, st.StructField("_Penstock_Marker", st.LongType())))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (TABLE, "_penstock_watermark.*got none"),
        (declared(TS, COLUMNS[0]), "_penstock_marker.*got none"),
        (declared(TS, COLUMNS[1]), "_penstock_watermark.*got none"),
        (declared(TS, COLUMNS[0], st.StructField("_penstock_marker", st.StringType())), "got _penstock_marker string"),
        (declared(TS, COLUMNS[0], st.StructField("_penstock_marker", st.BooleanType(), False)), "boolean NOT NULL"),
        (declared(TS, st.StructField("_penstock_watermark", st.TimestampNTZType()), COLUMNS[1]), "timestamp_ntz"),
        (declared(TS, *COLUMNS, COLUMNS[1]), "holds the column _penstock_marker once"),
        (declared(st.StructField("id", st.LongType()), *COLUMNS), "event-time column ts .*not among the columns"),
        (declared(st.StructField("ts", st.TimestampType(), False), *COLUMNS), "ts is declared NOT NULL"),
    ],
)
def test_declared_schema_must_have_the_watermark_columns(schema: st.StructType, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        table_part(schema, OPTIONS)


@pytest.mark.parametrize("kind", [st.TimestampType(), st.TimestampNTZType(), st.DateType()])
def test_event_times_of_time_types(kind: st.DataType) -> None:
    table = declared(st.StructField("TS", kind))
    assert event_time_column(table, OPTIONS).name == "TS"
    with pytest.raises(ConfigurationError, match=r"eventTimeUnit=ms.*needs none"):
        event_time_column(table, ParsedOptions(event_time="ts", event_time_unit="ms"))


def test_plain_numbers_need_their_unit() -> None:
    table = declared(st.StructField("ts", st.LongType()))
    with pytest.raises(ConfigurationError, match=r"has no unit; give eventTimeUnit \(s, ms or us\)"):
        event_time_column(table, OPTIONS)
    assert event_time_column(table, ParsedOptions(event_time="ts", event_time_unit="s")).name == "ts"


@pytest.mark.parametrize("kind", [st.StringType(), st.IntegerType(), st.DoubleType(), st.BooleanType()])
def test_columns_that_are_no_event_time_are_refused(kind: st.DataType) -> None:
    with pytest.raises(ConfigurationError, match=f"type is {kind.simpleString()}, expected a timestamp"):
        event_time_column(declared(st.StructField("ts", kind)), OPTIONS)


def test_every_row_has_the_watermark_at_any_column_position() -> None:
    schema = declared(COLUMNS[1], TS, COLUMNS[0])
    batch = pa.record_batch({"ts": pa.array([1, None, 3], pa.timestamp("us", "UTC"))})
    batch_result = added(batch, schema, 7)
    assert batch_result.schema == arrow_schema(schema)
    assert batch_result["_penstock_marker"].to_pylist() == [False] * 3
    assert batch_result["_penstock_watermark"].cast(pa.int64()).to_pylist() == [7] * 3
    assert batch_result["ts"].equals(batch["ts"])
    assert added(batch, schema, None)["_penstock_watermark"].null_count == 3


@pytest.mark.parametrize(
    ("column", "unit", "expected"),
    [
        (st.TimestampType(), None, dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)),
        (st.TimestampNTZType(), None, dt.datetime(2026, 1, 31, 12)),  # noqa: DTZ001
        (st.DateType(), None, dt.date(2026, 1, 31)),
        (st.LongType(), "s", 1_769_860_800),
        (st.LongType(), "ms", 1_769_860_800_000),
        (st.LongType(), "us", 1_769_860_800_000_000),
    ],
)
def test_marker_is_one_row_with_an_event_time(column: st.DataType, unit: str | None, expected: object) -> None:
    schema = with_columns(
        declared(
            st.StructField("ts", column),
            st.StructField("s", st.StructType([st.StructField("a", st.LongType())])),
            st.StructField("m", st.MapType(st.StringType(), st.LongType())),
            st.StructField("d", st.DecimalType(10, 2)),
            st.StructField("n", st.NullType()),
        )
    )
    batch_result = marker_batch(schema, "ts", unit, Watermark(END_OF_TIME_US, 1_769_860_800_000_000))
    assert batch_result.schema == arrow_schema(schema)
    end = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)
    nulls = {"s": None, "m": None, "d": None, "n": None}
    assert batch_result.to_pylist() == [{"ts": expected, **nulls, "_penstock_watermark": end, "_penstock_marker": True}]


def test_marker_without_an_event_time() -> None:
    batch_result = marker_batch(with_columns(TABLE), "ts", None, Watermark(5))
    assert batch_result["ts"].cast(pa.int64()).to_pylist() == [5]
    with pytest.raises(InvariantViolation, match="without a watermark"):
        marker_batch(with_columns(TABLE), "ts", None, Watermark(None, 5))


def test_options_and_declared_schema_select_the_columns() -> None:
    options = ParsedOptions(event_time="TS", batch_rows=7)
    load, reading = resolved(Loaded("t", options), with_columns(TABLE), limit_rows=3, narrows=True)
    assert (load.options.columns, load.options.event_time) == (("id", "ts"), "ts")
    assert (reading.schema, reading.watermarked, reading.event_time) == (TABLE, with_columns(TABLE), "ts")
    assert (reading.limit_rows, reading.batch_rows, reading.narrows) == (3, 7, True)
    again, same = resolved(load, with_columns(TABLE), limit_rows=3, narrows=True)
    assert (again, same) == (load, reading), "the task resolves the pickled options again"
    _, plain = resolved(Loaded("t", ParsedOptions()), TABLE)
    assert (plain.watermarked, plain.event_time) == (None, "")
