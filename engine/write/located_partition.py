"""The file groups of a partition, one after the other, whose rows are kept by file group in a temporary file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.index.assignment import Assigner
from penstock.engine.write.prepared_rows import RowPreparation
from penstock.table.files.slices import GroupId
from penstock.writer.files.spilled_rows import SpilledRows
from penstock.writer.index.new_groups import FileSizes, files_of_new_rows, write_of_new_rows
from penstock.writer.index.slices import NO_ROWS, GroupWrite
from penstock.writer.rows.keyed_rows import KeyedRows, compacted
from penstock.writer.rows.partition_paths import RowPartitions

_KIND: Final = pa.field("_penstock_kind", pa.uint8())


def schema_with_kinds(schema: pa.Schema) -> pa.Schema:
    """The columns of rows that are kept with their kinds: the last column has the kinds."""
    return schema.append(_KIND)


def with_kinds(rows: pa.Table, kinds: np.ndarray) -> pa.Table:
    """Rows of this schema."""
    return rows.append_column(_KIND, pa.array(kinds))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedPartition:
    """The rows of a partition by file group."""

    preparation: RowPreparation
    """How rows are prepared."""
    assigner: Assigner
    """Assigns rows to file groups."""
    current: CurrentTable
    """The table."""
    partition: str
    """Partition path."""
    rows: SpilledRows
    """The rows."""
    new_part: int
    """The part of `rows` with the rows of new keys, which has no deletes."""
    parts: Mapping[str, int]
    """File id -> the part of `rows` with its rows."""
    repeated: frozenset[GroupId] = frozenset()
    """The groups whose base files have one of the keys in several rows."""
    has_kinds: bool = False
    """Whether the last column has the kinds of the rows, which may be others than their columns say."""

    def group_writes(self, sizes: FileSizes) -> Iterator[tuple[GroupWrite, KeyedRows]]:
        """The file groups with their rows. WriteConflict for a group that a pending service rewrites."""
        left = dict(self.parts)
        fillable = self.assigner.fillable(self.current, self.partition)
        new = _Sequence(self.rows.batches(self.new_part))
        locked = self.current.slices.locked
        for item, count in files_of_new_rows(self.rows.num_rows(self.new_part), fillable, locked, sizes):
            write = write_of_new_rows(self.partition, item, NO_ROWS, self.assigner.new_file_id)
            own = self.rows.batches(left.pop(item.file_id)) if item and item.file_id in left else ()
            yield self._checked(write), self._prepared([*own, *new.take(count)])
        for item in self.current.slices.of(self.partition):
            if item.file_id in left and self.rows.num_rows(left[item.file_id]):
                has_copies = item.group in self.repeated
                write = self.assigner.write_of_slice(self.current, item, NO_ROWS, has_copies=has_copies)
                yield self._checked(write), self._prepared(self.rows.batches(left[item.file_id]))

    def _checked(self, write: GroupWrite) -> GroupWrite:
        self.assigner.check(self.current, [write])
        return write

    def _prepared(self, batches: Iterable[pa.RecordBatch]) -> KeyedRows:
        data = compacted(batches, self.rows.schema)
        if not self.has_kinds:
            return self.preparation.rows(self.current, data)[1]
        last = data.num_columns - 1
        keyed = self.preparation.rows(self.current, data.select(range(last)))[1]
        partitions = RowPartitions((self.partition,), np.zeros(len(keyed), np.int64))
        return keyed.written_as(partitions, data.column(last).to_numpy())


class _Sequence:
    """Rows in their order, some at a time."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._left: pa.RecordBatch | None = None

    def take(self, count: int) -> Iterator[pa.RecordBatch]:
        """The next `count` rows, or those that are left."""
        while count > 0:
            batch = self._left if self._left is not None else next(self._batches, None)
            if batch is None:
                return
            self._left = batch.slice(count) if batch.num_rows > count else None
            yield batch.slice(0, count)
            count -= min(count, batch.num_rows)
