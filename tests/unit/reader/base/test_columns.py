"""Columns of a Parquet file against the table's: what reads, and what is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.proto.errors import SchemaMismatch
from penstock.reader.base.columns import Missing, Stored, Widened, column_sources
from penstock.table.schema.avro import RecordSchema, parse_record_schema

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL_MILLIS = {"type": "long", "logicalType": "local-timestamp-millis"}
LOCAL_MICROS = {"type": "long", "logicalType": "local-timestamp-micros"}
DECIMAL = {"type": "fixed", "name": "d", "size": 8, "logicalType": "decimal", "precision": 10, "scale": 2}


def table(kind: Any, **more: Any) -> RecordSchema:
    field = {"name": "c", "type": ["null", kind], "default": None, **more}
    return parse_record_schema(json.dumps({"type": "record", "name": "r", "fields": [field]}))


def source(kind: pa.DataType, avro: Any, physical: tuple[str, ...] = ("INT64",)) -> Any:
    return column_sources(pa.schema([("c", kind)]), physical, table(avro), ["c"], "table t: base file f")[0]


@pytest.mark.parametrize(
    ("file", "avro", "physical"),
    [
        (pa.int32(), "int", "INT32"),
        (pa.int32(), "long", "INT32"),
        (pa.int64(), "long", "INT64"),
        (pa.int16(), "int", "INT32"),
        (pa.int8(), "int", "INT32"),
        (pa.int16(), "long", "INT32"),
        (pa.list_(pa.int16()), {"type": "array", "items": "int"}, "INT32"),
        (pa.binary(), {"type": "enum", "name": "e", "symbols": ["A"]}, "ENUM"),
        (pa.binary(), "string", "ENUM"),
        (pa.map_(pa.string(), pa.binary()), {"type": "map", "values": ["null", "string"]}, "ENUM"),
        (pa.string(), "string", "BYTE_ARRAY"),
        (pa.large_string(), "string", "BYTE_ARRAY"),
        (pa.string(), {"type": "enum", "name": "e", "symbols": ["A"]}, "BYTE_ARRAY"),
        (pa.binary(), "bytes", "BYTE_ARRAY"),
        (pa.binary(4), {"type": "fixed", "name": "x", "size": 4}, "FIXED_LEN_BYTE_ARRAY"),
        (pa.decimal128(10, 2), DECIMAL, "INT64"),
        (pa.date32(), {"type": "int", "logicalType": "date"}, "INT32"),
        (pa.time32("ms"), {"type": "int", "logicalType": "time-millis"}, "INT32"),
        (pa.time64("us"), {"type": "long", "logicalType": "time-micros"}, "INT64"),
        (pa.timestamp("us", "UTC"), MICROS, "INT64"),
        (pa.timestamp("ms", "UTC"), MILLIS, "INT64"),
        (pa.timestamp("ms", "UTC"), MICROS, "INT64"),
        (pa.timestamp("ns", "UTC"), MICROS, "INT64"),
        (pa.timestamp("us"), MICROS, "INT96"),
        (pa.timestamp("us"), MILLIS, "INT96"),
        (pa.timestamp("us"), LOCAL_MICROS, "INT64"),
        (pa.timestamp("ms"), LOCAL_MILLIS, "INT64"),
        (pa.list_(pa.field("array", pa.int32(), False)), {"type": "array", "items": "long"}, "INT32"),
        (pa.list_(pa.timestamp("us")), {"type": "array", "items": ["null", MICROS]}, "INT96"),
    ],
)
def test_types_that_read(file: pa.DataType, avro: Any, physical: str) -> None:
    leaves = ("BYTE_ARRAY", physical) if pa.types.is_map(file) else (physical,)
    assert isinstance(source(file, avro, leaves), Stored)


@pytest.mark.parametrize(
    ("file", "avro", "physical"),
    [
        (pa.int32(), "double", "INT32"),
        (pa.int64(), "string", "INT64"),
        (pa.float32(), "double", "FLOAT"),
        (pa.decimal128(9, 2), DECIMAL, "INT32"),
        (pa.date32(), "string", "INT32"),
        (pa.string(), {"type": "int", "logicalType": "date"}, "BYTE_ARRAY"),
        (pa.string(), DECIMAL, "BYTE_ARRAY"),
        (pa.decimal128(9, 2), "string", "INT32"),
        (pa.timestamp("us", "UTC"), MILLIS, "INT64"),
        (pa.int64(), LOCAL_MILLIS, "INT64"),
        (pa.int64(), LOCAL_MICROS, "INT64"),
        (pa.list_(pa.float32()), {"type": "array", "items": "double"}, "FLOAT"),
    ],
)
def test_narrower_types_are_widened(file: pa.DataType, avro: Any, physical: str) -> None:
    result = source(file, avro, (physical,))
    assert isinstance(result, Widened)
    assert result.reader_type == table(avro).fields[0].type


@pytest.mark.parametrize(
    ("file", "avro", "physical", "type_name"),
    [
        (pa.timestamp("ns", "UTC"), MILLIS, "INT64", r"timestamp\[ns, tz=UTC\], the table long \(timestamp-millis\)"),
        (pa.timestamp("us"), LOCAL_MILLIS, "INT64", "local-timestamp-millis"),
        (pa.timestamp("us"), LOCAL_MICROS, "INT96", r"\(INT96\)"),
        (pa.timestamp("us"), MICROS, "INT64", "timestamp-micros"),
        (pa.timestamp("us", "UTC"), LOCAL_MICROS, "INT64", "local-timestamp-micros"),
        (pa.int64(), "int", "INT64", "int64, the table int32"),
        (pa.decimal128(11, 2), DECIMAL, "INT64", r"decimal128\(11, 2\)"),
        (pa.decimal128(10, 3), DECIMAL, "INT64", r"decimal128\(10, 3\)"),
        (pa.float64(), "float", "DOUBLE", "double, the table float"),
        (pa.string(), "int", "BYTE_ARRAY", "string, the table int32"),
        (pa.binary(5), {"type": "fixed", "name": "x", "size": 4}, "FIXED_LEN_BYTE_ARRAY", "fixed_size_binary"),
        (pa.uint32(), "long", "INT32", "uint32"),
        (pa.list_(pa.timestamp("ns", "UTC")), {"type": "array", "items": MILLIS}, "INT64", "list"),
        (pa.map_(pa.int32(), pa.int32()), {"type": "map", "values": "int"}, "INT32", "map"),
    ],
)
def test_types_that_do_not(file: pa.DataType, avro: Any, physical: str, type_name: str) -> None:
    with pytest.raises(SchemaMismatch, match=rf"table t: base file f: type change of column 'c': .*{type_name}"):
        source(file, avro, (physical, physical))


def test_nested_fields_match_by_name_and_may_be_missing() -> None:
    avro = {
        "type": "record",
        "name": "s",
        "fields": [
            {"name": "a", "type": ["null", "long"]},
            {"name": "new", "type": ["null", "string"]},
            {"name": "m", "type": ["null", {"type": "map", "values": ["null", MICROS]}]},
        ],
    }
    written = pa.struct(
        [("m", pa.map_(pa.string(), pa.timestamp("ms", "UTC"))), ("old", pa.uint8()), ("a", pa.int32())]
    )
    assert isinstance(source(written, avro, ("BYTE_ARRAY", "INT64", "INT32", "INT32")), Stored)


def test_int96_is_recognised_after_nested_leaves() -> None:
    schema = pa.schema(
        [
            ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("c", pa.timestamp("us")),
        ]
    )
    leaves = ("INT32", "BYTE_ARRAY", "BYTE_ARRAY", "INT32", "INT96")
    assert isinstance(column_sources(schema, leaves, table(MICROS), ["c"], "w")[0], Stored)
    with pytest.raises(SchemaMismatch):
        column_sources(schema, (*leaves[:-1], "INT64"), table(MICROS), ["c"], "w")


def test_missing_column_is_null_by_exact_name() -> None:
    assert column_sources(pa.schema([("C", pa.int32())]), ["INT32"], table("int"), ["c"], "w") == (
        Missing("c", pa.int32()),
    )


def test_missing_column_with_a_default_is_refused() -> None:
    record = parse_record_schema(
        '{"type": "record", "name": "r", "fields": [{"name": "c", "type": "int", "default": 3}]}'
    )
    with pytest.raises(SchemaMismatch, match="w: default value of column c"):
        column_sources(pa.schema([]), [], record, ["c"], "w")


def test_name_that_is_there_twice_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="the file has column 'c' 2 times"):
        column_sources(pa.schema([("c", pa.int32()), ("c", pa.int32())]), ["INT32"] * 2, table("int"), ["c"], "w")


def variant(*parts: tuple[str, Any]) -> dict[str, Any]:
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in parts]
    return {"type": "record", "name": "v", "fields": fields}


def test_shredded_variants_are_read_with_all_their_parts_or_refused() -> None:
    parts = [("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int64())]
    whole = [("metadata", "bytes"), ("value", "bytes")]
    schema = pa.schema([("c", pa.list_(pa.struct(parts)))])
    physical = ["BYTE_ARRAY", "BYTE_ARRAY", "INT64"]
    lists = [
        table({"type": "array", "items": variant(*fields)}) for fields in ([*whole, ("typed_value", "long")], whole)
    ]
    assert isinstance(column_sources(schema, physical, lists[0], ["c"], "w")[0], Stored)
    with pytest.raises(SchemaMismatch, match=r"w: column 'c' holds shredded variants, but .* part typed_value,"):
        column_sources(schema, physical, lists[1], ["c"], "w")
