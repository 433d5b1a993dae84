"""Every metric for Prometheus: name, type, labels, unit, what it means. Pure.

What is exposed is made from here (`metric_families`), and so is docs/reference/metrics.md. A new metric belongs here
first. People graph names and labels, so one is never renamed. Not here: when a number is told (`penstock.enumerator`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from penstock.enumerator.observer import Duration, SplitEvent, SplitKind
from penstock.proto.model.reports import PHASES

_CALL_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
_READ_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class MetricType(StrEnum):
    """How Prometheus takes a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricEntry:
    """One metric. `buckets` are upper bounds, of histograms alone."""

    name: str
    type: MetricType
    labels: tuple[str, ...] = ()
    unit: str
    doc: str
    buckets: tuple[float, ...] = ()

    @property
    def exposed_name(self) -> str:
        """As queries name it: counters end in `_total`."""
        return f"{self.name}_total" if self.type is MetricType.COUNTER else self.name


@dataclass(frozen=True, slots=True)
class LabelEntry:
    """One label. `values`: all there are, if they are few."""

    doc: str
    values: tuple[str, ...] = ()


LABELS: Final[Mapping[str, LabelEntry]] = {
    "table": LabelEntry(
        "The name under which the server has the table. Beyond 200 tables counters of splits are summed under `other`."
    ),
    "group": LabelEntry(
        "The consumer group; empty for reads without one. Beyond 200 groups counters are summed under `other`, and "
        "gauges are not told."
    ),
    "query": LabelEntry(
        "Of a read without a consumer group: what is read, `stream` for a micro-batch of Spark; empty for a group.",
        ("snapshot", "read_optimized", "incremental", "cdc", "topic", "stream"),
    ),
    "state": LabelEntry(
        "Not handed out yet, held by a reader, or read and committed.", ("pending", "assigned", "finished")
    ),
    "event": LabelEntry(
        "Found by a plan; handed out; given back unread; read and committed; refused, for the reader had lost its "
        "lease; taken away, for the lease ran out.",
        tuple(SplitEvent),
    ),
    "code": LabelEntry("The error's code, as in docs/reference/errors.md; `INVARIANT_VIOLATION` for a bug."),
    "thread": LabelEntry("A background thread of the server.", ("time", "discovery", "looks")),
    "kind": LabelEntry("What a split holds: rows of file slices, changes, or a stretch of a topic.", tuple(SplitKind)),
    "phase": LabelEntry(
        "Files opened and block headers read; log records decoded; the winner table built; base rows decoded; those "
        "merged; filters, projection, output.",
        PHASES,
    ),
    "outcome": LabelEntry(
        "Of a log record: its row counts; an older event time than what was there; a repetition; a delete.",
        ("won", "lost_event_time", "duplicate", "deleted"),
    ),
    "topic": LabelEntry("The Kafka topic."),
    "partition": LabelEntry("The topic's partition; those beyond 200 are summed as `other`."),
    "grpc_type": LabelEntry("Of the call.", ("unary",)),
    "grpc_service": LabelEntry("The service, `penstock.v1.EnumeratorService`."),
    "grpc_method": LabelEntry("The call, such as `NextSplit`."),
    "grpc_code": LabelEntry("The status as Go spells it: `OK`, `InvalidArgument`."),
}

