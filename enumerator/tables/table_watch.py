"""One look at a table for all that follow it: what the last look at each table showed, and when the next one is due.

Looks are spread over the interval: the first interval of a table is cut by chance, so that tables that were all looked
at once, at the start of a server, are later looked at one by one. Clock and chance are arguments.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.continuous.change_probe import TableFingerprint

WHOLE_INTERVAL: Final[Callable[[], float]] = lambda: 1.0  # noqa: E731
"""The chance without spreading."""
MAX_TABLES: Final = 20_000
"""Tables whose looks are kept."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a table."""

    fingerprint: TableFingerprint
    """What it showed. Taken before anything else of the table was read."""
    at_ms: int
    """When it began."""
    until_ms: int
    """When the next look is due."""


@dataclass(slots=True)
class _Watched:
    """The state of one table."""

    looking: threading.Lock = field(default_factory=threading.Lock)
    """Held during a look."""
    look: Look | None = None
    """The last look."""


class TableWatch:
    """The last look at each table, by path: two names of one table share their looks. Any thread.

    `probe` looks at a table. `clock_ms` never runs backwards. `chance` returns numbers from 0 to 1. Keeps the looks at
    `most` tables, those looked at last.
    """

    def __init__(
        self,
        probe: Callable[[str], TableFingerprint],
        clock_ms: Callable[[], int],
        chance: Callable[[], float] = WHOLE_INTERVAL,
        most: int = MAX_TABLES,
    ) -> None:
        self._probe, self._clock_ms, self._chance, self._most = probe, clock_ms, chance, most
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, _Watched] = OrderedDict()

    def look(self, path: str, interval_ms: int) -> Look:
        """The last look at the table, or a new one if it is due. Errors of the storage; then the next call looks again.

        Concurrent calls for one table are one look. A look stands for the table until the next one is due: a change
        since then shows in the next look.
        """
        with self._lock:
            table = self._tables.setdefault(path, _Watched())
            self._tables.move_to_end(path)
            while len(self._tables) > self._most:
                self._tables.popitem(last=False)
        with table.looking:
            now_ms, before = self._clock_ms(), table.look
            if before is not None and now_ms < min(before.until_ms, before.at_ms + interval_ms):
                return before
            fingerprint = self._probe(path)
            share = self._chance() if before is None else 1.0
            table.look = Look(fingerprint, now_ms, now_ms + round(interval_ms * share))
            return table.look
