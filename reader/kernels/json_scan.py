"""Scans JSON objects: the positions of the values of named columns, in one pass over the bytes.

It accepts unambiguous JSON only. The row-wise decoder (`reader.topics.json.rows`) handles records with duplicate or
escaped names, half of a surrogate pair, deep nesting, or invalid JSON.

Safety. The input is untrusted, and compiled code has no bounds checks: every byte is read after a check against the
end of the record. Bounds of the arrays that are written:
- order[number]: compared with `len(order)`, the maximum number of stored names of a record;
- tokens[name, 0..2, row]: a name below `len(tokens)`, from `_find` or `order`; rows are those of `begin`;
- strange[row]: an entry for each row of `begin`.
The bits of the stack bound the depth of nesting. A kernel never raises.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.reader.kernels.compilation import compiled_lean, inlined

# Kinds of values of a column. ABSENT: no such name, or null.
ABSENT: Final = 0
TEXT: Final = 1  # between quotes, without escapes
ESCAPED: Final = 2  # the same with escapes
WHOLE: Final = 3  # a number without fraction and exponent
REAL: Final = 4
FALSE: Final = 5
TRUE: Final = 6
NESTED: Final = 7

HASH_SEED: Final = 2166136261
HASH_FACTOR: Final = 16777619
HASH_MASK: Final = 0xFFFFFFFF

_QUOTE: Final = 34
_BACKSLASH: Final = 92
_BRACE: Final = 123
_BRACKET: Final = 91
_LONGEST_NUMBER: Final = 1000
_DEEPEST: Final = 60


@inlined
def _byte(data: Any, at: int) -> Any:
    """data[at]. An unsigned index avoids Python's negative indexing."""
    return np.int64(data[np.uint64(at)])


@inlined
def _blank(data: Any, at: int, end: int) -> Any:
    while at < end and (
        _byte(data, at) == 32 or _byte(data, at) == 10 or _byte(data, at) == 13 or _byte(data, at) == 9
    ):
        at += 1
    return at


@inlined
def _hex(data: Any, at: int, end: int) -> Any:
    """The number of four hexadecimal digits, or -1."""
    if end - at < 4:
        return -1
    number = 0
    for place in range(at, at + 4):
        byte = _byte(data, place)
        letter = byte | 32
        if 48 <= byte <= 57:
            number = number * 16 + byte - 48
        elif 97 <= letter <= 102:
            number = number * 16 + letter - 87
        else:
            return -1
    return number


@inlined
def _utf8(data: Any, at: int, end: int) -> Any:
    """The length of the multi-byte character at `at`, or 0 if it is invalid."""
    lead = _byte(data, at)
    if lead < 0xC2 or lead > 0xF4:
        return 0
    size = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
    if end - at < size:
        return 0
    for place in range(at + 1, at + size):
        if _byte(data, place) & 0xC0 != 0x80:
            return 0
    second = _byte(data, at + 1)
    if lead == 0xE0 and second < 0xA0:
        return 0
    if lead == 0xED and second > 0x9F:
        return 0
    if lead == 0xF0 and second < 0x90:
        return 0
    if lead == 0xF4 and second > 0x8F:
        return 0
    return size


@inlined
def _escape(data: Any, at: int, end: int) -> Any:
    """The offset after the escape whose backslash is at `at`, or -1; a surrogate pair is one escape."""
    if end - at < 2:
        return -1
    byte = _byte(data, at + 1)
    if byte == 117:
        code = _hex(data, at + 2, end)
        if code < 0 or 0xDC00 <= code <= 0xDFFF:
            return -1
        at += 6
        if 0xD800 <= code and code < 0xDC00:  # noqa: SIM300
            if end - at < 6 or _byte(data, at) != _BACKSLASH or _byte(data, at + 1) != 117:
                return -1
            low = _hex(data, at + 2, end)
            return at + 6 if low >= 0xDC00 and low <= 0xDFFF else -1
        return at
    simple = byte == 34 or byte == 92 or byte == 47 or byte == 98 or byte == 102
    return at + 2 if simple or byte == 110 or byte == 114 or byte == 116 else -1


