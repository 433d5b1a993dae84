"""The pairs of primitive types that Hudi promotes. Pure.

Source: Hudi `SchemaChangeUtils.isTypeUpdateAllow`, `HoodieAvroUtils.rewritePrimaryTypeWithDiffSchemaType`, and
`AvroSchemaRepair` for timestamps that writers before 1.1 recorded with a wrong unit or with none. `compatibility`
handles nested types.
"""

from __future__ import annotations

from typing import Final

from penstock.table.schema.avro import AvroType, Decimal, Primitive

_NUMBERS: Final = ("int", "long", "float", "double")
_WIDER: Final = {
    "int": ("long", "float", "double", "string"),
    "long": ("float", "double", "string"),
    "float": ("double", "string"),
    "double": ("string",),
    "string": ("bytes",),
    "bytes": ("string",),
}


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
