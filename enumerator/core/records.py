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
from penstock.enumerator.core.slot_assigner import PlanQuery as PlanQuery
from penstock.enumerator.core.slot_assigner import QueryKind as QueryKind
from penstock.enumerator.core.split_facts import SplitFacts
from penstock.enumerator.core.tables import TableAdded, TableDropped
from penstock.enumerator.core.writes.records import DurableWriteRecord, WriteRenewed
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.groups import GroupScope
from penstock.proto.model.positions import CommitRange, Position
from penstock.proto.model.queries import RoundLimits
from penstock.proto.model.reports import SplitReport
from penstock.proto.model.streams import Watermark

UNKNOWN_SPAN: Final = EventTimeSpan(is_unbounded=True)
"""Event times of commits that are not known yet: the watermark waits."""


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """Identity of a consumer group."""

    table: str
    """Name of its table."""
    group: str
    """Name of the group."""

    def __str__(self) -> str:
        return f"group {self.group!r} of table {self.table!r}"


class Gone(enum.Enum):
    """Why a reader is no longer a member."""

    LEFT = "left"
    """It left the group."""
    EXPIRED = "expired"
    """Its lease ended."""


class Moved(enum.Enum):
    """Why a group was moved to another position."""

    RESET = "reset"
    """An operator reset the group."""
    STARTED = "started"
    """The group was created to start after the newest instant, and its table was read for the first time."""
    LOST_RANGE = "lost range"
    """The range that the group had to read next is lost."""


