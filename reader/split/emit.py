"""Turns merged rows into returned batches: counts ordinals, adds constants, applies filters, selects columns.

Ordinals count merged rows before any filter, so that a row keeps its ordinal whatever is requested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa

from penstock.proto.errors import PositionExpired
from penstock.proto.model.positions import COMPLETION_TIME
from penstock.proto.model.splits import Exclusions, Origin, RowLineage, RowsOf, Scan, Split
from penstock.proto.value_classes import dataclass
from penstock.reader.split.completion import CompletionColumn
from penstock.reader.split.partition_columns import PartitionConstants
from penstock.reader.split.read_schema import COMMIT_TIME, ReadSchema
from penstock.reader.values.dictionary_text import PlainText, among
from penstock.reader.values.record_keys import RECORD_KEY
from penstock.reader.values.struct_offsets import without_struct_offsets
from penstock.table.arrow_arrays import arrow_array, numpy_array
from penstock.table.arrow_compute import pc
from penstock.table.predicate.tree import columns_of

BATCH_BYTES: Final = 16 << 20
"""About the most bytes of a batch, however wide its rows are."""
CHUNK_ROWS: Final = 8192
"""The most records of a log that are decoded at once."""
CHUNK_BYTES: Final = 16 << 20
"""Their most bytes."""

_TARGET_BYTES: Final = 1 << 20
TARGET_ROWS: Final = 8192
"""A batch has about `_TARGET_BYTES`, or `TARGET_ROWS` rows if those are larger. More would only take memory."""


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The size limits of a batch."""

    rows: int
    """The most rows."""
    size_bytes: int
    """About the most bytes."""
    target_bytes: int = _TARGET_BYTES
    """How many bytes to decode at once, if those are more than `TARGET_ROWS` rows."""

    def rows_of(self, row_bytes: int) -> int:
        """How many rows of this size to decode at once; at least 1."""
        row_bytes = max(1, row_bytes)
        return max(1, min(self.rows, self.size_bytes // row_bytes, max(TARGET_ROWS, self.target_bytes // row_bytes)))


KeysOf = Callable[[Origin], pa.Array]


@dataclass(frozen=True, slots=True, eq=False)
class SplitBatch:
    """Rows of a split: those of the merged rows first_ordinal..next_ordinal-1 that the filters keep.

    A reader that has processed this batch continues with read_split(start=next_ordinal).
    """

    split_id: str
    """The split."""
    first_ordinal: int
    """The ordinal of the first merged row."""
    next_ordinal: int
    """The ordinal after the last merged row."""
    batch: pa.RecordBatch
    """The rows that the filters keep."""
    kept: np.ndarray | None = None
    """Their offsets from first_ordinal (int64, ascending); None if all rows are kept."""

    def ordinals(self) -> np.ndarray:
        """int64, the ordinal of each row of `batch`."""
        if self.kept is None:
            return np.arange(self.first_ordinal, self.next_ordinal, dtype=np.int64)
        return self.kept + self.first_ordinal


class BatchFinisher:
    """Turns merged batches into split batches, with the split's constants, filters and columns."""

    def __init__(
        self, scan: Scan, split: Split, read_schema: ReadSchema, constants: PartitionConstants, keys_of: KeysOf
    ) -> None:
        """`keys_of` reads an origin of the split's row lineage: the keys of its rows that are in the range."""
        self._split_id, self._read_schema, self._constants = split.split_id, read_schema, constants
        self._table = scan.table
        self._instants = self._unknown = None
        self._origins = {}
        self._begins_inside = split.left_out.some_rows if split.left_out is not None else frozenset()
        if isinstance(scan.rows, RowsOf):
            ancestry = split.ancestry or RowLineage()
            left_out = split.left_out or Exclusions()
            known = (scan.rows.instants | ancestry.inside) - left_out.rows - left_out.some_rows
            self._instants = arrow_array(sorted(known), pa.string())
            stamps = scan.rows.log_compactions - ancestry.inside - ancestry.outside
            if unknown := stamps | left_out.some_rows:
                self._unknown = arrow_array(sorted(unknown), pa.string())
                self._origins = {str(origin.service): origin for origin in ancestry.origins}
        self._completion = None if scan.completion_times is None else CompletionColumn(scan.completion_times)
        self._plain = PlainText()
        self._filtered_by = () if read_schema.predicate is None else columns_of(read_schema.predicate)
        self._returns_all = (
            self._instants is None
            and read_schema.predicate is None
            and read_schema.carried == tuple(read_schema.output.names)
        )
        self._keys_of = keys_of
        self._keys: dict[str, pa.Array] = {}

    def emit(self, merged: pa.RecordBatch, ordinal: int, start: int) -> tuple[SplitBatch, pa.RecordBatch] | None:
        """The rows of a merged batch (whose first row has `ordinal`) from ordinal `start` on, if any is kept.

        The second batch has the same rows with the columns that only the report needs. Text columns of the input may be
        encoded (`values.dictionary_text`), those of the result are not.
        """
        next_ordinal = ordinal + merged.num_rows
        if next_ordinal <= start:
            return None
        if ordinal < start:
            merged = merged.slice(start - ordinal)
            ordinal = start
        if self._returns_all:
            batch = self._output(self._carried_columns(merged))
            return SplitBatch(self._split_id, ordinal, next_ordinal, batch), batch
        names = list(self._read_schema.carried)
        carried = pa.RecordBatch.from_arrays(self._carried_columns(merged), names=names)
        kept = self._kept(carried)
        if kept is not None:
            if not len(kept):
                return None
            carried = carried.take(arrow_array(kept))
        batch = self._output([carried.column(name) for name in self._read_schema.output.names])
        return SplitBatch(self._split_id, ordinal, next_ordinal, batch, kept), carried

    def _output(self, columns: list[pa.Array]) -> pa.RecordBatch:
        schema = self._read_schema.output
        plain = [self._plain.column(name, column) for name, column in zip(schema.names, columns, strict=True)]
        return without_struct_offsets(pa.RecordBatch.from_arrays(plain, schema=schema))

    def _in_range(self, carried: pa.RecordBatch) -> pa.Array:
        """Which rows are in the range. A row with a service's commit time is, if the row of its key was before the
        service ran."""
        commit_times = carried.column(COMMIT_TIME)
        in_range = among(commit_times, self._instants)
        if self._unknown is None:
            return in_range
        stamped = among(commit_times, self._unknown)
        if not stamped.true_count:
            return in_range
        commit_times = self._plain.column(COMMIT_TIME, commit_times)
        for service in pc.unique(commit_times.filter(stamped)).to_pylist():
            of_service = pc.and_(
                pc.equal(commit_times, service),
                among(carried.column(RECORD_KEY), self._origin_keys(service))
                if service in self._origins
                else self._refuse(service),
            )
            in_range = pc.or_(in_range, of_service)
        return in_range

    def _origin_keys(self, service: str) -> pa.Array:
        if service not in self._keys:
            self._keys[service] = self._keys_of(self._origins[service])
        return self._keys[service]

    def _refuse(self, service: str) -> NoReturn:
        what = f"service {service} (a log compaction or bucket rescale)"
        if service in self._begins_inside:
            what = f"instant {service}, inside which the range begins and whose file groups a clustering mixed"
        raise PositionExpired(
            f"table {self._table}: split {self._split_id}: a range over rows whose {COMMIT_TIME} is that of {what}, "
            "and files of the rewritten slices, which are needed to find the rows of the range, are gone; request a "
            "range that begins after it, or read a snapshot (a cleaner that keeps more commits prevents this)"
        )

    def _carried_columns(self, merged: pa.RecordBatch) -> list[pa.Array]:
        columns: list[pa.Array] = []
        for name in self._read_schema.carried:
            constant = self._constants.column(name, merged.num_rows)
            if constant is not None:
                columns.append(constant)
            elif name == COMPLETION_TIME and self._completion is not None:
                columns.append(self._completion.of_batch(merged))
            else:
                columns.append(merged.column(name))
        return columns

    def _kept(self, carried: pa.RecordBatch) -> np.ndarray | None:
        """Offsets of the rows that the requested instants and the filter keep; None for all."""
        kept: np.ndarray | None = None
        if self._instants is not None:
            flags = self._in_range(carried)
            if flags.true_count < len(flags):
                kept = np.flatnonzero(numpy_array(flags))
                carried = carried.take(arrow_array(kept))
        if self._read_schema.predicate is None or (kept is not None and not len(kept)):
            return kept
        from penstock.reader.split.filter import kept_rows  # late: most reads have no condition

        filtered = kept_rows(self._read_schema.predicate, self._plain.batch(carried.select(self._filtered_by)))
        if filtered is None:
            return kept
        return filtered if kept is None else kept[filtered]
