"""Observation of the enumerator: frozen event values, and the one method that receives them. Pure.

Each event says what happened or was measured: `server.metrics` makes metrics of it, `groups.activity` a status.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from penstock.enumerator.catalog_events import CatalogListed, TableRemoved
from penstock.enumerator.write_events import WritesMeasured
from penstock.proto.model.group_status import GroupAlignment
from penstock.proto.model.hybrid import Phase
from penstock.proto.model.reports import SplitReport

if TYPE_CHECKING:
    from penstock.proto.model.groups import GroupLag
    from penstock.proto.model.server_status import StreamStatus


class SplitEvent(enum.StrEnum):
    """A step in the life of a split; the label `event` of metrics."""

    DISCOVERED = "discovered"
    """A plan holds the split."""
    ASSIGNED = "assigned"
    """A reader received the split."""
    RETURNED = "returned"
    """The reader left the group before it finished the split."""
    FINISHED = "finished"
    """The reader finished the split."""
    FENCED = "fenced"
    """A call of a reader with an old epoch was refused."""
    EXPIRED = "expired"
    """The lease of the reader ended before it finished the split."""


class SplitKind(enum.StrEnum):
    """The content of a split; the label `kind` of metrics."""

    MOR = "mor"
    """Rows of file slices."""
    CDC = "cdc"
    """Changes of file slices."""
    KAFKA = "kafka"
    """A range of offsets of a topic."""


class Duration(enum.StrEnum):
    """An operation of the service that is timed."""

    TIMELINE_REFRESH = "timeline_refresh"
    """A discovery that found nothing new."""
    PLAN = "plan"
    """Planning of a read, a batch or a round."""
    ASSIGN = "assign"
    """The answer to a request for the next split of a plan."""
    LOG_APPEND = "log_append"
    """An append to the state that became durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGauges:
    """The state of a consumer group at one moment."""

    pending_splits: int
    """Planned splits that no reader holds."""
    assigned_splits: int
    """Splits that a reader holds."""
    finished_splits: int
    """Finished splits of open rounds."""
    pending_bytes: int = 0
    """Size of the pending splits."""
    issued_instant_s: float | None = None
    """Time of the newest planned instant, in seconds since 1970 UTC; None before the first."""
    watermark_us: int | None = None
    """Watermark of the group, in UTC microseconds since 1970; None if it has none, or before it is known."""
    issued_delay_s: float | None = None
    """How long after that instant its round was planned; None before the first."""
    discovery_age_s: float | None = None
    """Time since the last discovery of the table; None if none is due (the group ended, stopped or is paused)."""
    poll_interval_s: float | None = None
    """Configured interval between two discoveries of the table."""
    kind: SplitKind = SplitKind.MOR
    """Content of the group's splits."""
    up: bool = True
    """Whether the group is not stopped by an error."""
    error_code: str = ""
    """Code of the error that stopped the group, or of the discoveries that fail now; '' if there is none."""
    alignment: GroupAlignment | None = None
    """How far the group may read; None if it is not aligned."""
    over: str = ""
    """Of the group of a table: the pattern of the group over tables to which it belongs; '' if to none."""
    tables: int = 0
    """Of a group over tables: the number of its tables, whose gauges it merges."""
    failing_tables: int = 0
    """Of a group over tables: how many of its tables have an error."""


@dataclass(frozen=True, slots=True)
class SplitsCounted:
    """An event of `count` splits of a group, or of a plan."""

    event: SplitEvent
    """What happened."""
    table: str
    """Name of the table."""
    group: str
    """Name of the group; '' for a plan."""
    kind: SplitKind
    """Content of the splits."""
    count: int = 1
    """How many splits."""
    query: str = ""
    """Label of the query of a plan; '' for a group."""
    over: str = ""
    """See `GroupGauges.over`."""


@dataclass(frozen=True, slots=True)
class ReaderSplits:
    """An event of splits that one reader of a group holds or held. SplitEvent.FENCED has no splits: it concerns the
    reader."""

    event: SplitEvent
    """What happened: assigned, finished, returned, expired or fenced."""
    table: str
    """Name of the table."""
    group: str
    """Name of the group."""
    reader_id: str
    """The reader."""
    splits: tuple[tuple[str, int], ...]
    """Plan id of the round and index of each split."""


@dataclass(frozen=True, slots=True)
class SplitReported:
    """A reader finished a split. One event per split, also if the reader repeats its report."""

    table: str
    """Name of the table."""
    group: str
    """Name of the group; '' for a split of a plan."""
    reader_id: str
    """The reader; '' for a split of a plan."""
    report: SplitReport
    """The reader's report."""


@dataclass(frozen=True, slots=True)
class GroupMeasured:
    """The state of a group; replaces the state measured before."""

    table: str
    """Name of the table."""
    group: str
    """Name of the group."""
    gauges: GroupGauges
    """The state."""


