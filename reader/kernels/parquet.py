"""Checks a whole Parquet file that is in memory: its footer, and the header of every page.

`check_file` accepts a file only if `table.parquet.checks` and `table.parquet.pages` accept it, and not each one that
they accept: whatever mostly does not occur is left to them, also the text of an error. It reads fields in ascending
order only, as writers write them, so that pyarrow sees the same values.

Safety. The input is untrusted, and compiled code has no bounds checks. The bound of each access:
- data: every read compares the offset with `stop`, which is at most `len(data)`. An invalid offset is FAR, which every
  check refuses;
- scratch[depth]: `_skip` compares `depth` with `len(scratch)`, `_schema` the number of open groups;
- facts[leaf]: `_schema` compares the number of leaves with `len(facts)`, `check_file` that of all column chunks.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.reader.kernels.compilation import compiled_lean, inlined

# Columns of `facts`. The first ones are those of `ChunkPages`, the next ones are of the leaf and its chunk.
DICTIONARY_BYTES: Final = 0
ALL_INDICES: Final = 1
FIRST_INDICES: Final = 2
BYTES_PER_VALUE: Final = 3
LARGEST_BYTES: Final = 4
FRONT_CODED: Final = 5
KIND: Final = 6
LENGTH: Final = 7
DEFINITION_LEVELS: Final = 8
REPETITION_LEVELS: Final = 9
VALUES: Final = 10
FACTS: Final = 11

SCRATCH: Final = 5
"""Columns of `scratch`."""
NOT_ACCEPTED: Final = -1
FAR: Final = 1 << 62

_BINARY: Final = 8
_LIST: Final = 9
_STRUCT: Final = 12
_I32: Final = 5
_I64: Final = 6
_BYTE_ARRAY: Final = 6
_MOST_ROWS: Final = 1 << 20
_SMALL_PAGE: Final = 64 << 10
_MAX_EXPANSION: Final = 40_000
_ENCODINGS: Final = 10
_DELTA_BYTE_ARRAY: Final = 7


@inlined
def _varint(data: Any, p: int, stop: int) -> Any:
    """(number below 2^56, offset after it)."""
    value = np.int64(0)
    shift = np.int64(0)
    while p < stop and shift < 56:
        byte = np.int64(data[p])
        p += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, p
        shift += 7
    return np.int64(0), np.int64(FAR)


@inlined
def _number(data: Any, p: int, stop: int, kind: int, expected: int) -> Any:
    """(a number of 0 or above, offset after it); for another type the offset is FAR."""
    value, p = _varint(data, p, stop)
    if kind != expected or value & 1:
        return np.int64(0), np.int64(FAR)
    return value >> 1, p


@inlined
def _field(data: Any, p: int, stop: int, number: int) -> Any:
    """(number of the next field, its type, offset after its header); number 0 at the end of the struct."""
    if p >= stop:
        return np.int64(0), np.int64(0), np.int64(FAR)
    head = np.int64(data[p])
    if head == 0:
        return np.int64(0), np.int64(0), np.int64(p + 1)
    if head < 16 or head & 15 == 0:
        return np.int64(0), np.int64(0), np.int64(FAR)
    return np.int64(number + (head >> 4)), np.int64(head & 15), np.int64(p + 1)


@inlined
def _items(data: Any, p: int, stop: int, kind: int) -> Any:
    """(number of items, their type, offset of the first) of a list."""
    if p >= stop or kind != _LIST:
        return np.int64(0), np.int64(0), np.int64(FAR)
    head = np.int64(data[p])
    count = head >> 4
    p += 1
    if count == 15:
        count, p = _varint(data, p, stop)
    if p > stop or count > stop - p:
        return np.int64(0), np.int64(0), np.int64(FAR)
    return count, head & 15, np.int64(p)


@compiled_lean
def _skip(data: Any, p: int, stop: int, kind: int, scratch: Any) -> Any:
    """The offset after a value of this type. scratch[depth]: the type of the items of an open list and how many are
    left; type 0 is an open struct."""
    depth = 0
    while True:
        if 3 < kind < 7:
            _, p = _varint(data, p, stop)
        elif kind == _BINARY:
            size, p = _varint(data, p, stop)
            p += size
        elif kind == 3:
            p += 1
        elif kind == 7:
            p += 8
        elif kind in (_STRUCT, _LIST):
            if depth >= len(scratch):
                return np.int64(FAR)
            scratch[depth, 0] = 0
            if kind == _LIST:
                count, item, p = _items(data, p, stop, kind)
                if item == 0:
                    return np.int64(FAR)
                scratch[depth, 0] = item
                scratch[depth, 1] = count
            depth += 1
        elif kind > 2 or kind < 1:
            return np.int64(FAR)
        if p > stop:
            return np.int64(FAR)
        kind = 0
        while depth > 0 and kind == 0:
            item = scratch[depth - 1, 0]
            if item == 0:
                _, kind, p = _field(data, p, stop, 0)
                if p > stop:
                    return np.int64(FAR)
                if kind == 0:
                    depth -= 1
            elif scratch[depth - 1, 1] == 0:
                depth -= 1
            else:
                scratch[depth - 1, 1] -= 1
                kind = item if item > 2 else 3  # a boolean in a list is a byte
        if depth == 0:
            return np.int64(p)


@compiled_lean
def _schema(data: Any, p: int, stop: int, kind: int, facts: Any, scratch: Any) -> Any:
    """(number of leaves, offset after the schema). Fills facts of the leaves. scratch[depth]: the children that are
    left in an open group, and its levels."""
    count, item, p = _items(data, p, stop, kind)
    if p > stop or item != _STRUCT or count < 2:
        return np.int64(0), np.int64(FAR)
    depth = leaves = 0
    for place in range(count):
        physical = np.int64(-1)
        length = repetition = children = np.int64(0)
        number = np.int64(0)
        while True:
            number, kind, p = _field(data, p, stop, number)
            if p > stop:
                return np.int64(0), np.int64(FAR)
            if number == 0:
                break
            if number == 1:
                physical, p = _number(data, p, stop, kind, _I32)
            elif number == 2:
                length, p = _number(data, p, stop, kind, _I32)
            elif number == 3:
                repetition, p = _number(data, p, stop, kind, _I32)
            elif number == 5:
                children, p = _number(data, p, stop, kind, _I32)
            else:
                p = _skip(data, p, stop, kind, scratch[depth:])
            if p > stop:
                return np.int64(0), np.int64(FAR)
        definition_levels = repetition_levels = np.int64(0)
        if place:
            while depth > 0 and scratch[depth - 1, 0] == 0:
                depth -= 1
            if depth == 0 or repetition > 2:
                return np.int64(0), np.int64(FAR)
            scratch[depth - 1, 0] -= 1
            definition_levels = scratch[depth - 1, 1] + (1 if repetition > 0 else 0)
            repetition_levels = scratch[depth - 1, 2] + (1 if repetition == 2 else 0)
        if children > 0:
            if physical >= 0 or depth + 1 >= len(scratch) or children > count:
                return np.int64(0), np.int64(FAR)
            scratch[depth, 0] = children
            scratch[depth, 1] = definition_levels
            scratch[depth, 2] = repetition_levels
            depth += 1
        elif place == 0 or physical < 0 or physical > 7 or leaves >= len(facts) or length > 1 << 20:
            return np.int64(0), np.int64(FAR)
        else:
            facts[leaves, KIND] = physical
            facts[leaves, LENGTH] = length
            facts[leaves, DEFINITION_LEVELS] = definition_levels
            facts[leaves, REPETITION_LEVELS] = repetition_levels
            leaves += 1
    for place in range(depth):
        if scratch[place, 0] != 0:
            return np.int64(0), np.int64(FAR)
    return np.int64(leaves), np.int64(p)


@compiled_lean
def _statistics(data: Any, p: int, stop: int, physical: int, scratch: Any) -> Any:
    """The offset after the statistics of a column chunk, FAR if a minimum or maximum is shorter than its type."""
    width = 0
    if physical == 0:
        width = 1
    elif physical == 1 or physical == 4:
        width = 4
    elif physical == 2 or physical == 5:
        width = 8
    elif physical == 3:
        width = 12
    number = np.int64(0)
    while True:
        number, kind, p = _field(data, p, stop, number)
        if number == 0 or p > stop:
            return np.int64(p)
        if number == 1 or number == 2 or number == 5 or number == 6:
            size, p = _varint(data, p, stop)
            if kind != _BINARY or size < width:
                return np.int64(FAR)
            p += size
        else:
            p = _skip(data, p, stop, kind, scratch)
        if p > stop:
            return np.int64(FAR)


@compiled_lean
def _size_statistics(data: Any, p: int, stop: int, facts: Any, leaf: int, scratch: Any) -> Any:
    """The offset after the size statistics of a column chunk, FAR if a histogram has another number of levels."""
    number = np.int64(0)
    while True:
        number, kind, p = _field(data, p, stop, number)
        if number == 0 or p > stop:
            return np.int64(p)
        if number == 1 and facts[leaf, KIND] != _BYTE_ARRAY:
            return np.int64(FAR)
        if number == 2 or number == 3:
            count, item, p = _items(data, p, stop, kind)
            levels = facts[leaf, REPETITION_LEVELS] if number == 2 else facts[leaf, DEFINITION_LEVELS]
            if p > stop or item != _I64 or (count != 0 and count != levels + 1):
                return np.int64(FAR)
            for _ in range(count):
                _, p = _varint(data, p, stop)
        else:
            p = _skip(data, p, stop, kind, scratch)
        if p > stop:
            return np.int64(FAR)


@compiled_lean
def _page(data: Any, p: int, stop: int, page: Any, scratch: Any) -> Any:
    """The offset after a page header. page: [type, uncompressed bytes, stored bytes, values, encoding]."""
    page[0] = page[1] = page[2] = -1
    page[3] = page[4] = 0
    number = np.int64(0)
    header = np.int64(0)
    while True:
        number, kind, p = _field(data, p, stop, number)
        if p > stop:
            return np.int64(FAR)
        if number == 0:
            break
        if number <= 3:
            page[number - 1], p = _number(data, p, stop, kind, _I32)
        elif number == 5 or number == 8:
            if header or kind != _STRUCT:
                return np.int64(FAR)
            header = number
            encoding = 2 if number == 5 else 4
            inner = np.int64(0)
            page[3] = page[4] = -1
            while True:
                inner, kind, p = _field(data, p, stop, inner)
                if p > stop:
                    return np.int64(FAR)
                if inner == 0:
                    break
                if inner == 1:
                    page[3], p = _number(data, p, stop, kind, _I32)
                elif inner == encoding:
                    page[4], p = _number(data, p, stop, kind, _I32)
                else:
                    p = _skip(data, p, stop, kind, scratch)
                if p > stop:
                    return np.int64(FAR)
        elif number == 7:
            if header or kind != _STRUCT:
                return np.int64(FAR)
            header = number
            p = _skip(data, p, stop, kind, scratch)
        elif number == 4:
            p = _skip(data, p, stop, kind, scratch)
        else:
            return np.int64(FAR)
        if p > stop:
            return np.int64(FAR)
    expected = 5 if page[0] == 0 else 7 if page[0] == 2 else 8 if page[0] == 3 else -1
    if header != expected or page[1] < 0 or page[2] < 0 or page[3] < 0 or page[4] < 0:
        return np.int64(FAR)
    return np.int64(p)


@compiled_lean
def _pages(data: Any, at: int, end: int, most: int, facts: Any, leaf: int, page: Any, scratch: Any) -> Any:
    """Whether the headers of the pages in data[at:end] are accepted. Fills the facts of the pages."""
    for column in range(6):
        facts[leaf, column] = 0
    facts[leaf, ALL_INDICES] = facts[leaf, FIRST_INDICES] = 1
    left = facts[leaf, VALUES]
    is_first = True
    while left > 0 and at < end:
        body = _page(data, at, end, page, scratch)
        if body > end:
            return False
        size = page[1]
        stored = page[2]
        if stored > end - body or size > min(most, _SMALL_PAGE + _MAX_EXPANSION * stored):
            return False
        if page[0] == 2:
            facts[leaf, DICTIONARY_BYTES] = max(facts[leaf, DICTIONARY_BYTES], size)
        else:
            values = page[3]
            if values > left or page[4] >= _ENCODINGS:
                return False
            left -= values
            facts[leaf, LARGEST_BYTES] = max(facts[leaf, LARGEST_BYTES], size)
            per_value = (size + max(1, values) - 1) // max(1, values)
            facts[leaf, BYTES_PER_VALUE] = max(facts[leaf, BYTES_PER_VALUE], per_value)
            if page[4] != 2 and page[4] != 8:
                facts[leaf, ALL_INDICES] = 0
                if is_first:
                    facts[leaf, FIRST_INDICES] = 0
            if page[4] == _DELTA_BYTE_ARRAY:
                facts[leaf, FRONT_CODED] = 1
            is_first = False
        at = body + stored
    return left == 0


@compiled_lean
def _chunk(data: Any, p: int, stop: int, facts: Any, leaf: int, scratch: Any) -> Any:
    """(the most bytes that its rows take while they are decoded, offset after it) of a column chunk."""
    number = np.int64(0)
    has_metadata = False
    bound = np.int64(0)
    while True:
        number, kind, p = _field(data, p, stop, number)
        if p > stop:
            return np.int64(0), np.int64(FAR)
        if number == 0:
            break
        if number == 1 or number > 7:  # another file, encryption
            return np.int64(0), np.int64(FAR)
        if number != 3:
            p = _skip(data, p, stop, kind, scratch)
            if p > stop:
                return np.int64(0), np.int64(FAR)
            continue
        if kind != _STRUCT:
            return np.int64(0), np.int64(FAR)
        has_metadata = True
        physical = values = uncompressed = stored = at = np.int64(-1)
        dictionary = np.int64(0)
        inner = np.int64(0)
        while True:
            inner, kind, p = _field(data, p, stop, inner)
            if p > stop:
                return np.int64(0), np.int64(FAR)
            if inner == 0:
                break
            if inner == 1:
                physical, p = _number(data, p, stop, kind, _I32)
            elif inner == 5:
                values, p = _number(data, p, stop, kind, _I64)
            elif inner == 6:
                uncompressed, p = _number(data, p, stop, kind, _I64)
            elif inner == 7:
                stored, p = _number(data, p, stop, kind, _I64)
            elif inner == 9:
                at, p = _number(data, p, stop, kind, _I64)
            elif inner == 11:
                dictionary, p = _number(data, p, stop, kind, _I64)
            elif inner == 12 and kind == _STRUCT:
                p = _statistics(data, p, stop, facts[leaf, KIND], scratch)
            elif inner == 16 and kind == _STRUCT:
                p = _size_statistics(data, p, stop, facts, leaf, scratch)
            elif inner == 12 or inner >= 16:
                return np.int64(0), np.int64(FAR)
            else:
                p = _skip(data, p, stop, kind, scratch)
            if p > stop:
                return np.int64(0), np.int64(FAR)
        if physical != facts[leaf, KIND] or at < 0 or stored < 0 or uncompressed < 0 or not 0 <= values <= _MOST_ROWS:
            return np.int64(0), np.int64(FAR)
        if 0 < dictionary < at:
            at = dictionary
        if at > len(data) or stored > len(data) - at:
            return np.int64(0), np.int64(FAR)
        facts[leaf, VALUES] = values
        most = min(max(uncompressed, _SMALL_PAGE), 1 << 28)
        if not _pages(data, at, at + stored, most, facts, leaf, scratch[0], scratch[1:]):
            return np.int64(0), np.int64(FAR)
        value_bytes = facts[leaf, LARGEST_BYTES] if facts[leaf, FRONT_CODED] else facts[leaf, BYTES_PER_VALUE]
        value_bytes = max(16, facts[leaf, LENGTH], value_bytes + 4, facts[leaf, DICTIONARY_BYTES]) + 4
        bound = value_bytes * values + uncompressed
    return bound, np.int64(p) if has_metadata else np.int64(FAR)


@compiled_lean
def _group(data: Any, p: int, stop: int, facts: Any, leaves: int, scratch: Any) -> Any:
    """(rows, the most bytes that they take while they are decoded, offset after it) of a row group."""
    number = np.int64(0)
    rows = np.int64(-1)
    bound = np.int64(0)
    chunks = np.int64(0)
    while True:
        number, kind, p = _field(data, p, stop, number)
        if p > stop:
            return np.int64(0), np.int64(0), np.int64(FAR)
        if number == 0:
            break
        if number == 1:
            chunks, item, p = _items(data, p, stop, kind)
            if p > stop or item != _STRUCT or chunks != leaves:
                return np.int64(0), np.int64(0), np.int64(FAR)
            for leaf in range(leaves):
                size, p = _chunk(data, p, stop, facts, leaf, scratch)
                if p > stop:
                    return np.int64(0), np.int64(0), np.int64(FAR)
                bound += size
        elif number == 3:
            rows, p = _number(data, p, stop, kind, _I64)
        else:
            p = _skip(data, p, stop, kind, scratch)
        if p > stop:
            return np.int64(0), np.int64(0), np.int64(FAR)
    if not 0 < rows <= _MOST_ROWS or chunks != leaves:
        return np.int64(0), np.int64(0), np.int64(FAR)
    for leaf in range(leaves):
        if facts[leaf, REPETITION_LEVELS] == 0 and facts[leaf, VALUES] != rows:
            return np.int64(0), np.int64(0), np.int64(FAR)
        if facts[leaf, REPETITION_LEVELS] > 0:  # the values of a row are rounded up
            page_bytes = facts[leaf, LARGEST_BYTES] + facts[leaf, DICTIONARY_BYTES]
            bound += (page_bytes + facts[leaf, LENGTH] + 24) * rows
    return rows, bound, np.int64(p)


@compiled_lean
def check_file(data: Any, facts: Any, scratch: Any) -> Any:
    """(number of leaves, most rows of a row group, the most bytes that the rows of one take while they are decoded,
    offset after the schema in the footer), if footer and page headers are accepted; rows are NOT_ACCEPTED otherwise.

    data: uint8, the whole file. facts: int64 [leaf, FACTS], filled for the last row group. scratch: int64
    [depth, SCRATCH], at least two rows.
    """
    none = np.int64(0), np.int64(NOT_ACCEPTED), np.int64(0), np.int64(0)
    size = len(data)
    if size < 12 or data[size - 4] != 80 or data[size - 3] != 65 or data[size - 2] != 82 or data[size - 1] != 49:
        return none
    stop = size - 8
    length = np.int64(0)
    for place in range(4):
        length |= np.int64(data[stop + place]) << (8 * place)
    if length > size - 12:
        return none
    p = np.int64(stop - length)
    number = np.int64(0)
    leaves = np.int64(0)
    schema_end = np.int64(0)
    most_rows = np.int64(0)
    most_bytes = np.int64(0)
    while True:
        number, kind, p = _field(data, p, stop, number)
        if p > stop:
            return none
        if number == 0:
            break
        if number == 2:
            leaves, p = _schema(data, p, stop, kind, facts, scratch)
            schema_end = p
        elif number == 4:
            groups, item, p = _items(data, p, stop, kind)
            if p > stop or leaves == 0 or (groups and item != _STRUCT):
                return none
            for _ in range(groups):
                rows, decoded, p = _group(data, p, stop, facts, leaves, scratch)
                if p > stop:
                    return none
                most_rows = max(most_rows, rows)
                most_bytes = max(most_bytes, decoded)
        elif number > 7:
            return none
        else:
            p = _skip(data, p, stop, kind, scratch)
        if p > stop:
            return none
    if schema_end == 0:
        return none
    return leaves, most_rows, most_bytes, schema_end
