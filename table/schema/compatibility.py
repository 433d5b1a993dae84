"""Decides whether values of a file's or block's Avro type can be read as the table's type. Pure.

Source of the pairs of primitive types that Hudi promotes: Hudi `SchemaChangeUtils.isTypeUpdateAllow`,
`HoodieAvroUtils.rewritePrimaryTypeWithDiffSchemaType`, and `AvroSchemaRepair` for timestamps that writers before 1.1
recorded with a wrong unit or with none.
"""

from __future__ import annotations

from typing import Final

from penstock.proto.value_classes import dataclass
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
    Vector,
)
from penstock.table.schema.history import own_name

_NUMBERS: Final = ("int", "long", "float", "double")
_WIDER: Final = {
    "int": ("long", "float", "double", "string"),
    "long": ("float", "double", "string"),
    "float": ("double", "string"),
    "double": ("string",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_SHREDDED_VARIANT: Final = {"metadata", "value", "typed_value"}


@dataclass(frozen=True, slots=True)
class Same:
    """Values need no conversion. Record names, namespaces, null branches and nullability may differ."""


@dataclass(frozen=True, slots=True)
class Converted:
    """Values convert exactly: int to long, or a nested field that the writer does not have becomes null."""


@dataclass(frozen=True, slots=True)
class Promoted:
    """Values, or those of a nested field, have a type that Hudi promotes (`is_promotion`), or are vectors,
    which are stored as bytes."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The types are incompatible."""

    reason: str
    """Names the column and both types."""


Compatibility = Same | Converted | Promoted | Refused


def compatible(writer: AvroType, reader: AvroType, column: str) -> Compatibility:
    """The compatibility of a file's or block's type with the table's. `column` is the path in a refusal."""
    match writer, reader:
        case (ArrayType(inner), ArrayType(target)) | (MapType(inner), MapType(target)):
            return compatible(inner, target, f"{column}.{'items' if isinstance(writer, ArrayType) else 'values'}")
        case RecordType(fields), RecordType(target_fields):
            return _records(fields, target_fields, column)
        case Decimal(p, s, _), Decimal(precision, scale, _) if (p, s) == (precision, scale):
            return Same()
        case Primitive("int", ""), Primitive("long", ""):
            return Converted()
        case Vector(), Vector() if writer == reader:
            return Promoted()
    if writer == reader or (_is_text(writer) and _is_text(reader)):
        return Same()
    if is_promotion(writer, reader):
        return Promoted()
    return Refused(f"type change of column {column}: {type_name(writer)} -> {type_name(reader)}")


def lost_variant_part(writer: AvroType, reader: AvroType, column: str) -> str:
    """Why the reader's type gives other values of shredded variants than were written; '' if it does not.

    A shredded variant is a record of `metadata`, `value` and `typed_value`: some of its parts alone are another value.
    `column` begins the text. `compatible` does not decide this.
    """
    if not (lost := _lost_part(writer, reader)):
        return ""
    return (
        f"column {column!r} holds shredded variants, but the table's schema does not have their part {lost}, without "
        "which the values are incomplete; have the table's writer store whole variants"
    )


def _lost_part(writer: AvroType, reader: AvroType) -> str:
    """The first part of a shredded variant that `reader` lacks, as `typed_value.n`; '' if it has all of them."""
    match writer, reader:
        case (ArrayType(inner), ArrayType(target)) | (MapType(inner), MapType(target)):
            return _lost_part(inner, target)
        case RecordType(fields), RecordType(target_fields):
            if {own_name(field.name) for field in fields} == _SHREDDED_VARIANT:
                return _missing_field(writer, reader, "")
            kept = {field.name: field.type for field in target_fields}
            parts = (_lost_part(field.type, kept[field.name]) for field in fields if field.name in kept)
            return next(filter(None, parts), "")
    return ""


def _missing_field(writer: AvroType, reader: AvroType, path: str) -> str:
    """The path of the first field of `writer`, at any depth, that `reader` does not have."""
    match writer, reader:
        case (ArrayType(inner), ArrayType(target)) | (MapType(inner), MapType(target)):
            return _missing_field(inner, target, path)
        case RecordType(fields), RecordType(target_fields):
            kept = {field.name: field.type for field in target_fields}
            for field in fields:
                place = f"{path}.{own_name(field.name)}".lstrip(".")
                if field.name not in kept:
                    return place
                if missing := _missing_field(field.type, kept[field.name], place):
                    return missing
    return ""


def is_promotion(written: AvroType, target: AvroType) -> bool:
    """Whether Hudi promotes values of type `written` to another type `target`: as numbers, texts or bytes."""
    match written, target:
        case Primitive(kind, ""), Primitive(wider, ""):
            return wider in _WIDER.get(kind, ())
        case (
            (Primitive("int", "date"), Primitive("string", ""))
            | (Primitive("string", ""), Primitive("int", "date"))
            | (Decimal(), Primitive("string", ""))
            | (Primitive("long", "timestamp-micros"), Primitive("long", "timestamp-millis"))
            | (Primitive("long", "timestamp-millis"), Primitive("long", "timestamp-micros"))
            | (Primitive("long", "local-timestamp-millis"), Primitive("long", "local-timestamp-micros"))
            | (Primitive("long", ""), Primitive("long", "local-timestamp-millis" | "local-timestamp-micros"))
        ):
            return True
        case Primitive(kind, ""), Decimal():
            return kind in (*_NUMBERS, "string")
        case Decimal(precision, scale), Decimal(wider_precision, wider_scale):
            digits = wider_precision - wider_scale - (precision - scale)
            return digits >= 0 and wider_scale >= scale and (digits > 0 or wider_scale > scale)
    return False


def missing_column(field: AvroField, column: str) -> Converted | Refused:
    """The compatibility of a column that the writer's schema does not have: null, unless the table requires a value."""
    if field.has_default:
        return Refused(f"default value of column {column}, which is missing in a file")
    if not field.nullable:
        return Refused(f"column {column} is required, and is missing in a file")
    return Converted()


def type_name(avro_type: AvroType) -> str:
    """A type in an error text: `long(timestamp-micros)`, `array<int>`, `decimal(10, 2)`."""
    match avro_type:
        case Primitive(kind, ""):
            return kind
        case Primitive(kind, logical):
            return f"{kind}({logical})"
        case Decimal(precision, scale, _):
            return f"decimal({precision}, {scale})"
        case Fixed(size):
            return f"fixed({size})"
        case Vector(dimension, element):
            return f"vector({dimension}, {element})"
        case EnumType():
            return "enum"
        case ArrayType(items):
            return f"array<{type_name(items)}>"
        case MapType(values):
            return f"map<{type_name(values)}>"
        case RecordType(fields):
            return f"record<{', '.join(field.name for field in fields)[:200]}>"


def _records(writer: tuple[AvroField, ...], reader: tuple[AvroField, ...], column: str) -> Compatibility:
    written = {field.name: field for field in writer}
    result: Compatibility = Same()
    for field in reader:
        path = f"{column}.{field.name}"
        known = written.get(field.name)
        match missing_column(field, path) if known is None else compatible(known.type, field.type, path):
            case Refused() as refused:
                return refused
            case Promoted() as promoted:
                result = promoted
            case Converted() as converted if isinstance(result, Same):
                result = converted
    return result if [field.name for field in writer] == [field.name for field in reader] else _converted(result)


def _converted(result: Compatibility) -> Compatibility:
    return Converted() if isinstance(result, Same) else result


def _is_text(avro_type: AvroType) -> bool:
    """Whether values are read as strings: strings, uuids and enums."""
    return isinstance(avro_type, EnumType) or (isinstance(avro_type, Primitive) and avro_type.kind == "string")
