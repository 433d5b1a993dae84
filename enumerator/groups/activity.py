"""Recent activity of a server's groups, in bounded memory: an `Observer` for `penstock top` and the status page.

The clock (milliseconds since 1970 UTC) is passed in. Any thread: each call takes one lock, and no call does I/O.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.enumerator.catalog_events import CatalogListed, TableRemoved
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
    StreamsMeasured,
    TableChecked,
    WatermarkPlanned,
)
from penstock.enumerator.subscriptions import Subscriptions
from penstock.enumerator.write_events import ServicesMeasured, TableWritesMeasured, WritesMeasured
from penstock.proto.model.groups import GroupLag
from penstock.proto.model.reports import SplitReport
from penstock.proto.model.server_status import StreamStatus
from penstock.proto.model.service_splits import ServiceSplitSummary

MAX_SHOWN: Final = 5_000
"""Groups with activity, and tables with activity, if the settings do not say otherwise; further ones are ignored."""
MAX_SAMPLES: Final = 720
"""Samples of a group, and watermarks of a table. With more than FULL groups or tables, each has fewer."""
FULL: Final = 200
"""So many groups, and so many tables, have all of their samples and rounds; the memory of more is no larger."""
LEAST: Final = 20
"""Samples of a group, and watermarks and rounds of a table, however many there are."""
SPACING_MS: Final = 5_000
"""Least time between two samples of a group: MAX_SAMPLES of them are an hour."""
MAX_ROUNDS: Final = 500
"""Rounds of a table."""
MAX_BARS: Final = 2_000
"""Bars of splits that readers no longer hold, of all groups; as many bars may be open."""
RATE_MS: Final = 60_000
"""Time over which a throughput is measured."""
_BUCKET_MS: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The figures of a group at one time."""

    at_ms: int
    """When the sample was taken."""
    pending: int
    """Pending splits."""
    held: int
    """Splits that readers hold."""
    finished: int
    """Finished splits since the first event of the group."""
    lag_seconds: float | None
    """Lag behind the table in seconds; None if unknown."""
    lag_commits: int | None
    """Lag behind the table in commits; None if unknown."""
    issued_ms: int | None
    """Instant of the newest planned commit; None if unknown."""
    rows: int
    """Rows read since the first event of the group."""
    watermark_ms: int | None = None
    """Watermark of the group; None if it has none, or it is not known yet."""


@dataclass(slots=True)
class Bar:
    """The time for which a reader held a split. Changes once: when it ends."""

    table: str
    """Name of the table."""
    group: str
    """Name of the group."""
    reader_id: str
    """The reader."""
    plan_id: str
    """Plan id of the round."""
    index: int
    """Index of the split in the round."""
    begin_ms: int
    """When the reader received the split."""
    end_ms: int | None = None
    """When the reader no longer held it; None while it holds it."""
    how: str = ""
    """Why it ended; '' while the reader holds the split."""


@dataclass(frozen=True, slots=True)
class RoundSeen:
    """A planned round and its time."""

    at_ms: int
    """When it was planned."""
    discovered: RoundDiscovered
    """The round."""


@dataclass(frozen=True, slots=True)
class CatalogSeen:
    """The last listing of a catalog and its time."""

    at_ms: int
    """When it ended."""
    listed_ms: int | None
    """When the last successful listing ended; None: never."""
    listing: CatalogListed
    """The listing."""


@dataclass(slots=True)
class GroupActivity:
    """The activity of a group since the first event of it in this process."""

    since_ms: int
    """Time of the first event."""
    gauges: GroupGauges | None = None
    """The newest gauges."""
    lag: GroupLag | None = None
    """The newest lag; None if it could not be measured."""
    lag_at_ms: int = 0
    """When the lag was measured."""
    rows: int = 0
    """Rows that readers finished."""
    size_bytes: int = 0
    """Bytes that readers finished."""
    finished: int = 0
    """Finished splits."""
    fenced: int = 0
    """Fenced calls."""
    expired: int = 0
    """Splits of readers whose lease ended."""
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    """Samples, oldest first."""
    _buckets: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=RATE_MS // _BUCKET_MS + 1))

    def read(self, now_ms: int, report: SplitReport) -> None:
        """Adds rows and bytes that a reader finished."""
        self.rows += report.rows
        self.size_bytes += report.size_bytes
        number = now_ms // _BUCKET_MS
        rows, size_bytes = report.rows, report.size_bytes
        if self._buckets and self._buckets[-1][0] == number:
            _, before, bytes_before = self._buckets.pop()
            rows, size_bytes = rows + before, size_bytes + bytes_before
        self._buckets.append((number, rows, size_bytes))

    def rates(self, now_ms: int) -> tuple[float, float]:
        """Rows and bytes a second, over the last RATE_MS, or since the first event of the group if that is shorter."""
        since = (now_ms - RATE_MS) // _BUCKET_MS
        seconds = max(_BUCKET_MS, min(RATE_MS, now_ms - self.since_ms)) / 1000
        recent = [(rows, size) for number, rows, size in self._buckets if number > since]
        return sum(rows for rows, _ in recent) / seconds, sum(size for _, size in recent) / seconds


