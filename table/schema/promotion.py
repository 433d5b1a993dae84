"""Which types Hudi reads as a wider type of the table, and whether an order of values survives it. Pure.

Source: Hudi `SchemaChangeUtils.isTypeUpdateAllow`, `HoodieAvroUtils.rewritePrimaryTypeWithDiffSchemaType`. Here are
single values' types. Not here: nested types (`compatibility`), the conversion of values (reader).
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
_ORDER_KEPT: Final = {("int", "long"), ("int", "double"), ("float", "double")}


def is_promotion(written: AvroType, wanted: AvroType) -> bool:
    """Whether values of the first type are read as the second, another one: by number, by text, or byte for byte."""
    match written, wanted:
        case Primitive(kind, ""), Primitive(wider, ""):
            return wider in _WIDER.get(kind, ())
        case Primitive("int", "date"), Primitive("string", ""):
            return True
        case Primitive(kind, ""), Decimal():
            return kind in _NUMBERS
        case Decimal(precision, scale), Decimal(wider_precision, wider_scale):
            digits = wider_precision - wider_scale - (precision - scale)
            return digits >= 0 and wider_scale >= scale and (digits > 0 or wider_scale > scale)
    return False


def keeps_order(written: AvroType, wanted: AvroType) -> bool:
    """Whether any two values compare as before when read as the other type: numbers as text do not, and large ones as
    floats may become equal."""
    match written, wanted:
        case Primitive(kind, ""), Primitive(wider, "") if kind != wider:
            return (kind, wider) in _ORDER_KEPT
    return True
