"""Metrics for Prometheus: an `Observer`, and the HTTP port that serves them. Needs the extra `server`.

The Prometheus client is imported late: the module loads without the extra. `catalog` holds names, types and labels.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from penstock.enumerator.catalog_events import CatalogListed, TableRemoved, TimelinesWatched
from penstock.enumerator.groups.activity import Activity
from penstock.enumerator.groups.merged_groups import hidden_tables
from penstock.enumerator.observer import (
    CallHandled,
    CallStarted,
    DiscoveryFailed,
    Duration,
    DurationMeasured,
    EpochAcquired,
    GroupGauges,
    GroupMeasured,
    GroupRemoved,
    LagMeasured,
    Observation,
    RecordsExpired,
    SplitEvent,
    SplitReported,
    SplitsCounted,
    StreamsMeasured,
    TableChecked,
    TableMeasured,
    ThreadFailed,
    TokensLoaded,
    TopicMeasured,
    WatermarkPlanned,
)
from penstock.enumerator.server.http.port import HttpPort
from penstock.enumerator.server.metrics.families import Values, counter, gauge, histogram, new_registry
from penstock.enumerator.server.metrics.gauges import (
    CatalogGauges,
    LagGauges,
    ServiceGauges,
    StreamGauges,
    TopicGauges,
    WatchMetrics,
    WriteMetrics,
)
from penstock.enumerator.subscriptions import Subscriptions
from penstock.enumerator.write_events import ServicesMeasured, ServiceSplitEnded, WritesMeasured
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.access import host_and_port
from penstock.proto.model.reports import PHASES

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from penstock.proto.model.group_status import GroupLag

MAX_NAMES: Final = 5_000
"""Groups, and tables, with gauges of their own; counters of further groups are summed under OTHER."""
OTHER: Final = "other"
UNDECODABLE, LOST = "kafka_undecodable", "kafka_lost"
"""Names in `SplitReport.counts`: records of a topic that could not be decoded, and offsets that had expired
(`penstock.reader.topics`)."""

log = logging.getLogger("penstock.enumerator.server")


class Metrics:
    """An `Observer` that records events as metrics. ConfigurationError without the extra `server`."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic, max_names: int = MAX_NAMES) -> None:
        registry = self.registry = new_registry()
        self._clock_s = clock_s
        self._names, self._tables = _CappedNames(max_names), _CappedNames(max_names)
        self._events = counter("penstock_split_events", registry)
        self._discovery_failures = counter("penstock_discovery_failures", registry)
        self._background_failures = counter("penstock_background_failures", registry)
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
        self._state = _StateGauges(clock_s, max_names, lambda: self._lags.snapshot())
        self._topics = TopicGauges(max_names)
        self.registry.register(self._topics)
        self._catalogs = CatalogGauges(clock_s)
        self.registry.register(self._catalogs)
        self._lags = LagGauges(max_names, self._state.hidden)
        self.registry.register(self._lags)
        self.registry.register(self._state)
        self._services = ServiceGauges(max_names)
        self.registry.register(self._services)
        self._service_splits = counter("penstock_service_splits_ended", registry)
        self._streams = StreamGauges(max_names)
        self.registry.register(self._streams)
        self._writes = WriteMetrics(registry, max_names, self._tables.of)
        self._watches = WatchMetrics(registry)
        self._subscriptions = self._subscribe()

    def observe(self, event: Observation) -> None:
        """See `Observer.observe`."""
        self._subscriptions.dispatch(event)

    def _subscribe(self) -> Subscriptions:
        subscriptions = Subscriptions()
        subscriptions.subscribe(SplitsCounted, self._splits_counted)
        subscriptions.subscribe(GroupMeasured, self._group_measured)
        subscriptions.subscribe(LagMeasured, self._lag_measured)
        subscriptions.subscribe(DiscoveryFailed, self._discovery_failed)
        subscriptions.subscribe(ThreadFailed, lambda event: self._background_failures.labels(event.thread).inc())
        subscriptions.subscribe(GroupRemoved, self._group_removed)
        subscriptions.subscribe(TableMeasured, self._state.set_table)
        subscriptions.subscribe(TableChecked, self._state.set_health)
        subscriptions.subscribe(TableRemoved, self._state.drop_table)
        subscriptions.subscribe(CatalogListed, self._catalogs.set)
        subscriptions.subscribe(TimelinesWatched, self._watches.set)
        subscriptions.subscribe(TopicMeasured, lambda event: self._topics.set(event.table, event.group, event))
        subscriptions.subscribe(RecordsExpired, lambda event: self._lost.inc(event.records))
        subscriptions.subscribe(WatermarkPlanned, self._state.set_watermark)
        subscriptions.subscribe(StreamsMeasured, self._streams.set)
        subscriptions.subscribe(ServicesMeasured, self._services.set)
        subscriptions.subscribe(
            ServiceSplitEnded,
            lambda event: self._service_splits.labels(self._tables.of(event.table), event.service, event.result).inc(),
        )
        subscriptions.subscribe(WritesMeasured, self._writes.set)
        subscriptions.subscribe(EpochAcquired, self._state.set_epoch)
        subscriptions.subscribe(TokensLoaded, self._state.set_tokens)
        subscriptions.subscribe(SplitReported, self._split_reported)
        subscriptions.subscribe(DurationMeasured, lambda event: self._durations[event.duration].observe(event.seconds))
        subscriptions.subscribe(
            CallStarted, lambda event: self._started.labels("unary", event.service, event.method).inc()
        )
        subscriptions.subscribe(CallHandled, self._call_handled)
        return subscriptions

    def _splits_counted(self, event: SplitsCounted) -> None:
        group, table = self._names.of(event.group), self._tables.of(event.over or event.table)
        self._events.labels(event.event.value, group, event.kind.value, table, event.query).inc(event.count)

    def _group_measured(self, event: GroupMeasured) -> None:
        """The counters of a new group begin at 0, so that the first event is an increase."""
        if self._state.set_group(event.table, event.group, event.gauges):
            name, table = self._names.of(event.group), self._tables.of(event.gauges.over or event.table)
            for kind in SplitEvent:
                self._events.labels(kind.value, name, event.gauges.kind.value, table, "")

    def _lag_measured(self, event: LagMeasured) -> None:
        if event.lag is None:
            self._lags.drop(event.table, event.group)
        else:
            self._lags.set(event.table, event.group, event.lag)

    def _discovery_failed(self, event: DiscoveryFailed) -> None:
        table = self._tables.of(self._state.over_of(event.table, event.group) or event.table)
        self._discovery_failures.labels(event.code, self._names.of(event.group), table).inc()

    def _group_removed(self, event: GroupRemoved) -> None:
        self._state.drop_group(event.table, event.group)
        self._topics.drop(event.table, event.group)
        self._lags.drop(event.table, event.group)

    def _split_reported(self, event: SplitReported) -> None:
        report = event.report
        self._records.inc(report.rows)
        self._bytes.inc(report.size_bytes)
        self._corrupt.inc(report.skipped_gaps)
        counts = dict(report.counts)
        self._undecodable.inc(counts.get(UNDECODABLE, 0))
        self._lost.inc(counts.get(LOST, 0))
        for phase, spent_ms in report.phase_ms:
            if phase in PHASES:  # reports come from clients: they create no labels
                self._read.labels(phase).observe(spent_ms / 1000)
        outcomes = report.outcomes
        for outcome, count in (
            ("won", outcomes.won),
            ("lost_event_time", outcomes.lost_event_time),
            ("duplicate", outcomes.duplicate),
            ("deleted", outcomes.deleted),
        ):
            self._outcomes.labels(outcome).inc(count)

    def _call_handled(self, event: CallHandled) -> None:
        """Codes are spelt as by Go's interceptor: `OK`, `InvalidArgument`."""
        code = event.code
        spelt = code if code == "OK" else "".join(part.capitalize() for part in code.split("_"))
        self._handled.labels("unary", event.service, event.method, spelt).inc()
        self._handling.labels("unary", event.service, event.method).observe(event.seconds)


