"""The first step of a write: each row of the data frame gets its partition, and its bucket or key.

Runs on executors, with Arrow's columns. A row that cannot be written is an error here, before the timeline changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from penstock.engine.spark.tracebacks import hidden_traceback
from penstock.engine.spark.write.columns import KEY, TAGS
from penstock.engine.spark.write.task_table import TaskTable
from penstock.engine.write.index.assignment import Assigner
from penstock.engine.write.index.group_plan import NEW, SPREAD
from penstock.engine.write.index.index_choice import BucketIndex, Index
from penstock.reader.merge.fold import RecordKind
from penstock.writer.index.new_groups import FileSizes
from penstock.writer.kernels.bucket import spread
from penstock.writer.rows.keyed_rows import KeyedRows
from penstock.writer.transaction.attempt_files import refuse_missing_table

_ROWS_OF_PARTITION = 1 << 40
"""More rows than one partition of a data frame has."""


@dataclass(frozen=True, slots=True)
class Tagging:
    """How rows are tagged."""

    table: TaskTable
    """The table when the write was opened."""
    index: Index
    """Its index."""
    has_keys: bool
    """Whether rows get their key, because it is searched for."""

    def tagged(self, data: pa.RecordBatch, first_row: int, partition: int) -> pa.RecordBatch:
        """The rows with the columns of TAGS first. `first_row` is the number of the first one in its partition of the
        data frame. SchemaMismatch, ConfigurationError and others for a row that cannot be written."""
        current = self.table.current()
        _, rows = self.table.preparation.rows(current, pa.Table.from_batches([data]), first_row)
        columns = [
            _partitions(rows),
            pa.array(self._slots(rows), pa.int32()),
            pa.array(np.arange(first_row, first_row + len(rows)) + partition * _ROWS_OF_PARTITION),
            pa.array(rows.kinds == RecordKind.DATA),
            pa.array(self._spread(rows), pa.int32()),
        ]
        names = list(TAGS.names)
        if self.has_keys:
            columns.append(_joined(rows.keys))
            names.append(KEY)
        return pa.RecordBatch.from_arrays([*columns, *data.columns], names=[*names, *data.schema.names])

    def _slots(self, rows: KeyedRows) -> np.ndarray:
        if not isinstance(self.index, BucketIndex):
            return np.full(len(rows), NEW, np.int64)
        settings = self.table.settings
        assigner = Assigner(
            index=self.index,
            operation=self.table.operation,
            sizes=FileSizes(),
            new_uuid=str,
            key_fields=settings.key_fields,
            ordering_fields=settings.ordering_fields,
            where=settings.where,
        )
        return assigner.buckets(rows, settings.properties.version)

    def _spread(self, rows: KeyedRows) -> np.ndarray:
        if isinstance(self.index, BucketIndex) or not len(rows):
            return np.zeros(len(rows), np.int64)
        return np.concatenate([spread(keys, SPREAD) for keys in rows.keys.chunks])


def tag_rows(tagging: Tagging) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of `DataFrame.mapInArrow`."""

    def tag(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition, row = context.partitionId() if context else 0, 0
        with hidden_traceback():
            refuse_missing_table(tagging.table.storage())
        for batch in batches:
            if batch.num_rows:
                with hidden_traceback():
                    yield tagging.tagged(batch, row, partition)
                row += batch.num_rows

    return tag


def _partitions(rows: KeyedRows) -> pa.Array:
    return pa.array(rows.partitions.paths, pa.string()).take(pa.array(rows.partitions.numbers))


def _joined(keys: pa.ChunkedArray) -> pa.Array:
    return keys.combine_chunks() if keys.num_chunks != 1 else keys.chunk(0)
