"""The rows of a write, read to their end before the timeline changes, so that an error of the data leaves no trace.

Few are held in memory, and many in a temporary file, from which one file group at a time is written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.hashed_rows import HashedRows
from penstock.engine.write.index.assignment import Assigner
from penstock.engine.write.index.index_choice import BucketIndex
from penstock.engine.write.large_partition import NEW, LargePartition
from penstock.engine.write.prepared_rows import RowPreparation, rows_of_partitions
from penstock.writer.files.spilled_rows import SpilledRows, pieces_of
from penstock.writer.index.new_groups import FileSizes
from penstock.writer.index.slices import GroupWrite
from penstock.writer.rows.chunks import Batches
from penstock.writer.rows.keyed_rows import KeyedRows
from penstock.writer.rows.write_schema import WriteSchema

HELD_BYTES: Final = 64 << 20
"""Data of at most this size is held in memory."""


class IncomingRows(Protocol):
    """The rows of a write."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows."""
        ...

    @property
    def num_rows(self) -> int:
        """How many rows there are, after the combination of repeated keys. For the end of `group_writes`."""
        ...

    @property
    def partitions(self) -> Sequence[str]:
        """The partitions of the rows."""
        ...

    def schema(self, current: CurrentTable) -> WriteSchema:
        """The schema of the write in a state of the table."""
        ...

    def group_writes(self, current: CurrentTable, assigner: Assigner) -> Iterator[tuple[GroupWrite, KeyedRows]]:
        """The file groups with their rows, each group once. Errors of `Assigner.groups`, after some groups too."""
        ...


@contextlib.contextmanager
def incoming_rows(
    preparation: RowPreparation, assigner: Assigner, early: CurrentTable, data: Batches
) -> Iterator[IncomingRows]:
    """Reads the data to its end. The rows are those of a table in the state `early`.

    Errors of the source, and of `RowPreparation.rows`; StorageError if the temporary folder is full.
    """
    where = preparation.settings.where
    chunks = data.chunks(HELD_BYTES, where)
    if preparation.operation.deletes_partitions:
        yield HeldRows.of(preparation, early, rows_of_partitions(preparation, early, chunks))
        return
    first, second = next(chunks), next(chunks, None)
    if second is None:
        yield HeldRows.of(preparation, early, first)
        return
    with SpilledRows(preparation.stored_schema(early, first.schema), where) as spilled:
        rows: HashedRows | GroupedRows
        if assigner.searches_table:
            rows = HashedRows(preparation=preparation, spilled=spilled, most_bytes=HELD_BYTES)
        else:
            rows = GroupedRows(preparation=preparation, spilled=spilled)
        for chunk in _in_order(first, second, chunks):
            rows.add(chunk, early, assigner)
        del first, second, chunk
        yield rows