@inlined
def _string(data: Any, at: int, end: int) -> Any:
    """(offset after the string whose text begins at `at`, or -1; TEXT or ESCAPED)."""
    kind = TEXT
    while at < end:
        byte = _byte(data, at)
        if byte == _QUOTE:
            return at + 1, kind
        if byte < 32:
            return -1, kind
        if byte == _BACKSLASH:
            kind = ESCAPED
            at = _escape(data, at, end)
            if at < 0:
                return -1, kind
        elif byte >= 128:
            size = _utf8(data, at, end)
            if size == 0:
                return -1, kind
            at += size
        else:
            at += 1
    return -1, kind


@inlined
def _digits(data: Any, at: int, end: int) -> Any:
    while at < end and _byte(data, at) >= 48 and _byte(data, at) <= 57:
        at += 1
    return at


@inlined
def _number(data: Any, at: int, end: int) -> Any:
    """(offset after the number or -1; WHOLE or REAL)."""
    first, kind = at, WHOLE
    if at < end and _byte(data, at) == 45:
        at += 1
    start = at
    at = _digits(data, at, end)
    if at == start or (_byte(data, start) == 48 and at - start > 1):
        return -1, kind
    if at < end and _byte(data, at) == 46:
        start, kind = at + 1, REAL
        at = _digits(data, start, end)
        if at == start:
            return -1, kind
    if at < end and (_byte(data, at) | 32) == 101:
        at += 1
        if at < end and (_byte(data, at) == 43 or _byte(data, at) == 45):
            at += 1
        start, kind = at, REAL
        at = _digits(data, start, end)
        if at == start or at - start > 6:
            return -1, kind
    return (at if at - first <= _LONGEST_NUMBER else -1), kind


@inlined
def _is(data: Any, at: int, a: int, b: int, c: int) -> Any:
    return _byte(data, at) == a and _byte(data, at + 1) == b and _byte(data, at + 2) == c


@inlined
def _literal(data: Any, at: int, end: int) -> Any:
    """(offset after null, false or true, or -1; ABSENT, FALSE or TRUE)."""
    if end - at >= 4 and _is(data, at, 110, 117, 108) and _byte(data, at + 3) == 108:
        return at + 4, ABSENT
    if end - at >= 4 and _is(data, at, 116, 114, 117) and _byte(data, at + 3) == 101:
        return at + 4, TRUE
    if end - at >= 5 and _is(data, at, 102, 97, 108) and _byte(data, at + 3) == 115 and _byte(data, at + 4) == 101:
        return at + 5, FALSE
    return -1, ABSENT


@inlined
def _flat(data: Any, at: int, end: int) -> Any:
    """(offset after a text, number or literal, or -1; its kind)."""
    byte = _byte(data, at)
    if byte == _QUOTE:
        return _string(data, at + 1, end)
    if byte == 45 or (byte >= 48 and byte <= 57):
        return _number(data, at, end)
    return _literal(data, at, end)


@inlined
def _close(data: Any, at: int, end: int, stack: int, depth: int) -> Any:
    """(offset after the comma or the closing brackets after a value, open brackets); (-1, …) for anything else."""
    while depth > 0:
        at = _blank(data, at, end)
        if at >= end:
            return -1, stack, depth
        byte = _byte(data, at)
        if byte == 44:
            return _blank(data, at + 1, end), stack, depth
        if byte != (125 if stack & 1 else 93):
            return -1, stack, depth
        at, stack, depth = at + 1, stack >> 1, depth - 1
    return at, stack, depth


@inlined
def _name(data: Any, at: int, end: int) -> Any:
    """The offset of the value after a name, or -1."""
    if at >= end or _byte(data, at) != _QUOTE:
        return -1
    at = _string(data, at + 1, end)[0]
    if at < 0:
        return -1
    at = _blank(data, at, end)
    return _blank(data, at + 1, end) if at < end and _byte(data, at) == 58 else -1


@inlined
def _value(data: Any, at: int, end: int) -> Any:
    """(offset after the value at `at`, or -1; its kind). `stack` has a bit for each open bracket: 1 is an object."""
    stack, depth, kind = 0, 0, NESTED
    while at >= 0 and at < end:
        byte = _byte(data, at)
        if byte in (_BRACE, _BRACKET):
            if depth == _DEEPEST:
                return -1, kind
            stack, depth = (stack << 1) | (1 if byte == _BRACE else 0), depth + 1
            at = _blank(data, at + 1, end)
            empty = at < end and _byte(data, at) == (125 if byte == _BRACE else 93)
            if empty:
                at, stack, depth = _close(data, at, end, stack, depth)
        else:
            at, flat = _flat(data, at, end)
            if at < 0 or depth == 0:
                return at, flat
            at, stack, depth = _close(data, at, end, stack, depth)
        if depth == 0 or at < 0:
            return at, kind
        if stack & 1:
            at = _name(data, at, end)
    return -1, kind


