"""Decodes Avro records into columns by a table of opcodes: one kernel for every schema, no object per value.

Safety. The input is untrusted, and compiled code has no bounds checks:
- a field starts at or before the end of the record (checked). A step reads at most one union byte and one varint of
  10 bytes before the next check of the offset, so at most OVERRUN bytes after the record are read. The caller
  guarantees that the buffer extends that far after every record;
- a length is compared with the rest of the record before it is used, and copies stay inside the buffer;
- an invalid offset becomes FAR, which every later check refuses; no sum with it overflows;
- targets are written at [slot, row] and inside a text slot only. The plan that sizes the lanes numbers the slots
  (`plan`), and the caller sizes the rows by `begin`;
- offsets[slot, row + 1] has one more entry than rows;
- text[slot, fill[slot]:]: each byte of a record is copied to a slot at most once, after its length was compared with
  the rest of the record. A text slot has room for all bytes of all records and for OVERCOPY more bytes, which copies of
  a fixed width need;
- left[depth] has an entry for each depth of nesting (`schema.avro.MAX_DEPTH`) and one more. Every item of an array or
  map takes at least one byte (schemas have no empty records and no null items), so a count ends with the bytes;
- cells of nested values are written at the step's PLACE + items[level] only, and items[level] is at most limits[level]
  (checked at the end of each item). The caller makes a cell more than these limits.
A kernel never raises: it returns the number of the first invalid record, or -1.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.reader.kernels.compilation import compiled_lean, inlined

# Operations: decode a value into a lane (wide: 8 bytes a row, narrow: 4, small: 1, text: bytes) ...
LONG: Final = 0  # wide
INT: Final = 1  # narrow, 32 bits checked
INT_AS_LONG: Final = 2  # wide, 32 bits checked
ENUM: Final = 3  # narrow; argument: number of symbols
DOUBLE: Final = 4  # wide, as its bits
FLOAT: Final = 5  # narrow, as its bits
BOOLEAN: Final = 6  # small, 0 or 1 checked
TEXT: Final = 7  # text: a string or bytes
FIXED: Final = 8  # text; argument: its size
DECIMAL: Final = 9  # wide, low and high half; argument: its size, or -1 for bytes
# ... or step over it ...
SKIP_VARINT: Final = 10
SKIP_TEXT: Final = 11
SKIP_FIXED: Final = 12  # argument: its size
# ... or decode or skip a nested field by the table of steps; argument: its first step.
NESTED: Final = 13
# Further operations of that table.
UNION: Final = 14  # argument: the step after the value, for a null
BLOCK: Final = 15  # an array's or map's block count; slot: the level of its items; argument: the step after the loop
ITEM_END: Final = 16  # argument: the loop's BLOCK
END: Final = 17

# Columns of the program and of the steps. NULL_BYTE: the byte of null's union branch, or -1.
OPCODE: Final = 0
NULL_BYTE: Final = 1
SLOT: Final = 2
ARGUMENT: Final = 3
COLUMN: Final = 4  # of the program: the column's row of `valid`, or -1
LEVEL: Final = 4  # of the steps: the level of the value: 0 for records, one for the items of each array or map
PLACE: Final = 5  # of the steps: the first cell that the step writes, or -1

OVERRUN: Final = 11
OVERCOPY: Final = 16
FAR: Final = 1 << 62
FULL: Final = FAR + 1  # also beyond every record: an item exceeds the limit of its level


@compiled_lean
def walk_prefixed(data: Any, start: int, stop: int, begin: Any, end: Any) -> Any:
    """Fills begin and end with the records of data[start:stop]: [int32 big-endian length, body], len(begin) times.

    Reads are compared with `stop`, which the caller keeps inside `data`; begin and end have one length. Returns the
    first record whose length exceeds the range, len(begin) if bytes are left over, or -1 for valid input.
    """
    p = np.int64(start)
    for r in range(len(begin)):
        if stop - p < 4:
            return r
        length = (np.int64(data[p]) << 24) | (np.int64(data[p + 1]) << 16)
        length |= (np.int64(data[p + 2]) << 8) | np.int64(data[p + 3])
        p += 4
        if length > stop - p:  # also negative values of int32
            return r
        begin[r] = p
        p += length
        end[r] = p
    return -1 if p == stop else len(begin)


@inlined
def _byte(data: Any, p: int) -> Any:
    """data[p]. An unsigned index avoids Python's negative indexing, which halves the time of the kernel."""
    return data[np.uint64(p)]


@inlined
def _varint(data: Any, p: int) -> Any:
    """(zigzag value, offset after it); reads at most 10 bytes, then the offset is FAR."""
    bits = np.uint64(0)
    shift = np.uint64(0)
    for _ in range(10):
        byte = np.uint64(_byte(data, p))
        p += 1
        bits |= (byte & np.uint64(127)) << shift
        if byte < 128:
            return np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1)), p
        shift += np.uint64(7)
    return np.int64(0), np.int64(FAR)


@inlined
def _skip_varint(data: Any, p: int) -> Any:
    for _ in range(10):
        if _byte(data, p) < 128:
            return p + 1
        p += 1
    return np.int64(FAR)


