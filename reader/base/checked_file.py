"""An open Parquet file whose footer and page headers are checked before pyarrow decodes its rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.reader.base.accepted_file import AcceptedFile, accepted_file
from penstock.reader.base.columns import ENUM
from penstock.reader.base.decoded_size import ReadSize, fits_one_read, longest_value, read_size
from penstock.reader.kernels.choice import WHOLE_FILE_BYTES
from penstock.reader.split.emit import BatchSize
from penstock.table.parquet.checks import (
    FooterChecks,
    ParquetError,
    check_columns,
    check_footer_bytes,
    footer_length,
    read_checked_footer,
)
from penstock.table.parquet.pages import ChunkPages, check_pages

_LOCAL_BUFFER_BYTES: Final = 16 << 10
_REMOTE_BUFFER_BYTES: Final = 1 << 20
"""The read buffer of each column; on a remote store each read is a request. With buffers of 64 KiB the peak memory for
a file of many row groups grows by a quarter, in Arrow's own pool; smaller and larger buffers do not."""

_HEADER_BYTES: Final = 256 << 20
_ARROW_SCHEMA: Final = b"ARROW:schema"


class CheckedFile:
    """An open Parquet file, for one thread at a time. Its methods raise ParquetError and the errors of pyarrow."""

    def __init__(self, source: pa.NativeFile, *, local: bool, compiled: bool) -> None:
        """A file of at most WHOLE_FILE_BYTES is read whole, by one read.

        `source` is closed by `close`, and if this fails. `local`: a read of a few bytes takes microseconds. `compiled`:
        whether a kernel checks the file, if it is read whole. Files that it does not accept are checked without it.
        """
        self._source, self._compiled = source, compiled
        self._accepted: AcceptedFile | None = None
        self._checked_columns: dict[int, frozenset[str]] = {}
        self._pages: dict[int, dict[int, ChunkPages]] = {}
        self._encoded: Sequence[str] = ()
        self._with_indices: tuple[tuple[str, ...], pq.ParquetFile] | None = None
        try:
            self._buffer_bytes = _LOCAL_BUFFER_BYTES if local else _REMOTE_BUFFER_BYTES
            self._is_near = local
            self._file, self._checks = (
                self._opened_whole() if source.size() <= WHOLE_FILE_BYTES else self._opened_in_parts()
            )
        except BaseException:
            self._source.close()
            raise
        self.footer: Final[pq.FileMetaData] = self._file.metadata
        """The footer. Its column chunks may be accessed; their statistics only without a `statistics_fault`."""

    @property
    def statistics_fault(self) -> ParquetError | None:
        """The error of `check_statistics`."""
        return self._checks.statistics_fault

    def close(self) -> None:
        """Closes the file; no row can be read afterwards."""
        self._file.close(force=True)
        self._source.close()

    def columns(self) -> tuple[pa.Schema, tuple[str, ...]]:
        """The file's columns, and for each leaf its physical type, or ENUM."""
        global _last_columns
        written = (self.footer.metadata or {}).get(_ARROW_SCHEMA, b"")
        key, columns = _last_columns
        if key != (self._checks.schema, written) or not self._checks.schema:
            leaves = (self._file.schema.column(place) for place in range(len(self._file.schema)))
            kinds = tuple(ENUM if leaf.logical_type.type == ENUM else leaf.physical_type for leaf in leaves)
            columns = self._file.schema_arrow.remove_metadata(), kinds
            _last_columns = (self._checks.schema, written), columns
        return columns

    def encode(self, columns: Sequence[str]) -> None:
        """From now on these text columns are returned as indices."""
        self._encoded = columns
        self._file = self._open(self._source, self.footer)

    def batches(self, number: int, size: BatchSize, columns: Sequence[str]) -> tuple[ReadSize, pq.ParquetFile]:
        """How to read these columns of row group `number`, and the file to read them from. Checks once per column of a
        row group that no page needs excessive memory; not on a remote store, where that takes a request per page."""
        if (accepted := self._accepted) is not None:
            if fits_one_read(accepted.rows, accepted.size_bytes, size):
                return ReadSize(max(1, accepted.rows), (), fits_batch=True), self._file
            if self.footer.num_row_groups == 1:
                self._pages[number] = accepted.pages()
                self._checked_columns[number] = frozenset(columns)
        self._check_pages(number, columns)
        longest = partial(self._longest_value, number)
        read = read_size(self.footer, number, columns, size, self._pages.get(number, {}), longest, skip=self._encoded)
        return read, self._opened_as(read.as_indices)

    def _opened_whole(self) -> tuple[pq.ParquetFile, FooterChecks]:
        """Reads the whole file, and opens it in memory."""
        data = self._source.read_at(self._source.size(), 0)
        self._source.close()
        self._source, self._is_near, self._buffer_bytes = pa.BufferReader(data), True, 0
        length = footer_length(data, len(data))
        file = self._open(self._source)
        check_columns(file.metadata)
        self._accepted = accepted_file(data, length) if self._compiled else None
        if self._accepted is not None:
            return file, FooterChecks(None, self._accepted.schema)
        return file, check_footer_bytes(data, length)

    def _opened_in_parts(self) -> tuple[pq.ParquetFile, FooterChecks]:
        footer, checks = read_checked_footer(self._source)
        return self._open(self._source, footer), checks

    def _open(
        self, source: pa.NativeFile, footer: pq.FileMetaData | None = None, as_indices: tuple[str, ...] = ()
    ) -> pq.ParquetFile:
        return pq.ParquetFile(
            source,
            metadata=footer,
            read_dictionary=[*self._encoded, *as_indices],
            buffer_size=self._buffer_bytes,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
            thrift_string_size_limit=_HEADER_BYTES,
            thrift_container_size_limit=_HEADER_BYTES,
        )

    def _opened_as(self, as_indices: tuple[str, ...]) -> pq.ParquetFile:
        """The file with these leaves as indices too. The last one is kept, because row groups are mostly alike."""
        if not as_indices:
            return self._file
        if self._with_indices is None or self._with_indices[0] != as_indices:
            self._with_indices = as_indices, self._open(self._source, self.footer, as_indices)
        return self._with_indices[1]

    def _check_pages(self, number: int, columns: Collection[str]) -> None:
        unchecked = frozenset(columns) - self._checked_columns.setdefault(number, frozenset())
        if unchecked and self._is_near:
            pages = check_pages(self._source, self.footer, number, unchecked)
            self._pages.setdefault(number, {}).update(pages)
        self._checked_columns[number] |= unchecked

    def _longest_value(self, number: int, path: str) -> int | None:
        """The bytes of the longest value of the leaf's dictionary in the row group, which one row brings along."""
        file = self._open(self._source, self.footer, (path,))
        batch = next(file.iter_batches(1, row_groups=[number], columns=[path], use_threads=False), None)
        return None if batch is None or not batch.num_columns else longest_value(batch.column(0))


_last_columns: tuple[tuple[bytes, bytes], tuple[pa.Schema, tuple[str, ...]]] = (b"", b""), (pa.schema([]), ())
"""The columns of the last file, by the bytes of its Parquet schema and Arrow schema: the files of a read mostly have
one schema."""