@inlined
def _find(data: Any, start: int, stop: int, names: Any, bounds: Any, table: Any) -> Any:
    """The number of a name, or -1."""
    key = HASH_SEED
    for place in range(start, stop):
        key = ((key ^ _byte(data, place)) * HASH_FACTOR) & HASH_MASK
    mask = len(table) - 1
    at = key & mask
    while table[at] >= 0:
        if _same(data, start, stop, names, bounds, table[at]):
            return table[at]
        at = (at + 1) & mask
    return -1


@inlined
def _same(data: Any, start: int, stop: int, names: Any, bounds: Any, number: int) -> Any:
    begin = bounds[number]
    if stop - start != bounds[number + 1] - begin:
        return False
    same, place = True, 0
    while same and place < stop - start:
        same = _byte(data, start + place) == names[begin + place]
        place += 1
    return same


@inlined
def _ends(data: Any, at: int, end: int) -> Any:
    return _blank(data, at, end) == end


@inlined
def _members(
    data: Any, at: int, end: int, row: int, names: Any, bounds: Any, table: Any, order: Any, tokens: Any
) -> Any:
    """The members of the object whose first name is at `at`, into `tokens`; the number of unknown names, or -1."""
    unknown_members, number = 0, 0
    columns = len(tokens)
    while at < end and _byte(data, at) == _QUOTE:
        start = at + 1
        at = start
        while at < end and _byte(data, at) != _QUOTE:
            if _byte(data, at) == _BACKSLASH or _byte(data, at) < 32 or _byte(data, at) >= 128:
                return -1
            at += 1
        if at >= end:
            return -1
        name = order[number] if number < len(order) else -1
        if name < 0 or not _same(data, start, at, names, bounds, name):
            name = _find(data, start, at, names, bounds, table)
            if number < len(order):
                order[number] = name
        number += 1
        at = _blank(data, at + 1, end)
        if at >= end or _byte(data, at) != 58:
            return -1
        first = _blank(data, at + 1, end)
        at, kind = _value(data, first, end)
        if at < 0:
            return -1
        if name < 0:
            unknown_members += 1
        elif name < columns:
            if tokens[name, 0, row] >= 0:
                return -1
            tokens[name, 0, row], tokens[name, 1, row], tokens[name, 2, row] = kind, first, at
        at = _blank(data, at, end)
        if at < end and _byte(data, at) == 125:
            return unknown_members if _ends(data, at + 1, end) else -1
        if at >= end or _byte(data, at) != 44:
            return -1
        at = _blank(data, at + 1, end)
    return -1


@compiled_lean
def scan_records(
    data: Any, begin: Any, end: Any, names: Any, bounds: Any, table: Any, order: Any, tokens: Any, unknown_members: Any
) -> None:
    """The tokens of the records data[begin[i]:end[i]].

    names, bounds, table: the concatenated names (columns first), their start offsets, and their numbers by hash (-1:
    free; at least one entry is free). order[j]: the j-th name of the last record. tokens, initialised with -1:
    [column, kind / first byte / byte after the last, row]; kind ABSENT afterwards for a missing value.
    unknown_members: the number of members with other names; -1 for a record that the row-wise decoder must decode.
    """
    for row in range(len(begin)):
        stop = end[row]
        at = _blank(data, begin[row], stop)
        unknown = -1
        if at < stop and _byte(data, at) == _BRACE:
            at = _blank(data, at + 1, stop)
            if at < stop and _byte(data, at) == 125:
                unknown = 0 if _ends(data, at + 1, stop) else -1
            else:
                unknown = _members(data, at, stop, row, names, bounds, table, order, tokens)
        unknown_members[row] = unknown
        for column in range(len(tokens)):
            if unknown < 0 or tokens[column, 0, row] < 0:
                tokens[column, 0, row] = ABSENT
