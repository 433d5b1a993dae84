"""Decodes the records of a delete block's Avro list in plain Python, and defines the interface of a compiled decoder.

Source: Hudi `HoodieDeleteRecordList`. `deletes` gives the values their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

# Branches of `HoodieDeleteRecord.orderingVal`; each wrapper is a record of one value.
NULL: Final = 0
BOOLEAN: Final = 1
INT: Final = 2
LONG: Final = 3
FLOAT: Final = 4
DOUBLE: Final = 5
BYTES: Final = 6
STRING: Final = 7
DATE: Final = 8
DECIMAL: Final = 9
TIME_MICROS: Final = 10
TIMESTAMP_MICROS: Final = 11
ARRAY: Final = 12
"""Several values. Among them the same number is Hudi's `LocalDateWrapper`, which is decoded as DATE."""

# Results of a decoder.
FINE: Final = 0
DAMAGED: Final = 1
NULL_KEY: Final = 2

OVERRUN: Final = 11
"""Bytes after the records that a decoder may read: a union byte and a varint."""

DeleteListDecoder = Callable[
    [
        np.ndarray,
        int,
        int,
        np.ndarray,
        np.ndarray,
        np.ndarray,
        np.ndarray,
        np.ndarray,
        np.ndarray,
        np.ndarray,
        np.ndarray,
        np.ndarray,
        np.ndarray,
    ],
    tuple[int, int],
]
"""decode(data, start, stop, kinds, numbers, key_offsets, keys, text_offsets, texts,
item_kinds, item_numbers, item_offsets, item_texts) -> (records, problem).

Decodes the Avro list data[start:stop]; `data` is uint8, and OVERRUN bytes longer. The other arrays are outputs, passed
as zeros, with room for (stop - start) / 4 records:

* kinds, int8: the branch of the ordering value's wrapper.
* numbers, int64: the value of an integer; the bits of a float or double; the number of values of an ARRAY.
* key_offsets, int32, and keys, uint8: the record keys.
* text_offsets, int32, and texts, uint8: the values of bytes, strings and decimals.
* item_kinds, item_numbers, item_offsets and item_texts: the values of all ARRAY records in their order, in the same
  form, with room for stop - start values.

`problem` is FINE, DAMAGED or NULL_KEY. In the latter two cases `records` is the number of the affected record.
"""


def decode_delete_list(
    data: np.ndarray,
    start: int,
    stop: int,
    kinds: np.ndarray,
    numbers: np.ndarray,
    key_offsets: np.ndarray,
    keys: np.ndarray,
    text_offsets: np.ndarray,
    texts: np.ndarray,
    item_kinds: np.ndarray,
    item_numbers: np.ndarray,
    item_offsets: np.ndarray,
    item_texts: np.ndarray,
) -> tuple[int, int]:
    """The `DeleteListDecoder` in plain Python."""
    cursor = _Cursor(data.data[:stop], start)
    row = item = 0
    try:
        while (count := cursor.varint()) != 0:
            if count < 0:
                cursor.varint()
                count = -count
            for _ in range(count):
                if row >= len(kinds):  # fewer bytes are left than the smallest record has
                    return row, DAMAGED
                if not cursor.branch():
                    return row, NULL_KEY
                key_offsets[row + 1] = _append(keys, int(key_offsets[row]), cursor.text())
                if cursor.branch():
                    cursor.text()
                kind = cursor.varint()
                if kind == ARRAY:
                    first = item
                    for value in cursor.items():
                        item_kinds[item], item_numbers[item], text = value
                        item_offsets[item + 1] = _append(item_texts, int(item_offsets[item]), text)
                        item += 1
                    kinds[row], numbers[row], text = ARRAY, item - first, data.data[:0]
                else:
                    kinds[row], numbers[row], text = cursor.value(kind)
                text_offsets[row + 1] = _append(texts, int(text_offsets[row]), text)
                row += 1
    except _DamageError:
        return row, DAMAGED
    return row, FINE if cursor.place == stop else DAMAGED


class _DamageError(Exception):
    """The bytes are not a delete list."""


class _Cursor:
    """Reads Avro values from a position on, never beyond the end of the view."""

    def __init__(self, view: memoryview, place: int) -> None:
        self._view = view
        self.place = place

    def bytes(self, length: int) -> memoryview:
        if not 0 <= length <= len(self._view) - self.place:
            raise _DamageError
        self.place += length
        return self._view[self.place - length : self.place]

    def varint(self) -> int:
        bits = 0
        for shift in range(0, 70, 7):
            byte = self.bytes(1)[0]
            bits |= (byte & 127) << shift
            if byte < 128:
                bits &= (1 << 64) - 1
                return (bits >> 1) ^ -(bits & 1)
        raise _DamageError

    def branch(self) -> int:
        """The branch of a union of null and another type; 0 is null."""
        byte = self.bytes(1)[0]
        if byte not in (0, 2):
            raise _DamageError
        return byte

    def text(self) -> memoryview:
        return self.bytes(self.varint())

    def items(self) -> Iterator[tuple[int, int, memoryview]]:
        """The values of Hudi's `ArrayWrapper`; none if it is null."""
        if not self.branch():
            return
        while (count := self.varint()) != 0:
            if count < 0:
                self.varint()
                count = -count
            for _ in range(count):
                kind = self.varint()
                yield self.value(DATE if kind == ARRAY else kind)

    def value(self, kind: int) -> tuple[int, int, memoryview]:
        """(kind, number, text) of a wrapper."""
        nothing = self._view[:0]
        match kind:
            case 0:
                return kind, 0, nothing
            case 1:
                number = self.bytes(1)[0]
                if number > 1:
                    raise _DamageError
                return kind, number, nothing
            case 4 | 5:
                width = 4 if kind == FLOAT else 8
                return kind, int.from_bytes(self.bytes(width), "little", signed=True), nothing
            case 6 | 7 | 9:
                return kind, 0, self.text()
            case 2 | 3 | 8 | 10 | 11:
                number = self.varint()
                if kind in (INT, DATE) and not -(1 << 31) <= number < 1 << 31:
                    raise _DamageError
                return kind, number, nothing
        raise _DamageError


def _append(target: np.ndarray, at: int, content: memoryview) -> int:
    target[at : at + len(content)] = content
    return at + len(content)
