"""Limits the concurrent calls that read storage, so that one table cannot block the calls of other tables."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from penstock.enumerator.server.rpc.limits import PLANNING_WORKERS, WORKERS
from penstock.proto.errors import Overloaded, StorageError

MAX_RUNNING: Final = WORKERS // 2
"""Concurrent calls of all tables."""
MAX_WAITING: Final = WORKERS // 2
"""Waiting calls of all tables. Each occupies a thread."""
MAX_PARKED: Final = WORKERS
"""Calls of all tables that have given back their turn for a while. Each occupies a thread."""


def most_waiting(others: int, most: int = MAX_WAITING) -> int:
    """How many calls of a table may wait while `others` calls of other tables wait: half of the remaining threads, so
    that tables with unresponsive storage never take every thread. At least 1."""
    return max(1, (most - others) // 2)


class Turns:
    """At most PLANNING_WORKERS calls run at a time, plus one call of each table that has none running. A table with
    unresponsive storage therefore delays only its own calls. Any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._parked: Counter[str] = Counter()

    @contextmanager
    def of(self, table: str, remaining_s: float) -> Iterator[None]:
        """Runs the block when the table has a turn. Overloaded if too many calls of the table wait; StorageError if
        there is no turn within `remaining_s`."""
        with self._changed:
            waiting = self._waiting[table]
            if waiting >= most_waiting(self._waiting.total() - waiting):
                raise Overloaded(f"table {table[:200]}: {waiting} calls wait for its storage: retry later")
            self._waiting[table] += 1
            try:
                is_free = self._changed.wait_for(lambda: self._is_free(table), remaining_s)
            finally:
                _decrement(self._waiting, table)
            if not is_free:
                raise StorageError(
                    f"table {table[:200]}: the deadline passed before the call was begun: its storage is slow, or the "
                    "server is overloaded"
                )
            self._running[table] += 1
        try:
            yield
        finally:
            self._end(table)

    def park(self, table: str, remaining_s: float, wait: Callable[[], object]) -> bool:
        """Calls `wait` within a turn of the table, without the turn, which others use meanwhile; then waits for a turn
        again. Returns False without a wait if too many calls are parked. StorageError if there is no turn within
        `remaining_s` after the wait."""
        with self._changed:
            parked = self._parked[table]
            if parked >= most_waiting(self._parked.total() - parked, MAX_PARKED):
                return False
            self._parked[table] += 1
        self._end(table)
        try:
            wait()
        finally:
            with self._changed:
                is_free = self._changed.wait_for(lambda: self._is_free(table), remaining_s)
                self._running[table] += 1  # the block of `of` ends it
                _decrement(self._parked, table)
        if not is_free:
            raise StorageError(f"table {table[:200]}: the deadline passed: the server is overloaded; retry later")
        return True

    def _end(self, table: str) -> None:
        with self._changed:
            _decrement(self._running, table)
            self._changed.notify_all()

    def _is_free(self, table: str) -> bool:
        running = self._running.total()
        return running < PLANNING_WORKERS or (not self._running[table] and running < MAX_RUNNING)


def _decrement(counts: Counter[str], table: str) -> None:
    counts[table] -= 1
    if not counts[table]:
        del counts[table]
