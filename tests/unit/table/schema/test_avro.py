"""Avro schema text into types: what is read, what is refused by name, and the bounds."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile, PenstockError, SchemaMismatch
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import (
    META_COLUMNS,
    ArrayType,
    AvroField,
    Decimal,
    EnumType,
    Fixed,
    MapType,
    Primitive,
    RecordType,
    Vector,
    parse_record_schema,
)


def record(*fields: Any, **more: Any) -> str:
    return json.dumps({"type": "record", "name": "t", "fields": list(fields), **more})


def one(node: Any) -> AvroField:
    return parse_record_schema(record({"name": "c", "type": node})).fields[0]


@pytest.mark.parametrize("kind", ["boolean", "int", "long", "float", "double", "bytes", "string"])
def test_primitives_and_null_in_either_place(kind: str) -> None:
    assert one(kind) == AvroField("c", Primitive(kind))
    assert one(["null", kind]) == AvroField("c", Primitive(kind), True, 0)
    assert one([kind, "null"]) == AvroField("c", Primitive(kind), True, 1)
    assert one({"type": kind}) == AvroField("c", Primitive(kind))
    assert one({"type": {"type": kind}}) == AvroField("c", Primitive(kind))
    assert one({"type": ["null", kind]}) == AvroField("c", Primitive(kind), True, 0)


@pytest.mark.parametrize(
    ("kind", "logical"),
    [
        ("int", "date"),
        ("int", "time-millis"),
        ("long", "time-micros"),
        ("long", "timestamp-millis"),
        ("long", "timestamp-micros"),
        ("long", "local-timestamp-millis"),
        ("long", "local-timestamp-micros"),
        ("string", "uuid"),
    ],
)
def test_logical_types(kind: str, logical: str) -> None:
    assert one(["null", {"type": kind, "logicalType": logical}]).type == Primitive(kind, logical)


def test_sized_types() -> None:
    fixed = {"type": "fixed", "name": "f", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 2}
    assert one(fixed).type == Decimal(20, 2, 9)
    assert one({"type": "bytes", "logicalType": "decimal", "precision": 5}).type == Decimal(5, 0)
    assert one({"type": "fixed", "name": "f", "size": 3}).type == Fixed(3)
    assert one({"type": "enum", "name": "e", "symbols": ["A", "B"]}).type == EnumType(("A", "B"))


def test_nested_types_and_named_references() -> None:
    inner = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": ["null", "long"]}]}
    schema = parse_record_schema(
        record(
            {"name": "a", "type": ["null", inner]},
            {"name": "b", "type": {"type": "array", "items": ["space.inner", "null"]}},
            {"name": "c", "type": {"type": "map", "values": "inner"}},
            namespace="space",
        )
    )
    nested = RecordType((AvroField("x", Primitive("long"), True, 0),))
    assert [field.type for field in schema.fields] == [nested, ArrayType(nested, 1), MapType(nested, -1)]


def test_namespace_holds_inside_a_record_and_ends_with_it() -> None:
    outer = {
        "type": "record",
        "name": "other.outer",
        "fields": [
            {"name": "d", "type": {"type": "fixed", "name": "f", "size": 2}},
            {"name": "e", "type": "f"},
        ],
    }
    schema = parse_record_schema(record({"name": "a", "type": outer}, {"name": "b", "type": "other.f"}))
    assert schema.by_name()["b"].type == Fixed(2)
    with pytest.raises(CorruptFile, match="'f' is not defined"):
        parse_record_schema(record({"name": "a", "type": outer}, {"name": "b", "type": "f"}))


def test_default_other_than_null_is_recorded() -> None:
    schema = parse_record_schema(
        record(
            {"name": "a", "type": ["null", "int"], "default": None},
            {"name": "b", "type": ["int", "null"], "default": 0},
            {"name": "c", "type": "int"},
        )
    )
    assert [field.has_default for field in schema.fields] == [False, True, False]


VECTOR = {"type": "fixed", "name": "v", "size": 8, "logicalType": "vector", "dimension": 2, "elementType": "FLOAT"}


def test_vectors_are_columns_of_the_table() -> None:
    schema = parse_record_schema(
        record(
            {"name": "f", "type": ["null", VECTOR]},
            {"name": "d", "type": VECTOR | {"name": "w", "dimension": 1, "elementType": "DOUBLE"}},
            {"name": "i", "type": VECTOR | {"name": "x", "dimension": "8", "elementType": "INT8"}},
        )
    )
    assert [field.type for field in schema.fields] == [Vector(2, "FLOAT"), Vector(1, "DOUBLE"), Vector(8, "INT8")]
    assert [str(kind) for kind in arrow_schema(schema).types] == [
        "list<element: float>",
        "list<element: double>",
        "list<element: int8>",
    ]


@pytest.mark.parametrize(
    ("node", "named"),
    [
        (["int", "string"], "union"),
        (["null", "int", "string"], "union"),
        (["null"], "union"),
        (["null", "null"], "union"),
        (["null", ["null", "int"]], "union"),
        ({"type": "array", "items": ["int", "string"]}, "union"),
        (VECTOR | {"dimension": None}, "vector"),
        (VECTOR | {"dimension": "x"}, "vector"),
        (VECTOR | {"dimension": 3}, "vector of 3 FLOAT in 8 bytes"),
        (VECTOR | {"elementType": "INT4"}, "vector of 'INT4'"),
        (VECTOR | {"storageBacking": "ARRAY"}, "stored as 'ARRAY'"),
        ({"type": "array", "items": VECTOR}, "vector inside"),
        ({"type": "record", "name": "s", "fields": [{"name": "v", "type": ["null", VECTOR]}]}, "vector inside"),
    ],
)
def test_types_that_hudi_does_not_read_are_refused_by_column_and_name(node: Any, named: str) -> None:
    with pytest.raises(SchemaMismatch, match=named) as refusal:
        parse_record_schema(record({"name": "p", "type": "int"}, {"name": "col", "type": node}), where="t/log.1")
    assert "t/log.1" in str(refusal.value) and "col" in str(refusal.value)


@pytest.mark.parametrize(
    ("node", "stored"),
    [
        ({"type": "long", "logicalType": "timestamp-nanos"}, Primitive("long")),
        ({"type": "long", "logicalType": "date"}, Primitive("long")),
        ({"type": "string", "logicalType": "decimal"}, Primitive("string")),
        ({"type": "fixed", "name": "v", "size": 12, "logicalType": "duration"}, Fixed(12)),
        ({"type": {"type": "long"}, "logicalType": "timestamp-micros"}, Primitive("long")),
        (
            {"type": "record", "name": "v", "logicalType": "variant", "fields": [{"name": "m", "type": "bytes"}]},
            RecordType((AvroField("m", Primitive("bytes")),)),
        ),
    ],
)
def test_unknown_logical_type_is_ignored(node: Any, stored: Any) -> None:
    assert parse_record_schema(record({"name": "col", "type": node})).by_name()["col"].type == stored


@pytest.mark.parametrize(
    ("node", "named"),
    [
        ("null", "type null"),
        ({"type": "record", "name": "v", "fields": []}, "without fields"),
        ({"type": "record", "name": "v", "fields": [{"name": "m", "type": ["null", "v"]}]}, "recursive"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2}, "39 digits"),
    ],
)
def test_types_that_no_hudi_table_has_are_a_mismatch(node: Any, named: str) -> None:
    with pytest.raises(SchemaMismatch, match=named) as refusal:
        parse_record_schema(record({"name": "p", "type": "int"}, {"name": "col", "type": node}), where="t/log.1")
    assert "t/log.1" in str(refusal.value) and "col" in str(refusal.value)


@pytest.mark.parametrize(
    "node",
    [
        None,
        7,
        {"type": None},
        {"type": "array"},
        {"type": "map", "values": 1},
        "unknown",
        {"type": "fixed", "name": "f", "size": 0},
        {"type": "fixed", "name": "f", "size": True},
        {"type": "fixed", "name": "f", "size": 1 << 40},
        {"type": "fixed", "name": "\ud800", "size": 1},
        {"type": "enum", "name": "e", "symbols": []},
        {"type": "enum", "name": "e", "symbols": [1]},
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 5},
        {"type": "bytes", "logicalType": "decimal"},
        {"type": "bytes", "logicalType": 4},
        {"type": "record", "name": "r", "fields": 3},
        {"type": "record", "name": "r", "fields": [3]},
        {"type": "record", "name": "t", "fields": [{"name": "x", "type": "int"}]},
        {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}, {"name": "x", "type": "int"}]},
    ],
)
def test_invalid_schemas_are_corrupt(node: Any) -> None:
    with pytest.raises(CorruptFile):
        one(node)


@pytest.mark.parametrize("text", ["", "{", "[]", '"long"', '{"type": "record", "name": "t"}', "[" * 100_000])
def test_schemas_other_than_records_are_corrupt(text: str) -> None:
    with pytest.raises(CorruptFile):
        parse_record_schema(text)


def test_depth_is_bounded() -> None:
    def nested(levels: int) -> Any:
        node: Any = "int"
        for _ in range(levels):
            node = {"type": "array", "items": node}
        return node

    assert one(nested(60)).name == "c"
    with pytest.raises(CorruptFile, match="64 levels"):
        one(nested(70))


def test_repeated_references_count_as_often_as_they_are_used() -> None:
    fields: list[Any] = [
        {"name": "f0", "type": {"type": "record", "name": "r0", "fields": [{"name": "x", "type": "int"}]}}
    ]
    for level in range(1, 30):  # 2^29 leaves, were they written out
        twice = [{"name": "a", "type": f"r{level - 1}"}, {"name": "b", "type": f"r{level - 1}"}]
        fields.append({"name": f"f{level}", "type": {"type": "record", "name": f"r{level}", "fields": twice}})
    with pytest.raises(CorruptFile, match="20000 fields"):
        parse_record_schema(record(*fields))


def test_width_is_bounded() -> None:
    assert len(parse_record_schema(record(*({"name": f"c{i}", "type": "int"} for i in range(5000)))).fields) == 5000
    with pytest.raises(CorruptFile, match="20000 fields"):
        parse_record_schema(record(*({"name": f"c{i}", "type": "int"} for i in range(25_000))))


def test_meta_columns_are_hudis() -> None:
    assert META_COLUMNS[2] == "_hoodie_record_key"
    assert len(META_COLUMNS) == 5


_WORDS = st.sampled_from(
    ["null", "int", "long", "string", "bytes", "record", "array", "map", "fixed", "enum", "t", "date", "decimal", ""]
)
_NODES = st.recursive(
    _WORDS | st.integers(-2, 40) | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "name", "namespace", "items", "values", "size", "symbols", "logicalType", "scale"])
            | st.sampled_from(["precision", "fields", "default"]),
            inner | st.lists(inner, max_size=3),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(_NODES, _NODES)
def test_any_json_gives_a_schema_or_a_known_error(node: Any, other: Any) -> None:
    for text in (
        json.dumps(node),
        record({"name": "c", "type": node}, other),
        record({"name": "c", "type": [node, "null"]}),
    ):
        with contextlib.suppress(PenstockError):
            assert parse_record_schema(text).json_text == text
