"""What a Parquet file must be held against before pyarrow is asked about it: what would end the process, or fill it.

pyarrow's reader answers most damage with an error. Not so its accessors of a footer: a row group of more columns than
the schema has, a column of another type than the schema says, and statistics shorter than a value of their type throw
through code that does not catch, and end the process. Belongs here: those checks. Not here: page headers
(`parquet_pages`), reading rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.table.metadata_fields import MAX_COUNT
from penstock.table.thrift import BINARY, INTEGERS, LISTS, STRUCT, ThriftError, ThriftReader

_TAIL: Final = 64 << 10
_REMOTE: Final = ("AWS Error", "HTTP", "curl", "timed out", "Timeout", "GcsClient", "Azure")
"""What failures of a remote store have in their text, where Parquet's own have not."""

_MAGIC: Final = b"PAR1"
_WIDTHS: Final = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""Bytes of a value: BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE."""
_STATISTICS: Final = (1, 2, 5, 6)
"""max, min, max_value, min_value."""


class ParquetError(ValueError):
    """A Parquet file that must not be read: what was got and what was expected."""


def tells_storage(error: Exception) -> bool:
    """Whether a failure of pyarrow's Parquet reader is the storage's, not the file's: it says both as OSError."""
    return isinstance(error, OSError) and (error.errno is not None or any(sign in str(error) for sign in _REMOTE))


def check_columns(metadata: pq.FileMetaData) -> None:
    """ParquetError unless each row group has a chunk for each column of the schema.

    Before this, no column of a row group may be asked for. Cost: about 1 µs a row group.
    """
    expected = metadata.num_columns
    for number in range(metadata.num_row_groups):
        found = metadata.row_group(number).num_columns
        if found != expected:
            raise ParquetError(f"row group {number} has {found} columns, the schema {expected}")


def check_rows(metadata: pq.FileMetaData) -> None:
    """ParquetError unless each row group has a number of rows that a file can have."""
    for number in range(metadata.num_row_groups):
        rows = metadata.row_group(number).num_rows
        if not 0 <= rows <= MAX_COUNT:
            raise ParquetError(f"row group {number} has {rows} rows, expected 0 to {MAX_COUNT}")


def check_statistics(source: pa.NativeFile) -> None:
    """ParquetError unless types and statistics of every column chunk fit the schema.

    Before this, no `statistics` of a column may be asked for. Reads the footer: its last 64 KiB, or all of it.
    """
    size = source.size()
    tail = source.read_at(min(size, _TAIL), max(0, size - _TAIL))
    if len(tail) < 8 or tail[-4:] != _MAGIC:
        raise ParquetError(f"it ends in {bytes(tail[-4:])!r}, expected {_MAGIC!r}")
    length = int.from_bytes(tail[-8:-4], "little")
    if length > size - 12:
        raise ParquetError(f"a footer of {length} bytes in a file of {size}")
    whole = tail[:-8] if length <= len(tail) - 8 else source.read_at(length, size - 8 - length)
    try:
        _check_footer(ThriftReader(whole, len(whole) - length))
    except ThriftError as error:
        raise ParquetError(f"its footer: {error}") from None


def _check_footer(reader: ThriftReader) -> None:
    """The types of leaves against those of chunks. The schema's field comes before that of the row groups."""
    leaves: list[int] = []
    for number, kind in reader.fields():
        if number == 2 and kind in LISTS:
            leaves = [leaf for _ in reader.structs() if (leaf := _leaf(reader)) is not None]
        elif number == 4 and kind in LISTS:
            for place, _ in enumerate(reader.structs()):
                _check_group(reader, place, leaves)
        else:
            reader.skip(kind)


def _leaf(reader: ThriftReader) -> int | None:
    """The type of a schema element; None of a group."""
    kind_of, children = None, 0
    for number, kind in reader.fields():
        if number == 1 and kind in INTEGERS:
            kind_of = reader.integer()
        elif number == 5 and kind in INTEGERS:
            children = reader.integer()
        else:
            reader.skip(kind)
    return None if children else kind_of


def _check_group(reader: ThriftReader, place: int, leaves: list[int]) -> None:
    chunks = 0
    for number, kind in reader.fields():
        if number == 1 and kind in LISTS:
            for column, _ in enumerate(reader.structs()):
                if column >= len(leaves):
                    raise ParquetError(f"row group {place} has more columns than the schema, which has {len(leaves)}")
                _check_column(reader, f"row group {place}, column {column}", leaves[column])
                chunks = column + 1
        else:
            reader.skip(kind)
    if chunks != len(leaves):
        raise ParquetError(f"row group {place} has {chunks} columns, the schema {len(leaves)}")


def _check_column(reader: ThriftReader, where: str, leaf: int) -> None:
    found = False
    for number, kind in reader.fields():
        if number == 3 and kind == STRUCT:
            found = True
            _check_metadata(reader, where, leaf)
        else:
            reader.skip(kind)
    if not found:
        raise ParquetError(f"{where} has no metadata")


def _check_metadata(reader: ThriftReader, where: str, leaf: int) -> None:
    stored = None
    for number, kind in reader.fields():
        if number == 1 and kind in INTEGERS:
            stored = reader.integer()
        elif number == 12 and kind == STRUCT:
            for size in _statistics(reader):
                if size < _WIDTHS.get(leaf, 0):
                    raise ParquetError(f"{where} has statistics of {size} bytes, expected {_WIDTHS[leaf]}")
        else:
            reader.skip(kind)
    if stored != leaf:
        raise ParquetError(f"{where} is of type {stored}, the schema says {leaf}")


def _statistics(reader: ThriftReader) -> Iterator[int]:
    """The lengths of the lowest and highest values."""
    for number, kind in reader.fields():
        if number in _STATISTICS and kind == BINARY:
            yield reader.size_of_binary()
        else:
            reader.skip(kind)
