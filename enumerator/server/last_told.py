"""What was last said of each group, for gauges that are made when they are scraped. Not here: what gauges those are."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class LastTold(Generic[T]):
    """The last word on each (table, group), for at most `most` of them: others are not kept. Any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._told: dict[tuple[str, str], T] = {}

    def set(self, table: str, group: str, told: T) -> None:
        """Replaces what was said of the group."""
        with self._lock:
            if (table, group) in self._told or len(self._told) < self._most:
                self._told[table, group] = told

    def drop(self, table: str, group: str) -> None:
        """Nothing more is said of the group."""
        with self._lock:
            self._told.pop((table, group), None)

    def now(self) -> dict[tuple[str, str], T]:
        """All of it."""
        with self._lock:
            return dict(self._told)
