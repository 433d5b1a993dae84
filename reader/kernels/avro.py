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
- left[depth] has an entry for each level of nesting (`schema.avro.MAX_DEPTH`) and one more. Every item of an array or
  map takes at least one byte (schemas have no empty records and no null items), so a count ends with the bytes.
A kernel returns the number of the first invalid record, or -1. It never raises.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.reader.kernels.compilation import compiled_lean, inlined

# Operations on a field: decode it into a lane (wide: 8 bytes a row, narrow: 4, small: 1, text: bytes) ...
LONG: Final = 0  # wide
INT: Final = 1  # narrow, 32 bits checked
INT_AS_LONG: Final = 2  # wide, 32 bits checked
ENUM: Final = 3  # narrow; argument: number of symbols
DOUBLE: Final = 4  # wide, as its bits
FLOAT: Final = 5  # narrow, as its bits
BOOLEAN: Final = 6  # small, 0 or 1 checked
TEXT: Final = 7  # text: a string or bytes
FIXED: Final = 8  # text; argument: its size
DECIMAL: Final = 9  # two wide slots, low and high half; argument: its size, or -1 for bytes
# ... or step over it.
SKIP_VARINT: Final = 10
SKIP_TEXT: Final = 11
SKIP_FIXED: Final = 12  # argument: its size
SKIP_NESTED: Final = 13  # argument: its place in the skip table

# Columns of the opcode table. NULL_BYTE: the byte of null's union branch, or -1; COLUMN: row of `valid`, or -1.
OPCODE: Final = 0
NULL_BYTE: Final = 1
SLOT: Final = 2
COLUMN: Final = 3
ARGUMENT: Final = 4

# The skip table skips nested values, one step per row: (step, a, b).
STEP_VARINT: Final = 0
STEP_TEXT: Final = 1
STEP_FIXED: Final = 2  # a: size
STEP_UNION: Final = 3  # a: null's byte, b: the step to go to if null
STEP_BLOCK: Final = 4  # an array's or map's block count; a: the step after the loop
STEP_ITEM_END: Final = 5  # a: the loop's STEP_BLOCK
STEP_END: Final = 6

OVERRUN: Final = 11
OVERCOPY: Final = 16
FAR: Final = 1 << 62


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
def _skip_nested(data: Any, p: int, stop: int, steps: Any, step: int, left: Any) -> Any:
    """The offset after a nested value, or FAR. `left` counts the remaining items of each open array or map."""
    depth = 0
    while True:
        if p > stop:
            return np.int64(FAR)
        kind = steps[step, 0]
        if kind == STEP_VARINT:
            p = _skip_varint(data, p)
        elif kind == STEP_TEXT:
            size, p = _varint(data, p)
            if size < 0 or size > stop - p:
                return np.int64(FAR)
            p += size
        elif kind == STEP_FIXED:
            p += steps[step, 1]
        elif kind == STEP_UNION:
            branch = _byte(data, p)
            p += 1
            if branch == steps[step, 1]:
                step = steps[step, 2]
                continue
            if branch != 2 - steps[step, 1]:
                return np.int64(FAR)
        elif kind == STEP_BLOCK:
            count, p = _varint(data, p)
            if p > stop:
                return np.int64(FAR)
            if count == 0:
                step = steps[step, 1]
                continue
            if count < 0:  # then its size in bytes follows, which is not used
                _, p = _varint(data, p)
                count = -count
            left[depth] = count
            depth += 1
        elif kind == STEP_ITEM_END:
            left[depth - 1] -= 1
            step = steps[step, 1]
            if left[depth - 1] == 0:
                depth -= 1
                continue
        else:
            return p
        step += 1


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
def _put_text(data: Any, p: int, stop: int, length: int, slot: int, r: int, offsets: Any, text: Any, fill: Any) -> Any:
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
    offsets[slot, r + 1] = at + length
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
def _put_decimal(data: Any, p: int, stop: int, size: int, slot: int, r: int, wide: Any) -> Any:
    """Writes a decimal into two slots; the offset after it, or FAR."""
    if size < 0:
        size, p = _varint(data, p)
    if size < 1 or size > stop - p:
        return np.int64(FAR)
    wide[slot, r], wide[slot + np.uint64(1), r], fits = _decimal(data, p, size)
    return p + size if fits else np.int64(FAR)


@inlined
def _skip(data: Any, p: int, stop: int, opcode: int, argument: int, steps: Any, left: Any) -> Any:
    """The offset after a field that is not read, or FAR."""
    if opcode == SKIP_VARINT:
        return _skip_varint(data, p)
    if opcode == SKIP_TEXT:
        length, p = _varint(data, p)
        return np.int64(FAR) if length < 0 or length > stop - p else p + length
    if opcode == SKIP_FIXED:
        return p + argument
    return _skip_nested(data, p, stop, steps, argument, left)


@compiled_lean
def decode_records(
    data: Any,
    begin: Any,
    end: Any,
    program: Any,
    exact: bool,
    steps: Any,
    left: Any,
    wide: Any,
    narrow: Any,
    small: Any,
    offsets: Any,
    text: Any,
    fill: Any,
    valid: Any,
) -> Any:
    """Decodes data[begin[r]:end[r]] for every r by `program` into the lanes. Returns the first invalid record, or -1.

    data uint8[...] extends OVERRUN bytes after every end; begin, end int64[rows]; program int64[fields, 5];
    exact: the program covers all fields, so a record ends with its last field; steps int64[n, 3], left int64[65].
    wide int64[slots, rows], narrow int32[slots, rows], small uint8[slots, rows]: unchanged where null;
    offsets int32[slots, rows + 1] from 0; text uint8[slots, bytes], fill int64[slots] from 0;
    valid uint8[columns, rows], initialised with ones.
    """
    for r in range(len(begin)):
        p = begin[r]
        stop = end[r]
        for f in range(len(program)):
            if p > stop:
                return r
            null_byte = program[f, NULL_BYTE]
            if null_byte >= 0:
                branch = np.int64(_byte(data, p))
                p += 1
                if branch == null_byte:
                    _put_null(program, f, r, offsets, fill, valid)
                    continue
                if branch != 2 - null_byte:
                    return r
            opcode = program[f, OPCODE]
            slot = np.uint64(program[f, SLOT])
            if opcode == TEXT:
                length, p = _varint(data, p)
                p = _put_text(data, p, stop, length, slot, r, offsets, text, fill)
            elif opcode <= ENUM:
                p = _put_integer(data, p, program, f, r, wide, narrow)
            elif opcode <= BOOLEAN:
                p = _put_bits(data, p, program, f, r, wide, narrow, small)
            elif opcode == FIXED:
                p = _put_text(data, p, stop, program[f, ARGUMENT], slot, r, offsets, text, fill)
            elif opcode == DECIMAL:
                p = _put_decimal(data, p, stop, program[f, ARGUMENT], slot, r, wide)
            else:
                p = _skip(data, p, stop, opcode, program[f, ARGUMENT], steps, left)
        if p > stop or (exact and p != stop):
            return r
    return -1
