"""Checks a Parquet footer for damage that would make pyarrow abort the process or exhaust its memory.

pyarrow reports most damage as an error. Its footer accessors do not: they abort the process for a row group with more
columns than the schema, a column of another type than in the schema, statistics shorter than a value of their type,
size statistics with other levels, and encrypted columns. `pages` checks page headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.value_classes import dataclass
from penstock.table.parquet.thrift import BINARY, I32, LIST, STRUCT, ThriftError, ThriftReader

MAX_FILE_ROWS: Final = 2**40
"""Upper limit of the rows of one file, so that a sum over the files of a table fits into 64 bits."""

_TAIL: Final = 64 << 10
_MOST_FOOTER_BYTES: Final = 256 << 20
_REMOTE: Final = ("AWS Error", "HTTP", "curl", "timed out", "Timeout", "GcsClient", "Azure")
"""Parts of error texts of remote stores that do not occur in Parquet errors."""

_MAGIC: Final = b"PAR1"
_WIDTHS: Final = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""Physical type -> bytes of a value: BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE."""
_STATISTICS: Final = (1, 2, 5, 6)
"""Fields of Parquet's `Statistics`: max, min, max_value, min_value."""
_REQUIRED, _OPTIONAL, _REPEATED = 0, 1, 2
_BYTE_ARRAY: Final = 6
_CRYPTO_METADATA: Final = 8
"""Field of Parquet's `ColumnChunk`."""
_SIZE_STATISTICS: Final = 16
"""Field of Parquet's `ColumnMetaData`."""


class ParquetError(ValueError):
    """A damaged Parquet file. The text has the actual and the expected value."""


def is_storage_failure(error: Exception) -> bool:
    """Whether a failure of pyarrow's Parquet reader comes from the storage; damage of the file is an OSError too."""
    return isinstance(error, OSError) and (error.errno is not None or any(sign in str(error) for sign in _REMOTE))


def check_columns(metadata: pq.FileMetaData) -> None:
    """ParquetError unless each row group has a chunk for each column of the schema.

    Part of `read_footer`. Takes about 1 µs for each row group.
    """
    expected = metadata.num_columns
    for number in range(metadata.num_row_groups):
        count = metadata.row_group(number).num_columns
        if count != expected:
            raise ParquetError(f"row group {number} has {count} columns, the schema {expected}")


def check_rows(metadata: pq.FileMetaData) -> None:
    """ParquetError unless the number of rows of each row group is within MAX_FILE_ROWS."""
    for number in range(metadata.num_row_groups):
        rows = metadata.row_group(number).num_rows
        if not 0 <= rows <= MAX_FILE_ROWS:
            raise ParquetError(f"row group {number} has {rows} rows, expected 0 to {MAX_FILE_ROWS}")


def check_statistics(source: pa.NativeFile) -> None:
    """ParquetError unless types and statistics of every column chunk match the schema.

    Call it before accessing `statistics` of a column. Reads the footer: its last 64 KiB, or all of it.
    """
    if fault := check_footer_bytes(*_footer_bytes(source)).statistics_fault:
        raise fault


@dataclass(frozen=True, slots=True)
class FooterChecks:
    """What the checks of a footer return. The column chunks of the footer may be accessed."""

    statistics_fault: ParquetError | None
    """The error of `check_statistics`; statistics may only be accessed without one."""
    schema: bytes
    """The footer's bytes up to the end of the schema. Footers with the same bytes have the same Parquet schema."""


def read_footer(source: pa.NativeFile) -> pq.FileMetaData:
    """The footer of `read_checked_footer`. Its statistics may only be accessed after `check_statistics`."""
    return read_checked_footer(source)[0]


