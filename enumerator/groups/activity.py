"""What a server's groups did of late, in bounded memory: an `Observer` for `penstock top` and the page.

The clock (milliseconds since 1970 UTC) is passed in. Belongs here: what is kept, and for how long. Not here: metrics
(`server.metrics`), how it is shown (`server.page`). Any thread: each call takes one lock, and none does I/O.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.observer import (
    GroupGauges,
    GroupMeasured,
    GroupRemoved,
    LagMeasured,
    Observation,
    ReaderSplits,
    RoundDiscovered,
    SplitEvent,
    SplitReported,
    Subscriptions,
    TableChecked,
    WatermarkPlanned,
)
from penstock.proto.model.groups import GroupLag
from penstock.proto.model.reports import SplitReport

MAX_GROUPS: Final = 200
MAX_TABLES: Final = 200
MAX_SAMPLES: Final = 720
SPACING_MS: Final = 5_000
"""Between two samples of a group: an hour of them is kept."""
MAX_ROUNDS: Final = 500
"""Of a table."""
MAX_BARS: Final = 2_000
"""Splits that were held and ended, of all groups; as many may be open."""
RATE_MS: Final = 60_000
"""What a throughput is taken over."""
_BUCKET_MS: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A group at a moment."""

    at_ms: int
    pending: int
    held: int
    finished: int
    lag_seconds: float | None
    lag_commits: int | None
    issued_ms: int | None
    rows: int


@dataclass(slots=True)
class Bar:
    """A split that a reader held. `end_ms` None: it still does; `how` is why it ended. Changed when it ends, never
    again."""

    table: str
    group: str
    reader_id: str
    plan_id: str
    index: int
    begin_ms: int
    end_ms: int | None = None
    how: str = ""


@dataclass(frozen=True, slots=True)
class RoundSeen:
    """A round that was planned, and when."""

    at_ms: int
    planned: RoundDiscovered


@dataclass(slots=True)
class GroupActivity:
    """A group since this process knows it."""

    since_ms: int
    gauges: GroupGauges | None = None
    lag: GroupLag | None = None
    lag_at_ms: int = 0
    rows: int = 0
    size_bytes: int = 0
    finished: int = 0
    fenced: int = 0
    expired: int = 0
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    _buckets: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=RATE_MS // _BUCKET_MS + 1))

    def read(self, now_ms: int, report: SplitReport) -> None:
        """Rows and bytes that a reader finished."""
        self.rows += report.rows
        self.size_bytes += report.size_bytes
        number = now_ms // _BUCKET_MS
        rows, size_bytes = report.rows, report.size_bytes
        if self._buckets and self._buckets[-1][0] == number:
            _, before, bytes_before = self._buckets.pop()
            rows, size_bytes = rows + before, size_bytes + bytes_before
        self._buckets.append((number, rows, size_bytes))

    def rates(self, now_ms: int) -> tuple[float, float]:
        """Rows and bytes a second, over the last RATE_MS or as long as the group is known."""
        since = (now_ms - RATE_MS) // _BUCKET_MS
        seconds = max(_BUCKET_MS, min(RATE_MS, now_ms - self.since_ms)) / 1000
        kept = [(rows, size) for number, rows, size in self._buckets if number > since]
        return sum(rows for rows, _ in kept) / seconds, sum(size for _, size in kept) / seconds


@dataclass(slots=True)
class TableActivity:
    """A table's rounds, newest last, and the watermark of the stream on it whose batch was planned last."""

    rounds: deque[RoundSeen] = field(default_factory=lambda: deque(maxlen=MAX_ROUNDS))
    watermarks: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    """(when it was planned, the watermark), both in milliseconds."""


