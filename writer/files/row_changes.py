"""The changes of a base file while it is rewritten: old rows that go are paired with the rows that replace them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.reader.values.record_keys import RECORD_KEY
from penstock.writer.files.change_log import DELETE, INSERT, UPDATE, ChangeLogWriter

_Rows = list[tuple[pa.RecordBatch, np.ndarray]]


@dataclass(slots=True, eq=False)
class RowChanges:
    """Collects the changes of one row group, and logs them at its end. Memory: its rows that change.

    Rows have the columns of the files. `numbers` (int64) identify their keys.
    """

    log: ChangeLogWriter
    """Where changes are logged."""
    _gone: _Rows = field(default_factory=list)
    _arrived: _Rows = field(default_factory=list)

    def gone(self, rows: pa.RecordBatch, numbers: np.ndarray) -> None:
        """Rows of the old file that are not in the new one."""
        if rows.num_rows:
            self._gone.append((rows, numbers))

    def arrived(self, rows: pa.RecordBatch, numbers: np.ndarray) -> None:
        """Rows of the new file that replace some of the row group."""
        if rows.num_rows:
            self._arrived.append((rows, numbers))

    def inserted(self, rows: pa.RecordBatch) -> None:
        """Rows of the new file whose keys the old one does not have."""
        kinds = np.full(rows.num_rows, INSERT, np.uint8)
        self.log.write(kinds, rows.column(RECORD_KEY), rows.slice(0, 0), rows)

    def end_row_group(self) -> None:
        """Logs the changes of the row group: updates and deletes in the order of the old file."""
        if not self._gone:
            return
        old, old_numbers = _joined(self._gone)
        new, new_numbers = _joined(self._arrived) if self._arrived else (old.slice(0, 0), np.zeros(0, np.int64))
        order = np.argsort(new_numbers)
        places = np.searchsorted(new_numbers[order], old_numbers)
        places[places == len(order)] = 0
        replaced = new_numbers[order[places]] == old_numbers if len(order) else np.zeros(len(old_numbers), bool)
        kinds = np.where(replaced, UPDATE, DELETE).astype(np.uint8)
        after = new.take(pa.array(order[places[replaced]])) if len(order) else new
        self.log.write(kinds, old.column(RECORD_KEY), old, after)
        self._gone.clear()
        self._arrived.clear()


def _joined(parts: _Rows) -> tuple[pa.RecordBatch, np.ndarray]:
    if len(parts) == 1:
        return parts[0]
    return pa.concat_batches([rows for rows, _ in parts]), np.concatenate([numbers for _, numbers in parts])
