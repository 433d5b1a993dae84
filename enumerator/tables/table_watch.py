"""One look at a table for all that follow it: what the last look at each table showed, and when the next one is due.

Looks are spread over the interval: the first interval of a table is cut by chance, so that tables that were all looked
at once, at the start of a server, are later looked at one by one. Clock and chance are arguments.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Final

from penstock.enumerator.call_waits import Wait, call_wait
from penstock.enumerator.continuous.change_probe import TableFingerprint
from penstock.proto.errors import StorageError
from penstock.proto.value_classes import dataclass
from penstock.table.storage.uris import redacted_uri

WHOLE_INTERVAL: Final[Callable[[], float]] = lambda: 1.0  # noqa: E731
"""The chance without spreading."""
MAX_TABLES: Final = 20_000
"""Tables whose looks are kept."""
MAX_WAIT_MS: Final = 1_000
"""A stream that waits for the next look at a table gets it after this time, even if the interval is longer."""
GAP_MS: Final = 50
"""A reported change causes a look at the earliest this long after the look before began."""
LOOK_S: Final = 30.0
"""How long a call waits for the look of another call."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a table."""

    number: int
    """The number of looks at the table up to this one."""
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
    begun: int = 0
    """The number of looks that have begun."""
    running_ms: int | None = None
    """When the running look began; None if none runs."""
    look: Look | None = None
    """The last look."""
    is_stale: bool = False
    """Whether a change was reported after the last look began, or that look failed: the next one is due."""
    due_ms: int = 0
    """The earliest time of a look that a report causes."""
    news: set[threading.Event] = field(default_factory=set)
    """Set when a change is reported."""


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
        self.follow: Callable[[str, str], object] = lambda path, timeline_folder: None
        """Called after each look with the path and the timeline folder of its table: `TimelineWatcher.follow`."""

    def changed(self, path: str) -> int | None:
        """Makes the next look at the table due, because its timeline may have changed. Returns when it is due, at most
        `GAP_MS` after the last look began; None if the table was never looked at.

        Many reports within `GAP_MS` are one look, so that a busy table is not looked at without pause."""
        with self._lock:
            table = self._tables.get(path)
            if table is None:
                return None
            now_ms = self._clock_ms()
            before_ms = table.running_ms
            if before_ms is None and table.look is not None:
                before_ms = table.look.at_ms
            table.due_ms = now_ms if before_ms is None else max(now_ms, before_ms + GAP_MS)
            table.is_stale = True
            for news in table.news:
                news.set()
            return table.due_ms

    @contextmanager
    def news(self, path: str) -> Iterator[threading.Event]:
        """An event that is set when a change of the table is reported while the block runs."""
        table, event = self._table(path), threading.Event()
        with self._lock:
            table.news.add(event)
        try:
            yield event
        finally:
            with self._lock:
                table.news.discard(event)

    def wait_for_change(self, path: str, wait: Callable[[threading.Event], object]) -> None:
        """Calls `wait` with an event that is set when a change of the table is reported; not if one was reported after
        the last look began."""
        with self.news(path) as event:
            if not self._table(path).is_stale:
                wait(event)

    def look(self, path: str, interval_ms: int) -> Look:
        """The last look at the table, or a new one if it is due. Errors of the storage; then the next call looks again.

        Concurrent calls for one table are one look. A look stands for the table until the next one is due: a change
        since then shows in the next look.
        """
        table = self._table(path)
        with _one_at_a_time(table, path):
            before = table.look
            if before is not None:
                due_ms = self._due_ms(table, before.until_ms, before.at_ms + interval_ms)
                if self._clock_ms() < due_ms:
                    return before
            return self._new_look(path, table, interval_ms)

    def begun(self, path: str) -> int:
        """How many looks at the table have begun: one with a higher number begins after this call."""
        return self._table(path).begun

    def look_after(self, path: str, number: int, interval_ms: int) -> Look:
        """A look that began after the look of this number: the last one, or a new one. Errors as `look`.

        A call during a look waits for the next one. All calls that wait at that time share it.
        """
        table = self._table(path)
        with _one_at_a_time(table, path):
            if table.look is not None and table.look.number > number:
                return table.look
            return self._new_look(path, table, interval_ms)

    def now_ms(self) -> int:
        """The clock of the looks."""
        return self._clock_ms()

    def wait_ms(self, path: str, interval_ms: int) -> int:
        """Time until the look after the last one, or after the one that runs, is due; 0 if it is due now."""
        table = self._table(path)
        look, running_ms = table.look, table.running_ms
        if running_ms is not None:
            due_ms = self._due_ms(table, running_ms + interval_ms)
        elif look is not None:
            due_ms = self._due_ms(table, look.until_ms, look.at_ms + interval_ms)
        else:
            return 0
        return max(0, due_ms - self._clock_ms())

    def _due_ms(self, table: _Watched, *times_ms: int) -> int:
        """The earliest of these times, or the time of the look that a report causes."""
        return min(*times_ms, table.due_ms) if table.is_stale else min(times_ms)

    def _table(self, path: str) -> _Watched:
        with self._lock:
            table = self._tables.setdefault(path, _Watched())
            self._tables.move_to_end(path)
            while len(self._tables) > self._most:
                self._tables.popitem(last=False)
            return table

    def _new_look(self, path: str, table: _Watched, interval_ms: int) -> Look:
        at_ms, table.begun = self._clock_ms(), table.begun + 1
        table.running_ms, table.is_stale = at_ms, False  # before the probe: a later report causes another look
        try:
            fingerprint = self._probe(path)
        except BaseException:
            table.is_stale = True
            raise
        finally:
            table.running_ms = None
        share = self._chance() if table.look is None else 1.0
        table.look = Look(table.begun, fingerprint, at_ms, at_ms + round(interval_ms * share))
        self.follow(path, fingerprint.timeline_folder)
        return table.look


