"""Avro text of Arrow schemas: round trips with the decoder, and the very text of Hudi's tables."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import SchemaMismatch
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import META_COLUMNS, parse_record_schema
from penstock.table.schema.avro_text import avro_schema_json, decimal_bytes, stored_arrow_schema

UTC = pa.timestamp("us", "UTC")
SCALARS = st.sampled_from(
    [
        pa.bool_(),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64()),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.binary(7), pa.decimal32(7, 2), pa.decimal64(12, 3), pa.decimal256(38, 9)),
        *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Athens")),
    ]
) | st.integers(1, 38).flatmap(lambda digits: st.integers(0, digits).map(lambda scale: pa.decimal128(digits, scale)))
NAMES = st.from_regex(r"[A-Za-zα-ω_][A-Za-zé0-9_]{0,6}", fullmatch=True)


def structs(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    fields = st.builds(lambda name, kind, null: pa.field(name, kind, null), NAMES, types, st.booleans())
    return st.lists(fields, min_size=1, max_size=4, unique_by=lambda field: field.name.lower())


TYPES = st.recursive(
    SCALARS | SCALARS.map(lambda kind: pa.dictionary(pa.int32(), kind)),
    lambda inner: (
        inner.map(pa.list_)
        | inner.map(pa.large_list)
        | inner.map(lambda kind: pa.list_(kind, 3))
        | inner.map(pa.list_view)
        | inner.map(lambda kind: pa.map_(pa.large_string(), kind))
        | structs(inner).map(pa.struct)
    ),
    max_leaves=6,
)


@given(structs(TYPES), st.sampled_from(["orders", "1 βιβλία-x", "a.b"]), st.booleans())
def test_text_is_parsed_to_the_stored_schema(fields: list[pa.Field], name: str, meta_columns: bool) -> None:
    schema = pa.schema(fields)
    text = avro_schema_json(schema, name, meta_columns=meta_columns)
    stored = stored_arrow_schema(schema)
    parsed = parse_record_schema(text)
    meta = [pa.field(column, pa.string()) for column in META_COLUMNS] if meta_columns else []
    assert arrow_schema(parsed) == pa.schema([*meta, *stored])
    assert stored_arrow_schema(stored) == stored
    assert all(field.nullable for field in parsed.fields)
    fastavro.parse_schema(json.loads(text))  # names are unique and valid


@pytest.mark.golden
@pytest.mark.parametrize("case", ["A_types_v9_h120", "A_types_v6_h0150", "A_merge_event_long_v9_h120"])
def test_text_is_that_of_hudi(golden: Any, case: str) -> None:
    timeline = golden.table(case) / ".hoodie" / ("timeline" if "_v9_" in case else "")
    data = min(timeline.glob("*.deltacommit")).read_bytes()
    metadata = json.loads(data) if data[:1] == b"{" else next(iter(fastavro.reader(io.BytesIO(data))))
    text = metadata["extraMetadata"]["schema"]
    schema = arrow_schema(parse_record_schema(text))
    assert avro_schema_json(schema, case.lower(), meta_columns=False) == text


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (pa.int8(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("s", "Europe/Athens"), UTC),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.list_(pa.field("item", pa.large_string(), False)), pa.list_(pa.field("element", pa.string()))),
        (pa.run_end_encoded(pa.int32(), pa.string()), pa.string()),
    ],
)
def test_stored_types(kind: pa.DataType, stored: pa.DataType) -> None:
    assert stored_arrow_schema(pa.schema([pa.field("c", kind, False, {"k": "v"})], {"k": "v"})) == pa.schema(
        [pa.field("c", stored)]
    )


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.null(), pa.uint64(), pa.time32("ms"), pa.time64("us"), pa.duration("us"), pa.month_day_nano_interval()),
        *(pa.decimal256(39, 0), pa.decimal128(5, -2), pa.decimal128(2, 3), pa.map_(pa.int32(), pa.string())),
        *(pa.struct([]), pa.dense_union([pa.field("a", pa.int32())]), pa.uuid()),
    ],
)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_type_that_no_table_holds_is_refused_with_its_column(kind: pa.DataType, depth: int) -> None:
    path = "amount"
    if depth:
        kind, path = pa.struct([pa.field("inner", kind)]), "amount.inner"
    if depth == 2:
        kind = pa.list_(kind)
        path = "amount.element.inner"
    with pytest.raises(SchemaMismatch, match=f"column {path}: got "):
        avro_schema_json(pa.schema([pa.field("amount", kind)]), "t", meta_columns=False)


@pytest.mark.parametrize(
    "names", [[""], ["1a"], ["a-b"], ["a.b"], ["a b"], ["😀"], ["a", "a"], ["a", "A"], ["_hoodie_record_key"], []]
)
def test_names_that_no_table_has_are_refused(names: list[str]) -> None:
    schema = pa.schema([pa.field(name, pa.string()) for name in names])
    with pytest.raises(SchemaMismatch):
        stored_arrow_schema(schema)


def test_name_within_a_struct_is_refused_too() -> None:
    with pytest.raises(SchemaMismatch, match="of column s"):
        stored_arrow_schema(pa.schema([pa.field("s", pa.struct([pa.field("a b", pa.string())]))]))


def test_depth_is_limited_where_the_decoder_reads_it() -> None:
    kind: pa.DataType = pa.int32()
    for _ in range(31):
        kind = pa.list_(kind)
    schema = pa.schema([pa.field("c", kind)])
    assert len(parse_record_schema(avro_schema_json(schema, "t", meta_columns=True)).fields) == 6
    with pytest.raises(SchemaMismatch, match="too deeply"):
        stored_arrow_schema(pa.schema([pa.field("c", pa.list_(kind))]))


def test_delete_marker_column_is_a_column_of_the_data() -> None:
    schema = pa.schema([pa.field("_hoodie_is_deleted", pa.bool_())])
    assert stored_arrow_schema(schema) == schema


@pytest.mark.parametrize(("precision", "size"), [(1, 1), (2, 1), (3, 2), (9, 4), (10, 5), (18, 8), (20, 9), (38, 16)])
def test_bytes_of_decimals(precision: int, size: int) -> None:
    assert decimal_bytes(precision) == size
