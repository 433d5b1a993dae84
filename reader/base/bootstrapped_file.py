"""A skeleton of a bootstrapped table with its source file, as one base file: rows are joined by position.

The skeleton has the meta columns, the source all others. Row groups are those of the source, since its columns are
wider and its statistics are those that filters ask for. The rows of the skeleton that belong to a row group are found
by their number in the file. Sources: Hudi `HoodieBootstrapRecordIterator`, `HoodieFileGroupReader`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from types import TracebackType
from typing import Final

import pyarrow as pa

from penstock.proto.errors import CorruptFile
from penstock.proto.model.splits import RowGroupRun, WholeFile
from penstock.proto.value_classes import dataclass
from penstock.reader.base.decoded_size import joined_keys
from penstock.reader.base.file import BaseFile
from penstock.reader.base.row_group import BaseRowGroup
from penstock.reader.base.row_group_stats import RowGroupBounds
from penstock.reader.split.emit import BatchSize
from penstock.table.predicate.bounds import UNKNOWN, ColumnBounds
from penstock.table.predicate.tree import Column
from penstock.table.schema.avro import META_COLUMNS, OPERATION

IN_SKELETON: Final = frozenset({*META_COLUMNS, OPERATION})
"""The columns that never come from a source file."""
_Use = tuple[str, tuple[str, ...]]
"""What rows of the skeleton are read for, keys or rows, and their columns: reads of both alternate."""


class BootstrappedFile:
    """An open skeleton with its source. It has the methods of `BaseFile`, with the same promises."""

    def __init__(self, skeleton: BaseFile, source: BaseFile, columns: Sequence[str], key: str) -> None:
        """`columns` are those to read, in order; each file was opened with its part of them. `key` is that of
        `BaseFile`.

        CorruptFile, naming both files, if they have different numbers of rows.
        """
        self._skeleton, self._source, self._columns, self._key = skeleton, source, tuple(columns), key
        if skeleton.num_rows != source.num_rows:
            raise CorruptFile(
                f"{skeleton.where} has {skeleton.num_rows} rows, and its {source.where.rpartition(': ')[2]} has "
                f"{source.num_rows}: a skeleton has one row for each row of its source; restore the source file that "
                "was bootstrapped"
            )
        starts = [0]
        for number in range(source.num_row_groups):
            starts.append(starts[-1] + source.rows_of(number))
        self._starts = starts
        self._cursors: dict[_Use, _Cursor] = {}

    def __enter__(self) -> BootstrappedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes both files."""
        self._cursors.clear()
        self._skeleton.close()
        self._source.close()

    @property
    def where(self) -> str:
        """Table and skeleton, the beginning of error texts."""
        return self._skeleton.where

    @property
    def num_rows(self) -> int:
        """The rows of the whole file."""
        return self._source.num_rows

    @property
    def num_row_groups(self) -> int:
        """The row groups of the source."""
        return self._source.num_row_groups

    def row_group_bounds(self) -> SourceBounds:
        """The statistics of the source, and of meta columns those of the skeleton. Errors as for `BaseFile`."""
        meta = self._skeleton.row_group_bounds() if self._skeleton.num_row_groups == 1 else None
        return SourceBounds(self._source.row_group_bounds(), meta)

    def row_groups(self, part: WholeFile | RowGroupRun, size: BatchSize) -> Iterator[BaseRowGroup]:
        """The row groups of this part, in file order. CorruptFile if the source has fewer."""
        for group in self._source.row_groups(part, size):
            yield BaseRowGroup(self, group.number, size)

    def rows_of(self, number: int) -> int:
        """The number of rows of the row group."""
        return self._source.rows_of(number)

    def read(self, number: int, size: BatchSize, columns: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The row group's rows in file order, with the table's types; with `columns` only those columns."""
        names = tuple(name for name in self._columns if columns is None or name in columns)
        of_skeleton = tuple(name for name in names if name in IN_SKELETON)
        if len(of_skeleton) == len(names):
            yield from self._rows_of_skeleton(number, size, ("rows", of_skeleton))
            return
        of_source = tuple(name for name in names if name not in IN_SKELETON)
        if not of_skeleton:
            yield from self._source.read(number, size, of_source)
            return
        use = "rows", of_skeleton
        cursor = self._cursor(number, size, use)
        for batch in self._source.read(number, size, of_source):
            at = 0
            while at < batch.num_rows:
                meta = cursor.take(batch.num_rows - at)
                rest = batch.slice(at, meta.num_rows)
                at += meta.num_rows
                parts = (meta if name in IN_SKELETON else rest for name in names)
                yield pa.RecordBatch.from_arrays(
                    [part.column(name) for part, name in zip(parts, names, strict=True)], names=list(names)
                )
        self._cursors[use] = cursor

    def read_keys(self, number: int, size: BatchSize) -> pa.Array | None:
        """The keys of all rows of the row group, in file order; None if they take too much memory to hold at once."""
        return joined_keys(batch.column(0) for batch in self._rows_of_skeleton(number, size, ("keys", (self._key,))))

    def _rows_of_skeleton(self, number: int, size: BatchSize, use: _Use) -> Iterator[pa.RecordBatch]:
        cursor, left = self._cursor(number, size, use), self.rows_of(number)
        while left:
            batch = cursor.take(left)
            left -= batch.num_rows
            yield batch
        self._cursors[use] = cursor

    def _cursor(self, number: int, size: BatchSize, use: _Use) -> _Cursor:
        """A cursor over the skeleton at the first row of the row group, for one read alone, which returns it at its
        end. It reads forward if the last read of this use ended before the row group."""
        row = self._starts[number]
        cursor = self._cursors.pop(use, None)
        if cursor is None or cursor.row > row:
            cursor = _Cursor(self._skeleton, size, use[1])
        cursor.skip_to(row)
        return cursor


@dataclass(slots=True)
class _Cursor:
    """Reads columns of a skeleton in file order."""

    skeleton: BaseFile
    size: BatchSize
    columns: tuple[str, ...]
    row: int = 0
    """The number of the next row."""
    _group: int = 0
    """The row group after those that are read or skipped."""
    _batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))
    _batch: pa.RecordBatch | None = None
    """The rest of the last batch, with at least one row; its first row is `row`."""

    def take(self, most_rows: int) -> pa.RecordBatch:
        """The next rows: at least one, at most `most_rows`."""
        batch = self._next()
        self._batch = batch.slice(most_rows) if batch.num_rows > most_rows else None
        taken = batch.slice(0, most_rows)
        self.row += taken.num_rows
        return taken

    def skip_to(self, row: int) -> None:
        """Moves forward to this row. Row groups before it are not decoded."""
        while self.row < row:
            if self._batch is None and (batch := next(self._batches, None)) is not None:
                self._batch = batch
            if self._batch is not None:
                self.take(row - self.row)
                continue
            rows = self.skeleton.rows_of(self._group)
            if self.row + rows > row:
                self._batches = self.skeleton.read(self._group, self.size, self.columns)
            else:
                self.row += rows
            self._group += 1

    def _next(self) -> pa.RecordBatch:
        while self._batch is None or not self._batch.num_rows:
            self._batch = next(self._batches, None)
            if self._batch is None:
                self._batches = self.skeleton.read(self._group, self.size, self.columns)
                self._group += 1
        return self._batch


class SourceBounds:
    """The statistics of a source file's row groups, as bounds of the table's columns."""

    def __init__(self, source: RowGroupBounds, skeleton: RowGroupBounds | None) -> None:
        """`skeleton` are the statistics of a skeleton that has one row group, which hold for all its rows."""
        self._source, self._skeleton = source, skeleton

    def known(self, column: Column, number: int) -> ColumnBounds:
        """The bounds of the column in row group `number` of the source."""
        if column.path[0] not in IN_SKELETON:
            return self._source.known(column, number)
        return UNKNOWN if self._skeleton is None else self._skeleton.known(column, 0)