class CallLooks:
    """The looks at a table that one call of a stream uses. Create it when the call arrives.

    `interval_ms` is how old a look may be that stands for the table; 0: the call looks itself. `wait`: see
    `call_waits`.
    """

    def __init__(self, watch: TableWatch, path: str, interval_ms: int, wait: Wait | None = None) -> None:
        self._watch, self._path, self._wait = watch, path, wait or call_wait()
        self._interval_ms = min(interval_ms, MAX_WAIT_MS)
        self._before = watch.begun(path)
        self._seen: TableFingerprint | None = None
        self.waited_ms = 0
        """How long the call has waited for a look to be due, and then for its turn again."""

    def recent(self) -> TableFingerprint:
        """What the last look showed, or a new one if that is older than the interval. The same for the whole call,
        unless it has used a later look."""
        if self._seen is None:
            self._seen = self._watch.look(self._path, self._interval_ms).fingerprint
        return self._seen

    def later(self, *, is_urgent: bool) -> TableFingerprint:
        """What a look showed that began after the call arrived: with every instant that had completed by then.

        Unless it is urgent, the call first waits until the next look is due, and shares that look with all others.
        """
        if not is_urgent and self._watch.begun(self._path) == self._before:
            self._wait_until_due()
        self._seen = self._watch.look_after(self._path, self._before, self._interval_ms).fingerprint
        return self._seen

    def _wait_until_due(self) -> None:
        """Waits until a look is due by the interval, or a change is reported."""
        begin_ms = self._watch.now_ms()
        with self._watch.news(self._path) as news:
            delay_ms = self._watch.wait_ms(self._path, self._interval_ms)
            if not delay_ms:
                return
            self._wait(delay_ms / 1000, news)
        self.waited_ms += self._watch.now_ms() - begin_ms


@contextmanager
def _one_at_a_time(table: _Watched, path: str) -> Iterator[None]:
    if not table.looking.acquire(timeout=LOOK_S):
        raise StorageError(
            f"table {redacted_uri(path)}: a look at its timeline has not ended for {LOOK_S:.0f} s: storage does not "
            "answer; a retry may succeed"
        )
    try:
        yield
    finally:
        table.looking.release()
