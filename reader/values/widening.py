"""Converts values of an older type to the table's: wider numbers, numbers and dates as text, text as either, stored
vectors as lists. Vectorised.

Base files and both decoders of log records share this conversion, so that they agree. The results are those of Hudi
1.2.0; values on which it fails, or which it reads differently from base files and logs, are refused. Source: Hudi
`HoodieAvroUtils.rewritePrimaryTypeWithDiffSchemaType`, `SparkSchemaTransformUtils`, `AvroSchemaRepair`.
`table.schema.compatibility` decides which pairs of types are allowed, `java_text` has Java's texts.
"""

from __future__ import annotations

import datetime
import re
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.reader.values.java_text import float_texts, rounded_decimals
from penstock.table.arrow_arrays import arrow_array, numpy_array
from penstock.table.arrow_compute import pc
from penstock.table.schema.arrow import arrow_type
from penstock.table.schema.avro import ArrayType, AvroType, Decimal, MapType, Primitive, RecordType, Vector

HUDI_TOO: Final = "Hudi does not read it either: it fails, or returns different values for base files and logs"
"""The end of the error text of a `NotExact`."""

_EPOCH: Final = datetime.date(1970, 1, 1)
_FIRST_DATE: Final = datetime.date(1582, 10, 15)
_LAST_DATE: Final = datetime.date(9999, 12, 31)
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_MOST_ITEMS: Final = (1 << 31) - 1
_MILLIS_LIMIT: Final = ((1 << 63) - 1) // 1000


class NotExact(ValueError):
    """A value that the table's type cannot hold; the message says which."""


def widened(array: pa.Array, written: AvroType, reader_type: AvroType) -> pa.Array:
    """`array`, values of the Avro type `written`, as the Arrow form of `reader_type`, with which it is `compatible`.

    Nested fields are matched by name; those that `written` lacks are null, those that `reader_type` lacks are dropped.
    The array's own Arrow type may be any that casts to that of `written` (a Parquet file's, apart from names of nested
    fields). NotExact for a value that would change.
    """
    target = arrow_type(reader_type)
    match written, reader_type:
        case ArrayType(items), ArrayType(reader_items):
            array = array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_field))
            child = widened(array.values, items, reader_items)
            return _rebuilt(array, target, child)
        case MapType(values), MapType(reader_values):
            keys, items = _cast(array.keys, pa.string()), widened(array.items, values, reader_values)
            entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
            return _rebuilt(array, target, entries)
        case RecordType(fields_), RecordType(reader_fields):
            parts = {field.name: (part, field.type) for field, part in zip(fields_, array.flatten(), strict=True)}
            children = [
                widened(*parts[field.name], field.type)
                if field.name in parts
                else pa.nulls(len(array), arrow_type(field.type))
                for field in reader_fields
            ]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
        case Vector(), Vector() if written == reader_type:
            return _numbers_of(array, written, target)
    return _leaf(_cast(array, arrow_type(written)), written, reader_type, target)


def _numbers_of(array: pa.Array, vector: Vector, target: pa.ListType) -> pa.Array:
    """Lists of the numbers of stored vectors (binary or fixed)."""
    valid = array.is_valid()
    totals = np.concatenate([[0], np.cumsum(numpy_array(valid)) * vector.dimension])
    if totals[-1] > _MOST_ITEMS:
        raise NotExact(f"{totals[-1]} numbers of vectors in one batch, at most {_MOST_ITEMS}")
    present = _cast(array.drop_null(), pa.binary(vector.size))  # a null of a fixed width takes that width
    start = present.offset * vector.size
    numbers = pa.Array.from_buffers(
        target.value_type,
        len(present) * vector.dimension,
        [None, present.buffers()[1].slice(start, len(present) * vector.size)],
    )
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(arrow_array(totals, pa.int32()), numbers, type=target, mask=mask)


def _leaf(array: pa.Array, written: AvroType, reader_type: AvroType, target: pa.DataType) -> pa.Array:
    match written, reader_type:
        case Primitive("long", "timestamp-micros"), Primitive("long", "timestamp-millis"):
            return _from_millis(array.view(pa.int64()), target)
        case Primitive("long", ""), Primitive("long", "local-timestamp-millis"):
            return _from_millis(array, target)
        case _ if array.type == target:
            return array
        case Primitive("float" | "double", ""), Primitive("string"):
            return float_texts(array)
        case Primitive("float", ""), Primitive("double"):
            return _floats_as_doubles(array)
        case Primitive("int" | "long", ""), Primitive("float" | "double"):
            return array.cast(target, safe=False)  # to the nearest, ties to even, as Java does
        case Primitive("int" | "long", ""), Decimal():
            return _cast(array.cast(pa.string()), target)
        case Primitive("float" | "double", ""), Decimal():
            return _decimals(float_texts(array), target)
        case Primitive("string", ""), Decimal():
            return _decimals(array, target)
        case Primitive("int", "date"), Primitive("string"):
            return _date_texts(array)
        case Primitive("string", ""), Primitive("int", "date"):
            return _dates(array)
        case Primitive("bytes", ""), Primitive("string"):
            return _lossy_texts(array)
    return _cast(array, target)


def _from_millis(millis: pa.Array, target: pa.DataType) -> pa.Array:
    """Longs that older writers declared as microseconds, or without a unit, and that the table declares as
    milliseconds: they always were (`AvroSchemaRepair`)."""
    if pc.any(pc.greater(pc.abs(millis), _MILLIS_LIMIT)).as_py():
        raise NotExact("millis that do not fit as micros")
    return pc.multiply(millis, 1000).view(target)


def _floats_as_doubles(array: pa.Array) -> pa.Array:
    """By their text, as `Double.valueOf(Float.toString(f))`."""
    finite = pc.is_finite(array)
    texts = float_texts(pc.if_else(finite, array, pa.scalar(0, pa.float32())))
    return pc.if_else(finite, texts.cast(pa.float64()), array.cast(pa.float64()))


def _decimals(texts: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return rounded_decimals(texts, target)
    except ValueError as error:
        raise NotExact(str(error)) from None


def _dates(texts: pa.Array) -> pa.Array:
    """`java.sql.Date.valueOf`: a year of four digits, then month and day of one or two."""
    encoded = texts.dictionary_encode()
    days = arrow_array([_date(text) for text in encoded.dictionary.to_pylist()], pa.date32())
    return days.take(encoded.indices)


def _date(text: str | None) -> datetime.date | None:
    if text is None:
        return None
    match = _DATE.fullmatch(text)
    try:
        if match:
            return datetime.date(*(int(part) for part in match.groups()))
    except ValueError:
        pass
    raise NotExact(f"{text[:60]!r} is not a date")


def _lossy_texts(array: pa.Array) -> pa.Array:
    """Bytes as UTF-8, invalid bytes as U+FFFD, as `new String(bytes, UTF_8)`."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        encoded = array.dictionary_encode()
    texts = arrow_array([_lossy(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return texts.take(encoded.indices)


def _lossy(value: bytes | None) -> str | None:
    """A surrogate's three bytes are one replacement character in Java, and three in Python."""
    return None if value is None else _SURROGATE.sub("\ufffd".encode(), value).decode("utf-8", "replace")


def _date_texts(array: pa.Array) -> pa.Array:
    """ISO dates in the range in which all of Java's classes use the same calendar."""
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
    """A list or map array with another child and its own validity, offsets and offset."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(target, len(array), [validity, offsets], offset=array.offset, children=[child])
