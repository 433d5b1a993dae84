"""The flattened schema of logged changes: what fastavro writes with the whole schema reads back with the flat one."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock, CorruptFile
from penstock.reader.cdc.images import ChangeKind
from penstock.reader.cdc.logged_schema import (
    KEY,
    MARKERS,
    SIDES,
    is_stored_alike,
    parse_logged_schema,
    physical_record,
)
from penstock.table.schema.avro import (
    ArrayType,
    AvroField,
    AvroType,
    Decimal,
    MapType,
    Primitive,
    RecordType,
    parse_record_schema,
)

INNER = {"type": "record", "name": "place", "namespace": "geo", "fields": [{"name": "x", "type": ["int", "null"]}]}
ROW = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {
            "name": "price",
            "type": [
                {"type": "fixed", "name": "p", "size": 6, "logicalType": "decimal", "precision": 12, "scale": 2},
                "null",
            ],
        },
        {"name": "place", "type": ["null", INNER]},
        {"name": "places", "type": {"type": "array", "items": ["null", "geo.place"]}},
        {"name": "named", "type": ["null", {"type": "map", "values": "geo.place"}]},
        {"name": "kind", "type": {"type": "enum", "name": "k", "symbols": ["A", "B"]}},
    ],
}
LOGGED = {
    "type": "record",
    "name": "CDC",
    "fields": [
        {"name": "op", "type": ["null", "string"]},
        {"name": "ts_ms", "type": ["null", "string"]},
        {"name": "before", "type": ["null", ROW]},
        {"name": "after", "type": ["row", "null"]},
    ],
}
LATER = AvroField("later", Primitive("int"), True, 0)
LOGICAL = ("logicalType", "precision", "scale")
WHERE = "table t: file f"

places = st.fixed_dictionaries({"x": st.none() | st.integers(-100, 100)})
rows = st.fixed_dictionaries(
    {
        "id": st.text(max_size=5),
        "at": st.none() | st.integers(-(2**60), 2**60),
        "price": st.none() | st.binary(min_size=6, max_size=6),
        "place": st.none() | places,
        "places": st.lists(st.none() | places, max_size=3),
        "named": st.none() | st.dictionaries(st.text(max_size=3), places, max_size=2),
        "kind": st.sampled_from("AB"),
    }
)


def plain(schema: Any) -> Any:
    """The schema without logical types, so that fastavro returns values as stored."""
    if isinstance(schema, dict):
        return {
            name: plain(value) for name, value in schema.items() if name not in ("logicalType", "precision", "scale")
        }
    return [plain(item) for item in schema] if isinstance(schema, list) else schema


def as_json(schema: Any) -> Any:
    return fastavro.parse_schema(json.loads(json.dumps(schema)))


def flat_json(flat: Any) -> Any:
    """The flat writer schema as JSON."""
    return as_json(json.loads(flat.writer.json_text))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ChangeKind), rows, rows, st.sampled_from(["before", "after"]))
def test_records_of_a_kind_read_with_the_flat_schema(kind: ChangeKind, old: Any, new: Any, side: str) -> None:
    record = {
        "op": "iud"[kind],
        "ts_ms": None,
        "before": old if "before" in SIDES[kind] else None,
        "after": new if "after" in SIDES[kind] else None,
    }
    body = io.BytesIO()
    fastavro.schemaless_writer(body, as_json(plain(LOGGED)), record)
    flat = parse_logged_schema(json.dumps(LOGGED), WHERE).flat(kind, side, physical=True)
    size = body.tell()
    body.seek(0)
    result = fastavro.schemaless_reader(body, flat_json(flat), None)
    assert body.tell() == size
    assert {name: result[name] for name in flat.branches} == flat.branches
    assert set(flat.branches) == set(MARKERS.values())
    if side in SIDES[kind]:
        assert {name: result[name] for name in record[side]} == record[side]
    else:
        assert not set(result) & {"id", "at", "price"}


NAMES = ("op", "ts_ms", "record_key", "before", "after")


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("kind", ChangeKind)
def test_columns_may_be_called_as_the_fields_of_a_change_are(kind: ChangeKind, side: str) -> None:
    """Debezium's `op` and `ts_ms` are columns of many tables: the image and the change each have their own."""
    image = {"type": "record", "name": "row", "fields": [{"name": n, "type": ["null", "string"]} for n in NAMES]}
    kinds: list[Any] = ["string", "string", "string", image, "row"]
    fields = [{"name": name, "type": ["null", kind]} for name, kind in zip(NAMES, kinds, strict=True)]
    schema = {"type": "record", "name": "CDC", "fields": fields}
    images = {name: {column: f"{name} {column}" for column in NAMES} for name in ("before", "after")}
    record = {"op": "iud"[kind], "record_key": "k", **{name: images[name] for name in SIDES[kind]}}
    body = io.BytesIO()
    fastavro.schemaless_writer(body, as_json(schema), record)
    flat = parse_logged_schema(json.dumps(schema), WHERE).flat(kind, side)
    body.seek(0)
    result = fastavro.schemaless_reader(body, flat_json(flat), None)
    assert isinstance(result, dict)
    assert result[KEY] == "k"
    assert [result[name] for name in NAMES if name in result] == list(images[side].values()) * (side in SIDES[kind])