@dataclass(frozen=True, slots=True)
class NumbersUsed:
    """Epochs and generations up to `last` are used. No number is used twice."""

    last: int
    """The highest number used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCreated:
    """A group was created."""

    key: GroupKey
    """The group."""
    number: int
    """Its generation."""
    scope: GroupScope
    """What it consumes."""
    limits: RoundLimits
    """Limits of its rounds."""
    progress: Progress
    """The group begins after this."""
    principal: str = ""
    """Principal that created the group; '' without authentication, and in a record of a release without principals."""
    at_newest: bool = False
    """Whether it begins after the newest instant of its table instead, which discovery reads first."""
    at_snapshot: bool = False
    """Whether it begins with a snapshot of its table, which discovery plans first; of a group over tables: whether each
    of its tables does, also those that join later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlanned:
    """The next round of a group; its position moves to the end of the range. An empty round is finished at once."""

    key: GroupKey
    """The group."""
    plan_id: str
    """Plan id of the round."""
    commit_range: CommitRange
    """Range of the round."""
    progress: Progress
    """Progress of the group after the round."""
    facts: SplitFacts
    """Sizes and order of the splits."""
    reshaped: frozenset[int] = frozenset()
    """Hashes of the partitions whose file groups the round replaces."""
    commits: int = 0
    """Number of commits in the range."""
    coming: EventTimeSpan = UNKNOWN_SPAN
    """Event times of the known commits after the round; UNKNOWN_SPAN in a group without a watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkMoved:
    """The watermark of a group moved without a round and without a commit: nothing is still to come, or the table was
    idle. Also written by a compaction of the log."""

    key: GroupKey
    """The group."""
    watermark: Watermark
    """The new watermark."""
    coming: EventTimeSpan
    """Event times of the known commits that are not planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderJoined:
    """A reader joined under a new epoch. It keeps its splits, which are delivered again."""

    key: GroupKey
    """The group."""
    reader_id: str
    """Name of the reader."""
    epoch: int
    """Its new epoch."""
    request_id: str
    """Id of the call that joined."""
    principal: str = ""
    """Principal that joined; '' without authentication, and in a record of a release without principals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsAssigned:
    """A member received splits."""

    key: GroupKey
    """The group."""
    reader_id: str
    """Name of the reader."""
    sequence: int
    """Number of the request that was answered."""
    splits: tuple[tuple[str, int], ...]
    """(plan id of the round, index) of each split, in the order of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsCommitted:
    """Progress of held splits is committed."""

    key: GroupKey
    """The group."""
    ordinals: tuple[tuple[str, int, int], ...] = ()
    """(plan id, index, ordinal): rows before the ordinal are done."""
    finished: tuple[tuple[str, int], ...] = ()
    """(plan id, index): all rows are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderGone:
    """A reader is no longer a member. Its splits are pending again, from the committed ordinals on."""

    key: GroupKey
    """The group."""
    reader_id: str
    """Name of the reader."""
    cause: Gone
    """Why it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStopped:
    """An error stopped the group; it hands out no splits until it is reset."""

    key: GroupKey
    """The group."""
    code: str
    """Code of the error."""
    text: str
    """Text of the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMoved:
    """The group starts again after `progress`. Its rounds are dropped, its readers fenced, its error cleared."""

    key: GroupKey
    """The group."""
    number: int
    """Its new generation."""
    progress: Progress
    """The group continues after this."""
    cause: Moved
    """Why it moved."""
    before: Position
    """Position of the group before the move; stored as `behind`."""
    at_snapshot: bool = False
    """Of a group over tables: whether tables that join from now on begin with a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEnded:
    """Everything up to `upto` of the group is planned; discovery ends."""

    key: GroupKey
    """The group."""


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    """The group is deleted."""

    key: GroupKey
    """The group."""
    expired: bool = False
    """Whether it was deleted because it had no readers for `group_expiry_ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOpened:
    """A plan of the plan API is held."""

    plan_id: str
    """Id of the plan."""
    request_id: str
    """Id of the call that opened it; '' if it had none."""
    table: str
    """Name of the table."""
    query: PlanQuery
    """Query of the plan."""
    facts: SplitFacts
    """Sizes of its splits."""
    slots: int
    """Number of slots that readers pull from."""
    stream: str = ""
    """Id of the stream, if the plan is a batch of a stream; '' otherwise."""
    digest: str = ""
    """Digest of the content of the request; '' in a record of a release without digests."""


@dataclass(frozen=True, slots=True)
class SlotsAsked:
    """The lists of these slots, in this order, grew by one entry or were sealed. The order of all calls determines
    which of both, and the split: a replay gives the same lists."""

    plan_id: str
    """Id of the plan."""
    slots: tuple[int, ...]
    """Numbers of the slots, in the order of the calls."""


@dataclass(frozen=True, slots=True)
class PlansForgotten:
    """Plans are no longer held."""

    plan_ids: tuple[str, ...]
    """Ids of the plans."""


@dataclass(frozen=True, slots=True)
class PlanUsed:
    """Volatile: a plan was used."""

    plan_id: str
    """Id of the plan."""
    now_ms: int
    """When it was used."""


@dataclass(frozen=True, slots=True)
class EntryReported:
    """Volatile: a reader reported on a split of a plan."""

    plan_id: str
    """Id of the plan."""
    slot: int
    """Number of the slot."""
    index: int
    """Index in the list of the slot."""
    report: SplitReport
    """How the read went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed:
    """Volatile: a member has a new lease."""

    key: GroupKey
    """The group."""
    reader_id: str
    """Name of the reader."""
    until_ms: int
    """End of the lease, by the clock of this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingGranted:
    """Volatile: a member's request was answered without splits. A copy of it that arrives after a restart may receive
    splits: see `split_assignment.missed`."""

    key: GroupKey
    """The group."""
    reader_id: str
    """Name of the reader."""
    sequence: int
    """Number of the request."""


@dataclass(frozen=True, slots=True)
class TurnTaken:
    """Volatile: a request considered the group of a table, and none of its splits can be assigned now."""

    key: GroupKey
    """The group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSeen:
    """Volatile: a discovery found nothing new."""

    key: GroupKey
    """The group."""
    position: Position
    """Position after which there was nothing."""
    quiet_since_us: int | None = None
    """Since when the group has been idle, by the clock of this process; None if it is not, or has no idle timeout."""


@dataclass(frozen=True, slots=True)
class GroupIdle:
    """Volatile: the group has no readers."""

    key: GroupKey
    """The group."""
    since_ms: int
    """Since when, by the clock of this process."""


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
    | WatermarkMoved
    | PlanOpened
    | SlotsAsked
    | PlansForgotten
    | TableAdded
    | TableDropped
    | DurableWriteRecord
)
Volatile = WriteRenewed | LeaseRenewed | GroupIdle | NothingGranted | TurnTaken | TableSeen | PlanUsed | EntryReported
Record = Durable | Volatile
GroupRecord = (
    ReaderJoined
    | GroupMoved
    | RoundPlanned
    | SplitsAssigned
    | SplitsCommitted
    | ReaderGone
    | GroupStopped
    | GroupEnded
    | GroupIdle
    | LeaseRenewed
    | NothingGranted
    | TurnTaken
    | TableSeen
    | WatermarkMoved
)
