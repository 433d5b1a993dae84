"""The splits that a reader received and has not read to the end, in order; tables that cannot be read are set aside."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from penstock.engine.group.split_reader import SplitReader
from penstock.proto.errors import PenstockError
from penstock.proto.model.groups import Member

FIRST_DELAY_MS: Final = 1_000
LONGEST_DELAY_MS: Final = 60_000
MOST_FAILURES: Final = 3
"""After so many failures in a row, or one that a retry does not help, a table counts as failed. It is tried on."""


@dataclass(slots=True)
class TableFailure:
    """A table whose split could not be read."""

    error: PenstockError
    """The last error."""
    count: int
    """Failures in a row."""
    until_ms: int
    """When the table is tried again."""

    @property
    def is_final(self) -> bool:
        """Whether the table counts as failed."""
        return self.count >= MOST_FAILURES or not self.error.retryable


class SplitQueue:
    """Splits in the order received. Used by one thread.

    A split is read to its end before the next one begins, unless its table is set aside: then the splits of other
    tables go on, and those of the table keep their order and their progress.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._splits: deque[SplitReader] = deque()
        self._failures: dict[str, TableFailure] = {}

    def __len__(self) -> int:
        return len(self._splits)

    def extend(self, splits: Iterable[SplitReader]) -> None:
        """Adds splits at the end."""
        self._splits.extend(splits)

    def first(self) -> SplitReader | None:
        """The split to read now; None if there is none, or all are of tables that are set aside."""
        aside = self.tables_aside()
        if not aside:
            return self._splits[0] if self._splits else None
        return next((split for split in self._splits if split.owner.table not in aside), None)

    def remove(self, split: SplitReader) -> None:
        """Removes a split that ended."""
        self._failures.pop(split.owner.table, None)
        self._splits.remove(split)

    def succeeded(self, split: SplitReader) -> None:
        """A batch of the split was read: its table is readable."""
        self._failures.pop(split.owner.table, None)

    def set_aside(self, split: SplitReader, error: PenstockError) -> TableFailure:
        """Sets the table of the split aside; the delays double from FIRST_DELAY_MS to LONGEST_DELAY_MS."""
        split.close()
        table = split.owner.table
        count = 1 if table not in self._failures else self._failures[table].count + 1
        delay_ms = min(LONGEST_DELAY_MS, FIRST_DELAY_MS << min(count - 1, 16))
        failure = self._failures[table] = TableFailure(error, count, self._now_ms() + delay_ms)
        return failure

    def tables_aside(self) -> tuple[str, ...]:
        """The tables that are set aside now, sorted."""
        if not self._failures:
            return ()
        now_ms = self._now_ms()
        return tuple(sorted(table for table, failure in self._failures.items() if failure.until_ms > now_ms))

    def next_try_ms(self) -> int | None:
        """When a table is tried again next; None if none is set aside."""
        return min((failure.until_ms for failure in self._failures.values()), default=None)

    def failed_tables(self) -> dict[str, PenstockError]:
        """The tables that count as failed, with their errors."""
        return {table: failure.error for table, failure in self._failures.items() if failure.is_final}

    @property
    def may_recover(self) -> bool:
        """Whether a table is set aside that does not count as failed."""
        return any(not failure.is_final for failure in self._failures.values())

    def drop(self, owner: Member) -> int:
        """Removes all splits of a member; returns how many. Its table is no longer set aside."""
        dropped = [split for split in self._splits if split.owner == owner]
        for split in dropped:
            split.close()
        self._splits = deque(split for split in self._splits if split.owner != owner)
        self._failures.pop(owner.table, None)
        return len(dropped)

    def clear(self) -> None:
        """Closes and removes all splits."""
        for split in self._splits:
            split.close()
        self._splits.clear()
        self._failures.clear()
