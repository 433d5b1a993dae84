"""Checks a whole Parquet file that is in memory: its footer, and the header of every page.

`check_file` accepts a file only if `table.parquet.checks` and `table.parquet.pages` accept it, and not each one that
they accept: rare content is left to them, and so are the texts of errors. It reads fields in ascending order only, as
writers write them, so that pyarrow sees the same values.

Safety. The input is untrusted, and compiled code has no bounds checks. The bound of each access:
- data: every read compares the offset with `stop`, which is at most `len(data)`. An invalid offset is FAR, which every
  check refuses;
- scratch[depth]: `_skip` and `_schema` compare `depth` with `len(scratch)`; fields of a struct are below SCRATCH;
- facts[leaf]: `_schema` compares the number of leaves with `len(facts)`, `_group` that of column chunks with it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.reader.kernels.compilation import called, compiled_lean, inlined

# Columns of `facts`. The first ones are those of `ChunkPages`, the next ones are of the leaf and its chunk.
DICTIONARY_BYTES, ALL_INDICES, FIRST_INDICES, BYTES_PER_VALUE, LARGEST_BYTES, FRONT_CODED = range(6)
KIND, LENGTH, DEFINITION_LEVELS, REPETITION_LEVELS, VALUES, FACTS = range(6, 12)
SCRATCH: Final = 17
"""Columns of `scratch`."""
NOT_ACCEPTED: Final = -1
FAR: Final = 1 << 62

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_BYTE_ARRAY: Final = 6
_CHECKSUM: Final = 4
_ALL: Final = -1
_NARROW: Final = 1 << 1 | 1 << 4 | 1 << 15
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


@called
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
        elif kind in (3, 7):
            p += 1 if kind == 3 else 8
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
        elif not 1 <= kind <= 2:
            return np.int64(FAR)
        if p > stop:
            return np.int64(FAR)
        kind = 0
        while depth > 0 and kind == 0:
            item = scratch[depth - 1, 0]
            if item == 0:
                _, kind, p = _field(data, p, stop, 0)
                if kind == 0:
                    depth -= 1
            elif scratch[depth - 1, 1] == 0:
                depth -= 1
            else:
                scratch[depth - 1, 1] -= 1
                kind = item if item > 2 else 3  # a boolean in a list is a byte
        if depth == 0:
            return np.int64(p)


@called
def _numbers(data: Any, p: int, stop: int, narrow: int, out: Any, scratch: Any) -> Any:
    """The offset after a struct. out[n]: its field n if it is a number of 0 or above, its offset if it is a struct,
    else -1. narrow: the bits of the fields that must be i32; other numbers must be i64."""
    for place in range(len(out)):
        out[place] = -1
    number, kind, p = _field(data, p, stop, 0)
    while 0 < number < len(out):
        if kind in (_I32, _I64):
            value, p = _varint(data, p, stop)
            is_negative = value & 1
            if (kind == _I32) != (narrow >> number & 1 == 1) or (is_negative and number != _CHECKSUM):
                return np.int64(FAR)
            out[number] = -1 if is_negative else value >> 1
        else:
            if kind == _STRUCT:
                out[number] = p
            p = _skip(data, p, stop, kind, scratch)
        number, kind, p = _field(data, p, stop, number)
    return np.int64(p) if number == 0 else np.int64(FAR)


@called
def _schema(data: Any, p: int, stop: int, kind: int, facts: Any, scratch: Any) -> Any:
    """(number of leaves, offset after the schema). Fills facts of the leaves. scratch[depth]: the children that are
    left in an open group, and its levels."""
    count, item, p = _items(data, p, stop, kind)
    if p > stop or item != _STRUCT or count < 2:
        return np.int64(0), np.int64(FAR)
    depth = leaves = 0
    for place in range(count):
        if depth + 2 > len(scratch):
            return np.int64(0), np.int64(FAR)
        element = scratch[depth]
        p = _numbers(data, p, stop, _ALL, element, scratch[depth + 1 :])
        physical = element[1]
        length = max(0, element[2])
        repetition = max(0, element[3])
        children = max(0, element[5])
        definition_levels = repetition_levels = np.int64(0)
        if place:
            while depth > 0 and scratch[depth - 1, 0] == 0:
                depth -= 1
            if p > stop or depth == 0 or repetition > 2:
                return np.int64(0), np.int64(FAR)
            scratch[depth - 1, 0] -= 1
            definition_levels = scratch[depth - 1, 1] + (1 if repetition > 0 else 0)
            repetition_levels = scratch[depth - 1, 2] + (1 if repetition == 2 else 0)
        if children > 0:
            if physical >= 0 or children > count:
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
    return np.int64(leaves), np.int64(p)


@called
def _statistics(data: Any, p: int, stop: int, physical: int, scratch: Any) -> Any:
    """The offset after the statistics of a column chunk, FAR if a minimum or maximum is shorter than its type."""
    width = (1, 4, 8, 12, 4, 8, 0, 0)[physical]
    number, kind, p = _field(data, p, stop, 0)
    while number > 0:
        if number in (1, 2, 5, 6):
            size, p = _varint(data, p, stop)
            if kind != _BINARY or size < width:
                return np.int64(FAR)
            p += size
        else:
            p = _skip(data, p, stop, kind, scratch)
        number, kind, p = _field(data, p, stop, number)
    return np.int64(p)


@called
def _size_statistics(data: Any, p: int, stop: int, facts: Any, leaf: int, scratch: Any) -> Any:
    """The offset after the size statistics of a column chunk, FAR if a histogram has another number of levels."""
    number, kind, p = _field(data, p, stop, 0)
    while number > 0:
        if number == 1 and facts[leaf, KIND] != _BYTE_ARRAY:
            return np.int64(FAR)
        if number in (2, 3):
            count, item, p = _items(data, p, stop, kind)
            levels = facts[leaf, REPETITION_LEVELS] if number == 2 else facts[leaf, DEFINITION_LEVELS]
            if item != _I64 or (count != 0 and count != levels + 1):
                return np.int64(FAR)
            for _ in range(count):
                _, p = _varint(data, p, stop)
        else:
            p = _skip(data, p, stop, kind, scratch)
        number, kind, p = _field(data, p, stop, number)
    return np.int64(p)


@called
def _page(data: Any, p: int, stop: int, scratch: Any) -> Any:
    """(type, uncompressed bytes, stored bytes, values, encoding, offset after it) of a page header."""
    none = np.int64(-1), np.int64(-1), np.int64(-1), np.int64(-1), np.int64(-1), np.int64(FAR)
    header = scratch[0]
    p = _numbers(data, p, stop, _ALL, header, scratch[2:])
    kind = header[1]
    size = header[2]
    stored = header[3]
    at = header[5] if kind == 0 else header[7] if kind == 2 else header[8] if kind == 3 else -1
    others = (header[5] >= 0) + (header[6] >= 0) + (header[7] >= 0) + (header[8] >= 0)
    if p > stop or size < 0 or stored < 0 or at < 0 or others != 1:
        return none
    if kind == 2:
        return kind, size, stored, np.int64(0), np.int64(0), np.int64(p)
    _numbers(data, at, stop, _ALL, scratch[1], scratch[2:])
    values = scratch[1, 1]
    encoding = scratch[1, 2 if kind == 0 else 4]
    if values < 0 or encoding < 0:
        return none
    return kind, size, stored, values, encoding, np.int64(p)


@called
def _pages(data: Any, at: int, end: int, most: int, facts: Any, leaf: int, scratch: Any) -> Any:
    """Whether the headers of the pages in data[at:end] are accepted. Fills the facts of the pages."""
    for column in range(6):
        facts[leaf, column] = 0
    facts[leaf, ALL_INDICES] = facts[leaf, FIRST_INDICES] = 1
    left = facts[leaf, VALUES]
    is_first = True
    while left > 0 and at < end:
        kind, size, stored, values, encoding, body = _page(data, at, end, scratch)
        if body > end:
            return False
        if stored > end - body or size > min(most, _SMALL_PAGE + _MAX_EXPANSION * stored):
            return False
        if kind == 2:
            facts[leaf, DICTIONARY_BYTES] = max(facts[leaf, DICTIONARY_BYTES], size)
        else:
            if values > left or encoding >= _ENCODINGS:
                return False
            left -= values
            facts[leaf, LARGEST_BYTES] = max(facts[leaf, LARGEST_BYTES], size)
            per_value = (size + max(1, values) - 1) // max(1, values)
            facts[leaf, BYTES_PER_VALUE] = max(facts[leaf, BYTES_PER_VALUE], per_value)
            if encoding not in (2, 8):
                facts[leaf, ALL_INDICES] = 0
                if is_first:
                    facts[leaf, FIRST_INDICES] = 0
            if encoding == _DELTA_BYTE_ARRAY:
                facts[leaf, FRONT_CODED] = 1
            is_first = False
        at = body + stored
    return left == 0


@called
def _chunk(data: Any, p: int, stop: int, facts: Any, leaf: int, scratch: Any) -> Any:
    """(the most bytes that its rows take while they are decoded, offset after it) of a column chunk."""
    size_bytes = np.int64(-1)
    number, kind, p = _field(data, p, stop, 0)
    while number > 0:
        if number == 1 or number > 7 or (number == 3 and kind != _STRUCT):  # another file, encryption
            return np.int64(0), np.int64(FAR)
        if number == 3:
            size_bytes, p = _metadata(data, p, stop, facts, leaf, scratch)
        else:
            p = _skip(data, p, stop, kind, scratch)
        number, kind, p = _field(data, p, stop, number)
    return size_bytes, np.int64(p) if size_bytes >= 0 else np.int64(FAR)


@called
def _metadata(data: Any, p: int, stop: int, facts: Any, leaf: int, scratch: Any) -> Any:
    """As `_chunk`, for the metadata of a column chunk, and the headers of its pages."""
    fields = scratch[0]
    end = _numbers(data, p, stop, _NARROW, fields, scratch[1:])
    physical = fields[1]
    values = fields[5]
    uncompressed = fields[6]
    stored = fields[7]
    at = fields[9]
    dictionary = fields[11]
    statistics = fields[12]
    sizes = fields[16]
    if end > stop or physical != facts[leaf, KIND] or not 0 <= values <= _MOST_ROWS or at < 0 or uncompressed < 0:
        return np.int64(-1), np.int64(FAR)
    if statistics >= 0 and _statistics(data, statistics, stop, physical, scratch) > stop:
        return np.int64(-1), np.int64(FAR)
    if sizes >= 0 and _size_statistics(data, sizes, stop, facts, leaf, scratch) > stop:
        return np.int64(-1), np.int64(FAR)
    if 0 < dictionary < at:
        at = dictionary
    if at > len(data) or stored < 0 or stored > len(data) - at:
        return np.int64(-1), np.int64(FAR)
    facts[leaf, VALUES] = values
    most = min(max(uncompressed, _SMALL_PAGE), 1 << 28)
    if not _pages(data, at, at + stored, most, facts, leaf, scratch):
        return np.int64(-1), np.int64(FAR)
    value_bytes = facts[leaf, LARGEST_BYTES] if facts[leaf, FRONT_CODED] else facts[leaf, BYTES_PER_VALUE]
    value_bytes = max(16, facts[leaf, LENGTH], value_bytes + 4, facts[leaf, DICTIONARY_BYTES]) + 4
    return value_bytes * values + uncompressed, np.int64(end)


@called
def _group(data: Any, p: int, stop: int, facts: Any, leaves: int, scratch: Any) -> Any:
    """(rows, the most bytes that they take while they are decoded, offset after it) of a row group."""
    rows = np.int64(-1)
    bound = chunks = np.int64(0)
    number, kind, p = _field(data, p, stop, 0)
    while number > 0:
        if number == 1:
            chunks, item, p = _items(data, p, stop, kind)
            if item != _STRUCT or chunks != leaves:
                return np.int64(0), np.int64(0), np.int64(FAR)
            for leaf in range(leaves):
                size, p = _chunk(data, p, stop, facts, leaf, scratch)
                bound += size
        elif number == 3 and kind == _I64:
            value, p = _varint(data, p, stop)
            rows = value >> 1 if value & 1 == 0 else np.int64(-1)
        else:
            p = _skip(data, p, stop, kind, scratch)
        number, kind, p = _field(data, p, stop, number)
    if p > stop or not 0 < rows <= _MOST_ROWS or chunks != leaves:
        return np.int64(0), np.int64(0), np.int64(FAR)
    for leaf in range(leaves):
        if facts[leaf, REPETITION_LEVELS] == 0 and facts[leaf, VALUES] != rows:
            return np.int64(0), np.int64(0), np.int64(FAR)
        if facts[leaf, REPETITION_LEVELS] > 0:  # the values of a row are rounded up
            page_bytes = facts[leaf, LARGEST_BYTES] + facts[leaf, DICTIONARY_BYTES]
            bound += (page_bytes + facts[leaf, LENGTH] + 24) * rows
    return rows, bound, np.int64(p)


@compiled_lean
def check_file(data: Any, length: int, facts: Any, scratch: Any) -> Any:
    """(number of leaves, most rows of a row group, the most bytes that the rows of one take while they are decoded,
    offset after the schema in the footer), if footer and page headers are accepted; rows are NOT_ACCEPTED otherwise.

    data: uint8, the whole file. length: that of the footer, at most len(data) - 12. facts: int64 [leaf, FACTS], filled
    for the last row group. scratch: int64 [depth, SCRATCH], at least three rows.
    """
    none = np.int64(0), np.int64(NOT_ACCEPTED), np.int64(0), np.int64(0)
    stop = len(data) - 8
    leaves = schema_end = most_rows = most_bytes = np.int64(0)
    number, kind, p = _field(data, np.int64(stop - length), stop, 0)
    while number > 0:
        if number == 2:
            leaves, p = _schema(data, p, stop, kind, facts, scratch)
            schema_end = p
        elif number == 4:
            groups, item, p = _items(data, p, stop, kind)
            if leaves == 0 or (groups and item != _STRUCT):
                return none
            for _ in range(groups):
                rows, decoded, p = _group(data, p, stop, facts, leaves, scratch)
                most_rows = max(most_rows, rows)
                most_bytes = max(most_bytes, decoded)
        elif number > 7:
            return none
        else:
            p = _skip(data, p, stop, kind, scratch)
        number, kind, p = _field(data, p, stop, number)
    if p > stop or schema_end == 0:
        return none
    return leaves, most_rows, most_bytes, schema_end
