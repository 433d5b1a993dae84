"""Decodes the records of a delete block: a compiled `penstock.table.log.delete_list.DeleteListDecoder`.

Safety. The input is untrusted, and compiled code has no bounds checks. The bound of each access:
- reads: every step starts at or before `stop` and reads at most a union byte and a varint of 10 bytes before the next
  check of the offset, at most 11 bytes after `stop` (OVERRUN). An invalid offset is FAR, which every check refuses;
- kinds[row], numbers[row], key_offsets[row + 1], text_offsets[row + 1]: `decode_delete_list` compares `row` with
  `len(kinds)` before it reads a record, because a part of a record is written before its end is checked;
- item_kinds[item], item_numbers[item], item_offsets[item + 1]: `_put_items` compares `item` with `len(item_kinds)`
  before it reads a value;
- keys, texts, item_texts: `_text` compares the length with the remaining bytes before it copies, and each byte of the
  input is copied at most once, so the copies of all records need at most as many bytes as the input.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.reader.kernels.compilation import compiled_lean, inlined

# As in `table.log.delete_list`, repeated because a kernel is compiled again only if its own file changes.
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

FAR: Final = 1 << 62


@inlined
def _varint(data: Any, p: int) -> Any:
    """(zigzag value, offset after it); reads at most 10 bytes, then the offset is FAR."""
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


@inlined
def _text(data: Any, p: int, stop: int, target: Any, at: int) -> Any:
    """Copies a length-prefixed text to target[at:]; (offset after it or FAR, offset after the copy).

    `at` in `target` is not after `p` in the input, so the rest of the input fits.
    """
    length, p = _varint(data, p)
    if length < 0 or length > stop - p:
        return np.int64(FAR), at
    for j in range(length):
        target[at + j] = data[p + j]
    return p + length, at + length


@inlined
def _skip_text(data: Any, p: int, stop: int) -> Any:
    length, p = _varint(data, p)
    if length < 0 or length > stop - p:
        return np.int64(FAR)
    return p + length


@inlined
def _bits(data: Any, p: int, width: int) -> Any:
    bits = np.uint64(0)
    for j in range(width):
        bits |= np.uint64(data[p + j]) << np.uint64(8 * j)
    if width == 4 and bits >= np.uint64(1 << 31):  # as a signed number of its width
        return np.int64(bits) - np.int64(1 << 32)
    return np.int64(bits)


@inlined
def _put_value(data: Any, p: int, stop: int, kind: int, row: int, numbers: Any, text_offsets: Any, texts: Any) -> Any:
    """Reads a wrapper's value; the offset after it, or FAR if the wrapper is unknown or does not allow the value.

    Writes at `row` and `row + 1` for any input: the caller has compared `row` with the arrays.
    """
    text_offsets[row + 1] = text_offsets[row]
    if kind == NULL:
        return p
    if kind == BOOLEAN:
        numbers[row] = data[p]
        return p + 1 if data[p] <= 1 else np.int64(FAR)
    if kind in (FLOAT, DOUBLE):
        width = 4 if kind == FLOAT else 8
        numbers[row] = _bits(data, p, width)
        return p + width
    if kind in (BYTES, STRING, DECIMAL):
        p, text_offsets[row + 1] = _text(data, p, stop, texts, text_offsets[row])
        return p
    if kind < NULL or kind > TIMESTAMP_MICROS:
        return np.int64(FAR)
    numbers[row], p = _varint(data, p)
    if kind in (INT, DATE) and (numbers[row] < -(1 << 31) or numbers[row] >= 1 << 31):
        return np.int64(FAR)
    return p


@inlined
def _put_items(
    data: Any, p: int, stop: int, item: int, item_kinds: Any, item_numbers: Any, item_offsets: Any, item_texts: Any
) -> Any:
    """Reads the values of an ArrayWrapper, from `item` on; (offset after them or FAR, number of the next item)."""
    branch = data[p]
    if branch == 0 and p < stop:
        return p + 1, item
    if branch != 2:
        return np.int64(FAR), item
    p += 1
    while p <= stop:
        count, p = _varint(data, p)
        if count == 0 or p > stop:
            break
        if count < 0:
            _, p = _varint(data, p)
            count = -count
        while count != 0 and p < stop:
            count -= 1
            if item >= len(item_kinds):
                return np.int64(FAR), item
            kind, p = _varint(data, p)
            if p > stop:
                return np.int64(FAR), item
            if kind == ARRAY:
                kind = np.int64(DATE)
            p = _put_value(data, p, stop, kind, item, item_numbers, item_offsets, item_texts)
            if p > stop:
                return np.int64(FAR), item
            item_kinds[item] = kind
            item += 1
        if count != 0:
            return np.int64(FAR), item
    return p, item


@inlined
def _put_key(data: Any, p: int, stop: int, row: int, key_offsets: Any, keys: Any) -> Any:
    """Reads the key and skips the partition path; (offset after both or FAR, FINE or NULL_KEY).

    Writes key_offsets[row + 1] before the end of the record is checked: the caller has compared `row` with the arrays.
    """
    branch = data[p]
    if branch == 0 and p < stop:
        return p, NULL_KEY
    if branch != 2:
        return np.int64(FAR), FINE
    p, key_offsets[row + 1] = _text(data, p + 1, stop, keys, key_offsets[row])
    if p > stop:
        return p, FINE
    branch = data[p]
    if branch == 0:
        return p + 1, FINE
    if branch != 2:
        return np.int64(FAR), FINE
    return _skip_text(data, p + 1, stop), FINE


@compiled_lean
def decode_delete_list(
    data: Any,
    start: int,
    stop: int,
    kinds: Any,
    numbers: Any,
    key_offsets: Any,
    keys: Any,
    text_offsets: Any,
    texts: Any,
    item_kinds: Any,
    item_numbers: Any,
    item_offsets: Any,
    item_texts: Any,
) -> Any:
    """See `penstock.table.log.delete_list.DeleteListDecoder`. Bounds: `row` against len(kinds), one of the arrays of
    equal size; `item` against len(item_kinds); texts against the remaining bytes."""
    p = np.int64(start)
    row = 0
    item = np.int64(0)
    while p <= stop:
        count, p = _varint(data, p)
        if count == 0:
            return row, FINE if p == stop else DAMAGED
        if p > stop:
            break
        if count < 0:  # then the size of the list's block in bytes follows
            _, p = _varint(data, p)
            count = -count
        while count != 0:
            count -= 1
            if p > stop or row >= len(kinds):
                return row, DAMAGED
            p, problem = _put_key(data, p, stop, row, key_offsets, keys)
            if problem != FINE or p > stop:
                return row, max(problem, DAMAGED)
            kind, p = _varint(data, p)
            if p > stop:
                return row, DAMAGED
            if kind == ARRAY:
                first = item
                p, item = _put_items(data, p, stop, item, item_kinds, item_numbers, item_offsets, item_texts)
                numbers[row] = item - first
                text_offsets[row + 1] = text_offsets[row]
            else:
                p = _put_value(data, p, stop, kind, row, numbers, text_offsets, texts)
            if p > stop:
                return row, DAMAGED
            kinds[row] = kind
            row += 1
    return row, DAMAGED
