"""Encodes Arrow columns as Avro values, and joins them to records: a few calls a column, none a row. Pure.

The inverse of `reader.avro.decoder`, for the types that this writer stores (`table.schema.avro_text`). A null takes no
bytes, so that the columns inside of a struct, a list or a map are encoded as the others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import CorruptFile, InvariantViolation
from penstock.table.log.avro_columns import Column, constant, little_endian, texts
from penstock.table.schema.avro import (
    ArrayType,
    AvroField,
    AvroType,
    Decimal,
    MapType,
    Primitive,
    RecordType,
)
from penstock.writer.kernels.avro_values import MAX_LONG_BYTES, encode_longs, place_values


def record_columns(fields: Sequence[AvroField], arrays: Iterable[pa.Array]) -> list[Column]:
    """The encoded columns of a record's fields in order: a record is its value of each.

    CorruptFile for a null that its field does not allow; InvariantViolation for a type that this writer does not store.
    """
    return [
        column
        for field, array in zip(fields, arrays, strict=True)
        for column in _optional(field.type, field.null_branch, array, field.name)
    ]


def present_columns(columns: Iterable[Column], present: np.ndarray) -> list[Column]:
    """Encoded columns of the rows where `present` (bool) is true, as columns of all rows; the others have no bytes."""
    expanded = []
    for lengths, content in columns:
        of_all = np.zeros(len(present), np.int64)
        of_all[present] = lengths
        expanded.append((of_all, content))
    return expanded


def branch_column(present: np.ndarray, null_branch: int) -> Column:
    """The branch of each row's union with null: that of null where `present` (bool) is false."""
    branches = np.where(present, 2 * (1 - null_branch), 2 * null_branch).astype(np.uint8)
    return np.ones(len(present), np.int64), branches


def text_columns(array: pa.Array) -> list[Column]:
    """Strings or binaries without nulls, with their lengths."""
    lengths, content = texts(array)
    return [_longs(lengths), (lengths, content)]


def joined(columns: Sequence[Column], rows: int) -> Column:
    """One column whose values are those of each row's columns, one after the other."""
    lengths = np.zeros(rows, np.int64)
    for column_lengths, _ in columns:
        lengths += column_lengths
    ends = np.cumsum(lengths)
    at = ends - lengths
    output = np.empty(int(ends[-1]) if rows else 0, np.uint8)
    for column_lengths, content in columns:
        place_values(at, _frozen(column_lengths), _frozen(content), output)
    return lengths, output


def sized_records(columns: Sequence[Column], rows: int) -> bytes:
    """Records as blocks of logs have them: each after its length, as an int32 (big-endian)."""
    sizes = np.zeros(rows, np.int64)
    for lengths, _ in columns:
        sizes += lengths
    prefix = np.full(rows, 4, np.int64), sizes.astype(">i4").view(np.uint8)
    return joined([prefix, *columns], rows)[1].tobytes()


def _optional(kind: AvroType, null_branch: int, array: pa.Array, path: str) -> list[Column]:
    """The values of a union with null at `null_branch`; without one if it is negative."""
    if null_branch < 0:
        if array.null_count:
            raise CorruptFile(f"column {path[:400]}: got a null, and its Avro schema has none; rewrite the file")
        return _values(kind, array, path)
    if not array.null_count:
        return [constant(bytes([2 * (1 - null_branch)]), len(array)), *_values(kind, array, path)]
    present = np.asarray(pc.is_valid(array))
    values = _values(kind, array.filter(pa.array(present)), path)
    return [branch_column(present, null_branch), *present_columns(values, present)]


def _values(kind: AvroType, array: pa.Array, path: str) -> list[Column]:
    """Values without nulls."""
    match kind:
        case Primitive("string" | "bytes"):
            return text_columns(array)
        case Primitive("int" | "long"):
            return [_longs(np.asarray(array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())))]
        case Primitive("float" | "double"):
            return [little_endian(np.asarray(array))]
        case Primitive("boolean"):
            return [little_endian(np.asarray(array.cast(pa.uint8())))]
        case Decimal(_, _, int(size)):
            return [_decimals(array, size)]
        case RecordType(fields):
            inner = [array.field(place) for place in range(array.type.num_fields)]
            named = [_renamed(field, path) for field in fields]
            return record_columns(named, inner)
        case ArrayType(items, null_branch):
            values = _items(array, array.values)
            return _list(array, _optional(items, null_branch, values, f"{path}.element"), len(values))
        case MapType(items, null_branch):
            keys, values = _items(array, array.keys), _items(array, array.items)
            pairs = [*text_columns(keys), *_optional(items, null_branch, values, f"{path}.value")]
            return _list(array, pairs, len(keys))
    raise InvariantViolation(f"column {path[:400]}: Avro type {kind!r} is not encoded")


def _renamed(field: AvroField, path: str) -> AvroField:
    return AvroField(f"{path}.{field.name}", field.type, field.nullable, field.null_branch)


def _items(array: pa.Array, values: pa.Array) -> pa.Array:
    """The items of lists without nulls; `values` are the items of the whole array that `array` is a slice of."""
    if not len(array):
        return values.slice(0, 0)
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return values.slice(first, last - first)


def _list(array: pa.Array, items: Sequence[Column], count: int) -> list[Column]:
    """Lists or maps: a block with all items, if there are any, and the empty block that ends them."""
    rows = len(array)
    sizes, content = joined(items, count)
    bounds = np.asarray(array.offsets).astype(np.int64) if rows else np.zeros(1, np.int64)
    bounds = bounds - bounds[0]
    counts = np.diff(bounds)
    filled = counts > 0
    totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    heads = present_columns([_longs(counts[filled])], filled)
    return [*heads, (np.diff(totals[bounds]), content), constant(b"\0", rows)]


def _longs(numbers: np.ndarray) -> Column:
    lengths = np.empty(len(numbers), np.int64)
    content = np.empty(len(numbers) * MAX_LONG_BYTES, np.uint8)
    return lengths, content[: encode_longs(_frozen(numbers.astype(np.int64)), lengths, content)]


def _decimals(array: pa.Array, size: int) -> Column:
    """Two's complement of `size` bytes, big-endian. The values fit: the type's precision does."""
    data = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    stored = data[array.offset * 16 : (array.offset + len(array)) * 16].reshape(-1, 16)
    return np.full(len(array), size, np.int64), np.ascontiguousarray(stored[:, size - 1 :: -1]).reshape(-1)


def _frozen(array: np.ndarray) -> np.ndarray:
    """The same values, read-only and contiguous: numba compiles again for other arrays."""
    array = np.ascontiguousarray(array)[:]
    array.flags.writeable = False
    return array
