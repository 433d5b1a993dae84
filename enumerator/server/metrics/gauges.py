"""Collectors for the Prometheus client: the lag of consumer groups, the topics of hybrid groups, streams, and writes.

The client is imported late: the module loads without the extra `server`.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from penstock.enumerator.catalog_events import CatalogListed, TimelinesWatched
from penstock.enumerator.observer import StreamsMeasured, TopicMeasured
from penstock.enumerator.server.metrics.families import Values, counter, gauge, gauge_of
from penstock.enumerator.write_events import ServicesMeasured, WritesMeasured
from penstock.proto.model.groups import GroupLag
from penstock.proto.model.hybrid import Phase
from penstock.proto.model.server_status import StreamState
from penstock.proto.model.service_splits import ServiceSplitState
from penstock.proto.model.streams import END_OF_TIME_US
from penstock.proto.model.writes import WriteEnd, WriteState

T = TypeVar("T")


class LatestValues(Generic[T]):
    """The latest value of each (table, group), for the first `most` of them. Any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: dict[tuple[str, str], T] = {}

    def set(self, table: str, group: str, value: T) -> None:
        """Replaces the group's value."""
        with self._lock:
            if (table, group) in self._values or len(self._values) < self._most:
                self._values[table, group] = value

    def drop(self, table: str, group: str) -> None:
        """Removes the group's value."""
        with self._lock:
            self._values.pop((table, group), None)

    def snapshot(self) -> dict[tuple[str, str], T]:
        """A copy of all values."""
        with self._lock:
            return dict(self._values)


if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric


class LagGauges(LatestValues[GroupLag]):
    """A collector of the Prometheus client, without the groups that `hidden` returns."""

    def __init__(
        self, most: int, hidden: Callable[[Mapping[tuple[str, str], GroupLag]], Collection[tuple[str, str]]]
    ) -> None:
        super().__init__(most)
        self._hidden = hidden

    def collect(self) -> Iterator[Metric]:
        """Called by the client at each scrape."""
        values = self.snapshot()
        hidden = self._hidden(values)
        lags = {(group, table): lag for (table, group), lag in values.items() if (table, group) not in hidden}
        yield gauge("penstock_group_lag_commits", {key: lag.commits for key, lag in lags.items()})
        yield gauge("penstock_group_lag_bytes", {key: lag.size_bytes for key, lag in lags.items()})
        yield gauge("penstock_group_lag_seconds", {key: lag.seconds for key, lag in lags.items()})


MAX_PARTITIONS: Final = 200
"""Partitions of one topic that have a gauge each; the lag of all others is summed under `other`."""


class CatalogGauges:
    """A collector of the Prometheus client: the last listing of each catalog. Any thread."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s, self._lock = clock_s, threading.Lock()
        self._listed: dict[str, CatalogListed] = {}
        self._succeeded_s: dict[str, float] = {}

    def set(self, event: CatalogListed) -> None:
        """Replaces the catalog's listing."""
        with self._lock:
            self._listed[event.catalog] = event
            if not event.code:
                self._succeeded_s[event.catalog] = self._clock_s()

    def collect(self) -> Iterator[Metric]:
        """Called by the client at each scrape."""
        with self._lock:
            listed, now_s = dict(self._listed), self._clock_s()
            ages: Values = {(name,): now_s - at_s for name, at_s in self._succeeded_s.items()}
        yield gauge("penstock_catalog_up", {(name,): float(not event.code) for name, event in listed.items()})
        yield gauge("penstock_catalog_tables", {(name,): float(event.tables) for name, event in listed.items()})
        yield gauge("penstock_catalog_problems", {(name,): float(event.problems) for name, event in listed.items()})
        yield gauge("penstock_catalog_listing_age_seconds", ages)


_STATES: Final = {None: 0, Phase.SWITCHING: 1, Phase.KAFKA: 2}


class TopicGauges(LatestValues[TopicMeasured]):
    """A collector of the Prometheus client."""

    def collect(self) -> Iterator[Metric]:
        """Called by the client at each scrape."""
        topics = self.snapshot()
        states: dict[tuple[str, ...], float] = {
            (group, table): _STATES[gauges.phase] for (table, group), gauges in topics.items()
        }
        lags: dict[tuple[str, ...], float] = defaultdict(int)
        for (_, group), gauges in topics.items():
            for number, (partition, records) in enumerate(sorted(gauges.lag.items())):
                label = str(partition) if number < MAX_PARTITIONS else "other"
                lags[group, gauges.topic, label] += records
        yield gauge("penstock_kafka_switch_state", states)
        yield gauge("penstock_kafka_lag_records", lags)


