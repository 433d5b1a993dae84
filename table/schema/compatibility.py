"""Whether values of one Avro type may be read as another: what a block's schema may lack or narrow against the table's.

Pure. Not here: which single types Hudi reads as others (`promotion`).
"""

from __future__ import annotations

from dataclasses import dataclass

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
from penstock.table.schema.promotion import is_promotion


@dataclass(frozen=True, slots=True)
class Same:
    """Values are equal as they are; record names, namespaces, null branches and nullability may differ."""


@dataclass(frozen=True, slots=True)
class Converted:
    """Values convert exactly: int to long, or a nested field the writer lacks becomes null."""


@dataclass(frozen=True, slots=True)
class Promoted:
    """Values, or those of a nested field, are of a narrower type that Hudi promotes (`promotion.is_promotion`), or are
    vectors, which are stored as bytes."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Not read. `reason` names the column and both types."""

    reason: str


Compatibility = Same | Converted | Promoted | Refused


def compatible(writer: AvroType, reader: AvroType, column: str) -> Compatibility:
    """How a file's or block's type reads as the table's. `column` is the path that a refusal names."""
    match writer, reader:
        case (ArrayType(inner), ArrayType(wanted)) | (MapType(inner), MapType(wanted)):
            return compatible(inner, wanted, f"{column}.{'items' if isinstance(writer, ArrayType) else 'values'}")
        case RecordType(fields), RecordType(wanted_fields):
            return _records(fields, wanted_fields, column)
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


def missing_column(field: AvroField, column: str) -> Converted | Refused:
    """A column of the table that the writer's schema does not have: null, unless the table asks for a value."""
    if field.has_default:
        return Refused(f"default value of column {column}, which a file lacks")
    if not field.nullable:
        return Refused(f"column {column} may not be null, and a file lacks it")
    return Converted()


def type_name(avro_type: AvroType) -> str:
    """A type as an error shows it: `long(timestamp-micros)`, `array<int>`, `decimal(10, 2)`."""
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
    answer: Compatibility = Same()
    for field in reader:
        path = f"{column}.{field.name}"
        known = written.get(field.name)
        match missing_column(field, path) if known is None else compatible(known.type, field.type, path):
            case Refused() as refused:
                return refused
            case Promoted() as promoted:
                answer = promoted
            case Converted() as converted if isinstance(answer, Same):
                answer = converted
    return answer if [field.name for field in writer] == [field.name for field in reader] else _converted(answer)


def _converted(answer: Compatibility) -> Compatibility:
    return Converted() if isinstance(answer, Same) else answer


def _is_text(avro_type: AvroType) -> bool:
    """Stored differently, read alike: strings, uuids and enum symbols."""
    return isinstance(avro_type, EnumType) or (isinstance(avro_type, Primitive) and avro_type.kind == "string")