_GROUP_TABLE: Final = ("group", "table")
_CALL: Final = ("grpc_type", "grpc_service", "grpc_method")
_TIMED: Final[Mapping[Duration, str]] = {
    Duration.TIMELINE_REFRESH: "How long a look at a table took.",
    Duration.PLAN: "How long planning took, of a plan or a group's round.",
    Duration.ASSIGN: "How long handing out splits took.",
    Duration.LOG_APPEND: "How long a write of the state took until it was on the disk.",
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
    _gauge(
        "penstock_table_up",
        "0 or 1",
        "1: the server can open the table, 0: it cannot. Looked at every minute, and after a failure more often.",
        "table",
    ),
    _gauge(
        "penstock_enumerator_issued_instant_seconds",
        "seconds since 1970 UTC",
        "The newest instant that is planned for the group.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_enumerator_issued_instant_delay_seconds",
        "seconds",
        "How old that instant was when it was planned.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_enumerator_last_discovery_age_seconds",
        "seconds",
        "Since the group's table was last looked at. Not told of groups whose tables are not to be looked at: paused, "
        "stopped or ended.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_enumerator_poll_interval_seconds",
        "seconds",
        "How often the group's table is to be looked at.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_enumerator_leader_epoch",
        "epoch",
        "The epoch under which this process writes the state; each start and takeover makes it one more.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_group_lag_commits",
        "commits",
        "Commits of the table that the group has not committed. The lag is measured every 30 s, and when a group is "
        "new.",
        *_GROUP_TABLE,
    ),
    _counter("penstock_discovery_failures", "looks", "Looks for a group that failed, by error.", "code", *_GROUP_TABLE),
    _counter(
        "penstock_background_failures",
        "failures",
        "Rounds of a background thread that failed, and threads that ended and were started again.",
        "thread",
    ),
    _gauge("penstock_group_lag_bytes", "bytes", "What those commits wrote.", *_GROUP_TABLE),
    _gauge("penstock_group_lag_seconds", "seconds", "Since the oldest of those commits completed.", *_GROUP_TABLE),
    _gauge(
        "penstock_splits", "splits", "Splits of the groups' rounds, by what became of them.", "state", "group", "kind"
    ),
    _counter("penstock_split_events", "splits", "What happened to splits.", "event", "group", "kind", "table", "query"),
    _gauge("penstock_pending_bytes", "bytes", "Size on storage of the splits that are not handed out yet.", "group"),
    _gauge(
        "penstock_watermark_timestamp_seconds",
        "seconds since 1970 UTC",
        "The watermark of the Spark stream on the table whose batch was planned last.",
        "table",
    ),
    _gauge(
        "penstock_time_to_loss_seconds",
        "seconds",
        "Before the table's cleaner or archiver takes what its slowest group still needs. Not told where it cannot be "
        "known.",
        "table",
    ),
    _gauge("penstock_time_to_loss_commits", "commits", "The same, in commits to come.", "table"),
    _gauge(
        "penstock_tokens",
        "tokens",
        "Tokens that count now, expired ones included. Not told without a file of tokens.",
    ),
    _gauge(
        "penstock_tokens_file_up",
        "0 or 1",
        "1: the file of tokens can be read and parsed, 0: it cannot, and no token counts once `tokensGraceMs` is over. "
        "Not told without such a file.",
    ),
    *(_seconds(f"penstock_{duration}_duration_seconds", doc, _CALL_BUCKETS_S) for duration, doc in _TIMED.items()),
    _counter("penstock_reader_records", "rows", "Rows that readers handed on, told once a split is finished."),
    _counter("penstock_reader_bytes", "bytes", "Size on storage of the splits that readers finished."),
    _seconds("penstock_split_read_duration_seconds", "How long reading a split took.", _READ_BUCKETS_S, "phase"),
    _counter("penstock_merge_log_records", "records", "What became of log records in merging.", "outcome"),
    _counter(
        "penstock_corrupt_blocks",
        "stretches",
        "Damaged stretches of log files that readers passed over (`onCorrupt=skip`).",
    ),
    _gauge(
        "penstock_kafka_switch_state",
        "0, 1 or 2",
        "Where a hybrid group reads: 0 in the lake, 1 switching, 2 in the topic.",
        *_GROUP_TABLE,
    ),
    _gauge(
        "penstock_kafka_lag_records",
        "offsets",
        "Offsets of the topic behind what is planned for the group.",
        "group",
        "topic",
        "partition",
    ),
    _counter("penstock_kafka_lost_records", "offsets", "Offsets that retention took before they were read."),
    _counter(
        "penstock_kafka_undecodable_records",
        "records",
        "Records of a topic that could not be decoded and were put with the dead letters.",
    ),
    _counter(
        "grpc_server_started", "calls", "Calls that arrived. Those that gRPC refuses first are not counted.", *_CALL
    ),
    _counter("grpc_server_handled", "calls", "Calls that were answered, by status.", *_CALL, "grpc_code"),
    _seconds("grpc_server_handling_seconds", "How long a call took.", _CALL_BUCKETS_S, *_CALL),
)

METRICS: Final[Mapping[str, MetricEntry]] = {entry.name: entry for entry in _ENTRIES}
"""By name, in the order in which they are told of."""
