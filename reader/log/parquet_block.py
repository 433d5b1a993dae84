"""A Parquet data block of a log (`HoodieParquetDataBlock`): its content is a complete Parquet file.

The content is read by the rules of base files (`base.file`), with two differences. The file's own schema is used, not
the block's SCHEMA header. The footer's legacy calendar is ignored: `HoodieSparkParquetReader`, which reads logs, treats
all values as CORRECTED.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptBlock, CorruptFile, InvariantViolation, OutOfMemory
from penstock.proto.model.splits import FileRef, WholeFile
from penstock.proto.value_classes import dataclass
from penstock.reader.base.file import BaseFile
from penstock.reader.split.emit import CHUNK_BYTES, CHUNK_ROWS, BatchSize
from penstock.table.arrow_arrays import arrow_array
from penstock.table.arrow_compute import pc
from penstock.table.log.blocks import BlockPlace
from penstock.table.schema.avro import RecordSchema
from penstock.table.schema.history import ColumnMapping
from penstock.table.storage.filesystem import FileInfo

_SIZE = BatchSize(CHUNK_ROWS, CHUNK_BYTES)
_HELD_BYTES = 2 << 30
_HELD_PER_BYTE = 256
"""The rows of a block are held until the base file has been read. Those of one block may take 2 GiB, or
`_HELD_PER_BYTE` bytes per byte of content if that is more. No table's log repeats dictionary values more than that."""
_ROWS_A_BYTE = 8
"""The most rows per byte of content. Each row has its own key and sequence number, so no codec stores more; a block
that claims more is not decoded."""


@dataclass(frozen=True, slots=True)
class ParquetBlock:
    """The content of one block."""

    content: pa.Buffer
    """The Parquet file."""
    place: BlockPlace
    """The beginning of error texts."""
    table: str
    """The table's name for errors."""
    record: RecordSchema
    """The table's schema."""
    names: ColumnMapping | None = None
    """The block's column names, if they differ from the table's."""
    compiled: bool = False
    """Whether a kernel checks small content."""

    def num_rows(self) -> int:
        """The number of records in the footer. CorruptBlock if the content is not Parquet, or if the number is
        impossible."""
        with _as_block(), self._open(()) as file:
            return self._checked_rows(file.num_rows)

    def decode(self, columns: Sequence[str], rows: np.ndarray | None = None) -> Iterator[pa.RecordBatch]:
        """These columns of the table, in this order and with its types, of all records in the block's order, or of
        `rows`.

        `rows` ascend, from 0; row groups without any of them are not decoded. Batches have at most 8192 rows and about
        16 MiB. CorruptBlock for content that is not Parquet; UnsupportedFeature for a column type that cannot be read
        as the table's; OutOfMemory for rows that take much more memory than the content has bytes.
        """
        with _as_block(), self._open(columns) as file:
            total = self._checked_rows(file.num_rows)
            if rows is not None and len(rows) and not 0 <= int(rows[0]) <= int(rows[-1]) < total:
                raise InvariantViolation(f"rows {rows[0]} to {rows[-1]} of a block of {total}")
            place = held_bytes = 0
            for group in file.row_groups(WholeFile(), _SIZE):
                end = place + group.num_rows
                if rows is None or np.searchsorted(rows, place) < np.searchsorted(rows, end):
                    for batch in group.batches():
                        for chosen in _chosen(batch, place, rows):
                            held_bytes += chosen.nbytes
                            self._check_held(held_bytes)
                            yield chosen
                        place += batch.num_rows
                    self._check_count(place, end)
                place = end
            self._check_count(place, total)

    def _open(self, columns: Sequence[str]) -> BaseFile:
        where = f"table {self.table}: {self.place.file}: Parquet block at byte {self.place.offset} of instant "
        ref = FileRef(self.place.file, self.content.size)
        where += self.place.instant
        content = _Content(self.content)
        return BaseFile(
            content,
            ref,
            self.record,
            columns,
            table=self.table,
            where=where,
            names=self.names,
            calendars=False,
            compiled=self.compiled,
        )

    def _checked_rows(self, rows: int) -> int:
        if not 0 <= rows <= self.content.size * _ROWS_A_BYTE:
            raise CorruptBlock(f"{self.place}: {rows} rows cannot be in {self.content.size} bytes: restore the file")
        return rows

    def _check_held(self, size_bytes: int) -> None:
        limit = max(_HELD_BYTES, self.content.size * _HELD_PER_BYTE)
        if size_bytes > limit:
            raise OutOfMemory(
                f"{self.place}: the rows of a Parquet block of {self.content.size} bytes take more than {limit} bytes "
                "of memory, and are held until the base file has been read; compact the table, or read fewer columns"
            )

    def _check_count(self, count: int, expected: int) -> None:
        if count != expected:
            raise CorruptBlock(f"{self.place}: records up to {count}, the footer says {expected}: restore the file")


def _chosen(batch: pa.RecordBatch, place: int, rows: np.ndarray | None) -> Iterator[pa.RecordBatch]:
    """The selected rows of a batch that begins at record `place`."""
    if rows is None:
        yield batch
        return
    low, high = np.searchsorted(rows, (place, place + batch.num_rows))
    if low < high:
        yield pc.take(batch, arrow_array(rows[low:high] - place))


@contextmanager
def _as_block() -> Iterator[None]:
    """Turns CorruptFile into CorruptBlock: the content is a block of a log file. The text names the block."""
    try:
        yield
    except CorruptFile as error:
        raise CorruptBlock(str(error)) from None


@dataclass(frozen=True, slots=True)
class _Content:
    """A storage with one file, which is the block's content whatever path is requested."""

    content: pa.Buffer
    base_path: str = ""

    def open_input(self, _path: str) -> pa.NativeFile:
        """The content."""
        return pa.BufferReader(self.content)

    def file_info(self, path: str) -> FileInfo | None:
        """Its size."""
        name = path.rpartition("/")[2]
        return FileInfo(name=name, path=path, size_bytes=self.content.size, is_dir=False, modified_ns=0)

    def list_dir(self, _path: str) -> list[FileInfo]:
        """An empty list: there are no folders."""
        return []

    def read_bytes(self, _path: str, limit_bytes: int) -> bytes:
        """The content."""
        content: bytes = self.content.slice(0, limit_bytes).to_pybytes()
        return content
