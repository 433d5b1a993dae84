"""The records of a delete block: a compiled `penstock.table.log.delete_walk.DeleteWalk`.

Safety, as in `kernels.avro`: every step starts at or before `stop` and reads at most a union byte and a varint of 10
bytes before the place is checked again, 11 bytes behind `stop` at most; a length is checked before it is used; a place
that went wrong is FAR. A record takes 4 bytes at least, so the row never passes the room for (stop - start) / 4 rows;
the texts of all records together are shorter than the input, so they fit as many bytes.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from penstock.reader.kernels.cache import compiled

# As in `table.log.delete_walk`, written again because a kernel is compiled anew only when its own file changes.
NULL: Final = 0
BOOLEAN: Final = 1
INT: Final = 2
FLOAT: Final = 4
DOUBLE: Final = 5
BYTES: Final = 6
STRING: Final = 7
DATE: Final = 8
DECIMAL: Final = 9
TIMESTAMP_MICROS: Final = 11
ARRAY: Final = 12

FINE: Final = 0
DAMAGED: Final = 1
NULL_KEY: Final = 2
SEVERAL_VALUES: Final = 3

FAR: Final = 1 << 62


@numba.njit(nogil=True)
def _varint(data: Any, p: int) -> Any:
    """(zigzag value, place behind it); reads 10 bytes at most, then the place is FAR."""
    bits = np.uint64(0)
    shift = np.uint64(0)
    for _ in range(10):
        byte = np.uint64(data[p])
        p += 1
        bits |= (byte & np.uint64(127)) << shift
        if byte < 128:
            return np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1)), p
        shift += np.uint64(7)
    return np.int64(0), np.int64(FAR)


@numba.njit(nogil=True)
def _text(data: Any, p: int, stop: int, target: Any, at: int) -> Any:
    """Copies a length-prefixed text to target[at:]; (place behind it or FAR, place behind the copy)."""
    length, p = _varint(data, p)
    if length < 0 or length > stop - p:
        return np.int64(FAR), at
    for j in range(length):
        target[at + j] = data[p + j]
    return p + length, at + length


@numba.njit(nogil=True)
def _skip_text(data: Any, p: int, stop: int) -> int:
    length, p = _varint(data, p)
    if length < 0 or length > stop - p:
        return np.int64(FAR)
    return p + length


@numba.njit(nogil=True)
def _bits(data: Any, p: int, width: int) -> int:
    bits = np.uint64(0)
    for j in range(width):
        bits |= np.uint64(data[p + j]) << np.uint64(8 * j)
    if width == 4 and bits >= np.uint64(1 << 31):  # as a signed number of its width
        return np.int64(bits) - np.int64(1 << 32)
    return np.int64(bits)


@compiled
def walk_deletes(
    data: Any,
    start: int,
    stop: int,
    kinds: Any,
    numbers: Any,
    key_offsets: Any,
    keys: Any,
    text_offsets: Any,
    texts: Any,
) -> Any:
    """See `penstock.table.log.delete_walk.DeleteWalk`."""
    p = np.int64(start)
    row = 0
    while True:
        if p > stop:
            return row, DAMAGED
        count, p = _varint(data, p)
        if count == 0:
            return row, FINE if p == stop else DAMAGED
        if count < 0:  # then the size in bytes of the list's block follows
            if p > stop:
                return row, DAMAGED
            _, p = _varint(data, p)
            count = -count
        while count != 0:
            count -= 1
            if p > stop:
                return row, DAMAGED
            branch = data[p]
            if branch != 2:
                return row, NULL_KEY if branch == 0 and p < stop else DAMAGED
            p, key_offsets[row + 1] = _text(data, p + 1, stop, keys, key_offsets[row])
            if p > stop:
                return row, DAMAGED
            branch = data[p]
            p += 1
            if branch == 2:
                p = _skip_text(data, p, stop)
            elif branch != 0:
                return row, DAMAGED
            if p > stop:
                return row, DAMAGED
            kind, p = _varint(data, p)
            if p > stop:
                return row, DAMAGED
            if kind == ARRAY:
                return row, SEVERAL_VALUES
            if kind < NULL or kind > ARRAY:
                return row, DAMAGED
            text_offsets[row + 1] = text_offsets[row]
            if kind == BOOLEAN:
                numbers[row] = data[p]
                p += 1
                if numbers[row] > 1:
                    return row, DAMAGED
            elif kind == FLOAT or kind == DOUBLE:
                width = 4 if kind == FLOAT else 8
                numbers[row] = _bits(data, p, width)
                p += width
            elif kind == BYTES or kind == STRING or kind == DECIMAL:
                p, text_offsets[row + 1] = _text(data, p, stop, texts, text_offsets[row])
            elif kind != NULL:
                numbers[row], p = _varint(data, p)
                if (kind == INT or kind == DATE) and (numbers[row] < -(1 << 31) or numbers[row] >= 1 << 31):
                    return row, DAMAGED
            if p > stop:
                return row, DAMAGED
            kinds[row] = kind
            row += 1