class Activity:
    """An `Observer` that keeps recent events. `lock` guards it if several threads use it."""

    def __init__(self, clock_ms: Callable[[], int], lock: AbstractContextManager[object] | None = None) -> None:
        self._clock_ms = clock_ms
        self._lock = nullcontext() if lock is None else lock
        self.started_ms = clock_ms()
        self._groups: dict[tuple[str, str], GroupActivity] = {}
        self._tables: dict[str, TableActivity] = {}
        self._health: dict[str, str] = {}
        self._open: OrderedDict[tuple[str, str, str, int], Bar] = OrderedDict()
        self._bars: deque[Bar] = deque(maxlen=MAX_BARS)
        self._subscriptions = Subscriptions()
        self._subscriptions.subscribe(GroupMeasured, self._group_measured)
        self._subscriptions.subscribe(LagMeasured, self._lag_measured)
        self._subscriptions.subscribe(GroupRemoved, self._group_removed)
        self._subscriptions.subscribe(SplitReported, self._split_reported)
        self._subscriptions.subscribe(ReaderSplits, self._reader_splits)
        self._subscriptions.subscribe(RoundDiscovered, self._round_discovered)
        self._subscriptions.subscribe(TableChecked, self._table_checked)
        self._subscriptions.subscribe(WatermarkPlanned, self._watermark_planned)

    def observe(self, event: Observation) -> None:
        """See `Observer.observe`."""
        self._subscriptions.dispatch(event)

    def now_ms(self) -> int:
        """By the clock of what is kept."""
        return self._clock_ms()

    def _group_measured(self, event: GroupMeasured) -> None:
        """Adds a sample, at most one every SPACING_MS."""
        now_ms, gauges = self._clock_ms(), event.gauges
        with self._lock:
            known = self._group(event.table, event.group, now_ms)
            if known is None:
                return
            known.gauges = gauges
            if known.samples and 0 <= now_ms - known.samples[-1].at_ms < SPACING_MS:
                return
            known.samples.append(
                Sample(
                    at_ms=now_ms,
                    pending=gauges.pending_splits,
                    held=gauges.assigned_splits,
                    finished=known.finished,
                    lag_seconds=None if known.lag is None else known.lag.seconds,
                    lag_commits=None if known.lag is None else known.lag.commits,
                    issued_ms=None if gauges.issued_instant_s is None else round(gauges.issued_instant_s * 1000),
                    rows=known.rows,
                )
            )

    def _lag_measured(self, event: LagMeasured) -> None:
        now_ms = self._clock_ms()
        with self._lock:
            known = self._group(event.table, event.group, now_ms)
            if known is not None:
                known.lag, known.lag_at_ms = event.lag, now_ms

    def _group_removed(self, event: GroupRemoved) -> None:
        with self._lock:
            self._groups.pop((event.table, event.group), None)
            for key in [key for key in self._open if key[:2] == (event.table, event.group)]:
                del self._open[key]

    def _split_reported(self, event: SplitReported) -> None:
        if not event.group:
            return  # a split of a plan
        now_ms = self._clock_ms()
        with self._lock:
            known = self._group(event.table, event.group, now_ms)
            if known is not None:
                known.read(now_ms, event.report)

    def _round_discovered(self, event: RoundDiscovered) -> None:
        with self._lock:
            known = self._table(event.table)
            if known is not None:
                known.rounds.append(RoundSeen(self._clock_ms(), event))

    def _table_checked(self, event: TableChecked) -> None:
        with self._lock:
            if event.table in self._health or len(self._health) < MAX_TABLES:
                self._health[event.table] = event.code

    def health(self) -> dict[str, str]:
        """By table: '', or the code of the error for which it cannot be opened."""
        with self._lock:
            return dict(self._health)

    def _watermark_planned(self, event: WatermarkPlanned) -> None:
        with self._lock:
            known = self._table(event.table)
            if known is not None:
                known.watermarks.append((self._clock_ms(), event.at_us // 1000))

    def _reader_splits(self, event: ReaderSplits) -> None:
        now_ms, what = self._clock_ms(), event.event
        with self._lock:
            known = self._group(event.table, event.group, now_ms)
            if known is not None:
                known.finished += len(event.splits) if what is SplitEvent.FINISHED else 0
                known.expired += len(event.splits) if what is SplitEvent.EXPIRED else 0
                known.fenced += what is SplitEvent.FENCED
            for plan_id, index in event.splits:
                key = (event.table, event.group, plan_id, index)
                before = self._open.pop(key, None)
                if before is not None:
                    before.how = "moved" if what is SplitEvent.ASSIGNED else what.value
                    before.end_ms = max(now_ms, before.begin_ms)
                    self._bars.append(before)
                if what is SplitEvent.ASSIGNED:
                    self._open[key] = Bar(event.table, event.group, event.reader_id, plan_id, index, now_ms)
            while len(self._open) > MAX_BARS:
                self._open.popitem(last=False)

    def groups(self) -> dict[tuple[str, str], GroupActivity]:
        """By (table, group). What is in them still changes: for counters and rates that are read at once."""
        with self._lock:
            return dict(self._groups)

    def samples(self, table: str, group: str) -> tuple[Sample, ...]:
        """Of a group, oldest first."""
        with self._lock:
            known = self._groups.get((table, group))
            return () if known is None else tuple(known.samples)

    def tables(self) -> dict[str, tuple[tuple[RoundSeen, ...], tuple[tuple[int, int], ...]]]:
        """By table: its rounds, and its watermarks, oldest first."""
        with self._lock:
            return {name: (tuple(known.rounds), tuple(known.watermarks)) for name, known in self._tables.items()}

    def bars(self) -> Iterator[Bar]:
        """Splits that readers held or hold, by their end, open ones last."""
        with self._lock:
            found = (*self._bars, *self._open.values())
        yield from found

    def _group(self, table: str, group: str, now_ms: int) -> GroupActivity | None:
        known = self._groups.get((table, group))
        if known is None and len(self._groups) < MAX_GROUPS:
            known = self._groups[table, group] = GroupActivity(now_ms)
        return known

    def _table(self, table: str) -> TableActivity | None:
        known = self._tables.get(table)
        if known is None and len(self._tables) < MAX_TABLES:
            known = self._tables[table] = TableActivity()
        return known
