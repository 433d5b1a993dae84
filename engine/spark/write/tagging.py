"""The first step of a write: each row of the data frame gets its partition, and its bucket or key.

Runs on executors, with Arrow's columns: those that tags need, and those with values that may not fit the table. A row
that cannot be written is an error here, before the timeline changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.engine.spark.tracebacks import hidden_traceback
from penstock.engine.spark.write.columns import KEY, ROWS_OF_PARTITION, TAGS
from penstock.engine.spark.write.task_table import TaskTable
from penstock.engine.write.index.assignment import Assigner
from penstock.engine.write.index.group_plan import NEW, SPREAD
from penstock.engine.write.index.index_choice import BucketIndex, Index
from penstock.reader.merge.fold import RecordKind
from penstock.writer.index.new_groups import FileSizes
from penstock.writer.kernels.bucket import spread
from penstock.writer.rows.keyed_rows import KeyedRows
from penstock.writer.transaction.attempt_files import refuse_missing_table


@dataclass(frozen=True, slots=True)
class Tagging:
    """How rows are tagged."""

    table: TaskTable
    """The table when the write was opened."""
    index: Index
    """Its index."""
    has_keys: bool
    """Whether rows get their key, because it is searched for."""

    def tagged(self, data: pa.Table, first_row: int) -> pa.StructArray:
        """The tags of rows: TAGS, and KEY if keys are searched. `first_row` is the number of the first one in its
        partition of the data frame. SchemaMismatch, ConfigurationError and others for a row that cannot be written."""
        _, rows = self.table.preparation.rows(self.table.current(), data, first_row)
        columns = [
            _partitions(rows),
            pa.array(self._slots(rows), pa.int32()),
            pa.array(rows.kinds == RecordKind.DATA),
            pa.array(self._spread(rows), pa.int32()),
        ]
        if self.has_keys:
            return pa.StructArray.from_arrays([*columns, _joined(rows.keys)], [*TAGS.names, KEY])
        return pa.StructArray.from_arrays(columns, TAGS.names)

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


def tag_rows(tagging: Tagging, names: Sequence[str]) -> Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]:
    """The function of an Arrow UDF over the number of a row, and the columns `names` of the data."""

    def tag(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        with hidden_traceback():
            refuse_missing_table(tagging.table.storage())
        for numbers, *columns in batches:
            first_row = numbers[0].as_py() % ROWS_OF_PARTITION if len(numbers) else 0
            with hidden_traceback():
                yield tagging.tagged(pa.table(columns, names=list(names)), first_row)

    return tag


def _partitions(rows: KeyedRows) -> pa.Array:
    return pa.array(rows.partitions.paths, pa.string()).take(pa.array(rows.partitions.numbers))


def _joined(keys: pa.ChunkedArray) -> pa.Array:
    return keys.combine_chunks() if keys.num_chunks != 1 else keys.chunk(0)
