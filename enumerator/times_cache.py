"""What files told of event times, kept: files never change, so none is asked twice. Bounded; any thread.

Not here: what is kept (`file_times`, `split_times`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, TypeVar, cast

MAX_CELLS: Final = 200_000
"""What all entries weigh together: one for the entry, one for each row group or log block in it."""

_T = TypeVar("_T")


class TimesCache:
    """Entries by key; those unused longest are let go once all weigh more than `max_cells`.

    A key names everything that its value depends on: table, file with its size, column with type and unit.
    """

    def __init__(self, max_cells: int = MAX_CELLS) -> None:
        self._max_cells = max_cells
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._cells = 0

    def get(self, key: Hashable) -> object | None:
        """The value, used just now; None if it is not here."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: object, cells: int = 0) -> None:
        """Keeps a value that weighs `cells` more than an entry."""
        weight = cells + 1
        with self._lock:
            before = self._held.pop(key, None)
            self._cells += weight - (before[1] if before else 0)
            self._held[key] = (value, weight)
            while self._cells > self._max_cells and self._held:
                _, (_, gone) = self._held.popitem(last=False)
                self._cells -= gone

    def made(self, key: Hashable, make: Callable[[], _T], cells: Callable[[_T], int]) -> _T:
        """The value under a key, made if it is not here; two threads may make it both, and get equal ones."""
        found = self.get(key)
        if found is not None:
            return cast("_T", found)
        value = make()
        self.put(key, value, cells(value))
        return value

    def __len__(self) -> int:
        with self._lock:
            return len(self._held)