@dataclass(slots=True)
class TableActivity:
    """The activity of a table."""

    rounds: deque[RoundSeen] = field(default_factory=lambda: deque(maxlen=MAX_ROUNDS))
    """Rounds, newest last."""
    watermarks: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    """Watermarks of batches of streams, newest last: (when the batch was planned, the watermark), in milliseconds."""


class Activity:
    """An `Observer` that keeps recent events. `lock` guards it if several threads use it."""

    def __init__(
        self,
        clock_ms: Callable[[], int],
        lock: AbstractContextManager[object] | None = None,
        max_shown: int = MAX_SHOWN,
    ) -> None:
        self._clock_ms, self._max_shown = clock_ms, max_shown
        self._lock = nullcontext() if lock is None else lock
        self.started_ms = clock_ms()
        self._groups: dict[tuple[str, str], GroupActivity] = {}
        self._tables: dict[str, TableActivity] = {}
        self._health: dict[str, str] = {}
        self._open: OrderedDict[tuple[str, str, str, int], Bar] = OrderedDict()
        self._bars: deque[Bar] = deque(maxlen=MAX_BARS)
        self._streams: tuple[StreamStatus, ...] = ()
        self._services: tuple[ServiceSplitSummary, ...] = ()
        self._catalogs: dict[str, CatalogSeen] = {}
        self._writes = WritesMeasured({})
        self._subscriptions = Subscriptions()
        self._subscriptions.subscribe(GroupMeasured, self._group_measured)
        self._subscriptions.subscribe(LagMeasured, self._lag_measured)
        self._subscriptions.subscribe(GroupRemoved, self._group_removed)
        self._subscriptions.subscribe(SplitReported, self._split_reported)
        self._subscriptions.subscribe(ReaderSplits, self._reader_splits)
        self._subscriptions.subscribe(RoundDiscovered, self._round_discovered)
        self._subscriptions.subscribe(TableChecked, self._table_checked)
        self._subscriptions.subscribe(TableRemoved, self._table_removed)
        self._subscriptions.subscribe(CatalogListed, self._catalog_listed)
        self._subscriptions.subscribe(WritesMeasured, self._writes_measured)
        self._subscriptions.subscribe(WatermarkPlanned, self._watermark_planned)
        self._subscriptions.subscribe(StreamsMeasured, self._streams_measured)
        self._subscriptions.subscribe(ServicesMeasured, self._services_measured)

    def observe(self, event: Observation) -> None:
        """See `Observer.observe`."""
        self._subscriptions.dispatch(event)

    def now_ms(self) -> int:
        """The time now, by the clock of the events."""
        return self._clock_ms()

    def _group_measured(self, event: GroupMeasured) -> None:
        """Adds a sample, at most one every SPACING_MS."""
        now_ms, gauges = self._clock_ms(), event.gauges
        with self._lock:
            activity = self._group(event.table, event.group, now_ms)
            if activity is None:
                return
            activity.gauges = gauges
            if activity.samples and 0 <= now_ms - activity.samples[-1].at_ms < SPACING_MS:
                return
            activity.samples.append(
                Sample(
                    at_ms=now_ms,
                    pending=gauges.pending_splits,
                    held=gauges.assigned_splits,
                    finished=activity.finished,
                    lag_seconds=None if activity.lag is None else activity.lag.seconds,
                    lag_commits=None if activity.lag is None else activity.lag.commits,
                    issued_ms=None if gauges.issued_instant_s is None else round(gauges.issued_instant_s * 1000),
                    rows=activity.rows,
                    watermark_ms=None if gauges.watermark_us is None else gauges.watermark_us // 1000,
                )
            )
            _shorten(activity.samples, MAX_SAMPLES, len(self._groups))

    def _lag_measured(self, event: LagMeasured) -> None:
        now_ms = self._clock_ms()
        with self._lock:
            activity = self._group(event.table, event.group, now_ms)
            if activity is not None:
                activity.lag, activity.lag_at_ms = event.lag, now_ms

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
            activity = self._group(event.table, event.group, now_ms)
            if activity is not None:
                activity.read(now_ms, event.report)

    def _round_discovered(self, event: RoundDiscovered) -> None:
        with self._lock:
            activity = self._table(event.table)
            if activity is not None:
                activity.rounds.append(RoundSeen(self._clock_ms(), event))
                _shorten(activity.rounds, MAX_ROUNDS, len(self._tables))

    def _table_checked(self, event: TableChecked) -> None:
        with self._lock:
            if event.table in self._health or len(self._health) < self._max_shown:
                self._health[event.table] = event.code

    def _table_removed(self, event: TableRemoved) -> None:
        with self._lock:
            self._health.pop(event.table, None)
            self._tables.pop(event.table, None)

    def _catalog_listed(self, event: CatalogListed) -> None:
        now_ms = self._clock_ms()
        with self._lock:
            before = self._catalogs.get(event.catalog)
            listed_ms = now_ms if not event.code else None if before is None else before.listed_ms
            self._catalogs[event.catalog] = CatalogSeen(now_ms, listed_ms, event)

    def catalogs(self) -> tuple[CatalogSeen, ...]:
        """The last listing of each catalog, by name. The configuration has few."""
        with self._lock:
            return tuple(seen for _, seen in sorted(self._catalogs.items()))

    def _writes_measured(self, event: WritesMeasured) -> None:
        with self._lock:
            self._writes = event

    def writes(self) -> tuple[tuple[str, TableWritesMeasured], ...]:
        """The tables that have writes which have not ended, by name."""
        with self._lock:
            measured = self._writes
        return tuple((table, each) for table, each in sorted(measured.tables.items()) if each.writes)[: self._max_shown]

    def health(self) -> dict[str, str]:
        """By table: '' if it can be opened, or the code of the error."""
        with self._lock:
            return dict(self._health)

    def _streams_measured(self, event: StreamsMeasured) -> None:
        with self._lock:
            self._streams = event.streams

    def _services_measured(self, event: ServicesMeasured) -> None:
        with self._lock:
            self._services = event.splits

    def services(self) -> tuple[ServiceSplitSummary, ...]:
        """The splits of table services that are due, by table, service and instant."""
        with self._lock:
            return self._services

    def streams(self) -> tuple[StreamStatus, ...]:
        """The registered streams, by table and name."""
        with self._lock:
            return self._streams

    def _watermark_planned(self, event: WatermarkPlanned) -> None:
        with self._lock:
            activity = self._table(event.table)
            if activity is not None:
                activity.watermarks.append((self._clock_ms(), event.at_us // 1000))
                _shorten(activity.watermarks, MAX_SAMPLES, len(self._tables))

    def _reader_splits(self, event: ReaderSplits) -> None:
        now_ms, what = self._clock_ms(), event.event
        with self._lock:
            activity = self._group(event.table, event.group, now_ms)
            if activity is not None:
                activity.finished += len(event.splits) if what is SplitEvent.FINISHED else 0
                activity.expired += len(event.splits) if what is SplitEvent.EXPIRED else 0
                activity.fenced += what is SplitEvent.FENCED
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
        """Activity by (table, group). The values still change: read counters and rates at once."""
        with self._lock:
            return dict(self._groups)

    def samples(self, table: str, group: str) -> tuple[Sample, ...]:
        """Samples of a group, oldest first."""
        with self._lock:
            activity = self._groups.get((table, group))
            return () if activity is None else tuple(activity.samples)

    def tables(self) -> dict[str, tuple[tuple[RoundSeen, ...], tuple[tuple[int, int], ...]]]:
        """By table: its rounds, and its watermarks, oldest first."""
        with self._lock:
            return {
                name: (tuple(activity.rounds), tuple(activity.watermarks)) for name, activity in self._tables.items()
            }

    def bars(self) -> Iterator[Bar]:
        """Bars of splits in the order of their ends; splits that readers hold now are last."""
        with self._lock:
            bars = (*self._bars, *self._open.values())
        yield from bars

    def _group(self, table: str, group: str, now_ms: int) -> GroupActivity | None:
        activity = self._groups.get((table, group))
        if activity is None and len(self._groups) < self._max_shown:
            activity = self._groups[table, group] = GroupActivity(now_ms)
        return activity

    def _table(self, table: str) -> TableActivity | None:
        activity = self._tables.get(table)
        if activity is None and len(self._tables) < self._max_shown:
            activity = self._tables[table] = TableActivity()
        return activity


def _shorten(values: deque[Any], most: int, owners: int) -> None:
    """Removes the oldest values beyond the part of one of so many groups or tables. A deque that is longer than its
    part (others came later) loses two for each new one, so that no call is long."""
    part = most if owners <= FULL else max(LEAST, most * FULL // owners)
    for _ in range(min(2, len(values) - part)):
        values.popleft()
