"""Records: the decisions, as values. The state is the result of applying its records.

Durable records are appended before the caller receives its answer; `Volatile` ones (leases, times of use, reports) live
as long as the process. Compatible additions: a field with a default for what older stores lack, or a new kind. `codec`
encodes them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core.split_facts import SplitFacts
from penstock.proto.model.groups import GroupScope
from penstock.proto.model.positions import CommitRange, Position
from penstock.proto.model.queries import RoundLimits
from penstock.proto.model.reports import SplitReport


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """A consumer group: its table's name and its own."""

    table: str
    group: str

    def __str__(self) -> str:
        return f"group {self.group!r} of table {self.table!r}"


class Gone(enum.Enum):
    """Why a reader is no member any more."""

    LEFT = "left"
    EXPIRED = "expired"


class Moved(enum.Enum):
    """Why a group was moved to another position."""

    RESET = "reset"
    LOST_RANGE = "lost range"


class QueryKind(enum.Enum):
    """The kind of query of a held plan. The values are persisted: kinds are added, their values never change."""

    SNAPSHOT = "Snapshot"
    SNAPSHOT_AS_OF = "SnapshotAsOf"
    SNAPSHOT_PART = "SnapshotPart"
    READ_OPTIMIZED = "ReadOptimized"
    INCREMENTAL = "Incremental"
    CHANGES = "Changes"
    TOPIC_RANGES = "TopicRanges"
    OTHER = "Other"
    """A kind that this release does not have, in a record of another release."""


@dataclass(frozen=True, slots=True)
class PlanQuery:
    """The query of a held plan."""

    kind: QueryKind
    """The kind of query."""
    of_stream: bool = False
    """Whether the plan is a batch of a stream."""

    def __str__(self) -> str:
        return self.kind.value + (_OF_STREAM if self.of_stream else "")

    @classmethod
    def parse(cls, name: str) -> PlanQuery:
        """The inverse of `str`: the form of records and log lines. QueryKind.OTHER for a kind of another release."""
        kinds = {kind.value: kind for kind in QueryKind}
        return cls(kinds.get(name.removesuffix(_OF_STREAM), QueryKind.OTHER), name.endswith(_OF_STREAM))


_OF_STREAM: Final = "Stream"
"""Follows the kind in records and log lines if the plan is a batch of a stream."""


@dataclass(frozen=True, slots=True)
class NumbersUsed:
    """Epochs and generations up to this one were given out: none is ever given twice."""

    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCreated:
    """A group begins after `progress`. `number`: its generation. `principal`: whose reader created it; '' if the server
    did not authenticate callers, or in a record of a release that did not keep principals."""

    key: GroupKey
    number: int
    scope: GroupScope
    limits: RoundLimits
    progress: Progress
    principal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlanned:
    """The next round of a group: its position moves to the end of the range. No splits: it was passed."""

    key: GroupKey
    plan_id: str
    commit_range: CommitRange
    progress: Progress
    facts: SplitFacts
    reshaped: frozenset[int] = frozenset()
    commits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderJoined:
    """A reader id has a new epoch. It keeps its splits, which are delivered again. `principal`: who joined; '' if the
    server did not authenticate callers, or in a record of a release that did not keep principals."""

    key: GroupKey
    reader_id: str
    epoch: int
    request_id: str
    principal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsAssigned:
    """A member's request was answered with these splits, (round's plan id, index) in order."""

    key: GroupKey
    reader_id: str
    sequence: int
    splits: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsCommitted:
    """Rows of held splits are done: (plan id, index, ordinal), or all of them: (plan id, index)."""

    key: GroupKey
    ordinals: tuple[tuple[str, int, int], ...] = ()
    finished: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderGone:
    """A reader is no member any more; what it held is pending again, from the committed ordinals on."""

    key: GroupKey
    reader_id: str
    cause: Gone


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStopped:
    """The group hands out nothing until it is reset: what an error's code and text say."""

    key: GroupKey
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMoved:
    """The group starts again after `progress`: rounds forgotten, readers fenced, a stop undone."""

    key: GroupKey
    number: int
    progress: Progress
    cause: Moved
    behind: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEnded:
    """The group's `upto` is reached; nothing more is looked for."""

    key: GroupKey


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    """The group is forgotten; `expired`: because it had no readers for its time."""

    key: GroupKey
    expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOpened:
    """A plan of the plan API is held; `slots` readers may pull from it. `query` is the kind of query, `stream` the
    id of the stream whose batch it is, or empty. `digest` is that of the request's content, '' in a record of before
    digests were kept."""

    plan_id: str
    request_id: str
    table: str
    query: PlanQuery
    facts: SplitFacts
    slots: int
    stream: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class SlotsAsked:
    """The lists of these slots, one after the other, grew by an entry or were sealed: which of both, and by which
    split, the order of all such calls decides, always alike."""

    plan_id: str
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlansForgotten:
    """Plans that were not used any more."""

    plan_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanUsed:
    """Volatile: somebody asked about a plan."""

    plan_id: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class EntryReported:
    """Volatile: how reading a split of a plan went."""

    plan_id: str
    slot: int
    index: int
    report: SplitReport


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed:
    """Volatile: a member's lease ends then, by the clock of this process."""

    key: GroupKey
    reader_id: str
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingGranted:
    """Volatile: a member's request was answered with no splits. Late copies of it end with the process."""

    key: GroupKey
    reader_id: str
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSeen:
    """Volatile: a discovery found nothing after this position."""

    key: GroupKey
    position: Position


@dataclass(frozen=True, slots=True)
class GroupIdle:
    """Volatile: the group has had no readers since then, by the clock of this process."""

    key: GroupKey
    since_ms: int


Durable = (
    NumbersUsed
    | GroupCreated
    | RoundPlanned
    | ReaderJoined
    | SplitsAssigned
    | SplitsCommitted
    | ReaderGone
    | GroupStopped
    | GroupMoved
    | GroupEnded
    | GroupDeleted
    | PlanOpened
    | SlotsAsked
    | PlansForgotten
)
Volatile = LeaseRenewed | GroupIdle | NothingGranted | TableSeen | PlanUsed | EntryReported
Record = Durable | Volatile
