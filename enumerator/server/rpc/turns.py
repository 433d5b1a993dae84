"""Which of the calls that read storage run now: few at a time, and no table takes the place of all others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.enumerator.server.rpc.limits import PLANNING_WORKERS, WORKERS
from penstock.proto.errors import Overloaded, StorageError

MAX_RUNNING: Final = WORKERS // 2
"""Calls that run at a time, of all tables."""
MAX_WAITING: Final = WORKERS // 2
"""Calls that wait for their turn, of all tables, each on a thread."""


def most_waiting(others: int) -> int:
    """How many calls of a table may wait while `others` calls of other tables do: half of what those leave, so that
    tables whose storage does not answer never take every thread. At least 1."""
    return max(1, (MAX_WAITING - others) // 2)


class Turns:
    """At most PLANNING_WORKERS calls run at a time, and beyond them one of each table that has none running: a table
    whose storage does not answer holds up its own calls alone. Any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def of(self, table: str, remaining_s: float) -> Iterator[None]:
        """The block runs when it is the table's turn. Overloaded if too many calls of the table wait; StorageError if
        its turn does not come within `remaining_s`."""
        with self._changed:
            waiting = self._waiting[table]
            if waiting >= most_waiting(self._waiting.total() - waiting):
                raise Overloaded(f"table {table[:200]}: {waiting} calls wait for its storage: retry later")
            self._waiting[table] += 1
            try:
                came = self._changed.wait_for(lambda: self._is_free(table), remaining_s)
            finally:
                _take_one(self._waiting, table)
            if not came:
                raise StorageError(
                    f"table {table[:200]}: the deadline passed before the call was begun: its storage is slow, or the "
                    "server is overloaded"
                )
            self._running[table] += 1
        try:
            yield
        finally:
            with self._changed:
                _take_one(self._running, table)
                self._changed.notify_all()

    def _is_free(self, table: str) -> bool:
        running = self._running.total()
        return running < PLANNING_WORKERS or (not self._running[table] and running < MAX_RUNNING)


def _take_one(counts: Counter[str], table: str) -> None:
    counts[table] -= 1
    if not counts[table]:
        del counts[table]