class _CappedNames:
    """The first `most` names unchanged, every other as OTHER."""

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
    """Gauges of groups and tables, computed at each scrape: ages grow, and removed groups disappear."""

    def __init__(
        self, clock_s: Callable[[], float], most: int, lags: Callable[[], Mapping[tuple[str, str], GroupLag]]
    ) -> None:
        self._clock_s = clock_s
        self._most, self._lags = most, lags
        self._lock = threading.Lock()
        self._groups: dict[tuple[str, str], tuple[GroupGauges, float]] = {}
        """The gauges of each group, and when they were measured."""
        self._tables: dict[str, TableMeasured] = {}
        self._watermarks_us: dict[str, int] = {}
        self._up: dict[str, bool] = {}
        self._epoch: int | None = None
        self._tokens: tuple[int, bool] | None = None
        self._warned = False

    def set_group(self, table: str, group: str, gauges: GroupGauges) -> bool:
        """Whether the group is new, or holds splits of another kind than before."""
        with self._lock:
            before = self._groups.get((table, group))
            if before is not None or len(self._groups) < self._most:
                self._groups[table, group] = (gauges, self._clock_s())
                return before is None or before[0].kind is not gauges.kind
            warned, self._warned = self._warned, True
        if not warned:
            log.warning("metrics: more than %d groups: later groups have no gauges", self._most)
        return False

    def drop_group(self, table: str, group: str) -> None:
        with self._lock:
            self._groups.pop((table, group), None)

    def over_of(self, table: str, group: str) -> str:
        """See `GroupGauges.over`."""
        with self._lock:
            known = self._groups.get((table, group))
        return "" if known is None else known[0].over

    def hidden(self, lags: Mapping[tuple[str, str], GroupLag]) -> frozenset[tuple[str, str]]:
        """The groups without gauges of their own: see `hidden_tables`."""
        with self._lock:
            gauges = {key: gauges for key, (gauges, _) in self._groups.items()}
        return hidden_tables(gauges, lags)

    def set_table(self, event: TableMeasured) -> None:
        with self._lock:
            if event.table in self._tables or len(self._tables) < self._most:
                self._tables[event.table] = event

    def set_watermark(self, event: WatermarkPlanned) -> None:
        with self._lock:
            if event.table in self._watermarks_us or len(self._watermarks_us) < self._most:
                self._watermarks_us[event.table] = event.at_us

    def set_health(self, event: TableChecked) -> None:
        with self._lock:
            if event.table in self._up or len(self._up) < self._most:
                self._up[event.table] = not event.code

    def drop_table(self, event: TableRemoved) -> None:
        with self._lock:
            for by_table in (self._tables, self._watermarks_us, self._up):
                by_table.pop(event.table, None)

    def set_epoch(self, event: EpochAcquired) -> None:
        with self._lock:
            self._epoch = event.epoch

    def set_tokens(self, event: TokensLoaded) -> None:
        with self._lock:
            self._tokens = (event.accepted, event.usable)

    def collect(self) -> Iterator[Metric]:
        """Called by the client at each scrape. Groups of one name on several tables are summed where a metric has no
        label for the table."""
        with self._lock:
            groups, tables, epoch = dict(self._groups), dict(self._tables), self._epoch
            watermarks_us, tokens = dict(self._watermarks_us), self._tokens
        with self._lock:
            up: Values = {(table,): float(is_up) for table, is_up in self._up.items()}
        yield gauge("penstock_table_up", up)
        hidden = self.hidden(self._lags())
        yield from self._followed({key: value for key, value in groups.items() if key not in hidden}, epoch)
        splits: dict[tuple[str, ...], float] = defaultdict(float)
        pending_bytes: dict[tuple[str, ...], float] = defaultdict(float)
        for (_, group), (gauges, _) in groups.items():
            if gauges.tables:
                continue  # the sums of its tables
            for state, count in (
                ("pending", gauges.pending_splits),
                ("assigned", gauges.assigned_splits),
                ("finished", gauges.finished_splits),
            ):
                splits[state, group, gauges.kind.value] += count
            pending_bytes[(group,)] += gauges.pending_bytes
        yield gauge("penstock_splits", splits)
        yield gauge("penstock_pending_bytes", pending_bytes)
        watermarks_s: dict[tuple[str, ...], float] = {(table,): at / 1e6 for table, at in watermarks_us.items()}
        yield gauge("penstock_watermark_timestamp_seconds", watermarks_s)
        left_s: dict[tuple[str, ...], float | None] = {(table,): measured.loss_s for table, measured in tables.items()}
        left: dict[tuple[str, ...], float | None] = {
            (table,): measured.loss_commits for table, measured in tables.items()
        }
        yield gauge("penstock_time_to_loss_seconds", left_s)
        yield gauge("penstock_time_to_loss_commits", left)
        accepted, usable = (None, None) if tokens is None else tokens
        yield gauge("penstock_tokens", {(): accepted})
        yield gauge("penstock_tokens_file_up", {(): usable})

    def _followed(
        self, groups: dict[tuple[str, str], tuple[GroupGauges, float]], epoch: int | None
    ) -> Iterator[Metric]:
        now_s = self._clock_s()

        def each(name: str, value: Callable[[GroupGauges], float | None]) -> Metric:
            values: Values = {(group, table): value(gauges) for (table, group), (gauges, _) in groups.items()}
            return gauge(f"penstock_enumerator_{name}", values)

        ages_s: Values = {
            (group, table): None
            if gauges.discovery_age_s is None
            else max(0.0, gauges.discovery_age_s + now_s - measured_s)
            for (table, group), (gauges, measured_s) in groups.items()
        }
        yield each("issued_instant_seconds", lambda gauges: gauges.issued_instant_s)
        yield each(
            "watermark_timestamp_seconds",
            lambda gauges: None if gauges.watermark_us is None else gauges.watermark_us / 1e6,
        )
        yield each("issued_instant_delay_seconds", lambda gauges: gauges.issued_delay_s)
        yield gauge("penstock_enumerator_last_discovery_age_seconds", ages_s)
        yield each("poll_interval_seconds", lambda gauges: gauges.poll_interval_s)
        yield each("leader_epoch", lambda gauges: epoch)
        yield each("up", lambda gauges: float(gauges.up))
        held: Values = {
            (group, table): float(gauges.alignment.held)
            for (table, group), (gauges, _) in groups.items()
            if gauges.alignment is not None
        }
        yield gauge("penstock_group_held", held)
        wholes = {(group, table): gauges for (table, group), (gauges, _) in groups.items() if gauges.tables}
        yield gauge("penstock_group_tables", {key: float(gauges.tables) for key, gauges in wholes.items()})
        failing: Values = {key: float(gauges.failing_tables) for key, gauges in wholes.items()}
        yield gauge("penstock_group_failing_tables", failing)


class HasRegistry(Protocol):
    """Metrics of a server."""

    @property
    def registry(self) -> CollectorRegistry:
        """Where they are collected."""
        ...


class MetricsPort:
    """The HTTP port with the metrics (`/metrics`) and the page (`/`), until it is closed."""

    def __init__(self, metrics: HasRegistry, listen: str, activity: Activity | None = None) -> None:
        host, port = host_and_port(listen, any_port=True)
        try:
            self._port = HttpPort(metrics.registry, host, port, activity)
        except OSError as error:
            raise ConfigurationError(f"metricsListen: cannot listen at {listen}: {error.strerror or error}") from None
        shown = f"[{host}]" if ":" in host else host
        self.address = f"{shown}:{self._port.port}"

    def close(self) -> None:
        """Closes the port."""
        self._port.close()
