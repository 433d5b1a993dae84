"""Values of a narrower type as the table's: numbers wider, numbers and dates as text, numbers as decimals. Vectorised.

One conversion for base files and for both roads of log records, so that they agree. Values come out as Hudi 1.2.0 gives
them; where releases or Java versions differ, or a value would be rounded, it is refused. Source: Hudi
`HoodieAvroUtils.rewritePrimaryTypeWithDiffSchemaType`, `HoodieParquetFileFormatHelper`. Not here: which pairs of types
are allowed (`table.schema.compatibility`).
"""

from __future__ import annotations

import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.schema.arrow import arrow_type
from penstock.table.schema.avro import ArrayType, AvroType, Decimal, MapType, Primitive, RecordType

_PLAIN_FROM: Final = 1e-3
_PLAIN_BELOW: Final = 1e7
"""Java writes doubles between these without an exponent (`Double.toString`)."""
_EPOCH: Final = datetime.date(1970, 1, 1)
_FIRST_DATE: Final = datetime.date(1582, 10, 15)
_LAST_DATE: Final = datetime.date(9999, 12, 31)


class NotExact(ValueError):
    """A value that the wider type cannot hold as it is, or whose text is not settled; the message says which."""


def widened(array: pa.Array, written: AvroType, wanted: AvroType) -> pa.Array:
    """`array`, values of the Avro type `written`, as the Arrow form of `wanted`, with which it is `compatible`.

    Nested fields go by name; those that `written` lacks are null, those that `wanted` lacks are dropped. The array's
    own Arrow type may be any that casts to that of `written` (a Parquet file's, names of nested fields aside).
    NotExact for a value that would change.
    """
    target = arrow_type(wanted)
    match written, wanted:
        case ArrayType(items), ArrayType(wanted_items):
            array = array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_field))
            child = widened(array.values, items, wanted_items)
            return _rebuilt(array, target, child)
        case MapType(values), MapType(wanted_values):
            keys, found = _cast(array.keys, pa.string()), widened(array.items, values, wanted_values)
            entries = pa.StructArray.from_arrays([keys, found], fields=[target.key_field, target.item_field])
            return _rebuilt(array, target, entries)
        case RecordType(fields_), RecordType(wanted_fields):
            parts = {field.name: (part, field.type) for field, part in zip(fields_, array.flatten(), strict=True)}
            children = [
                widened(*parts[field.name], field.type)
                if field.name in parts
                else pa.nulls(len(array), arrow_type(field.type))
                for field in wanted_fields
            ]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    return _leaf(_cast(array, arrow_type(written)), written, wanted, target)


def _leaf(array: pa.Array, written: AvroType, wanted: AvroType, target: pa.DataType) -> pa.Array:
    match written, wanted:
        case _ if array.type == target:
            return array
        case Primitive("float" | "double", ""), Primitive("string"):
            return _float_texts(array)
        case Primitive("float", ""), Primitive("double"):
            return array.cast(pa.string()).cast(target)
        case Primitive("int" | "long", ""), Primitive("float" | "double"):
            return array.cast(target, safe=False)  # to the nearest, ties to even, as Java does
        case Primitive("int" | "long" | "float" | "double", ""), Decimal():
            return _cast(array.cast(pa.string()), target)
        case Primitive("int", "date"), Primitive("string"):
            return _date_texts(array)
    return _cast(array, target)


def _float_texts(array: pa.Array) -> pa.Array:
    """`Double.toString` and `Float.toString` where they have no exponent."""
    size = pc.abs(array)
    plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, _PLAIN_FROM), pc.less(size, _PLAIN_BELOW)))
    if pc.all(plain).as_py() is False:
        odd = array.filter(pc.invert(plain))[0].as_py()
        raise NotExact(f"{odd!r} as text: only 0 and numbers from 0.001 to 10000000 have one form")
    texts = array.cast(pa.string())
    return pc.if_else(pc.match_substring(texts, "."), texts, pc.binary_join_element_wise(texts, ".0", ""))


def _date_texts(array: pa.Array) -> pa.Array:
    """ISO dates of the calendar that all of Java's classes agree on."""
    if len(array) > array.null_count:
        ends = pc.min_max(array)
        first, last = ends["min"].cast(pa.int32()).as_py(), ends["max"].cast(pa.int32()).as_py()
        if first < (_FIRST_DATE - _EPOCH).days or last > (_LAST_DATE - _EPOCH).days:
            raise NotExact(f"a date outside {_FIRST_DATE} to {_LAST_DATE} as text")
    return array.cast(pa.string())


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type == target:
        return array
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        reason = str(error).partition("\n")[0][:200]
        raise NotExact(f"{array.type} holds a value that {target} cannot: {reason}") from None


def _rebuilt(array: pa.Array, target: pa.DataType, child: pa.Array) -> pa.Array:
    """A list or map array with other children: its own validity, offsets and place."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(target, len(array), [validity, offsets], offset=array.offset, children=[child])
