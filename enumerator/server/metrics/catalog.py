"""The catalog of metrics: name, type, labels, unit and help text. Pure.

`families` creates the exposed metrics from it, and docs/reference/metrics.md is generated from it. A new metric is
added here first. Dashboards depend on names and labels: they are never renamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from penstock.enumerator.observer import Duration, SplitEvent, SplitKind
from penstock.proto.model.reports import PHASES
from penstock.proto.model.service_splits import Service, ServiceSplitState
from penstock.proto.model.writes import WriteEnd

_CALL_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
_READ_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class MetricType(StrEnum):
    """The metric types of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricEntry:
    """One metric."""

    name: str
    """Its name, without the suffix `_total` of counters."""
    type: MetricType
    """Its type."""
    labels: tuple[str, ...] = ()
    """The names of its labels."""
    unit: str
    """The unit of its value."""
    doc: str
    """Its help text."""
    buckets: tuple[float, ...] = ()
    """Upper bounds, for histograms only."""

    @property
    def exposed_name(self) -> str:
        """The name in queries: counters end in `_total`."""
        return f"{self.name}_total" if self.type is MetricType.COUNTER else self.name


@dataclass(frozen=True, slots=True)
class LabelEntry:
    """One label."""

    doc: str
    """Its help text."""
    values: tuple[str, ...] = ()
    """All values, if there are few."""


LABELS: Final[Mapping[str, LabelEntry]] = {
    "table": LabelEntry(
        "The table's name on the server. Beyond `limits.shown` tables counters of splits are summed under `other`. Of "
        "a group over tables the pattern of their names: its series merge those of its tables (sums, the longest lag, "
        "the nearest loss). Only its 20 worst tables have gauges of their own too (those that are stopped, that fail, "
        "that are about to lose data, that lag most), and none has counters."
    ),
    "group": LabelEntry(
        "The consumer group; empty for reads without one. Beyond `limits.shown` groups counters are summed under "
        "`other`, and gauges are not exposed."
    ),
    "stream": LabelEntry(
        "The stream: the option `streamName`, or a generated name. The first 200 streams, by table and name, have "
        "gauges."
    ),
    "query": LabelEntry(
        "The kind of query of a read without a consumer group, `stream` for a micro-batch of Spark; empty for a group.",
        ("snapshot", "read_optimized", "incremental", "cdc", "topic", "stream"),
    ),
    "state": LabelEntry(
        "Not assigned yet, held by a reader, or read and committed.", ("pending", "assigned", "finished")
    ),
    "event": LabelEntry(
        "Planned; assigned to a reader; returned unread; read and committed; refused because the reader had lost its "
        "lease; taken away because the lease expired.",
        tuple(SplitEvent),
    ),
    "code": LabelEntry("The error's code, as in docs/reference/errors.md; `INVARIANT_VIOLATION` for a bug."),
    "write_state": LabelEntry(
        "Accepted, and without an instant yet; open; its commit is stored, and the instant is being completed; failed, "
        "and to be rolled back.",
        ("requested", "open", "decided", "failed"),
    ),
    "end": LabelEntry(
        "Complete; given up by its writer; its lease ended; a later epoch of its owner began; the timeline did not "
        "accept its commit.",
        ("completed", *(end.value for end in WriteEnd)),
    ),
    "thread": LabelEntry("A background thread of the server.", ("time", "discovery", "looks")),
    "kind": LabelEntry(
        "The content of a split: rows of file slices, changes, or a range of a topic.", tuple(SplitKind)
    ),
    "phase": LabelEntry(
        "Opening files and reading block headers; decoding log records; building the table of winning records; "
        "decoding base rows; merging them; filters, projection, output.",
        PHASES,
    ),
    "outcome": LabelEntry(
        "The outcome of a log record: its row wins; an older event time than the row it met; a repetition; a delete.",
        ("won", "lost_event_time", "duplicate", "deleted"),
    ),
    "topic": LabelEntry("The Kafka topic."),
    "partition": LabelEntry("The topic's partition; those beyond 200 are summed as `other`."),
    "catalog": LabelEntry("The catalog's name in the configuration of the server."),
    "service": LabelEntry("The table service.", tuple(Service)),
    "service_state": LabelEntry(
        "Not handed out yet; held by a member; failed since it last succeeded, whoever holds it now.",
        tuple(ServiceSplitState),
    ),
    "result": LabelEntry("Carried out; failed; the server heard nothing of its member.", ("done", "failed", "expired")),
    "grpc_type": LabelEntry("The type of the call.", ("unary", "server_stream")),
    "grpc_service": LabelEntry(
        "The service: `penstock.v1.EnumeratorService`, or of `penstock flight` `arrow.flight.protocol.FlightService`."
    ),
    "grpc_method": LabelEntry("The call, such as `NextSplit`; `other` for calls of Flight that are refused."),
    "grpc_code": LabelEntry("The status as Go spells it: `OK`, `InvalidArgument`."),
}

