"""Streams of the plan API: the caller stores the offsets (Spark's checkpoint), the enumerator returns the end of the
next batch.

A stream is a sequence of *batches*. A `StreamPoint` is the end of a batch: the progress after it, its watermark and its
content, from which its plan can be made at any time. Event times are in UTC microseconds. Consumer groups, whose
progress the enumerator stores, are in `penstock.proto.model.groups`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import KafkaPlace, KafkaRange
from penstock.proto.model.positions import EARLIEST, InstantTime, OnLostRange, Position
from penstock.proto.model.queries import (
    NO_LIMITS,
    Changes,
    Incremental,
    PlanRequest,
    RoundLimits,
    SnapshotPart,
    TopicRanges,
)

END_OF_TIME_US: Final = 253_370_764_800_000_000
"""9999-01-01 UTC: the watermark above every event time, at the end of a range."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What is consumed of a table, and the state by which no instant is missed or read twice."""

    position: Position
    """The position; after the hand-over of a hybrid read that of `kafka`."""
    layout: int = 0
    """The timeline layout of `position`; 0: not known yet, the next discovery sets all fields but the position."""
    consumed: frozenset[InstantTime] = field(default_factory=frozenset)
    """Requested times of the data instants at or before the position that were active when the position moved there,
    with the one that the position is inside of. If all of them were archived, the newest one is kept. An instant that
    completes later is late; one that disappears without being archived was rolled back."""
    ahead: frozenset[InstantTime] = field(default_factory=frozenset)
    """Consumed instants with an order key above the position, after an upgrade of the table mapped it. Ranges exclude
    them until the position passes them."""
    table_id: str = ""
    """The table's name in its properties, for error texts. Another table at the same path is detected by its
    instants."""
    kafka: KafkaPlace | None = None
    """The progress in the topic, after the hand-over of a hybrid read; all other fields are then as they were at the
    hand-over."""
    snapshot: SnapshotProgress | None = None
    """The progress in the snapshot with which a consumer group starts; all other fields but `position` are then those
    of the position of the snapshot. None for streams, whose point has it."""


class WatermarkFallback(enum.Enum):
    """How the event times of rows without statistics are bounded."""

    SCAN = "scan"
    """The rows are read when they are planned."""
    HOLD = "hold"
    """The watermark waits until the rows are delivered."""
    COMMIT_TIME = "commitTime"
    """The completion time of their instant minus the allowed lateness (RFC-95)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeRule:
    """How a stream's watermark is computed. The event-time column and its unit are in the scope's request."""

    max_out_of_orderness_us: int
    """The allowed lateness: how far an event time may be below the highest one before it."""
    fallback: WatermarkFallback = WatermarkFallback.SCAN
    """How rows without statistics are bounded."""
    timezone: str = ""
    """The time zone of a LOCAL timeline, for COMMIT_TIME; '' if the timeline is UTC."""

    def __post_init__(self) -> None:
        if self.max_out_of_orderness_us < 0:
            raise ConfigurationError(f"maxOutOfOrderness: got {self.max_out_of_orderness_us} µs, expected 0 or more")


@dataclass(frozen=True, slots=True)
class Watermark:
    """A stream's watermark. None: not known yet."""

    at_us: int | None = None
    """No row of a later batch has an event time at or below this, except rows that are later than allowed."""
    high_us: int | None = None
    """The highest upper bound of the event times of planned splits."""


@dataclass(frozen=True, slots=True)
class NoBatch:
    """No rows: the start of a stream, its end, or a watermark that advanced with time."""


@dataclass(frozen=True, slots=True)
class CommitsBatch:
    """A range of commits up to the point's position."""

    after: Position
    """The exclusive start of the range."""
    without: frozenset[InstantTime] = frozenset()
    """Requested times of instants that are excluded from the range."""


@dataclass(frozen=True, slots=True)
class SnapshotBatch:
    """Splits of the snapshot that the stream starts with, up to `SnapshotPlace.done`."""

    first: int
    """The first split."""


@dataclass(frozen=True, slots=True)
class TopicBatch:
    """Ranges of the topic of a hybrid stream."""

    ranges: tuple[KafkaRange, ...]
    """The ranges."""


BatchContent = NoBatch | CommitsBatch | SnapshotBatch | TopicBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlace:
    """The progress in the snapshot at the point's position."""

    done: int
    """The number of splits that are delivered, in their order."""
    total: int
    """The number of splits."""
    digest: str
    """The digest of the list of splits; the progress is valid for this list only."""


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """The progress of a consumer group in the snapshot with which it starts. Its splits are numbered from 0."""

    at: Position
    """The position of the snapshot: the group reads the commits after it once every split is planned."""
    place: SnapshotPlace
    """The number of planned splits, and the list of splits."""

    @property
    def position(self) -> Position:
        """The position of the group: before every instant, with the number of planned splits as its index."""
        return Position(EARLIEST.order_key, self.place.done)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPoint:
    """The end of a batch, and the content of that batch."""

    progress: Progress
    """The progress after the batch."""
    snapshot: SnapshotPlace | None = None
    """The progress in the snapshot that the stream starts with, also after its last split; None for a batch of
    commits."""
    watermark: Watermark = Watermark()
    """The watermark of the batch."""
    content: BatchContent = NoBatch()
    """The rows of the batch."""
    ended: bool = False
    """Whether the stream's `upto` is reached: no batch follows."""


