"""Metrics for Prometheus: an `Observer`, and the port on which it is asked. Needs the extra `server`.

Imports of the library are late: the module loads without the extra. Not here: names, types and labels
(`metric_entries`), when something is told (`penstock.enumerator`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from penstock.enumerator.groups.activity import Activity
from penstock.enumerator.observer import (
    Duration,
    GroupGauges,
    KafkaGauges,
    NoObserver,
    SplitEvent,
    SplitKind,
    TableGauges,
)
from penstock.enumerator.server.http.port import HttpPort
from penstock.enumerator.server.metrics.families import Values, counter, gauge, histogram
from penstock.enumerator.server.metrics.gauges import LagGauges, TopicGauges
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.access import host_and_port
from penstock.proto.model.groups import GroupLag
from penstock.proto.model.reports import PHASES, SplitReport

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MAX_NAMES: Final = 200
"""Groups, and tables, of which gauges are told; counters of further groups are summed under OTHER."""
OTHER: Final = "other"
UNDECODABLE, LOST = "kafka_undecodable", "kafka_lost"
"""What a report counts of a topic's records that it could not decode, and of offsets that had expired
(`penstock.reader.topics`)."""
NEEDS_EXTRA: Final = 'metrics need the extra `server`: pip install "penstock[server]"'

log = logging.getLogger("penstock.enumerator.server")


class Metrics(NoObserver):
    """An `Observer` that keeps what it is told for Prometheus. ConfigurationError without the extra `server`."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic, max_names: int = MAX_NAMES) -> None:
        try:
            from prometheus_client import CollectorRegistry
        except ImportError:
            raise ConfigurationError(NEEDS_EXTRA) from None
        registry = self.registry = CollectorRegistry()
        self._clock_s = clock_s
        self._names, self._tables = _CappedNames(max_names), _CappedNames(max_names)
        self._events = counter("penstock_split_events", registry)
        self._looks_failed = counter("penstock_discovery_failures", registry)
        self._threads_failed = counter("penstock_background_failures", registry)
        self._durations = {
            duration: histogram(f"penstock_{duration}_duration_seconds", registry) for duration in Duration
        }
        self._records = counter("penstock_reader_records", registry)
        self._bytes = counter("penstock_reader_bytes", registry)
        self._read = histogram("penstock_split_read_duration_seconds", registry)
        self._outcomes = counter("penstock_merge_log_records", registry)
        self._corrupt = counter("penstock_corrupt_blocks", registry)
        self._lost = counter("penstock_kafka_lost_records", registry)
        self._undecodable = counter("penstock_kafka_undecodable_records", registry)
        self._started = counter("grpc_server_started", registry)
        self._handled = counter("grpc_server_handled", registry)
        self._handling = histogram("grpc_server_handling_seconds", registry)
        self._state = _StateGauges(clock_s, max_names)
        self.registry.register(self._state)
        self._topics = TopicGauges(max_names)
        self.registry.register(self._topics)
        self._lags = LagGauges(max_names)
        self.registry.register(self._lags)

    def now_s(self) -> float:
        """See `Observer.now_s`."""
        return self._clock_s()

    def split_events(
        self, event: SplitEvent, table: str, group: str, kind: SplitKind, count: int = 1, *, query: str = ""
    ) -> None:
        """See `Observer.split_events`."""
        self._events.labels(event.value, self._names.of(group), kind.value, self._tables.of(table), query).inc(count)

    def group_gauges(self, table: str, group: str, gauges: GroupGauges) -> None:
        """See `Observer.group_gauges`. Its counters of events begin at 0, so that the first event is an increase."""
        if self._state.set_group(table, group, gauges):
            name = self._names.of(group)
            for event in SplitEvent:
                self._events.labels(event.value, name, gauges.kind.value, self._tables.of(table), "")

    def group_lag(self, table: str, group: str, lag: GroupLag | None) -> None:
        """See `Observer.group_lag`."""
        if lag is None:
            self._lags.drop(table, group)
        else:
            self._lags.set(table, group, lag)

    def discovery_failed(self, table: str, group: str, code: str) -> None:
        """See `Observer.discovery_failed`."""
        self._looks_failed.labels(code, self._names.of(group), table).inc()

    def thread_failed(self, thread: str) -> None:
        """See `Observer.thread_failed`."""
        self._threads_failed.labels(thread).inc()

    def group_gone(self, table: str, group: str) -> None:
        """See `Observer.group_gone`."""
        self._state.drop_group(table, group)
        self._topics.drop(table, group)
        self._lags.drop(table, group)

    def table_gauges(self, table: str, gauges: TableGauges) -> None:
        """See `Observer.table_gauges`."""
        self._state.set_table(table, gauges)

    def table_health(self, table: str, code: str) -> None:
        """See `Observer.table_health`."""
        self._state.set_health(table, code)

    def kafka(self, table: str, group: str, gauges: KafkaGauges) -> None:
        """See `Observer.kafka`."""
        self._topics.set(table, group, gauges)

    def kafka_lost(self, table: str, group: str, records: int) -> None:
        """See `Observer.kafka_lost`."""
        self._lost.inc(records)

    def watermark(self, table: str, at_us: int) -> None:
        """See `Observer.watermark`."""
        self._state.set_watermark(table, at_us)

    def leader_epoch(self, epoch: int) -> None:
        """See `Observer.leader_epoch`."""
        self._state.set_epoch(epoch)

    def token_file(self, accepted: int, usable: bool) -> None:
        """See `Observer.token_file`."""
        self._state.set_tokens(accepted, usable)

    def report(self, group: str, report: SplitReport) -> None:
        """See `Observer.report`."""
        self._records.inc(report.rows)
        self._bytes.inc(report.size_bytes)
        self._corrupt.inc(report.skipped_gaps)
        counts = dict(report.counts)
        self._undecodable.inc(counts.get(UNDECODABLE, 0))
        self._lost.inc(counts.get(LOST, 0))
        for phase, spent_ms in report.phase_ms:
            if phase in PHASES:  # a report is a client's: no label of its own
                self._read.labels(phase).observe(spent_ms / 1000)
        outcomes = report.outcomes
        for outcome, count in (
            ("won", outcomes.won),
            ("lost_event_time", outcomes.lost_event_time),
            ("duplicate", outcomes.duplicate),
            ("deleted", outcomes.deleted),
        ):
            self._outcomes.labels(outcome).inc(count)

    def observe(self, duration: Duration, seconds: float) -> None:
        """See `Observer.observe`."""
        self._durations[duration].observe(seconds)

    def rpc_started(self, service: str, method: str) -> None:
        """See `Observer.rpc_started`."""
        self._started.labels("unary", service, method).inc()

    def rpc_handled(self, service: str, method: str, code: str, seconds: float) -> None:
        """See `Observer.rpc_handled`. Codes are spelt as Go's interceptor does: `OK`, `InvalidArgument`."""
        spelt = code if code == "OK" else "".join(part.capitalize() for part in code.split("_"))
        self._handled.labels("unary", service, method, spelt).inc()
        self._handling.labels("unary", service, method).observe(seconds)


