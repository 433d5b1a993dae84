"""Checks the page headers of a Parquet column chunk before pyarrow decodes the pages, and bounds the size of values.

pyarrow does not check the sizes in a page header: it allocates two lengths of up to 31 bits before it reads a byte.
`checks` checks footers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.value_classes import dataclass
from penstock.table.parquet.checks import ParquetError
from penstock.table.parquet.thrift import I32, STRUCT, ThriftError, ThriftReader

MAX_PAGE_BYTES: Final = 512 << 20
"""Largest page that is decoded, in uncompressed bytes. Writers limit pages to 1 MiB, or to a single larger value."""

_MAX_EXPANSION: Final = 40_000
"""Most uncompressed bytes for each stored byte of a page (a run of zstd, rounded up). The codec must not be read: that
accessor also aborts the process, if the codec is unknown."""

_SMALL_PAGE: Final = 64 << 10
_HEADER_BYTES: Final = 256
_MAX_HEADER_BYTES: Final = 16 << 20

_DICTIONARY_PAGE: Final = 2
"""Parquet's `PageType` (parquet.thrift)."""
_INDEX_ENCODINGS: Final = (2, 8)
"""Parquet's `Encoding` (parquet.thrift): PLAIN_DICTIONARY, RLE_DICTIONARY."""
_DELTA_BYTE_ARRAY: Final = 7


@dataclass(frozen=True, slots=True)
class ChunkPages:
    """The sizes in the page headers of one column chunk, uncompressed."""

    dictionary_bytes: int = 0
    """Size of the dictionary page; 0 without one."""
    all_indices: bool = False
    """Whether every data page has dictionary indices."""
    first_indices: bool = True
    """Whether the first data page has dictionary indices."""
    bytes_per_value: int = 0
    """Most bytes for each value in a data page, rounded up."""
    largest_bytes: int = 0
    """Size of the largest data page."""
    front_coded: bool = False
    """Whether a data page has the encoding DELTA_BYTE_ARRAY, in which a value shares a prefix with the previous one."""


@dataclass(frozen=True, slots=True)
class _Page:
    stored_bytes: int
    size_bytes: int
    values: int
    kind: int
    encodings: tuple[int, ...]
    header_bytes: int


def check_pages(
    source: pa.NativeFile, metadata: pq.FileMetaData, group: int, columns: Collection[str]
) -> dict[int, ChunkPages]:
    """Leaf index in the schema -> its page headers, for all leaves of these top-level columns.

    ParquetError if a leaf does not have a value for each row, or a page exceeds its size limit or its column chunk.
    Reads each page's header, at about 10 µs for each page of a local file. Call `read_footer` first.
    """
    row_group, leaves = metadata.row_group(group), metadata.schema
    pages: dict[int, ChunkPages] = {}
    for place in range(row_group.num_columns):
        leaf = leaves.column(place)  # the chunk's own path may be wrong or missing
        path = leaf.path
        if path in columns or path.partition(".")[0] in columns:
            column = row_group.column(place)
            try:
                if column.num_values != row_group.num_rows and not leaf.max_repetition_level:
                    raise ParquetError(f"{column.num_values} values where the row group has {row_group.num_rows} rows")
                pages[place] = _chunk_pages(source, column, source.size())
            except (ParquetError, ThriftError) as error:
                raise ParquetError(f"row group {group}, column {path[:200]!r}: {error}") from None
    return pages


def _chunk_pages(source: pa.NativeFile, column: pq.ColumnChunkMetaData, size: int) -> ChunkPages:
    at = column.data_page_offset
    dictionary = column.dictionary_page_offset if column.has_dictionary_page else None
    if dictionary and 0 < dictionary < at:
        at = dictionary
    end = at + column.total_compressed_size
    if not 0 <= at <= end <= size:
        raise ParquetError(f"bytes {at} to {end} in a file of {size}")
    most = min(MAX_PAGE_BYTES, max(column.total_uncompressed_size, _SMALL_PAGE))
    left_values = column.num_values
    dictionary_bytes = bytes_per_value = largest = 0
    indices: list[bool] = []
    front_coded = False
    while left_values > 0 and at < end:
        page = _page(source, at, end)
        limit = min(most, _SMALL_PAGE + _MAX_EXPANSION * max(page.stored_bytes, 0))
        left = end - at - page.header_bytes
        if not 0 <= page.stored_bytes <= left or not 0 <= page.size_bytes <= limit:
            raise ParquetError(
                f"page at byte {at} of {page.stored_bytes} bytes, {page.size_bytes} uncompressed, where {left} are "
                f"left and at most {limit} are decoded"
            )
        if page.kind == _DICTIONARY_PAGE:
            dictionary_bytes = max(dictionary_bytes, page.size_bytes)
        else:
            if page.values > left_values:
                raise ParquetError(f"page at byte {at} of {page.values} values where {left_values} are left")
            left_values -= page.values
            largest = max(largest, page.size_bytes)
            bytes_per_value = max(bytes_per_value, -(-page.size_bytes // max(1, page.values)))
            indices.append(all(encoding in _INDEX_ENCODINGS for encoding in page.encodings))
            front_coded |= _DELTA_BYTE_ARRAY in page.encodings
        at += page.header_bytes + page.stored_bytes
    return ChunkPages(
        dictionary_bytes=dictionary_bytes,
        all_indices=all(indices),
        first_indices=all(indices[:1]),
        bytes_per_value=bytes_per_value,
        largest_bytes=largest,
        front_coded=front_coded,
    )


def _page(source: pa.NativeFile, at: int, end: int) -> _Page:
    """The page that begins at this byte."""
    window = _HEADER_BYTES
    while True:
        data = source.read_at(min(window, end - at), at)
        try:
            return _page_header(ThriftReader(data))
        except ThriftError as error:
            if window >= min(_MAX_HEADER_BYTES, end - at):
                raise ParquetError(f"page header at byte {at}: {error}") from None
            window *= 16


def _page_header(reader: ThriftReader) -> _Page:
    """Decodes Parquet's `PageHeader` (parquet.thrift)."""
    page_kind = stored = uncompressed = -1
    values, encodings = 0, []
    for number, kind in reader.fields():
        if number == 1 and kind == I32:
            page_kind = reader.i32()
        elif number == 2 and kind == I32:
            uncompressed = reader.i32()
        elif number == 3 and kind == I32:
            stored = reader.i32()
        elif number in (5, 8) and kind == STRUCT:  # data_page_header, data_page_header_v2
            values, encoding = _data_page(reader, encoding_field=2 if number == 5 else 4)
            encodings.append(encoding)
        else:
            reader.skip(kind)
    return _Page(stored, uncompressed, max(0, values), page_kind, tuple(encodings), reader.at)


def _data_page(reader: ThriftReader, encoding_field: int) -> tuple[int, int]:
    """(number of values, encoding) of a data page."""
    values, encoding = 0, -1
    for number, kind in reader.fields():
        if number == 1 and kind == I32:
            values = reader.i32()
        elif number == encoding_field and kind == I32:
            encoding = reader.i32()
        else:
            reader.skip(kind)
    return values, encoding