@dataclass(frozen=True, slots=True)
class StartSnapshot:
    """Start with the rows of the table now, in event-time order, then read later commits."""


@dataclass(frozen=True, slots=True)
class StartLatest:
    """Start after the newest instant."""


@dataclass(frozen=True, slots=True)
class StartAfter:
    """Start after a position."""

    position: Position
    """The position; EARLIEST: everything that still exists, as ranges of commits."""


StreamStart = StartSnapshot | StartLatest | StartAfter


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """The membership of a stream or a consumer group in a set whose event times stay close (FLIP-182). It needs a
    rule."""

    set: str
    """The name of the set. Sets of different callers are different."""
    max_drift_us: int
    """How far above the lowest watermark of the set the member may read, at least 1."""
    idle_timeout_us: int | None = None
    """After so long without a batch the member no longer holds back the others; None: the enumerator's default."""

    def __post_init__(self) -> None:
        if self.max_drift_us < 1:
            raise ConfigurationError(f"maxDrift: got {self.max_drift_us} µs, expected more than 0")
        if self.idle_timeout_us is not None and self.idle_timeout_us < 1:
            raise ConfigurationError(f"idleTimeout: got {self.idle_timeout_us} µs, expected more than 0")


@dataclass(frozen=True, slots=True)
class EventTimeCeiling:
    """The highest event time of the next batch, where batches of an aligned stream can be cut, and of the next splits
    of an aligned group."""

    until_us: int | None
    """No row is later, UTC microseconds; None: the first commit or split of the batch plus `max_drift_us`."""
    max_drift_us: int
    """The member's drift."""
    is_lowest: bool
    """Whether no active member of the set has a lower watermark: the batch then has at least one commit or split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamScope:
    """What a stream reads. All its batches have the same scope, except that a caller may change `limits`, `rule`,
    `target` and `alignment` between two batches."""

    request: PlanRequest
    """The read; its query is Incremental (latest-state rows) or Changes, whose bounds are ignored."""
    limits: RoundLimits = NO_LIMITS
    """The limits of a batch."""
    rule: EventTimeRule | None = None
    """How the watermark is computed; None: no watermark."""
    upto: Position | None = None
    """The end of the stream, inclusive; None: it does not end."""
    target: Position | None = None
    """The current end, inclusive, after which the stream continues later; None: none."""
    on_lost_range: OnLostRange = OnLostRange.FAIL
    """The policy for a range that can no longer be read."""
    end_watermark_us: int | None = None
    """How far the watermark is above the highest event time at the end of the stream; None: it is END_OF_TIME_US."""
    name: str = ""
    """The stream's name in lists; '' if the enumerator generates one."""
    alignment: Alignment | None = None
    """The set with which the stream is aligned; None: none."""
    ceiling: EventTimeCeiling | None = None
    """The highest event time of the next batch, which the enumerator derives from `alignment`; never sent."""
    principal: str = ""
    """The caller, as the server authenticated it; never sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """The next batch of a stream."""

    point: StreamPoint
    """The end of the batch: the requested point itself if there is nothing new."""
    schema_json: str = ""
    """The table's schema at that point; '' if there is nothing new."""
    lost: str = ""
    """Why commits before the batch were skipped, as `on_lost_range` allows; '' if none were."""
    held: bool = False
    """Whether the point is the requested one because the stream is ahead of its alignment set. The table is then not
    idle: rows with event times above the watermark may be waiting."""


def commits_request(scope: StreamScope) -> PlanRequest:
    """The scope's request for its batches, with the event-time column and scan that the rule requires."""
    event_time = scope.request.event_time if scope.rule is not None else ""
    return request_with_rule(replace(scope.request, event_time=event_time), scope.rule)


def request_with_rule(request: PlanRequest, rule: EventTimeRule | None) -> PlanRequest:
    """The request, with the scan of event times that the rule requires."""
    scans = rule is not None and rule.fallback is WatermarkFallback.SCAN
    return request if request.scan_event_time == scans else replace(request, scan_event_time=scans)


def batch_request(scope: StreamScope, point: StreamPoint) -> PlanRequest | None:
    """The request that plans the batch that ends at `point`; None for a batch without rows."""
    request, end = commits_request(scope), point.progress.position
    changes = request.query.format if isinstance(request.query, Changes) else None
    match point.content:
        case NoBatch():
            return None
        case CommitsBatch(after, without):
            if changes is not None:
                return replace(request, query=Changes(changes, after, end, without))
            return replace(request, query=Incremental(after, end, without))
        case SnapshotBatch(first):
            place = point.snapshot
            if place is None:
                raise ConfigurationError(f"a batch of a snapshot ends outside of one, at position {end}")
            part = SnapshotPart(at=end, first=first, end=place.done, digest=place.digest, changes=changes)
            return replace(request, query=part)
        case TopicBatch(ranges):
            return replace(request, query=TopicRanges(ranges))
