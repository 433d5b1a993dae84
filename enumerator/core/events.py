"""Events: calls of readers and operators, results of discoveries, time. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core.records import GroupKey, PlanQuery
from penstock.enumerator.core.results import Committed, Entry, PlanHeld, Reported, SplitsGranted
from penstock.enumerator.core.split_facts import SplitFacts
from penstock.proto.model.groups import EndOfGroup, GroupScope, Joined, Member, NothingYet, SplitProgress
from penstock.proto.model.positions import CommitRange, Position
from penstock.proto.model.queries import RoundLimits
from penstock.proto.model.reports import SplitReport

A = TypeVar("A")


class Event(Generic[A]):
    """An event whose answer is an A."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateGroup(Event[None]):
    """Creates a group that begins after `progress`, unless it exists. `principal`: see `Join`."""

    key: GroupKey
    scope: GroupScope
    limits: RoundLimits
    progress: Progress
    principal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Event[Joined]):
    """A reader comes, or comes back; the same request id twice is one join. `principal` is who asks, '' if the server
    authenticates nobody."""

    key: GroupKey
    reader_id: str
    scope: GroupScope
    request_id: str
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeat(Event[None]):
    """A member renews its lease."""

    member: Member


@dataclass(frozen=True, slots=True)
class RequestSplits(Event[SplitsGranted | NothingYet | EndOfGroup]):
    """A member asks for more splits."""

    member: Member
    max_splits: int
    sequence: int


@dataclass(frozen=True, slots=True)
class CommitSplits(Event[Committed]):
    """A member commits progress of its splits."""

    member: Member
    done: tuple[SplitProgress, ...]


@dataclass(frozen=True, slots=True)
class Leave(Event[None]):
    """A member leaves the group."""

    member: Member


@dataclass(frozen=True, slots=True)
class Reset(Event[None]):
    """An operator moves the group."""

    key: GroupKey
    progress: Progress


@dataclass(frozen=True, slots=True)
class Delete(Event[None]):
    """An operator deletes the group."""

    key: GroupKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered(Event[None]):
    """A round after `start` was planned. Ignored unless the group is still at `start` and of generation `number`."""

    key: GroupKey
    number: int
    start: Position
    commit_range: CommitRange
    progress: Progress
    facts: SplitFacts
    reshaped: frozenset[int]
    commits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingFound(Event[None]):
    """Discovery found nothing after `start`."""

    key: GroupKey
    number: int
    start: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotGoOn(Event[None]):
    """The range after `start` cannot be planned, and a retry does not help: code and text of the error."""

    key: GroupKey
    number: int
    start: Position
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeLost(Event[None]):
    """The range after `start`, or the one of the open round `plan_id`, is lost, and the group's scope says to continue
    from `progress`. With onLostRange=earliest the event is ignored unless `progress` lies after `start`; for an open
    round, unless `progress` lies at or after the committed position."""

    key: GroupKey
    number: int
    start: Position
    progress: Progress
    plan_id: str = ""


@dataclass(frozen=True, slots=True)
class Tick(Event[None]):
    """Time has passed since `before_ms`, when the last tick was. A gap means that this process stood still."""

    before_ms: int


@dataclass(frozen=True, slots=True)
class Restarted(Event[None]):
    """The state was read from a store: nobody could renew anything meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPlan(Event[PlanHeld]):
    """A plan was made and is to be held under `plan_id`; the same request id again, for a request with the same digest
    of its content, is the same plan. `stream` is an id of the stream whose batch it is, or empty."""

    plan_id: str
    request_id: str
    table: str
    query: PlanQuery
    facts: SplitFacts
    slots: int
    stream: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class UsePlan(Event[PlanHeld]):
    """A plan is used."""

    plan_id: str


@dataclass(frozen=True, slots=True)
class NextEntry(Event[Entry]):
    """A slot asks for the entry `index` of its list."""

    plan_id: str
    slot: int
    index: int


@dataclass(frozen=True, slots=True)
class FinishEntry(Event[Reported]):
    """The split at that entry was read."""

    plan_id: str
    slot: int
    index: int
    report: SplitReport


AnyEvent = (
    CreateGroup
    | Join
    | Heartbeat
    | RequestSplits
    | CommitSplits
    | Leave
    | Reset
    | Delete
    | Discovered
    | NothingFound
    | CannotGoOn
    | RangeLost
    | Tick
    | Restarted
    | OpenPlan
    | UsePlan
    | NextEntry
    | FinishEntry
)