_GROUP_TABLE: Final = ("group", "table")
_STREAM_TABLE: Final = ("stream", "table")
_CALL: Final = ("grpc_type", "grpc_service", "grpc_method")
_TIMED: Final[Mapping[Duration, str]] = {
    Duration.TIMELINE_REFRESH: "Duration of a check of a table for new commits.",
    Duration.PLAN: "Duration of planning a plan or a group's round.",
    Duration.ASSIGN: "Duration of assigning splits.",
    Duration.LOG_APPEND: "Duration of a write of the state until it was durable.",
}


def _counter(name: str, unit: str, doc: str, *labels: str) -> MetricEntry:
    return MetricEntry(name=name, type=MetricType.COUNTER, labels=labels, unit=unit, doc=doc)


def _gauge(name: str, unit: str, doc: str, *labels: str) -> MetricEntry:
    return MetricEntry(name=name, type=MetricType.GAUGE, labels=labels, unit=unit, doc=doc)


def _seconds(name: str, doc: str, buckets: tuple[float, ...], *labels: str) -> MetricEntry:
    return MetricEntry(name=name, type=MetricType.HISTOGRAM, labels=labels, unit="seconds", doc=doc, buckets=buckets)


_ENTRIES: Final = (
    _gauge(
        "penstock_enumerator_up", "0 or 1", "1: the group is followed, 0: it is stopped by an error.", *_GROUP_TABLE
    ),
    _gauge("penstock_group_tables", "tables", "Tables of a group over tables.", *_GROUP_TABLE),
    _gauge(
        "penstock_group_failing_tables",
        "tables",
        "Tables of a group over tables that are stopped by an error, or whose discovery fails now.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_table_up",
        "0 or 1",
        "1: the server can open the table, 0: it cannot. Checked every minute, and more often after a failure.",
        "table",
    ),
    _gauge(
        "penstock_catalog_up",
        "0 or 1",
        "1: the last listing of the catalog succeeded, 0: it failed, and the tables of the listing before it stay.",
        "catalog",
    ),
    _gauge("penstock_catalog_tables", "tables", "Tables of the catalog's last successful listing.", "catalog"),
    _gauge(
        "penstock_catalog_problems",
        "problems",
        "Tables and folders that the last listing could not read or does not serve (`penstock tables list "
        "--catalogs`).",
        "catalog",
    ),
    _gauge(
        "penstock_catalog_listing_age_seconds",
        "seconds",
        "Time since the last successful listing of the catalog. Not exposed before the first one.",
        "catalog",
    ),
    _gauge(
        "penstock_enumerator_issued_instant_seconds",
        "seconds since 1970 UTC",
        "The newest instant that is planned for the group.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_enumerator_watermark_timestamp_seconds",
        "seconds since 1970 UTC",
        "The watermark of the group; no series without `eventTime` and `maxOutOfOrderness`, and before it is known.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_enumerator_issued_instant_delay_seconds",
        "seconds",
        "The age of that instant when it was planned.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_enumerator_last_discovery_age_seconds",
        "seconds",
        "Time since the group's table was last checked for new commits. Not exposed for groups that are paused, "
        "stopped or ended.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_enumerator_poll_interval_seconds",
        "seconds",
        "The interval between checks of the group's table.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_enumerator_leader_epoch",
        "epoch",
        "The epoch under which this process writes the state; each start and each takeover increases it by one.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_group_lag_commits",
        "commits",
        "Commits of the table that the group has not committed. The lag is measured every 30 s, and when a group is "
        "created.",
        *_GROUP_TABLE,
    ),
    _counter(
        "penstock_discovery_failures",
        "checks",
        "Failed checks of a group's table for new commits, by error.",
        "code",
        *_GROUP_TABLE,
    ),
    _counter(
        "penstock_background_failures",
        "failures",
        "Failed iterations of background threads, and threads that ended and were restarted.",
        "thread",
    ),
    _gauge("penstock_group_lag_bytes", "bytes", "Size on storage of what those commits wrote.", *_GROUP_TABLE),
    _gauge("penstock_group_lag_seconds", "seconds", "Time since the oldest of those commits completed.", *_GROUP_TABLE),
    _gauge("penstock_splits", "splits", "Splits of the groups' rounds, by state.", "state", "group", "kind"),
    _counter("penstock_split_events", "splits", "Events of splits.", "event", "group", "kind", "table", "query"),
    _gauge("penstock_pending_bytes", "bytes", "Size on storage of the splits that are not assigned yet.", "group"),
    _gauge(
        "penstock_watermark_timestamp_seconds",
        "seconds since 1970 UTC",
        "The watermark of the last planned batch of a Spark stream on the table.",
        "table",
    ),
    _gauge(
        "penstock_time_to_loss_seconds",
        "seconds",
        "Estimated time before the table's cleaner or archiver removes what its slowest group still needs. Not exposed "
        "if unknown.",
        "table",
    ),
    _gauge("penstock_time_to_loss_commits", "commits", "The same estimate, in future commits.", "table"),
    _gauge(
        "penstock_group_held",
        "0 or 1",
        "1: splits of the group are pending, and all of them wait for slower members of its alignment set; of a group "
        "over tables: those of a table. Only of aligned groups.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_stream_up",
        "0 or 1",
        "1: the stream calls this server, 0: its last call failed, or it has not called for 10 minutes. A named stream "
        "without a call for a day is not exposed any more, one with a generated name after an hour.",
        *_STREAM_TABLE,
    ),
    _gauge(
        "penstock_stream_held",
        "0 or 1",
        "1: the stream gets no batch, because it is ahead of its alignment set.",
        *_STREAM_TABLE,
    ),
    _gauge(
        "penstock_stream_lag_commits",
        "commits",
        "Commits of the table after the newest batch that the stream has completed. The lag is measured every 30 s, "
        "and when a stream is new.",
        *_STREAM_TABLE,
    ),
    _gauge(
        "penstock_stream_lag_seconds", "seconds", "Time since the oldest of those commits completed.", *_STREAM_TABLE
    ),
    _gauge(
        "penstock_stream_time_to_loss_seconds",
        "seconds",
        "Estimated time before the table's cleaner or archiver removes what the stream still needs. Not exposed if "
        "unknown.",
        *_STREAM_TABLE,
    ),
    _gauge("penstock_stream_time_to_loss_commits", "commits", "The same estimate, in future commits.", *_STREAM_TABLE),
    _gauge(
        "penstock_stream_watermark_timestamp_seconds",
        "seconds since 1970 UTC",
        "The watermark of the stream's newest batch.",
        *_STREAM_TABLE,
    ),
    _gauge("penstock_writes", "writes", "Write transactions that have not ended.", "write_state", "table"),
    _gauge("penstock_write_groups", "file groups", "File groups and partitions on which writes hold leases.", "table"),
    _gauge(
        "penstock_write_oldest_seconds",
        "seconds",
        "The longest time that a write has been in this state, or since the server started. Not exposed without one.",
        "write_state",
        "table",
    ),
    _counter("penstock_writes_ended", "writes", "Write transactions that ended.", "end", "table"),
    _counter(
        "penstock_write_conflicts", "calls", "Leases that were refused to a write, because another has them.", "table"
    ),
    _gauge("penstock_watched_timelines", "folders", "Local timeline folders that the system watches (inotify)."),
    _gauge(
        "penstock_unwatched_timelines", "folders", "Local ones that it does not watch: only `pollIntervalMs` counts."
    ),
    _counter("penstock_timeline_changes", "changes", "Changes of tables that the watches reported."),
    _gauge(
        "penstock_tokens",
        "tokens",
        "Tokens in use, expired ones included. Not exposed without a token file.",
    ),
    _gauge(
        "penstock_tokens_file_up",
        "0 or 1",
        "1: the token file can be read and parsed, 0: it cannot, and no token is valid after `tokensGraceMs`. Not "
        "exposed without a token file.",
    ),
    *(_seconds(f"penstock_{duration}_duration_seconds", doc, _CALL_BUCKETS_S) for duration, doc in _TIMED.items()),
    _counter("penstock_reader_records", "rows", "Rows that readers emitted, counted when a split is finished."),
    _counter("penstock_reader_bytes", "bytes", "Size on storage of the splits that readers finished."),
    _seconds("penstock_split_read_duration_seconds", "Duration of reading a split.", _READ_BUCKETS_S, "phase"),
    _counter("penstock_merge_log_records", "records", "Log records merged, by outcome.", "outcome"),
    _counter(
        "penstock_corrupt_blocks",
        "stretches",
        "Damaged parts of log files that readers skipped (`onCorrupt=skip`).",
    ),
    _gauge(
        "penstock_kafka_switch_state",
        "0, 1 or 2",
        "The phase of a hybrid group: 0 reads the table, 1 switches, 2 reads the topic.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_kafka_lag_records",
        "offsets",
        "Offsets of the topic after those planned for the group.",
        "group",
        "topic",
        "partition",
    ),
    _counter("penstock_kafka_lost_records", "offsets", "Offsets that retention removed before they were read."),
    _counter(
        "penstock_kafka_undecodable_records",
        "records",
        "Records of a topic that could not be decoded and were written as dead letters.",
    ),
    _gauge("penstock_service_splits", "splits", "Splits of table services that are due.", "table", "service_state"),
    _gauge(
        "penstock_service_oldest_due_seconds",
        "seconds",
        "Since when the split that is due for longest, of those that no member has, is due.",
        "table",
    ),
    _counter("penstock_service_splits_ended", "splits", "Splits of services that ended.", "table", "service", "result"),
    _counter("grpc_server_started", "calls", "Calls received. Calls that gRPC itself refuses are not counted.", *_CALL),
    _counter("grpc_server_handled", "calls", "Calls answered, by status.", *_CALL, "grpc_code"),
    _seconds("grpc_server_handling_seconds", "Duration of a call.", _CALL_BUCKETS_S, *_CALL),
)

METRICS: Final[Mapping[str, MetricEntry]] = {entry.name: entry for entry in _ENTRIES}
"""The metrics of `penstock serve` by name, in the order of the documentation."""

FLIGHT_METRICS: Final[Mapping[str, MetricEntry]] = {
    entry.name: entry
    for entry in (
        _gauge("penstock_flight_open_streams", "streams", "Streams whose files may be open."),
        _counter("penstock_flight_rows", "rows", "Rows sent, counted when their stream ends.", "table"),
        _counter("penstock_flight_bytes", "bytes", "Arrow data sent, counted when its stream ends.", "table"),
        *(entry for name, entry in METRICS.items() if name.startswith("grpc_server_")),
    )
}
"""The metrics of `penstock flight`, likewise."""
