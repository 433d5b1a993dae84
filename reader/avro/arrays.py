"""Makes Arrow arrays of the table's types of decoded Avro values. Shared by the kernel and the fallback. Pure.

Values are numpy arrays with zeros for nulls, and a validity bitmap (None: no null).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.table.arrow_arrays import arrow_array
from penstock.table.schema.avro import Primitive

_DAY_US: Final = 86_400_000_000
_INT_MIN: Final = -(1 << 31)
_INT_MAX: Final = (1 << 31) - 1
_MILLIS_LIMIT: Final = ((1 << 63) - 1) // 1000

MAX_SYMBOL_BYTES: Final = 128 << 20
"""The most text of enum symbols of one column in one batch: an index takes a byte, its symbol may be long."""


class BadRecord(Exception):
    """Record `row` of those passed in does not fit its schema."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row


class BadValue(Exception):
    """A column holds a value that its type does not allow; the text says which."""


def integers(values: np.ndarray, validity: pa.Buffer | None, written: Primitive, target: pa.DataType) -> pa.Array:
    """Ints, longs, dates, times and timestamps, int32 or int64, as `target`; milliseconds become microseconds, exactly.

    BadValue for an int beyond 32 bits, a time outside its day, milliseconds that do not fit as microseconds.
    """
    if written.kind == "int" and values.dtype == np.int64:
        _check_range(values, _INT_MIN, _INT_MAX, "an int beyond 32 bits")
    if written.logical.endswith("-millis"):
        values = values.astype(np.int64, copy=False)
        _check_range(values, -_MILLIS_LIMIT, _MILLIS_LIMIT, f"a {written.logical} that does not fit as micros")
        values = values * 1000
    if written.logical.startswith("time-"):
        _check_range(values, 0, _DAY_US - 1, f"a {written.logical} outside its day")
    values = values.astype(np.int32 if target.bit_width == 32 else np.int64, copy=False)
    return pa.Array.from_buffers(target, len(values), [validity, pa.py_buffer(values)])


def floats(values: pa.Buffer, rows: int, validity: pa.Buffer | None, target: pa.DataType) -> pa.Array:
    """Floats and doubles by their little-endian bits."""
    return pa.Array.from_buffers(target, rows, [validity, values])


def booleans(values: np.ndarray, validity: pa.Buffer | None) -> pa.Array:
    """uint8 values as booleans. BadValue unless all are 0 or 1."""
    if values.size and values.max() > 1:
        raise BadValue("a boolean byte other than 0 and 1")
    bits = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [validity, pa.py_buffer(bits)])


def texts(
    offsets: pa.Buffer, content: pa.Buffer, rows: int, validity: pa.Buffer | None, target: pa.DataType
) -> pa.Array:
    """Strings or bytes by int32 offsets from 0. BadValue if a string is not UTF-8."""
    array = pa.Array.from_buffers(target, rows, [validity, offsets, content])
    if pa.types.is_string(target) and content.size and np.frombuffer(content, np.uint8).max() >= 128:
        _validate(array)
    return array


def symbols(indexes: np.ndarray, validity: pa.Buffer | None, names: tuple[str, ...]) -> pa.Array:
    """Enum symbols by their index. BadValue for an index without a symbol, and for more text than MAX_SYMBOL_BYTES."""
    _check_range(indexes, 0, len(names) - 1, "an enum index without a symbol")
    sizes = np.array([len(name.encode()) for name in names], np.int64)
    if len(indexes) * int(sizes.max()) > MAX_SYMBOL_BYTES and int(sizes[indexes].sum()) > MAX_SYMBOL_BYTES:
        raise BadValue(f"enum symbols of {int(sizes[indexes].sum())} bytes, at most {MAX_SYMBOL_BYTES} are decoded")
    indices = pa.Array.from_buffers(
        pa.int32() if indexes.dtype == np.int32 else pa.int64(), len(indexes), [validity, pa.py_buffer(indexes)]
    )
    return arrow_array(names, pa.string()).take(indices)


def decimals(halves: np.ndarray, validity: pa.Buffer | None, target: pa.DataType) -> pa.Array:
    """Decimals by their low and high halves, int64[rows, 2]. BadValue for one with more digits than the type has."""
    array = pa.Array.from_buffers(target, len(halves), [validity, pa.py_buffer(np.ascontiguousarray(halves))])
    _validate(array)
    return array


def _check_range(values: np.ndarray, lowest: int, highest: int, what: str) -> None:
    if values.size and (values.min() < lowest or values.max() > highest):
        raise BadValue(what)


def _validate(array: pa.Array) -> None:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadValue(str(error)) from None