def _in_order(first: pa.Table, second: pa.Table, others: Iterable[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield second
    yield from others


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRows:
    """Rows in memory."""

    preparation: RowPreparation
    """How they are prepared."""
    data: pa.Table
    """The data as it came."""
    early: CurrentTable
    """The state of the table for which `rows` are."""
    early_schema: WriteSchema
    """The schema of the write in this state."""
    rows: KeyedRows
    """The rows, one for each key if the operation combines them."""

    @classmethod
    def of(cls, preparation: RowPreparation, early: CurrentTable, data: pa.Table) -> HeldRows:
        """The rows of the data."""
        schema, rows = preparation.rows(early, data)
        rows = preparation.combined(rows)
        return cls(preparation=preparation, data=data, early=early, early_schema=schema, rows=rows)

    @property
    def is_empty(self) -> bool:
        """As `IncomingRows`."""
        return not self.num_rows

    @property
    def num_rows(self) -> int:
        """As `IncomingRows`."""
        return len(self.rows)

    @property
    def partitions(self) -> Sequence[str]:
        """As `IncomingRows`."""
        return self.rows.partitions.paths

    def schema(self, current: CurrentTable) -> WriteSchema:
        """As `IncomingRows`."""
        return self._in(current).early_schema

    def group_writes(self, current: CurrentTable, assigner: Assigner) -> Iterator[tuple[GroupWrite, KeyedRows]]:
        """As `IncomingRows`."""
        rows = self._in(current).rows
        if len(rows):
            yield from assigner.group_writes(current, rows, assigner.sizes_of(current))

    def _in(self, current: CurrentTable) -> HeldRows:
        """The rows in a state of the table, whose schema another writer may have changed."""
        return self if current.record == self.early.record else HeldRows.of(self.preparation, current, self.data)


@dataclass(slots=True, kw_only=True)
class GroupedRows:
    """Rows in a temporary file, by partition and bucket."""

    preparation: RowPreparation
    """How they are prepared."""
    spilled: SpilledRows
    """The rows. The number of a part is that of its partition times `_buckets`, plus the bucket."""
    num_rows: int = 0
    """As `IncomingRows`."""
    partitions: list[str] = field(default_factory=list)
    """The partitions of the rows, in the order of their first row."""
    _numbers: dict[str, int] = field(default_factory=dict)
    _buckets: int = 1
    _read_rows: int = 0

    @property
    def is_empty(self) -> bool:
        """As `IncomingRows`."""
        return not self._read_rows

    def add(self, data: pa.Table, early: CurrentTable, assigner: Assigner) -> None:
        """Adds a chunk of the data."""
        _, rows = self.preparation.rows(early, data, first_row=self._read_rows)
        self._read_rows += len(rows)
        self._buckets = assigner.index.buckets if isinstance(assigner.index, BucketIndex) else 1
        for path in rows.partitions.paths:
            if path not in self._numbers:
                self._numbers[path] = len(self.partitions)
                self.partitions.append(path)
        if not self.preparation.combines(rows):
            self.num_rows += len(rows)
        if not assigner.finds_groups_of_deletes:
            rows = rows.data()
        numbers = np.array([self._numbers[path] for path in rows.partitions.paths], np.int64)
        parts = numbers[rows.partitions.numbers] * self._buckets
        parts += assigner.buckets(rows, early.table.properties.version)
        self.spilled.add(self.preparation.stored(rows.rows), parts)

    def schema(self, current: CurrentTable) -> WriteSchema:
        """As `IncomingRows`."""
        return self.preparation.rows(current, self.spilled.schema.empty_table())[0]

    def group_writes(self, current: CurrentTable, assigner: Assigner) -> Iterator[tuple[GroupWrite, KeyedRows]]:
        """As `IncomingRows`."""
        sizes = assigner.sizes_of(current)
        for parts in self._pieces():
            if not isinstance(assigner.index, BucketIndex) and self.spilled.size_bytes(parts[0]) > HELD_BYTES:
                yield from self._large(parts[0], current, assigner, sizes)
                continue
            rows = self.preparation.rows(current, self.spilled.table(parts))[1]
            if self.preparation.combines(rows):
                rows = self.preparation.combined(rows)
                self.num_rows += len(rows)
            yield from assigner.group_writes(current, rows, sizes)

    def _large(
        self, part: int, current: CurrentTable, assigner: Assigner, sizes: FileSizes
    ) -> Iterator[tuple[GroupWrite, KeyedRows]]:
        large = LargePartition(
            preparation=self.preparation,
            assigner=assigner,
            current=current,
            partition=self.partitions[part],
            most_bytes=HELD_BYTES,
        )
        if not self.preparation.operation.searches_keys:
            yield from large.by_group(self.spilled, part, by_slice=False).group_writes(sizes)
            return
        with large.located(self.spilled, part) as (located, num_rows, repeated):
            self.num_rows += num_rows
            yield from large.by_group(located, NEW, by_slice=True, repeated=repeated).group_writes(sizes)

    def _pieces(self) -> Iterator[list[int]]:
        """The parts in the order of partition and bucket, together as long as they are small."""
        order = sorted(self.spilled.parts, key=lambda one: (self.partitions[one // self._buckets], one))
        return pieces_of(self.spilled, order, HELD_BYTES)