def test_logical_types_stay_unless_stored_values_are_requested() -> None:
    schema = parse_logged_schema(json.dumps(LOGGED), WHERE)
    types = {field.name: field.type for field in schema.flat(ChangeKind.UPDATE, "after").writer.fields}
    assert types["at"] == Primitive("long", "timestamp-micros")
    assert types["price"] == Decimal(12, 2, 6)
    assert isinstance(types["places"], ArrayType) and isinstance(types["named"], MapType)
    stored = {f.name: f.type for f in schema.flat(ChangeKind.UPDATE, "after", physical=True).writer.fields}
    assert stored["at"] == Primitive("long")
    image = schema.image("before")
    assert isinstance(image, RecordType)
    plain = physical_record(image.fields, WHERE).fields
    assert [field.name for field in plain] == [field.name for field in image.fields]
    assert not any(isinstance(field.type, Decimal) for field in plain)


@pytest.mark.parametrize(
    ("written", "expected", "alike"),
    [
        (Primitive("int"), Primitive("string"), True),
        (Primitive("float"), Primitive("double"), True),
        (Primitive("long", "timestamp-micros"), Primitive("long", "timestamp-millis"), True),
        (Primitive("int", "date"), Primitive("string"), False),
        (Primitive("string"), Primitive("int", "date"), False),
        (Decimal(5, 2, 3), Decimal(5, 2, 3), True),
        (Decimal(5, 2, 3), Decimal(9, 2, 4), False),
        (Decimal(5, 2), Decimal(5, 2, 3), False),
        (Primitive("int"), Decimal(5, 2, 3), False),
        (ArrayType(Primitive("int"), 0), ArrayType(Primitive("long"), 0), True),
        (MapType(Primitive("int", "date"), 0), MapType(Primitive("string"), 0), False),
    ],
)
def test_stored_values_equal_the_tables_unless_a_logical_type_changed(
    written: AvroType, expected: AvroType, alike: bool
) -> None:
    assert is_stored_alike(AvroField("c", written), AvroField("c", expected)) is alike
    inner, outer = RecordType((AvroField("x", written),)), RecordType((AvroField("x", expected), LATER))
    assert is_stored_alike(AvroField("c", inner), AvroField("c", outer)) is alike
    outer = RecordType((*outer.fields, replace(LATER, name="other", has_default=True)))
    assert not is_stored_alike(AvroField("c", inner), AvroField("c", outer))


def test_column_that_was_not_logged_may_be_null() -> None:
    assert is_stored_alike(None, LATER)
    assert not is_stored_alike(None, replace(LATER, has_default=True))
    assert not is_stored_alike(None, AvroField("later", Primitive("int")))


def test_logged_sides_depend_on_the_logging_mode() -> None:
    assert parse_logged_schema(json.dumps(LOGGED), WHERE).image("after") is not None
    keys = {
        "type": "record",
        "name": "r",
        "fields": [{"name": n, "type": ["string", "null"]} for n in ("op", "record_key")],
    }
    result = parse_logged_schema(json.dumps(keys), WHERE)
    assert result.has_key
    assert (result.image("before"), result.image("after")) == (None, None)


@pytest.mark.parametrize(
    "fields",
    [
        [{"name": "record_key", "type": ["null", "string"]}],
        [{"name": "ts_ms", "type": ["null", "string"]}, {"name": "op", "type": ["null", "string"]}],
        [{"name": "op", "type": "string"}],
        [{"name": "op", "type": ["null", "string"]}, {"name": "before", "type": ["null", "string"]}],
        [{"name": "op", "type": ["null", "string"]}, {"name": "after", "type": ROW}],
        [{"name": "op", "type": ["null", "string"]}, {"name": "during", "type": ["null", ROW]}],
    ],
)
def test_schema_of_something_else_is_refused(fields: list[Any]) -> None:
    with pytest.raises((CorruptBlock, CorruptFile), match=WHERE):
        parse_logged_schema(json.dumps({"type": "record", "name": "r", "fields": fields}), WHERE)


def test_row_itself_is_a_legal_schema() -> None:
    assert len(parse_record_schema(json.dumps(ROW), WHERE).fields) == len(ROW["fields"])
