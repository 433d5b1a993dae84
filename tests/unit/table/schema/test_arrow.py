"""Avro types as Arrow types, and the exact-or-refused rule between two Avro types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.table.schema.arrow import arrow_schema, arrow_type
from penstock.table.schema.avro import (
    ArrayType,
    AvroField,
    AvroType,
    Decimal,
    EnumType,
    Fixed,
    MapType,
    Primitive,
    RecordType,
    parse_record_schema,
)
from penstock.table.schema.compatibility import (
    Converted,
    Promoted,
    Refused,
    Same,
    compatible,
    lost_variant_part,
    missing_column,
    type_name,
)

INT, LONG, TEXT = Primitive("int"), Primitive("long"), Primitive("string")


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        (Primitive("boolean"), pa.bool_()),
        (INT, pa.int32()),
        (LONG, pa.int64()),
        (Primitive("float"), pa.float32()),
        (Primitive("double"), pa.float64()),
        (Primitive("bytes"), pa.binary()),
        (Fixed(4), pa.binary()),
        (TEXT, pa.string()),
        (Primitive("string", "uuid"), pa.string()),
        (EnumType(("A",)), pa.string()),
        (Primitive("int", "date"), pa.date32()),
        (Primitive("int", "time-millis"), pa.time64("us")),
        (Primitive("long", "time-micros"), pa.time64("us")),
        (Primitive("long", "timestamp-millis"), pa.timestamp("us", "UTC")),
        (Primitive("long", "timestamp-micros"), pa.timestamp("us", "UTC")),
        (Primitive("long", "local-timestamp-millis"), pa.timestamp("us")),
        (Primitive("long", "local-timestamp-micros"), pa.timestamp("us")),
        (Decimal(20, 2, 9), pa.decimal128(20, 2)),
        (ArrayType(INT), pa.list_(pa.field("element", pa.int32()))),
        (MapType(LONG, 0), pa.map_(pa.string(), pa.int64())),
        (RecordType((AvroField("x", INT),)), pa.struct([("x", pa.int32())])),
    ],
)
def test_each_type_has_one_arrow_form(avro: AvroType, arrow: pa.DataType) -> None:
    assert arrow_type(avro).equals(arrow, check_metadata=True)


def test_record_becomes_nullable_columns_in_order() -> None:
    schema = parse_record_schema(
        '{"type": "record", "name": "t", "fields": [{"name": "b", "type": "int"}, {"name": "a", "type": "string"}]}'
    )
    assert arrow_schema(schema).equals(pa.schema([("b", pa.int32()), ("a", pa.string())]), check_metadata=True)


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (INT, INT),
        (TEXT, Primitive("string", "uuid")),
        (EnumType(("A", "B")), TEXT),
        (EnumType(("A", "B")), EnumType(("B",))),
        (Decimal(10, 2, 5), Decimal(10, 2)),
        (ArrayType(INT, 0), ArrayType(INT, 1)),
        (RecordType((AvroField("x", INT),)), RecordType((AvroField("x", INT, True, 0),))),
    ],
)
def test_equal_values_are_read_as_they_are(writer: AvroType, reader: AvroType) -> None:
    assert compatible(writer, reader, "c") == Same()


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (INT, LONG),
        (MapType(INT), MapType(LONG)),
        (RecordType((AvroField("x", INT),)), RecordType((AvroField("x", INT), AvroField("y", TEXT, True, 0)))),
        (RecordType((AvroField("x", INT), AvroField("y", TEXT))), RecordType((AvroField("y", TEXT),))),
    ],
)
def test_exact_conversions(writer: AvroType, reader: AvroType) -> None:
    assert compatible(writer, reader, "c") == Converted()


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (INT, Primitive("double")),
        (Primitive("float"), Primitive("double")),
        (INT, TEXT),
        (Primitive("int", "date"), TEXT),
        (TEXT, Primitive("bytes")),
        (TEXT, Primitive("int", "date")),
        (TEXT, Decimal(10, 2)),
        (Decimal(12, 2), TEXT),
        (Primitive("long", "timestamp-micros"), Primitive("long", "timestamp-millis")),
        (Primitive("long", "timestamp-millis"), Primitive("long", "timestamp-micros")),
        (LONG, Primitive("long", "local-timestamp-micros")),
        (LONG, Primitive("long", "local-timestamp-millis")),
        (LONG, Decimal(20, 2)),
        (Decimal(10, 2), Decimal(12, 2)),
        (Decimal(10, 2), Decimal(12, 4)),
        (ArrayType(Primitive("float")), ArrayType(Primitive("double"))),
        (
            RecordType((AvroField("x", INT), AvroField("y", INT))),
            RecordType((AvroField("new", TEXT, True, 0), AvroField("x", TEXT), AvroField("y", LONG))),
        ),
    ],
)
def test_promotions(writer: AvroType, reader: AvroType) -> None:
    assert compatible(writer, reader, "c") == Promoted()


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (LONG, Primitive("long", "timestamp-micros")),
        (Primitive("long", "local-timestamp-micros"), Primitive("long", "local-timestamp-millis")),
        (Primitive("long", "timestamp-micros"), LONG),
        (LONG, INT),
        (Primitive("double"), Primitive("float")),
        (TEXT, INT),
        (Primitive("boolean"), TEXT),
        (Primitive("long", "timestamp-micros"), TEXT),
        (Decimal(12, 2), Decimal(12, 3)),
        (Decimal(12, 2), Decimal(10, 2)),
        (INT, Primitive("int", "date")),
        (Primitive("int", "date"), LONG),
        (Fixed(3), Primitive("bytes")),
        (Fixed(3), Fixed(4)),
        (ArrayType(INT), INT),
        (ArrayType(INT), MapType(INT)),
        (RecordType((AvroField("x", LONG),)), RecordType((AvroField("x", INT),))),
        (RecordType((AvroField("x", INT),)), RecordType((AvroField("x", INT), AvroField("y", INT)))),
        (RecordType((AvroField("x", INT),)), RecordType((AvroField("y", INT, True, 0, True),))),
    ],
)
def test_everything_else_is_refused_with_column_and_types(writer: AvroType, reader: AvroType) -> None:
    answer = compatible(writer, reader, "c")
    assert isinstance(answer, Refused)
    assert "c" in answer.reason


def test_refusal_names_the_nested_path() -> None:
    answer = compatible(
        RecordType((AvroField("x", ArrayType(TEXT)),)), RecordType((AvroField("x", ArrayType(INT)),)), "c"
    )
    assert answer == Refused("type change of column c.x.items: string -> int")


def test_lacking_column_is_null_unless_it_must_not_be() -> None:
    assert missing_column(AvroField("x", INT, True, 0), "x") == Converted()
    assert isinstance(missing_column(AvroField("x", INT), "x"), Refused)
    assert isinstance(missing_column(AvroField("x", INT, True, 1, True), "x"), Refused)


def test_types_have_names_for_errors() -> None:
    nested = ArrayType(MapType(RecordType((AvroField("x", INT), AvroField("y", Decimal(4, 1))))))
    assert type_name(nested) == "array<map<record<x, y>>>"
    assert type_name(Decimal(4, 1)) == "decimal(4, 1)"
    assert [type_name(t) for t in (Fixed(2), EnumType(("A",)), LONG)] == ["fixed(2)", "enum", "long"]
    assert type_name(Primitive("long", "timestamp-micros")) == "long(timestamp-micros)"


BYTES = Primitive("bytes")


def record_of(**fields: AvroType) -> RecordType:
    return RecordType(tuple(AvroField(name, kind, True) for name, kind in fields.items()))


@pytest.mark.parametrize(
    ("kept", "lost"),
    [
        (record_of(value=BYTES, metadata=BYTES), "typed_value"),
        (record_of(metadata=BYTES, typed_value=record_of(n=LONG, s=TEXT)), "value"),
        (record_of(metadata=BYTES, value=BYTES, typed_value=record_of(n=LONG)), "typed_value.s"),
        (record_of(metadata=BYTES, value=BYTES, typed_value=record_of(n=LONG, s=TEXT)), ""),
        (record_of(metadata=BYTES, value=BYTES, typed_value=record_of(n=LONG, s=TEXT, new=LONG)), ""),
    ],
)
@pytest.mark.parametrize("inside", [lambda v: v, ArrayType, MapType, lambda v: record_of(x=LONG, v=v)])
def test_no_part_of_a_shredded_variant_is_left_out(kept: AvroType, lost: str, inside: Any) -> None:
    stored = record_of(metadata=BYTES, value=BYTES, typed_value=record_of(n=LONG, s=TEXT))
    reason = lost_variant_part(inside(stored), inside(kept), "c")
    text = f"column 'c' holds shredded variants, but the table's schema does not have their part {lost},"
    assert text in reason if lost else not reason


def test_other_records_may_lose_a_field() -> None:
    writer, reader = record_of(value=BYTES, typed_value=LONG), record_of(value=BYTES)
    assert (lost_variant_part(writer, reader, "c"), compatible(writer, reader, "c")) == ("", Converted())