class ServiceGauges:
    """A collector of the Prometheus client: the splits of table services that are due, of the first `most` tables."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._event = ServicesMeasured(())

    def set(self, event: ServicesMeasured) -> None:
        """Replaces all splits."""
        self._event = event

    def collect(self) -> Iterator[Metric]:
        """Called by the client at each scrape."""
        tables = list(dict.fromkeys(each.id.table for each in self._event.splits))[: self._most]
        counts: dict[tuple[str, ...], float] = {(table, state): 0.0 for table in tables for state in ServiceSplitState}
        oldest: dict[tuple[str, ...], float] = dict.fromkeys(((table,) for table in tables), 0.0)
        for split in self._event.splits:
            if (split.id.table,) in oldest:
                counts[split.id.table, ServiceSplitState.FAILING if split.failures else split.state] += 1
                if split.state is not ServiceSplitState.RUNNING:
                    oldest[split.id.table,] = max(oldest[split.id.table,], split.age_ms / 1000)
        yield gauge("penstock_service_splits", counts)
        yield gauge("penstock_service_oldest_due_seconds", oldest)


_UP: Final = (StreamState.RUNNING, StreamState.IDLE, StreamState.HELD, StreamState.ENDED)


class StreamGauges:
    """A collector of the Prometheus client. It exposes the first `most` streams by table and name."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._event = StreamsMeasured(())

    def set(self, event: StreamsMeasured) -> None:
        """Replaces all streams."""
        self._event = event

    def collect(self) -> Iterator[Metric]:
        """Called by the client at each scrape."""
        streams = {(status.name, status.table): status for status in self._event.streams[: self._most]}
        lags = {key: status.lag for key, status in streams.items() if status.lag is not None}
        yield gauge("penstock_stream_up", {key: float(status.state in _UP) for key, status in streams.items()})
        yield gauge(
            "penstock_stream_held", {key: float(status.state is StreamState.HELD) for key, status in streams.items()}
        )
        yield gauge("penstock_stream_lag_commits", {key: lag.commits for key, lag in lags.items()})
        yield gauge("penstock_stream_lag_seconds", {key: lag.seconds for key, lag in lags.items()})
        yield gauge("penstock_stream_time_to_loss_commits", {key: lag.loss_commits for key, lag in lags.items()})
        yield gauge("penstock_stream_time_to_loss_seconds", {key: lag.loss_seconds for key, lag in lags.items()})
        watermarks_s: dict[tuple[str, ...], float] = {
            key: status.watermark_us / 1e6
            for key, status in streams.items()
            if status.watermark_us is not None and status.watermark_us < END_OF_TIME_US
        }
        yield gauge("penstock_stream_watermark_timestamp_seconds", watermarks_s)


class WriteMetrics:
    """The write transactions of tables: a collector of the Prometheus client, and counters. Any thread."""

    def __init__(self, registry: CollectorRegistry, most: int, shown: Callable[[str], str]) -> None:
        """Gauges of the first `most` tables; `shown`: the label of a table at counters."""
        self._most, self._shown = most, shown
        self._event = WritesMeasured({})
        self._ended = counter("penstock_writes_ended", registry)
        self._conflicts = counter("penstock_write_conflicts", registry)
        registry.register(self)

    def set(self, event: WritesMeasured) -> None:
        """Replaces the gauges, and adds to the counters."""
        self._event = event
        for table, measured in event.tables.items():
            label = self._shown(table)
            self._conflicts.labels(label).inc(measured.conflicts)
            for end in _ENDS:
                self._ended.labels(end, label).inc(measured.ended.get(end, 0))

    def collect(self) -> Iterator[Metric]:
        """Called by the client at each scrape."""
        tables = dict(sorted(self._event.tables.items())[: self._most])
        writes: Values = {
            (state.value, table): float(measured.writes.get(state, 0))
            for table, measured in tables.items()
            for state in _LIVE
        }
        oldest: Values = {
            (state.value, table): age_s
            for table, measured in tables.items()
            for state, age_s in measured.oldest_s.items()
        }
        yield gauge("penstock_writes", writes)
        yield gauge("penstock_write_groups", {(table,): float(each.groups) for table, each in tables.items()})
        yield gauge("penstock_write_oldest_seconds", oldest)


class WatchMetrics:
    """The watched timelines: gauges, and a counter. Any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._event = TimelinesWatched(0, 0)
        self._changes = counter("penstock_timeline_changes", registry)
        gauge_of("penstock_watched_timelines", registry, lambda: self._event.watched)
        gauge_of("penstock_unwatched_timelines", registry, lambda: self._event.refused)

    def set(self, event: TimelinesWatched) -> None:
        """Replaces the gauges, and adds to the counter."""
        self._event = event
        self._changes.inc(event.changes)


_LIVE: Final = tuple(state for state in WriteState if not state.has_ended)
_ENDS: Final = (WriteState.COMPLETED.value, *(end.value for end in WriteEnd))