@inlined
def _little_endian(data: Any, p: int, size: int) -> Any:
    bits = np.uint64(0)
    for j in range(size):
        bits |= np.uint64(_byte(data, p + j)) << np.uint64(8 * j)
    return bits


@inlined
def _decimal(data: Any, p: int, size: int) -> Any:
    """(low, high, fits) of a big-endian two's complement number that fits 128 bits; further bytes must be padding."""
    negative = _byte(data, p) >= 128
    fill = np.uint8(255) if negative else np.uint8(0)
    low = ~np.uint64(0) if negative else np.uint64(0)
    high = low
    fits = True
    for j in range(size):
        byte = _byte(data, p + j)
        left = size - j
        if (left > 16 and byte != fill) or (left == 16 and (byte >= 128) != negative):
            fits = False
        high = (high << np.uint64(8)) | (low >> np.uint64(56))
        low = (low << np.uint64(8)) | np.uint64(byte)
    return np.int64(low), np.int64(high), fits


@inlined
def _put_null(program: Any, f: int, r: int, offsets: Any, fill: Any, valid: Any) -> None:
    """Writes a null: numbers are unchanged, a text is empty."""
    opcode = program[f, OPCODE]
    if opcode <= DECIMAL:
        valid[program[f, COLUMN], r] = 0
        if TEXT <= opcode <= FIXED:
            slot = np.uint64(program[f, SLOT])
            offsets[slot, r + 1] = fill[slot]


@inlined
def _put_text(data: Any, p: int, stop: int, length: int, slot: int, text: Any, fill: Any) -> Any:
    """Appends data[p:p + length] to a text slot; the offset after it, or FAR."""
    if length < 0 or length > stop - p:
        return np.int64(FAR)
    at = fill[slot]
    if length <= OVERCOPY and p + OVERCOPY <= len(data):  # most texts: two moves instead of a loop
        for j in range(OVERCOPY):
            text[slot, np.uint64(at + j)] = _byte(data, p + j)
    else:
        for j in range(length):
            text[slot, np.uint64(at + j)] = _byte(data, p + j)
    fill[slot] = at + length
    return p + length


@inlined
def _put_integer(data: Any, p: int, program: Any, f: int, r: int, wide: Any, narrow: Any) -> Any:
    """Writes a varint into its lane; the offset after it, or FAR if its type does not allow the value."""
    value, p = _varint(data, p)
    opcode = program[f, OPCODE]
    slot = np.uint64(program[f, SLOT])
    if opcode == LONG:
        wide[slot, r] = value
        return p
    if opcode == ENUM:
        if value < 0 or value >= program[f, ARGUMENT]:
            return np.int64(FAR)
    elif value < -(1 << 31) or value >= 1 << 31:
        return np.int64(FAR)
    if opcode == INT_AS_LONG:
        wide[slot, r] = value
    else:
        narrow[slot, r] = value
    return p


@inlined
def _put_bits(data: Any, p: int, program: Any, f: int, r: int, wide: Any, narrow: Any, small: Any) -> Any:
    """Writes a double, float or boolean into its lane; the offset after it, or FAR."""
    opcode = program[f, OPCODE]
    slot = np.uint64(program[f, SLOT])
    if opcode == DOUBLE:
        wide[slot, r] = np.int64(_little_endian(data, p, 8))
        return p + 8
    if opcode == FLOAT:
        narrow[slot, r] = np.int32(np.uint32(_little_endian(data, p, 4)))
        return p + 4
    if _byte(data, p) > 1:
        return np.int64(FAR)
    small[slot, r] = _byte(data, p)
    return p + 1


@inlined
def _read_decimal(data: Any, p: int, stop: int, size: int) -> Any:
    """(low, high, the offset after it or FAR) of a decimal; size -1: its length comes first."""
    if size < 0:
        size, p = _varint(data, p)
    if size < 1 or size > stop - p:
        return np.int64(0), np.int64(0), np.int64(FAR)
    low, high, fits = _decimal(data, p, size)
    return low, high, p + size if fits else np.int64(FAR)


@inlined
def _skip(data: Any, p: int, stop: int, opcode: int, argument: int) -> Any:
    """The offset after a value that is not read, or FAR."""
    if opcode == SKIP_VARINT:
        return _skip_varint(data, p)
    if opcode == SKIP_TEXT:
        length, p = _varint(data, p)
        return np.int64(FAR) if length < 0 or length > stop - p else p + length
    return p + argument


@inlined
def _put_cell(data: Any, p: int, stop: int, steps: Any, step: int, item: int, cells: Any, text: Any, fill: Any) -> Any:
    """Writes a value into the cell of an item; the offset after it, or FAR."""
    wide, narrow, small = cells
    opcode = steps[step, OPCODE]
    at = steps[step, PLACE] + item
    if TEXT <= opcode <= FIXED:
        length = steps[step, ARGUMENT]
        if opcode == TEXT:
            length, p = _varint(data, p)
        slot = np.uint64(steps[step, SLOT])
        p = _put_text(data, p, stop, length, slot, text, fill)
        narrow[0, at + 1] = fill[slot]
        return p
    if opcode <= ENUM:
        return _put_integer(data, p, steps, step, at, wide, narrow)
    if opcode <= BOOLEAN:
        return _put_bits(data, p, steps, step, at, wide, narrow, small)
    at += item  # a decimal has two cells
    wide[0, at], wide[0, at + 1], p = _read_decimal(data, p, stop, steps[step, ARGUMENT])
    return p


