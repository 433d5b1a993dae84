"""Events: calls of readers and operators, results of discoveries, time. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core.event import Event as Event
from penstock.enumerator.core.records import UNKNOWN_SPAN, GroupKey, PlanQuery
from penstock.enumerator.core.results import Committed, Entry, PlanHeld, Reported, SplitsGranted
from penstock.enumerator.core.split_facts import SplitFacts
from penstock.enumerator.core.writes.events import WriteEvent
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.groups import EndOfGroup, GroupScope, Joined, Member, NothingYet, SplitProgress
from penstock.proto.model.positions import CommitRange, Position
from penstock.proto.model.queries import RoundLimits
from penstock.proto.model.reports import SplitReport
from penstock.proto.model.streams import EventTimeCeiling


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateGroup(Event[None]):
    """Creates a group, unless it exists."""

    key: GroupKey
    """The group."""
    scope: GroupScope
    """The read of the group, its end, and its policy for lost ranges."""
    limits: RoundLimits
    """Limits of its rounds."""
    progress: Progress
    """The group begins after this."""
    principal: str = ""
    """Principal of the caller; '' if the server authenticates nobody."""
    at_newest: bool = False
    """Whether it begins after the newest instant of its table instead; for a group over tables: of each of `tables`."""
    at_snapshot: bool = False
    """Whether it begins with a snapshot of its table; for a group over tables: of each table."""
    tables: tuple[str, ...] = ()
    """For a group over tables: the tables that it begins with."""


@dataclass(frozen=True, slots=True)
class AddTables(Event[Mapping[str, str]]):
    """Tables join a group over tables. Those that it has are ignored. The answer has the tables for which there is no
    room, with the name of the limit."""

    key: GroupKey
    """The group over tables."""
    tables: tuple[str, ...]
    """Names of the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Event[Joined]):
    """A reader joins, or joins again. Two events with the same request id are one join."""

    key: GroupKey
    """The group."""
    reader_id: str
    """Name of the reader."""
    scope: GroupScope
    """What the reader expects the group to consume."""
    request_id: str
    """Id of this call; a retry has the same id."""
    principal: str = ""
    """Principal of the caller; '' if the server authenticates nobody."""


@dataclass(frozen=True, slots=True)
class Heartbeat(Event[None]):
    """A member renews its lease."""

    member: Member
    """The member that calls."""


@dataclass(frozen=True, slots=True)
class RequestSplits(Event[SplitsGranted | NothingYet | EndOfGroup]):
    """A member requests splits."""

    member: Member
    """The member that calls."""
    max_splits: int
    """Most splits in the answer."""
    sequence: int
    """Number of the request: 1 or more, higher with each new request of the member."""
    tables: tuple[str, ...] = ()
    """For a group over tables: the tables from which the member may receive splits, sorted."""
    without: frozenset[str] = frozenset()
    """For a group over tables: tables from which the member wants no splits now."""
    ceilings: Mapping[str, EventTimeCeiling] = field(default_factory=dict)
    """For an aligned group: how far the group of each table may read."""
    received: int | None = None
    """Number of the newest request of this epoch whose splits the member received; 0: of none. None: the member does
    not say."""
    is_held: bool = False
    """Whether the call is held until there are splits: without any the request is not answered, and is decided again
    later."""


@dataclass(frozen=True, slots=True)
class CommitSplits(Event[Committed]):
    """A member commits progress of its splits."""

    member: Member
    """The member that calls."""
    done: tuple[SplitProgress, ...]
    """Progress of splits that the member holds."""


@dataclass(frozen=True, slots=True)
class Leave(Event[None]):
    """A member leaves the group."""

    member: Member
    """The member that calls."""


@dataclass(frozen=True, slots=True)
class Reset(Event[None]):
    """An operator moves the group."""

    key: GroupKey
    """The group."""
    progress: Progress
    """The group continues after this."""
    at_snapshot: bool = False
    """Of a group over tables: whether tables that join from now on begin with a snapshot."""