class _CappedNames:
    """The first so many names as they are, every other as OTHER."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def of(self, name: str) -> str:
        with self._lock:
            if name not in self._known:
                if len(self._known) >= self._most:
                    return OTHER
                self._known.add(name)
            return name


class _StateGauges:
    """Gauges of groups and tables, made when they are asked for: ages grow, and what is gone is gone."""

    def __init__(self, clock_s: Callable[[], float], most: int) -> None:
        self._clock_s = clock_s
        self._most = most
        self._lock = threading.Lock()
        self._groups: dict[tuple[str, str], GroupGauges] = {}
        self._tables: dict[str, TableGauges] = {}
        self._watermarks_us: dict[str, int] = {}
        self._up: dict[str, bool] = {}
        self._epoch: int | None = None
        self._tokens: tuple[int, bool] | None = None
        self._told = False

    def set_group(self, table: str, group: str, gauges: GroupGauges) -> bool:
        """Whether the group is new, or holds splits of another kind than before."""
        with self._lock:
            before = self._groups.get((table, group))
            if before is not None or len(self._groups) < self._most:
                self._groups[table, group] = gauges
                return before is None or before.kind is not gauges.kind
            told, self._told = self._told, True
        if not told:
            log.warning("metrics: more than %d groups: those that came later have no gauges", self._most)
        return False

    def drop_group(self, table: str, group: str) -> None:
        with self._lock:
            self._groups.pop((table, group), None)

    def set_table(self, table: str, gauges: TableGauges) -> None:
        with self._lock:
            if table in self._tables or len(self._tables) < self._most:
                self._tables[table] = gauges

    def set_watermark(self, table: str, at_us: int) -> None:
        with self._lock:
            if table in self._watermarks_us or len(self._watermarks_us) < self._most:
                self._watermarks_us[table] = at_us

    def set_health(self, table: str, code: str) -> None:
        with self._lock:
            if table in self._up or len(self._up) < self._most:
                self._up[table] = not code

    def set_epoch(self, epoch: int) -> None:
        with self._lock:
            self._epoch = epoch

    def set_tokens(self, accepted: int, usable: bool) -> None:
        with self._lock:
            self._tokens = (accepted, usable)

    def collect(self) -> Iterator[Metric]:
        """Called by the library at each scrape. Groups of one name on several tables are summed where a metric has no
        label for the table."""
        with self._lock:
            groups, tables, epoch = dict(self._groups), dict(self._tables), self._epoch
            watermarks_us, tokens = dict(self._watermarks_us), self._tokens
        with self._lock:
            up: Values = {(table,): float(is_up) for table, is_up in self._up.items()}
        yield gauge("penstock_table_up", up)
        yield from self._followed(groups, epoch)
        splits: dict[tuple[str, ...], float] = defaultdict(float)
        pending_bytes: dict[tuple[str, ...], float] = defaultdict(float)
        for (_, group), told in groups.items():
            for state, count in (
                ("pending", told.pending_splits),
                ("assigned", told.assigned_splits),
                ("finished", told.finished_splits),
            ):
                splits[state, group, told.kind.value] += count
            pending_bytes[(group,)] += told.pending_bytes
        yield gauge("penstock_splits", splits)
        yield gauge("penstock_pending_bytes", pending_bytes)
        watermarks_s: dict[tuple[str, ...], float] = {(table,): at / 1e6 for table, at in watermarks_us.items()}
        yield gauge("penstock_watermark_timestamp_seconds", watermarks_s)
        left_s: dict[tuple[str, ...], float | None] = {(table,): told.loss_s for table, told in tables.items()}
        left: dict[tuple[str, ...], float | None] = {(table,): told.loss_commits for table, told in tables.items()}
        yield gauge("penstock_time_to_loss_seconds", left_s)
        yield gauge("penstock_time_to_loss_commits", left)
        accepted, usable = (None, None) if tokens is None else tokens
        yield gauge("penstock_tokens", {(): accepted})
        yield gauge("penstock_tokens_file_up", {(): usable})

    def _followed(self, groups: dict[tuple[str, str], GroupGauges], epoch: int | None) -> Iterator[Metric]:
        now_s = self._clock_s()

        def each(name: str, value: Callable[[GroupGauges], float | None]) -> Metric:
            values: Values = {(group, table): value(told) for (table, group), told in groups.items()}
            return gauge(f"penstock_enumerator_{name}", values)

        def age_s(told: GroupGauges) -> float | None:
            return None if told.discovered_at_s is None else max(0.0, now_s - told.discovered_at_s)

        yield each("issued_instant_seconds", lambda told: told.issued_instant_s)
        yield each("issued_instant_delay_seconds", lambda told: told.issued_delay_s)
        yield each("last_discovery_age_seconds", age_s)
        yield each("poll_interval_seconds", lambda told: told.poll_interval_s)
        yield each("leader_epoch", lambda told: epoch)
        yield each("up", lambda told: float(told.up))


class MetricsPort:
    """The HTTP port on which Prometheus asks (`/metrics`), and people look (`/`), until it is closed."""

    def __init__(self, metrics: Metrics, listen: str, activity: Activity | None = None) -> None:
        host, port = host_and_port(listen, any_port=True)
        try:
            self._port = HttpPort(metrics.registry, host, port, activity)
        except OSError as error:
            raise ConfigurationError(f"metricsListen: cannot listen at {listen}: {error.strerror or error}") from None
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{self._port.port}"

    def close(self) -> None:
        """Answers nobody any more."""
        self._port.close()
