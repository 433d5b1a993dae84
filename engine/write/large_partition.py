"""A partition of a table without buckets, with more rows than are held in memory: its file groups one after the other.

The rows of a group may stand anywhere. First the group of each key is searched, for some of the keys at a time; the
rows are kept by group again, and then each group has its own rows, and its share of the new ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.engine.write.assignment import Assigner
from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.prepared_rows import RowPreparation
from penstock.reader.merge.fold import RecordKind
from penstock.writer.files.spilled_rows import SpilledRows
from penstock.writer.index.new_groups import FileSizes, files_of_new_rows, write_of_new_rows
from penstock.writer.index.slices import GroupWrite
from penstock.writer.kernels.bucket import spread
from penstock.writer.rows.chunks import chunks_of
from penstock.writer.rows.keyed_rows import KeyedRows, compacted

NEW: Final = 0
"""The part of the rows of new keys; that of the slice at place n of the partition is n + 1."""
_NO_ROWS: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LargePartition:
    """The rows of a partition."""

    preparation: RowPreparation
    """How rows are prepared."""
    assigner: Assigner
    """Assigns rows to file groups."""
    current: CurrentTable
    """The table."""
    partition: str
    """Partition path."""
    most_bytes: int
    """About how many bytes of rows are in memory while keys are searched."""

    @contextlib.contextmanager
    def located(self, rows: SpilledRows, part: int) -> Iterator[tuple[SpilledRows, int, set[int]]]:
        """(the rows by the slice that has their key, how many, the places of the slices that have one of the keys in
        several rows), where `part` has the rows of the partition.

        Rows of one key are combined. Deletes of keys that the table does not have are left out, but counted.
        """
        where = self.preparation.settings.where
        schema = self.preparation.stored_schema(self.current, rows.schema)
        pieces = 1 + rows.size_bytes(part) // self.most_bytes
        with SpilledRows(schema, where) as by_slice:
            count = 0
            repeated: set[int] = set()
            with SpilledRows(schema, where) as by_key:
                for chunk in chunks_of(rows.batches(part), rows.schema, self.most_bytes):
                    keyed = self.preparation.rows(self.current, chunk)[1]
                    numbers = np.concatenate([spread(keys, pieces) for keys in keyed.keys.chunks])
                    by_key.add(self.preparation.stored(keyed.rows), numbers)
                for piece in sorted(by_key.parts):
                    keyed = self.preparation.rows(self.current, by_key.table([piece]))[1]
                    keyed = self.preparation.combined(keyed)
                    count += len(keyed)
                    (location,) = self.assigner.locations(self.current, keyed)
                    repeated |= location.repeated
                    kept = (location.places >= 0) | (keyed.kinds[location.rows] == RecordKind.DATA)
                    some = keyed.take(location.rows[kept])
                    by_slice.add(self.preparation.stored(some.rows), location.places[kept] + 1)
            yield by_slice, count, repeated

    def group_writes(
        self,
        located: SpilledRows,
        new_part: int,
        sizes: FileSizes,
        *,
        by_slice: bool,
        repeated: Collection[int] = (),
    ) -> Iterator[tuple[GroupWrite, KeyedRows]]:
        """The file groups with their rows.

        new_part: the part of `located` with the rows of new keys, which has no deletes. by_slice: whether the other
        parts are those of `located`, with `repeated`. WriteConflict for a group that a pending service rewrites.
        """
        slices, locked = self.current.slices.of(self.partition), self.current.slices.locked
        parts = {item.file_id: place + 1 for place, item in enumerate(slices)} if by_slice else {}
        fillable = self.assigner.fillable(self.current, self.partition)
        new = _Sequence(located.batches(new_part))
        for item, count in files_of_new_rows(located.num_rows(new_part), fillable, locked, sizes):
            write = write_of_new_rows(self.partition, item, _NO_ROWS, self.assigner.new_file_id)
            own = located.batches(parts.pop(item.file_id)) if item and item.file_id in parts else ()
            yield self._checked(write), self._prepared([*own, *new.take(count)], located.schema)
        for place, item in enumerate(slices):
            if item.file_id in parts and located.num_rows(parts[item.file_id]):
                has_copies = place in repeated
                write = self.assigner.write_of_slice(self.current, item, _NO_ROWS, has_copies=has_copies)
                yield self._checked(write), self._prepared(located.batches(parts[item.file_id]), located.schema)

    def _checked(self, write: GroupWrite) -> GroupWrite:
        self.assigner.check(self.current, [write])
        return write

    def _prepared(self, batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch], schema: pa.Schema) -> KeyedRows:
        return self.preparation.rows(self.current, compacted(batches, schema))[1]


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