def read_checked_footer(source: pa.NativeFile) -> tuple[pq.FileMetaData, FooterChecks]:
    """Reads the footer of a file and checks it.

    ParquetError, or an error of pyarrow, for a footer that cannot be read. ParquetError for a column chunk with size
    statistics or encryption that do not match the schema: pyarrow throws for it outside of its exception handlers
    (`SizeStatistics::Validate`, crypto metadata), which aborts the process. One read of 64 KiB for most files; about
    10 µs for each column chunk.
    """
    tail, length = _footer_bytes(source)
    with pq.ParquetFile(
        pa.BufferReader(tail),
        pre_buffer=False,
        thrift_string_size_limit=_MOST_FOOTER_BYTES,
        thrift_container_size_limit=_MOST_FOOTER_BYTES,
    ) as file:
        metadata: pq.FileMetaData = file.metadata
    check_columns(metadata)
    return metadata, check_footer_bytes(tail, length)


def _footer_bytes(source: pa.NativeFile) -> tuple[bytes, int]:
    """The end of the file, at least the complete footer, and the footer's length."""
    size = source.size()
    tail = source.read_at(min(size, _TAIL), max(0, size - _TAIL))
    length = footer_length(tail, size)
    return (tail if length <= len(tail) - 8 else source.read_at(length + 8, size - 8 - length)), length


def footer_length(tail: bytes, size: int) -> int:
    """The length of the footer of a file of `size` bytes that ends in `tail`. ParquetError if it cannot be right."""
    if len(tail) < 8 or tail[-4:] != _MAGIC:
        raise ParquetError(f"it ends in {bytes(tail[-4:])!r}, expected {_MAGIC!r}")
    length = int.from_bytes(tail[-8:-4], "little")
    if length > min(size - 12, _MOST_FOOTER_BYTES):
        raise ParquetError(f"a footer of {length} bytes in a file of {size}")
    return length


def check_footer_bytes(tail: bytes, length: int) -> FooterChecks:
    """The checks of `read_checked_footer` that pyarrow's metadata does not show, for the end of a file with its footer
    of `length` bytes."""
    data, faults = tail[:-8], list[ParquetError]()
    try:
        schema = _check_footer(ThriftReader(data, len(data) - length), faults)
    except ThriftError as error:
        raise ParquetError(f"its footer: {error}") from None
    return FooterChecks(faults[0] if faults else None, schema)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A leaf column of the schema."""

    kind: int
    """Physical type."""
    definition_levels: int
    """Maximum definition level."""
    repetition_levels: int
    """Maximum repetition level."""


@dataclass(frozen=True, slots=True)
class _Schema:
    """A parsed schema."""

    prefix: bytes
    """The bytes of a footer up to the end of its schema."""
    leaves: tuple[_Leaf, ...]
    """The leaves of the schema."""


_SCHEMA_FIELD: Final = 2
_GROUPS_FIELD: Final = 4
_last_schema = _Schema(b"", ())
"""The schema of the last footer: the files of a table mostly have one."""


def _check_footer(reader: ThriftReader, faults: list[ParquetError]) -> bytes:
    """Checks column chunks against the leaves of the schema, which precedes the row groups in the footer; returns the
    footer's bytes up to the end of the schema."""
    global _last_schema
    schema, begin, has_groups = _last_schema, reader.at, False
    before = _SCHEMA_FIELD if schema.prefix and reader.skips(schema.prefix) else 0
    if not before:
        schema = _Schema(b"", ())
    for number, kind in reader.fields(before):
        if number == _SCHEMA_FIELD and kind == LIST:
            if has_groups:
                raise ParquetError("its footer has a schema after the row groups")
            leaves = tuple(_leaves(reader))
            schema = _Schema(reader.bytes_from(begin), leaves)
            if not has_groups and len(schema.prefix) <= _TAIL:  # row groups must be checked in each footer
                _last_schema = schema
        elif number == _GROUPS_FIELD and kind == LIST:
            has_groups = True
            for place, _ in enumerate(reader.structs()):
                _check_group(reader, place, schema.leaves, faults)
        else:
            reader.skip(kind)
    return schema.prefix


