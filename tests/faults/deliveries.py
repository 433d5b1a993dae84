"""What the readers of a group delivered, and its invariants, each with a name: no row is lost, doubled or changed, each
is committed once, and the changes of a key are in order.

A delivery has two steps: the reader writes the rows of a batch, each under its record id (split and ordinal), and then
commits. A commit without an answer may have counted or not. In both cases the rows are in the output, once.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.faults.checks import fail
from tests.faults.served import CASE
from tests.golden.changes import hudi_changes, lost_decimals

RecordId = tuple[str, int]
"""The split and the ordinal of a row."""
Change = tuple[str, str, str, str]
"""A row in Hudi's format of changes: operation, time of the commit, row before, row after."""


@dataclass
class Deliveries:
    """The output of all readers of a group over the table `CASE`. Any thread."""

    golden: Any
    rows: dict[RecordId, Change] = field(default_factory=dict)
    """The rows in the order in which they were first written."""
    commits: list[tuple[str, str, int, int]] = field(default_factory=list)
    """The answered commits: the reader, the split, the first ordinal, the ordinal after the last."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        hudi_rows = self.golden.expected(CASE, "cdc_all")
        self._lost_decimals = lost_decimals(hudi_rows)
        self.expected: Counter[Change] = hudi_changes(hudi_rows, self._lost_decimals)
        assert self.expected.total() >= 20

    def write(self, split_id: str, first_ordinal: int, batch: pa.RecordBatch) -> None:
        """Writes the rows of a batch of a split."""
        with self._lock:
            for ordinal, change in enumerate(self._changes(batch), first_ordinal):
                before = self.rows.setdefault((split_id, ordinal), change)
                if before != change:
                    fail("one content", f"row {ordinal} of {split_id} was {before}, and then {change}")

    def committed(self, reader: str, split_id: str, first_ordinal: int, next_ordinal: int) -> None:
        """The commit of these rows was answered."""
        with self._lock:
            self.commits.append((reader, split_id, first_ordinal, next_ordinal))

    def check(self) -> None:
        """All invariants, when every split is finished."""
        with self._lock:
            self._check_rows()
            self._check_commits()
            self._check_order()

    def _check_rows(self) -> None:
        actual = Counter(self.rows.values())
        if unknown := [change for change in actual if change not in self.expected]:
            fail("no row is changed", f"Hudi did not return {unknown[0]}")
        if doubled := actual - self.expected:
            fail("no row is doubled", f"{doubled}")
        if lost := self.expected - actual:
            fail("no row is lost", f"{lost}")

    def _check_commits(self) -> None:
        owners: dict[RecordId, str] = {}
        for reader, split_id, first, following in self.commits:
            for ordinal in range(first, following):
                if (split_id, ordinal) in owners:
                    fail(
                        "one commit",
                        f"row {ordinal} of {split_id}: {owners[split_id, ordinal]} and {reader} each had the answer "
                        "that it is committed",
                    )
                owners[split_id, ordinal] = reader

    def _check_order(self) -> None:
        newest: dict[str, str] = {}
        for (split_id, _), change in self.rows.items():
            for key in keys_of(change):
                if newest.setdefault(key, change[1]) > change[1]:
                    fail("order of a key", f"{key}: a change of {change[1]} ({split_id}) came after {newest[key]}")
                newest[key] = change[1]

    def _changes(self, batch: pa.RecordBatch) -> Iterator[Change]:
        table = pa.Table.from_batches([batch])
        for row in range(len(table)):
            yield from hudi_changes(table.slice(row, 1), self._lost_decimals)


def keys_of(change: Change) -> Iterable[str]:
    """The record key of a change, without its partition: the key in Hudi's images of `CASE`."""
    return {image["id"] for image in map(json.loads, change[2:]) if image}
