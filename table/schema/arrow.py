"""Maps an Avro schema to an Arrow schema. Base files, log records and output all use this mapping. Pure."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.table.schema.avro import (
    ArrayType,
    AvroType,
    Decimal,
    EnumType,
    Fixed,
    MapType,
    Primitive,
    RecordSchema,
    RecordType,
    Vector,
)

_ARROW: Final = {
    ("boolean", ""): pa.bool_(),
    ("int", ""): pa.int32(),
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time64("us"),
    ("long", ""): pa.int64(),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("float", ""): pa.float32(),
    ("double", ""): pa.float64(),
    ("bytes", ""): pa.binary(),
    ("string", ""): pa.string(),
    ("string", "uuid"): pa.string(),
}

_VECTOR_ELEMENTS: Final = {"FLOAT": pa.float32(), "DOUBLE": pa.float64(), "INT8": pa.int8()}


def arrow_schema(record: RecordSchema) -> pa.Schema:
    """The Arrow schema of a record: its columns in order, each nullable, without metadata."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in record.fields])


def arrow_type(avro_type: AvroType) -> pa.DataType:
    """The Arrow type with the values of this Avro type.

    Times in milliseconds become microseconds, decimals decimal128, uuids and enums strings, fixed binary, arrays and
    vectors `list<element>`.
    """
    match avro_type:
        case Primitive(kind, logical):
            return _ARROW[kind, logical]
        case Decimal(precision, scale, _):
            return pa.decimal128(precision, scale)
        case Fixed():
            return pa.binary()
        case Vector(_, element):
            return pa.list_(pa.field("element", _VECTOR_ELEMENTS[element]))
        case EnumType():
            return pa.string()
        case ArrayType(items):
            return pa.list_(pa.field("element", arrow_type(items)))
        case MapType(values):
            return pa.map_(pa.string(), arrow_type(values))
        case RecordType(fields):
            return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in fields])
