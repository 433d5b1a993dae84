"""Inputs and results of advancing on a table. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.positions import CommitRange, InstantTime, Position
from penstock.proto.model.queries import PlanRequest, RoundLimits
from penstock.proto.model.splits import Plan
from penstock.proto.model.streams import EventTimeRule
from penstock.proto.model.streams import Progress as Progress

ReaderName = tuple[str, str]
"""`group` or `stream`, and the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderPlace:
    """How far a consumer group or a stream is in a table."""

    progress: Progress
    """How far it is planned."""
    committed: Position
    """Everything up to here is finished."""
    starts_at: Position | None = None
    """The position of the state of the table with which it starts; None after it, and if it starts with no state."""
    name: ReaderName | None = None
    """The name by which a clean may record that it holds the cleaner; None if unknown."""

    @property
    def needed(self) -> Position:
        """It needs the state of the table here, and every instant after it."""
        return self.starts_at or self.committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """A request for the next round after a progress."""

    request: PlanRequest
    """The kind of query and its options. The bounds of `request.query` are ignored."""
    progress: Progress
    """The progress after which the round starts."""
    limits: RoundLimits
    """The limits of the round."""
    upto: Position | None = None
    """The position that no round passes; None without an end."""
    drained: bool = True
    """Whether all earlier rounds are done."""
    rule: EventTimeRule | None = None
    """How event times are bounded; None: they are not needed."""
    max_drift_us: int | None = None
    """The round is cut at commits, so that its event times are at most this far apart; None: not."""


@dataclass(frozen=True, slots=True)
class NothingNew:
    """Nothing completed after the position, which does not move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """The time of a round's newest instant."""

    instant_ms: int
    """The instant's time, UTC milliseconds since 1970."""
    delay_ms: int
    """The time from the instant until the round was planned, milliseconds."""


@dataclass(frozen=True, slots=True)
class RoundEventTimes:
    """The event times of a round, in a group with a watermark."""

    of_splits: tuple[EventTimeSpan, ...]
    """The span of each split of the plan."""
    coming: EventTimeSpan
    """The span of what is known to come after the round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRound:
    """One round: a range of commits, or of topic records, with its plan."""

    commit_range: CommitRange
    """The range of positions."""
    plan: Plan
    """The plan of the range."""
    progress: Progress
    """The progress after the round is consumed."""
    without: frozenset[InstantTime] = frozenset()
    """Instants in the range that the plan leaves out, because they were consumed before."""
    reshaped: frozenset[str] = frozenset()
    """Partitions in which an instant of the range, or a service up to its end, replaced file groups. Rows may have
    moved between groups there, so later rounds wait until earlier ones are consumed."""
    commits: int = 0
    """The number of data instants, those covered in part included."""
    issued: Issued | None = None
    """The time of the newest instant; None if it is unknown."""
    lost_records: int = 0
    """Records of a topic that were skipped because they had expired."""
    event_times: RoundEventTimes | None = None
    """The event times of the round; None without a rule of watermarks."""
    is_last: bool = False
    """Whether the table had nothing after the round when it was planned; false if that is not known."""


Advance = NothingNew | NextRound