@dataclass(frozen=True, slots=True)
class LagMeasured:
    """The lag of a group; replaces the lag measured before."""

    table: str
    """Name of the table."""
    group: str
    """Name of the group."""
    lag: GroupLag | None
    """The lag; None if it cannot be measured."""


@dataclass(frozen=True, slots=True)
class GroupRemoved:
    """A group was deleted."""

    table: str
    """Name of the table."""
    group: str
    """Name of the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundDiscovered:
    """A round of a group was planned and is held."""

    table: str
    """Name of the table."""
    group: str
    """Name of the group."""
    commits: int
    """Data instants of the round."""
    splits: int
    """Splits of the round."""
    size_bytes: int = 0
    """Size of the splits."""
    instant_ms: int | None = None
    """Time of the newest instant in milliseconds since 1970 UTC; None if the zone of the timeline is unknown."""


@dataclass(frozen=True, slots=True)
class DiscoveryFailed:
    """A discovery for a group failed."""

    table: str
    """Name of the table."""
    group: str
    """Name of the group."""
    code: str
    """Code of the error."""


@dataclass(frozen=True, slots=True)
class ThreadFailed:
    """An iteration of a background thread failed, or the thread ended."""

    thread: str
    """Name of the thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeasured:
    """How far the cleaner of a table is from data that its slowest group has not read."""

    table: str
    """Name of the table."""
    loss_commits: int | None = None
    """In commits; None if unknown."""
    loss_s: float | None = None
    """In seconds; None if unknown."""


@dataclass(frozen=True, slots=True)
class TableChecked:
    """A check whether a table can be opened; replaces the check before."""

    table: str
    """Name of the table."""
    code: str
    """Code of the error; '' if the table can be opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMeasured:
    """The state of a hybrid group; replaces the state measured before."""

    table: str
    """Name of the table."""
    group: str
    """Name of the group."""
    topic: str
    """Name of the topic."""
    phase: Phase | None = None
    """Phase of the hand-over; None while the group reads the table."""
    lag: Mapping[int, int] = field(default_factory=dict)
    """Offsets not planned yet, by partition of the topic."""


@dataclass(frozen=True, slots=True)
class RecordsExpired:
    """Records of a topic expired before the group read them."""

    table: str
    """Name of the table."""
    group: str
    """Name of the group."""
    records: int
    """How many more offsets were skipped."""


@dataclass(frozen=True, slots=True)
class WatermarkPlanned:
    """The watermark of a batch of a stream that was planned."""

    table: str
    """Name of the table."""
    at_us: int
    """The watermark in microseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class StreamsMeasured:
    """The streams that read through the server. It replaces the event before it."""

    streams: tuple[StreamStatus, ...]
    """All registered streams, by table and name."""


@dataclass(frozen=True, slots=True)
class EpochAcquired:
    """The process writes its state under this epoch."""

    epoch: int
    """The epoch."""


@dataclass(frozen=True, slots=True)
class TokensLoaded:
    """The file of tokens was read, or could not be read."""

    accepted: int
    """How many tokens are accepted now."""
    usable: bool
    """Whether the file can be read and parsed."""


@dataclass(frozen=True, slots=True)
class DurationMeasured:
    """An operation ended."""

    duration: Duration
    """Which operation."""
    seconds: float
    """How long it took."""


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A gRPC call arrived."""

    service: str
    """Full name of the service."""
    method: str
    """Name of the method."""


@dataclass(frozen=True, slots=True)
class CallHandled:
    """A gRPC call was answered."""

    service: str
    """Full name of the service."""
    method: str
    """Name of the method."""
    code: str
    """The status, such as `OK` or `UNAVAILABLE`."""
    seconds: float
    """How long the call took."""


Observation = (
    SplitsCounted
    | ReaderSplits
    | SplitReported
    | GroupMeasured
    | LagMeasured
    | GroupRemoved
    | RoundDiscovered
    | DiscoveryFailed
    | ThreadFailed
    | TableMeasured
    | TableChecked
    | TableRemoved
    | CatalogListed
    | TopicMeasured
    | RecordsExpired
    | WatermarkPlanned
    | StreamsMeasured
    | WritesMeasured
    | EpochAcquired
    | TokensLoaded
    | DurationMeasured
    | CallStarted
    | CallHandled
)


class Observer(Protocol):
    """Receives events, from any thread. Never fails and never waits."""

    def observe(self, event: Observation) -> None:
        """Receives one event; events of a type that the observer does not use are ignored."""
        ...


class NoObserver:
    """Ignores every event."""

    def observe(self, event: Observation) -> None:
        """See `Observer.observe`."""


NO_OBSERVER: Final = NoObserver()


class CompositeObserver:
    """Passes each event to all of its observers, in their order."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def observe(self, event: Observation) -> None:
        """See `Observer.observe`."""
        for observer in self._observers:
            observer.observe(event)
