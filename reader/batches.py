"""From merged rows to what a reader hands on: ordinals counted, constants added, filters applied, columns chosen.

Ordinals count merged rows before any filter, so that a row keeps its ordinal whatever is asked for. Not here: merging,
reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import UnsupportedFeature
from penstock.proto.splits import RowsOf, Scan
from penstock.reader.filters import kept_rows
from penstock.reader.partition_constants import PartitionConstants
from penstock.reader.shape import COMMIT_TIME, ReadShape

BATCH_BYTES: Final = 16 << 20
"""About how many bytes a batch has at most, however wide its rows are."""


@dataclass(frozen=True, slots=True, eq=False)
class SplitBatch:
    """Rows of a split: `batch` has those of the merged rows first_ordinal..next_ordinal-1 that the filters kept.

    `kept`: their offsets from first_ordinal (int64, ascending), or None if all were kept. A reader that has taken this
    batch goes on with read_split(start=next_ordinal).
    """

    split_id: str
    first_ordinal: int
    next_ordinal: int
    batch: pa.RecordBatch
    kept: np.ndarray | None = None

    def ordinals(self) -> np.ndarray:
        """int64, the ordinal of each row of `batch`."""
        if self.kept is None:
            return np.arange(self.first_ordinal, self.next_ordinal, dtype=np.int64)
        return self.kept + self.first_ordinal


class Emission:
    """What turns merged batches into split batches: one split's constants, filters and columns."""

    def __init__(self, scan: Scan, split_id: str, shape: ReadShape, constants: PartitionConstants) -> None:
        self._split_id, self._shape, self._constants = split_id, shape, constants
        self._table = scan.table
        self._instants = self._unknown = None
        if isinstance(scan.rows, RowsOf):
            self._instants = pa.array(sorted(scan.rows.instants), pa.string())
            if scan.rows.log_compactions:
                self._unknown = pa.array(sorted(scan.rows.log_compactions), pa.string())

    def emit(self, merged: pa.RecordBatch, ordinal: int, start: int) -> tuple[SplitBatch, pa.RecordBatch] | None:
        """Rows of a merged batch (whose first row has `ordinal`) from ordinal `start` on, if any is kept.

        The second batch has the same rows with the columns that only the report looks at.
        """
        next_ordinal = ordinal + merged.num_rows
        if next_ordinal <= start:
            return None
        if ordinal < start:
            merged = merged.slice(start - ordinal)
            ordinal = start
        carried = self._carried(merged)
        kept = self._kept(carried)
        if kept is not None:
            if not len(kept):
                return None
            carried = carried.take(pa.array(kept))
        batch = pa.RecordBatch.from_arrays(
            [carried.column(name) for name in self._shape.output.names], schema=self._shape.output
        )
        return SplitBatch(self._split_id, ordinal, next_ordinal, batch, kept), carried

    def _refuse_unknown(self, commit_times: pa.Array) -> None:
        """A row that a log compaction stamped may or may not be of the range."""
        if self._unknown is None:
            return
        stamped = commit_times.filter(pc.is_in(commit_times, value_set=self._unknown))
        if len(stamped):
            raise UnsupportedFeature(
                f"table {self._table}: split {self._split_id}: a range over rows whose {COMMIT_TIME} is that of log "
                f"compaction {stamped[0]}, so that they do not tell which instant wrote them; read a snapshot, or a "
                "range that begins behind that log compaction"
            )

    def _carried(self, merged: pa.RecordBatch) -> pa.RecordBatch:
        columns: list[pa.Array] = []
        for name in self._shape.carried:
            constant = self._constants.column(name, merged.num_rows)
            columns.append(merged.column(name) if constant is None else constant)
        return pa.RecordBatch.from_arrays(columns, names=list(self._shape.carried))

    def _kept(self, carried: pa.RecordBatch) -> np.ndarray | None:
        """Offsets of the rows that the instants asked for and the filter keep; None for all."""
        kept: np.ndarray | None = None
        if self._instants is not None:
            self._refuse_unknown(carried.column(COMMIT_TIME))
            answers = pc.is_in(carried.column(COMMIT_TIME), value_set=self._instants)
            if answers.true_count < len(answers):
                kept = np.flatnonzero(answers.to_numpy(zero_copy_only=False))
                carried = carried.take(pa.array(kept))
        if self._shape.predicate is None or (kept is not None and not len(kept)):
            return kept
        filtered = kept_rows(self._shape.predicate, carried)
        if filtered is None:
            return kept
        return filtered if kept is None else kept[filtered]
