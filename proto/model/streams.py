"""Streams of the range door: the caller keeps the place, the enumerator says how far the next batch may go.

Values and no I/O. Belongs here: what a caller that keeps its own offsets (Spark's checkpoint) and the enumerator tell
each other about a stream. Not here: consumer groups, whose place the enumerator keeps (`groups`); how it travels
(`codec_streams`). Event times are UTC microseconds.

A stream is a chain of *batches*. A `StreamPoint` is a place between two of them together with the watermark that the
batch before it carried, and says what that batch holds: a plan follows from it alone, whenever it is asked for.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import KafkaPlace, KafkaRange
from penstock.proto.model.lost_ranges import OnLostRange
from penstock.proto.model.positions import InstantTime, Position
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
"""9999-01-01 UTC: the watermark behind every event time, at the end of a range."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What was consumed of a table, and what must be remembered so that nothing is missed or doubled.

    `layout` is the timeline layout that `position` belongs to. `consumed` are the requested times of the data instants
    at or behind the position that were active when it moved there: one that is seen completed later is late, one that
    is gone without having been archived was rolled back; one that the position lies inside is among them, and if all
    were archived the newest is kept. `ahead` are consumed instants whose order key lies beyond the position (after an
    upgrade mapped it): they are left out of ranges until it passes them. `table_id` is the table's name in its
    properties, for error texts: another table in its place is told by its instants. `layout` 0: not looked up yet, the
    next look fills in all but the position. `kafka` is the place in the topic of a hybrid read that has left the lake:
    then `position` is that place's, and all else is as it was at the hand-over.
    """

    position: Position
    layout: int = 0
    consumed: frozenset[InstantTime] = field(default_factory=frozenset)
    ahead: frozenset[InstantTime] = field(default_factory=frozenset)
    table_id: str = ""
    kafka: KafkaPlace | None = None


class WatermarkFallback(enum.Enum):
    """What bounds the event times of rows that no statistics tell of.

    SCAN: they are read when they are planned. HOLD: the watermark waits until they are delivered. COMMIT_TIME: the
    completion time of their instant, less the allowed lateness (RFC-95).
    """

    SCAN = "scan"
    HOLD = "hold"
    COMMIT_TIME = "commitTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeRule:
    """How a stream's watermark is made. The column and its unit are those of the scope's request (`event_time`).

    `timezone`: the zone in which a LOCAL timeline is written, for COMMIT_TIME; '' where the timeline is UTC.
    """

    max_out_of_orderness_us: int
    fallback: WatermarkFallback = WatermarkFallback.SCAN
    timezone: str = ""

    def __post_init__(self) -> None:
        if self.max_out_of_orderness_us < 0:
            raise ConfigurationError(f"maxOutOfOrderness: got {self.max_out_of_orderness_us} µs, expected 0 or more")


@dataclass(frozen=True, slots=True)
class Watermark:
    """`at_us`: no row of a later batch has an event time at or below it, but for rows that are later than allowed.
    `high_us`: the highest upper bound of a known commit. None: nothing can be said yet."""

    at_us: int | None = None
    high_us: int | None = None


@dataclass(frozen=True, slots=True)
class NoBatch:
    """Nothing: a stream's start, its end, or time that passed."""


@dataclass(frozen=True, slots=True)
class CommitsBatch:
    """The range from `after` up to the point's position, without some instants (requested times)."""

    after: Position
    without: frozenset[InstantTime] = frozenset()


@dataclass(frozen=True, slots=True)
class SnapshotBatch:
    """Splits `first` up to the place's `done` of the snapshot that the stream begins with."""

    first: int


@dataclass(frozen=True, slots=True)
class TopicBatch:
    """These ranges of the topic that a hybrid stream goes on in."""

    ranges: tuple[KafkaRange, ...]


BatchContent = NoBatch | CommitsBatch | SnapshotBatch | TopicBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlace:
    """A place inside the snapshot at the point's position: `done` of its `total` splits, in their order, are delivered.

    `digest` names the list of splits: with another one the place means nothing.
    """

    done: int
    total: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPoint:
    """A place between two batches, and what the batch that ends here holds.

    `snapshot` is the place inside the one that the stream begins with, also behind its last split; None for a batch of
    commits. `ended`: the stream's `upto` is reached, nothing follows.
    """

    progress: Progress
    snapshot: SnapshotPlace | None = None
    watermark: Watermark = Watermark()
    content: BatchContent = NoBatch()
    ended: bool = False


@dataclass(frozen=True, slots=True)
class StartSnapshot:
    """First the rows of the table as it is now, in event-time order, then what is committed after it."""


@dataclass(frozen=True, slots=True)
class StartNewest:
    """Behind what the table holds now."""


@dataclass(frozen=True, slots=True)
class StartAfter:
    """Behind this position; EARLIEST: all that is still there, as ranges of commits."""

    position: Position


StreamStart = StartSnapshot | StartNewest | StartAfter


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamScope:
    """What a stream reads: the same for all of its batches but for `limits`, `rule` and `target`, which a caller may
    change between two of them.

    `request.query` is Incremental (latest-state rows) or Changes; its bounds are ignored. `upto` ends the stream.
    `target` is an end that the caller stops at for now; the stream goes on behind it later. At its end, with a `rule`,
    the watermark is `end_watermark_us` above the highest event time, None: END_OF_TIME_US.
    """

    request: PlanRequest
    limits: RoundLimits = NO_LIMITS
    rule: EventTimeRule | None = None
    upto: Position | None = None
    target: Position | None = None
    on_lost_range: OnLostRange = OnLostRange.FAIL
    end_watermark_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """The point that the next batch ends at: the very one that was asked about if nothing new is there.

    `schema_json` is the table's schema there, '' where nothing is new. `lost` says why what lies before the batch was
    given up, as `on_lost_range` allows; '' if nothing was.
    """

    point: StreamPoint
    schema_json: str = ""
    lost: str = ""


def commits_request(scope: StreamScope) -> PlanRequest:
    """The scope's request as its batches are planned: their bounds are read where the rule says so."""
    rule = scope.rule
    scanned = rule is not None and rule.fallback is WatermarkFallback.SCAN
    event_time = scope.request.event_time if rule is not None else ""
    return replace(scope.request, event_time=event_time, scan_event_time=scanned)


def batch_request(scope: StreamScope, point: StreamPoint) -> PlanRequest | None:
    """The request whose plan is the batch that ends at `point`; None for a batch of nothing."""
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
