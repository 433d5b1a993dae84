"""The memory that rows of a base file take when decoded, and how many rows to decode at once.

A Parquet file may be far smaller than its rows: a dictionary value is stored once, however many rows have it. So page
headers determine the rows of one read, and text columns whose dictionary has long values are read as indices and
expanded a few rows at a time. `file` does the reading.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.value_classes import dataclass
from penstock.reader.split.emit import TARGET_ROWS, BatchSize
from penstock.reader.values.dictionary_text import NO_INDICES, is_encoded, longest_bytes
from penstock.table.arrow_arrays import arrow_array, numpy_array
from penstock.table.arrow_compute import pc
from penstock.table.parquet.pages import ChunkPages

_READ_BYTES: Final = 64 << 20
"""The most bytes that one read decodes, unless a single row is larger."""
_COLUMN_BYTES: Final = 4 << 20
"""The most bytes of a text column's dictionary values that one read decodes as plain text."""
_LEAST_ROWS: Final = 1024
"""A column whose text allows fewer rows per read than this is read as indices."""

_RESERVED_BYTES: Final = 4
"""Arrow reserves an average value for each row that it expands. Each row counts as at least one such value divided by
this."""

_KEYS_BYTES: Final = 256 << 20
"""The keys of a row group are matched at once only up to this size."""

_TEXT: Final = "BYTE_ARRAY"
_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_OFFSET_BYTES: Final = 4
_LEVEL_BYTES: Final = 4
"""A list value takes a definition and a repetition level while it is decoded."""
_DECIMAL_BYTES: Final = 16
_ALL_INDICES_WITHOUT: Final = "PLAIN"
"""An encoding that the footer does not name for a chunk with indices only, as parquet-mr writes it."""


@dataclass(frozen=True, slots=True)
class ReadSize:
    """How one row group is read."""

    rows: int
    """The rows of one read."""
    as_indices: tuple[str, ...]
    """The paths of leaves to read as indices."""
    fits_batch: bool = False
    """Whether all rows of the row group fit into one batch."""


LongestValue = Callable[[str], int | None]
"""The bytes of the longest dictionary value of the leaf with this path; None if unknown."""