@dataclass(frozen=True, slots=True)
class Delete(Event[None]):
    """An operator deletes the group."""

    key: GroupKey
    """The group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered(Event[None]):
    """Discovery planned a round after `start`. Ignored unless the group still has this position and generation."""

    key: GroupKey
    """The group."""
    number: int
    """Generation of the group that the discovery read."""
    start: Position
    """Position from which the discovery read."""
    commit_range: CommitRange
    """Range of the round."""
    progress: Progress
    """Progress of the group after the round."""
    facts: SplitFacts
    """Sizes and order of the splits."""
    reshaped: frozenset[int]
    """Hashes of the partitions whose file groups the round replaces."""
    commits: int
    """Number of commits in the range."""
    coming: EventTimeSpan = UNKNOWN_SPAN
    """Event times of the known commits after the round; UNKNOWN_SPAN in a group without a watermark."""


@dataclass(frozen=True, slots=True)
class Started(Event[None]):
    """Discovery read the newest instant of the table of a group that starts after it."""

    key: GroupKey
    """The group."""
    number: int
    """Generation of the group that the discovery read."""
    progress: Progress
    """The group begins after this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingFound(Event[None]):
    """Discovery found nothing after `start`."""

    key: GroupKey
    """The group."""
    number: int
    """Generation of the group that the discovery read."""
    start: Position
    """Position from which the discovery read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotGoOn(Event[None]):
    """The range after `start` cannot be planned, and a retry does not help."""

    key: GroupKey
    """The group."""
    number: int
    """Generation of the group that the discovery read."""
    start: Position
    """Position from which the discovery read."""
    code: str
    """Code of the error."""
    text: str
    """Text of the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeLost(Event[None]):
    """The range after `start`, or the range of an open round, is lost, and the scope of the group says to continue
    after `progress`. With onLostRange=earliest the event is ignored unless `progress` is after `start`; for an
    open round, unless `progress` is at or after the committed position."""

    key: GroupKey
    """The group."""
    number: int
    """Generation of the group that the discovery read."""
    start: Position
    """Position from which the discovery read."""
    progress: Progress
    """The group continues after this."""
    plan_id: str = ""
    """Plan id of the lost open round; '' if the range after `start` is lost."""


@dataclass(frozen=True, slots=True)
class Tick(Event[None]):
    """Time has passed. A long time since the last tick means that this process was suspended."""

    before_ms: int
    """When the last tick was."""


@dataclass(frozen=True, slots=True)
class Restarted(Event[None]):
    """The state was read from a store. No reader could renew its lease while the server was down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPlan(Event[PlanHeld]):
    """Holds a new plan. A second event with the same request id and the same digest answers with the first plan."""

    plan_id: str
    """Id of the plan."""
    request_id: str
    """Id of the call that opens it; '' if it has none."""
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
    """Digest of the content of the request."""


@dataclass(frozen=True, slots=True)
class UsePlan(Event[PlanHeld]):
    """A reader uses a plan: its time to live starts again."""

    plan_id: str
    """Id of the plan."""


@dataclass(frozen=True, slots=True)
class NextEntry(Event[Entry]):
    """A slot requests an entry of its list."""

    plan_id: str
    """Id of the plan."""
    slot: int
    """Number of the slot."""
    index: int
    """Index in the list of the slot."""


@dataclass(frozen=True, slots=True)
class FinishEntry(Event[Reported]):
    """A reader finished the split of an entry."""

    plan_id: str
    """Id of the plan."""
    slot: int
    """Number of the slot."""
    index: int
    """Index in the list of the slot."""
    report: SplitReport
    """How the read went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddTable(Event[None]):
    """An administrator adds a table, unless the same one was added before."""

    table: str
    """The name under which it is served."""
    path: str
    """Its path or URI, without credentials."""
    poll_interval_ms: int | None = None
    """How often it is checked for new commits; None: the server's interval."""
    principal: str = ""
    """Principal of the caller; '' if the server authenticates nobody."""


@dataclass(frozen=True, slots=True)
class DropTable(Event[None]):
    """An administrator removes an added table."""

    table: str
    """Its name."""


AnyEvent = (
    CreateGroup
    | AddTables
    | Join
    | Heartbeat
    | RequestSplits
    | CommitSplits
    | Leave
    | Reset
    | Delete
    | Discovered
    | Started
    | NothingFound
    | CannotGoOn
    | RangeLost
    | Tick
    | Restarted
    | OpenPlan
    | UsePlan
    | NextEntry
    | FinishEntry
    | AddTable
    | DropTable
    | WriteEvent
)
