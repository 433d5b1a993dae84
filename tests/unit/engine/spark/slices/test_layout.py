"""Which columns of a file Spark's Parquet reader returns unchanged, decided by footers that pyarrow writes."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine.spark.slices.layout import SparkReading, Unequal, layout_of, spark_reading
from penstock.table.schema.avro import parse_record_schema
from tests.oracle.slice_writer import table_schema

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
STRUCT = {"type": "record", "name": "s", "fields": [{"name": "a", "type": ["null", "double"], "default": None}]}
INTS = {"type": "array", "items": ["null", "int"]}


def reading(table: dict[str, Any], file: pa.Schema, **written: Any) -> SparkReading | Unequal:
    sink = pa.BufferOutputStream()
    pq.write_table(file.empty_table(), sink, **written)
    footer = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    record = parse_record_schema(json.dumps(table_schema(table, with_meta=False)), "the schema")
    return spark_reading(layout_of(footer), record, list(table), None)


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ("string", pa.string()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("boolean", pa.bool_()),
        ("bytes", pa.binary()),
        (DECIMAL, pa.decimal128(9, 2)),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        (MICROS, pa.timestamp("us", "UTC")),
        (LOCAL, pa.timestamp("us")),
        ({"type": "fixed", "name": "f", "size": 4}, pa.binary(4)),
        (INTS, pa.list_(pa.field("element", pa.int32()))),
        ({"type": "map", "values": ["null", "string"]}, pa.map_(pa.string(), pa.string())),
    ],
)
def test_equal_types_are_read_by_spark(avro: Any, arrow: pa.DataType) -> None:
    assert reading({"c": avro}, pa.schema([("c", arrow)])) == SparkReading()


def test_filters_that_spark_compares_otherwise_are_not_pushed_down() -> None:
    file = pa.schema([("x", pa.float64()), ("t", pa.timestamp("ms", "UTC")), ("i", pa.int32())])
    assert reading({"x": "double", "t": MILLIS, "i": "int"}, file) == SparkReading(frozenset({"x", "t"}))
    nested = pa.schema([("s", pa.struct([("a", pa.float64())]))])
    assert reading({"s": STRUCT}, nested) == SparkReading(pushes=False)


@pytest.mark.parametrize(
    ("avro", "arrow", "written"),
    [
        ("long", pa.int32(), {}),
        ("double", pa.float32(), {}),
        ("string", pa.int64(), {}),
        ("string", pa.binary(), {}),
        ("int", pa.int16(), {}),
        (DECIMAL, pa.decimal128(10, 2), {}),
        (MICROS, pa.timestamp("us"), {}),
        (LOCAL, pa.timestamp("us", "UTC"), {}),
        (MICROS, pa.timestamp("us", "UTC"), {"use_deprecated_int96_timestamps": True}),
        ({"type": "long", "logicalType": "time-micros"}, pa.time64("us"), {}),
        (INTS, pa.list_(pa.field("item", pa.int32())), {"use_compliant_nested_type": False}),
        (INTS, pa.list_(pa.int64()), {}),
        (STRUCT, pa.struct([("a", pa.float64()), ("b", pa.int32())]), {}),
        (STRUCT, pa.struct([("A", pa.float64())]), {}),
    ],
)
def test_other_types_are_left_to_penstock(avro: Any, arrow: pa.DataType, written: dict[str, Any]) -> None:
    file = pa.schema([("c", arrow)])
    assert isinstance(reading({"c": avro}, file, **written), Unequal)


def test_names_match_in_every_case_sensitivity_mode() -> None:
    assert reading({"a": "int", "b": "int"}, pa.schema([("b", pa.int32())])) == SparkReading(), "missing: null"
    assert reading({"a": "int"}, pa.schema([("b", pa.string()), ("a", pa.int32())])) == SparkReading()
    assert isinstance(reading({"a": "int"}, pa.schema([("A", pa.int32())])), Unequal)
    assert isinstance(reading({"a": "int"}, pa.schema([("a", pa.int32()), ("A", pa.int32())])), Unequal)
    assert isinstance(reading({"a": "int", "A": "int"}, pa.schema([("a", pa.int32())])), Unequal)