def read_size(
    footer: pq.FileMetaData,
    number: int,
    columns: Collection[str],
    size: BatchSize,
    pages: Mapping[int, ChunkPages],
    longest: LongestValue,
    skip: Collection[str] = (),
) -> ReadSize:
    """The size of reads of these top-level columns of row group `number`.

    `pages`: the page headers by the leaf's place; a leaf without an entry is judged by the footer alone. `longest` is
    only called for leaves for which neither is sufficient. `skip`: leaves that are read as indices anyway.
    """
    leaves = _leaves(footer, number, columns, pages)
    total_rows = max(1, int(footer.row_group(number).num_rows))
    rows = min(total_rows, size.rows_of(sum(leaf.encoded_bytes for leaf in leaves) // total_rows))
    rows = max(1, min(rows, _READ_BYTES // max(1, sum(leaf.row_bytes for leaf in leaves))))
    as_indices = []
    for leaf in leaves:
        if leaf.path in skip or leaf.dictionary_bytes * leaf.values_per_row * rows <= _COLUMN_BYTES:
            continue
        if not leaf.may_be_indices:  # then few rows bound its text
            rows = min(rows, max(1, _READ_BYTES // (leaf.dictionary_bytes * leaf.values_per_row)))
            continue
        length = longest(leaf.path) if leaf.first_indices and not leaf.all_indices else None
        fitting = _COLUMN_BYTES // max(1, length * leaf.values_per_row) if length is not None else 0
        if fitting < min(rows, _LEAST_ROWS):
            as_indices.append(leaf.path)
        else:
            rows = min(rows, fitting)
    return ReadSize(rows, tuple(as_indices))


def fits_one_read(rows: int, size_bytes: int, size: BatchSize) -> bool:
    """Whether `read_size` is one read of all rows for any columns of a row group of at most so many rows, if no more
    than `size_bytes` are needed for its values, with each value as long as the dictionary that it may be taken from."""
    return rows <= min(size.rows, TARGET_ROWS) and size_bytes <= min(size.size_bytes, _COLUMN_BYTES)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One leaf of one row group."""

    path: str
    encoded_bytes: int
    row_bytes: int
    """The most bytes of a row, by the densest page, without dictionary values."""
    values_per_row: int
    dictionary_bytes: int
    all_indices: bool
    first_indices: bool
    may_be_indices: bool
    """Whether pyarrow decodes all its pages into indices."""


def _leaves(
    footer: pq.FileMetaData, number: int, columns: Collection[str], pages: Mapping[int, ChunkPages]
) -> list[_Leaf]:
    group, selected = footer.row_group(number), set(columns)
    rows = max(1, int(group.num_rows))
    leaves = []
    for place in range(group.num_columns):
        leaf = footer.schema.column(place)  # the chunk's own path may be wrong
        path = leaf.path
        if path not in selected and path.partition(".")[0] not in selected:
            continue
        chunk = group.column(place)
        encoded_bytes = max(0, chunk.total_uncompressed_size)
        values_per_row = max(1, -(-chunk.num_values // rows)) if leaf.max_repetition_level else 1
        chunk_pages = pages.get(place)
        if chunk_pages is None:
            chunk_pages = _footer_pages(chunk, encoded_bytes)
        is_text = leaf.physical_type == _TEXT
        dictionary = chunk_pages.dictionary_bytes if is_text and leaf.converted_type != "DECIMAL" else 0
        value_bytes = _value_bytes(leaf, chunk_pages) + (_LEVEL_BYTES if leaf.max_repetition_level else 0)
        leaves.append(
            _Leaf(
                path=path,
                encoded_bytes=encoded_bytes,
                row_bytes=value_bytes * values_per_row,
                values_per_row=values_per_row,
                dictionary_bytes=dictionary,
                all_indices=chunk_pages.all_indices,
                first_indices=chunk_pages.first_indices,
                may_be_indices=not NO_INDICES.intersection(chunk.encodings),
            )
        )
    return leaves


def _footer_pages(chunk: pq.ColumnChunkMetaData, encoded_bytes: int) -> ChunkPages:
    """The page properties that the footer alone shows, for a chunk whose page headers are on a remote store."""
    if not chunk.has_dictionary_page:
        return ChunkPages()
    return ChunkPages(encoded_bytes, all_indices=_ALL_INDICES_WITHOUT not in chunk.encodings)


def _value_bytes(leaf: pq.ColumnSchema, pages: ChunkPages) -> int:
    if leaf.physical_type != _TEXT:
        return int(_WIDTHS.get(leaf.physical_type) or max(leaf.length, 1))
    if leaf.converted_type == "DECIMAL":
        return _DECIMAL_BYTES
    return _OFFSET_BYTES + (pages.largest_bytes if pages.front_coded else pages.bytes_per_value)


def longest_value(column: pa.Array) -> int | None:
    """The bytes of the longest dictionary value in a column of indices, or of lists or structs of them; None without a
    dictionary."""
    if is_encoded(column.type):
        return longest_bytes(column) if len(column.dictionary) else None
    lengths = [length for child in _children(column) if (length := longest_value(child)) is not None]
    return max(lengths, default=None)


def pieces(
    batch: pa.RecordBatch, size: BatchSize, stored: pa.Schema, keep: Collection[str], *, has_indices: bool = True
) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of at least one row and at most `size`, measured with the indices as text.

    Columns that were read as indices get the file's type, `stored`, except those in `keep`. `has_indices`: whether
    columns were read as indices.
    """
    if not has_indices and batch.num_rows <= size.rows and batch.nbytes <= size.size_bytes:
        yield batch
        return
    plain = {
        field.name: stored.field(field.name).type
        for field in batch.schema
        if field.name not in keep and _has_indices(field.type) and not field.type.equals(stored.field(field.name).type)
    }
    most_bytes = batch.nbytes + sum(_most_dictionary_bytes(column) for column in batch.columns)
    fits = batch.num_rows <= size.rows and most_bytes <= size.size_bytes
    begin = 0
    for end in [batch.num_rows] if fits else _ends(batch, size):
        piece = batch.slice(begin, end - begin)
        begin = end
        if plain:
            columns = [
                _as_text(column, plain[name]) if name in plain else column
                for name, column in zip(batch.schema.names, piece.columns, strict=True)
            ]
            piece = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        yield piece


def _as_text(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if not is_encoded(column.type):  # a cast of a slice of lists would expand the values of all lists
        column = column.take(arrow_array(np.arange(len(column))))
    return column.cast(kind)


def joined_keys(parts: Iterable[pa.Array]) -> pa.LargeStringArray | None:
    """The keys of a row group as one array; None if they take too much memory to hold at once."""
    keys, size_bytes = [], 0
    for part in parts:
        keys.append(pc.cast(part, pa.large_string()))
        size_bytes += keys[-1].nbytes
        if size_bytes > _KEYS_BYTES:
            return None
    return pa.concat_arrays(keys) if keys else arrow_array([], pa.large_string())


def _ends(batch: pa.RecordBatch, size: BatchSize) -> list[int]:
    """The end of each piece."""
    rows = batch.num_rows
    row_bytes = np.full(rows, batch.nbytes // max(1, rows), np.int64)
    for column in batch.columns:
        row_bytes += _dictionary_bytes(column)
    totals = np.cumsum(row_bytes)
    ends, begin = [], 0
    while begin < rows:
        before = int(totals[begin - 1]) if begin else 0
        end = int(np.searchsorted(totals, before + size.size_bytes, side="right"))
        begin = min(max(end, begin + 1), begin + size.rows)
        ends.append(begin)
    return ends


def _most_dictionary_bytes(column: pa.Array) -> int:
    """An upper bound for the bytes of all rows' dictionary values."""
    if is_encoded(column.type):
        return len(column) * longest_bytes(column)
    return sum(_most_dictionary_bytes(child) for child in _children(column)) if _has_indices(column.type) else 0


def _dictionary_bytes(column: pa.Array) -> np.ndarray:
    """The bytes of each row's dictionary values (int64)."""
    rows = len(column)
    if is_encoded(column.type):
        if not len(column.dictionary):
            return np.zeros(rows, np.int64)
        lengths = pc.binary_length(column.dictionary).cast(pa.int64()).fill_null(0)
        reserved = int(pc.mean(lengths).as_py()) // _RESERVED_BYTES
        lengths = pc.max_element_wise(lengths, pa.scalar(reserved, pa.int64()))
        return np.asarray(numpy_array(lengths.take(column.indices).fill_null(0)), np.int64)
    children = _children(column) if _has_indices(column.type) else []
    if pa.types.is_struct(column.type) or not children or not rows:
        return _total(children, rows)
    offsets = numpy_array(column.offsets) - column.offsets[0].as_py()
    totals = np.concatenate([[0], np.cumsum(_total(children, int(offsets[-1])))])
    return np.asarray(totals[offsets[1:]] - totals[offsets[:-1]], np.int64)


def _total(columns: list[pa.Array], rows: int) -> np.ndarray:
    total = np.zeros(rows, np.int64)
    for column in columns:
        total += _dictionary_bytes(column)
    return total


def _has_indices(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_indices(kind.field(place).type) for place in range(kind.num_fields))
    return is_encoded(kind)


def _children(column: pa.Array) -> list[pa.Array]:
    """The child columns of structs, lists or maps, limited to the column's rows."""
    kind = column.type
    if pa.types.is_struct(kind):
        return [column.field(place) for place in range(kind.num_fields)]
    if pa.types.is_map(kind):
        begin, end = column.offsets[0].as_py(), column.offsets[len(column)].as_py()
        return [column.keys.slice(begin, end - begin), column.items.slice(begin, end - begin)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        begin, end = column.offsets[0].as_py(), column.offsets[len(column)].as_py()
        return [column.values.slice(begin, end - begin)]
    return []