@inlined
def _walk_nested(
    data: Any,
    p: int,
    stop: int,
    steps: Any,
    step: int,
    left: Any,
    items: Any,
    limits: Any,
    cells: Any,
    text: Any,
    fill: Any,
) -> Any:
    """Decodes or skips a nested value; the offset after it, or FAR or FULL.

    `left` counts the remaining items of each open array or map, `items` the items of each level so far.
    """
    _, ends, nulls = cells
    depth = 0
    while True:
        if p > stop:
            return np.int64(FAR)
        opcode = steps[step, OPCODE]
        argument = steps[step, ARGUMENT]
        level = np.uint64(steps[step, LEVEL])
        place = steps[step, PLACE]
        if opcode == UNION:
            branch, p = np.int64(_byte(data, p)), p + 1
            if branch == steps[step, NULL_BYTE]:
                if place >= 0:
                    nulls[0, place + items[level]] = 1
                step = argument
                continue
            if branch != 2 - steps[step, NULL_BYTE]:
                return np.int64(FAR)
        elif opcode <= DECIMAL:
            p = _put_cell(data, p, stop, steps, step, items[level], cells, text, fill)
        elif opcode <= SKIP_FIXED:
            p = _skip(data, p, stop, opcode, argument)
        elif opcode == BLOCK:
            count, p = _varint(data, p)
            if p > stop:
                return np.int64(FAR)
            if count == 0:
                if place >= 0:
                    ends[0, place + items[level] + 1] = items[np.uint64(steps[step, SLOT])]
                step = argument
                continue
            if count < 0:  # then its size in bytes follows, which is not used
                _, p = _varint(data, p)
                count = -count
            left[depth] = count
            depth += 1
        elif opcode == ITEM_END:
            items[level] += 1
            if items[level] > limits[level]:
                return np.int64(FULL)
            left[depth - 1] -= 1
            step = argument
            if left[depth - 1] == 0:
                depth -= 1
                continue
        else:
            return p
        step += 1


@compiled_lean
def decode_records(
    data: Any,
    begin: Any,
    end: Any,
    program: Any,
    exact: bool,
    lanes: Any,
    steps: Any,
    left: Any,
    items: Any,
    limits: Any,
    cells: Any,
) -> Any:
    """Decodes data[begin[r]:end[r]] for every r by `program` into the lanes.

    Returns -1, or the first invalid record r, or -2 - r if the items of record r exceed the limits.
    data uint8[...] extends OVERRUN bytes after every end; begin, end int64[rows]; program int64[fields, 5];
    exact: the program covers all fields, so a record ends with its last field.
    lanes: wide int64[slots, rows], narrow int32[slots, rows], small uint8[slots, rows], all unchanged where null,
    offsets int32[slots, rows + 1] from 0, text uint8[slots, bytes], fill int64[slots] from 0,
    valid uint8[columns, rows], initialised with ones.
    Nested fields: steps int64[n, 6], left int64[65], items int64[levels] from 0, limits int64[levels]; cells from 0:
    wide int64[1, cells], narrow int32[1, cells] (values, and ends of texts and lists), small uint8[1, cells] (values,
    and 1 for a null). Cells of nulls, and of values in a null record, are unchanged.
    """
    wide, narrow, small, offsets, text, fill, valid = lanes
    for r in range(len(begin)):
        p = begin[r]
        stop = end[r]
        items[0] = r
        for f in range(len(program)):
            if p > stop:
                return r
            null_byte = program[f, NULL_BYTE]
            if null_byte >= 0:
                branch, p = np.int64(_byte(data, p)), p + 1
                if branch == null_byte:
                    _put_null(program, f, r, offsets, fill, valid)
                    continue
                if branch != 2 - null_byte:
                    return r
            opcode = program[f, OPCODE]
            slot = np.uint64(program[f, SLOT])
            argument = program[f, ARGUMENT]
            if TEXT <= opcode <= FIXED:
                length = argument
                if opcode == TEXT:
                    length, p = _varint(data, p)
                p = _put_text(data, p, stop, length, slot, text, fill)
                offsets[slot, r + 1] = fill[slot]
            elif opcode <= ENUM:
                p = _put_integer(data, p, program, f, r, wide, narrow)
            elif opcode <= BOOLEAN:
                p = _put_bits(data, p, program, f, r, wide, narrow, small)
            elif opcode == DECIMAL:
                wide[slot, r], wide[slot + np.uint64(1), r], p = _read_decimal(data, p, stop, argument)
            elif opcode == NESTED:
                p = _walk_nested(data, p, stop, steps, argument, left, items, limits, cells, text, fill)
                if p == FULL:
                    return -2 - r
            else:
                p = _skip(data, p, stop, opcode, argument)
        if p > stop or (exact and p != stop):
            return r
    return -1