def _leaves(reader: ThriftReader) -> Iterator[_Leaf]:
    """The leaves of a schema, whose elements are a tree in depth-first order."""
    open_groups: list[tuple[int, int, int]] = []  # (remaining children, levels)
    for place, _ in enumerate(reader.structs()):
        kind_of, repetition, children = _element(reader)
        definition_levels = repetition_levels = 0
        if place and open_groups:
            left, definition_levels, repetition_levels = open_groups.pop()
            if left > 1:
                open_groups.append((left - 1, definition_levels, repetition_levels))
        if place:
            definition_levels += repetition in (_OPTIONAL, _REPEATED)
            repetition_levels += repetition == _REPEATED
        if children > 0:
            open_groups.append((children, definition_levels, repetition_levels))
        elif kind_of is not None:
            yield _Leaf(kind_of, definition_levels, repetition_levels)


def _element(reader: ThriftReader) -> tuple[int | None, int, int]:
    """(physical type, repetition, number of children) of a schema element; a group has no type."""
    kind_of, repetition, children = None, _REQUIRED, 0
    for number, kind in reader.fields():
        if number == 1 and kind == I32:
            kind_of = reader.i32()
        elif number == 3 and kind == I32:
            repetition = reader.i32()
        elif number == 5 and kind == I32:
            children = reader.i32()
        else:
            reader.skip(kind)
    return kind_of, repetition, children


def _check_group(reader: ThriftReader, place: int, leaves: Sequence[_Leaf], faults: list[ParquetError]) -> None:
    chunks = 0
    for number, kind in reader.fields():
        if number == 1 and kind == LIST:
            for column, _ in enumerate(reader.structs()):
                if column >= len(leaves):
                    raise ParquetError(f"row group {place} has more columns than the schema, which has {len(leaves)}")
                _check_column(reader, f"row group {place}, column {column}", leaves[column], faults)
                chunks = column + 1
        else:
            reader.skip(kind)
    if chunks != len(leaves):
        raise ParquetError(f"row group {place} has {chunks} columns, the schema {len(leaves)}")


def _check_column(reader: ThriftReader, where: str, leaf: _Leaf, faults: list[ParquetError]) -> None:
    has_metadata = False
    for number, kind in reader.fields():
        if number == 3 and kind == STRUCT:
            has_metadata = True
            _check_metadata(reader, where, leaf, faults)
        elif number == _CRYPTO_METADATA:
            raise ParquetError(f"{where} is encrypted, which Hudi does not support")
        else:
            reader.skip(kind)
    if not has_metadata:
        faults.append(ParquetError(f"{where} has no metadata"))


def _check_metadata(reader: ThriftReader, where: str, leaf: _Leaf, faults: list[ParquetError]) -> None:
    stored = None
    for number, kind in reader.fields():
        if number == 1 and kind == I32:
            stored = reader.i32()
        elif number == 12 and kind == STRUCT:
            for size in _statistics(reader):
                if size < _WIDTHS.get(leaf.kind, 0):
                    faults.append(
                        ParquetError(f"{where} has statistics of {size} bytes, expected {_WIDTHS[leaf.kind]}")
                    )
        elif number == _SIZE_STATISTICS and kind == STRUCT:
            _check_size_statistics(reader, where, leaf)
        else:
            reader.skip(kind)
    if stored != leaf.kind:
        faults.append(ParquetError(f"{where} is of type {stored}, the schema says {leaf.kind}"))


def _check_size_statistics(reader: ThriftReader, where: str, leaf: _Leaf) -> None:
    """Checks Parquet's `SizeStatistics` (parquet.thrift): a histogram has a number for each level, or is empty."""
    levels = {2: leaf.repetition_levels + 1, 3: leaf.definition_levels + 1}
    for number, kind in reader.fields():
        if number in levels and kind == LIST:
            count, item = reader.items()
            if count not in (0, levels[number]):
                raise ParquetError(f"{where} has size statistics of {count} levels, expected {levels[number]}")
            for _ in range(count):
                reader.skip(item)
        elif number == 1 and leaf.kind != _BYTE_ARRAY:
            raise ParquetError(f"{where} has size statistics of texts and is of type {leaf.kind}")
        else:
            reader.skip(kind)


def _statistics(reader: ThriftReader) -> Iterator[int]:
    """The lengths of minimum and maximum values."""
    for number, kind in reader.fields():
        if number in _STATISTICS and kind == BINARY:
            yield reader.size_of_binary()
        else:
            reader.skip(kind)
