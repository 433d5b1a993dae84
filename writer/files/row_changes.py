"""The changes of a base file while it is rewritten: old rows that go are paired with the rows that replace them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.reader.values.record_keys import RECORD_KEY
from penstock.writer.files.change_log import DELETE, INSERT, UPDATE, ChangeLogWriter

_STEP: Final = 8192
"""Rows that are logged together. A column of a batch has less than 2 GiB of text."""


@dataclass(slots=True, eq=False)
class RowChanges:
    """Collects the changes of one row group, and logs them at its end. Memory: its rows that change.

    Rows have the columns of the files. `numbers` (int64) identify their keys.
    """

    log: ChangeLogWriter
    """Where changes are logged."""
    _gone: list[tuple[pa.RecordBatch, np.ndarray]] = field(default_factory=list)
    _arrived: list[pa.RecordBatch] = field(default_factory=list)
    _numbers: list[np.ndarray] = field(default_factory=list)

    def gone(self, rows: pa.RecordBatch, numbers: np.ndarray) -> None:
        """Rows of the old file that are not in the new one."""
        if rows.num_rows:
            self._gone.append((rows, numbers))

    def arrived(self, rows: pa.RecordBatch, numbers: np.ndarray) -> None:
        """Rows of the new file that replace some of the row group."""
        if rows.num_rows:
            self._arrived.append(rows)
            self._numbers.append(numbers)

    def inserted(self, rows: pa.RecordBatch) -> None:
        """Rows of the new file whose keys the old one does not have."""
        kinds = np.full(rows.num_rows, INSERT, np.uint8)
        self.log.write(kinds, rows.column(RECORD_KEY), rows.slice(0, 0), rows)

    def end_row_group(self) -> None:
        """Logs the changes of the row group: updates and deletes in the order of the old file."""
        new_numbers = np.concatenate([np.zeros(0, np.int64), *self._numbers])
        order = np.argsort(new_numbers)
        for rows, numbers in self._gone:
            places = np.searchsorted(new_numbers, numbers, sorter=order)
            places = order[np.minimum(places, len(order) - 1)] if len(order) else np.zeros(len(numbers), np.int64)
            replaced = new_numbers[places] == numbers if len(order) else np.zeros(len(numbers), bool)
            for begin in range(0, rows.num_rows, _STEP):
                some = slice(begin, begin + _STEP)
                self._log(rows.slice(begin, _STEP), replaced[some], places[some][replaced[some]])
        self._gone.clear()
        self._arrived.clear()
        self._numbers.clear()

    def _log(self, old: pa.RecordBatch, replaced: np.ndarray, places: np.ndarray) -> None:
        """Logs old rows; `places` are those of the rows that arrived for the replaced ones."""
        kinds = np.where(replaced, UPDATE, DELETE).astype(np.uint8)
        new = _taken(self._arrived, places) if len(places) else old.slice(0, 0)
        self.log.write(kinds, old.column(RECORD_KEY), old, new)


def _taken(batches: Sequence[pa.RecordBatch], places: np.ndarray) -> pa.RecordBatch:
    """The rows at these places of all batches, without joining the batches."""
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    order = np.argsort(places)
    ascending = places[order]
    edges = np.searchsorted(ascending, starts)
    parts = [
        batch.take(pa.array(ascending[first:last] - start))
        for batch, start, first, last in zip(batches, starts, edges, edges[1:], strict=False)
        if last > first
    ]
    return pa.concat_batches(parts).take(pa.array(np.argsort(order)))
