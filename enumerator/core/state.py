"""The enumerator's state, and how a record changes it. Nothing else changes it.

`evolve` never decides and never fails on a record that `step` made; it is also how the state comes back from a store.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass, field

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core.records import (
    EntryReported,
    GroupCreated,
    GroupDeleted,
    GroupEnded,
    GroupIdle,
    GroupKey,
    GroupMoved,
    GroupStopped,
    LeaseRenewed,
    NothingTold,
    NumbersUsed,
    PlanOpened,
    PlanQuery,
    PlansForgotten,
    PlanUsed,
    ReaderGone,
    ReaderJoined,
    Record,
    RoundPlanned,
    SlotsAsked,
    SplitsAssigned,
    SplitsCommitted,
    TableSeen,
)
from penstock.enumerator.core.rounds import Round
from penstock.enumerator.core.slot_assigner import SlotAssigner
from penstock.enumerator.core.split_facts import SplitFacts
from penstock.proto.model.groups import GroupScope
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import RoundLimits
from penstock.proto.model.reports import SplitReport

PlanRecord = PlanOpened | SlotsAsked | PlansForgotten | PlanUsed | EntryReported
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
    | NothingTold
    | TableSeen
)


@dataclass(slots=True)
class Reader:
    """A member. `held` in the order given; `untold` of them the present epoch does not know of yet. `sequence` is the
    newest request answered with splits, `heard` the newest answered at all; `principal` who joined, or empty."""

    reader_id: str
    epoch: int
    request_id: str
    principal: str = ""
    until_ms: int | None = None
    sequence: int = 0
    heard: int = 0
    answered: tuple[tuple[str, int], ...] = ()
    held: dict[tuple[str, int], None] = field(default_factory=dict)
    untold: dict[tuple[str, int], None] = field(default_factory=dict)


@dataclass(slots=True)
class Group:
    """A consumer group. `committed`: everything up to it is done; `progress.position`: so far it was planned.
    `principal` created it; `idle_since_ms`: without readers since then, as far as that was noticed."""

    key: GroupKey
    number: int
    scope: GroupScope
    limits: RoundLimits
    progress: Progress
    committed: Position
    rounds: dict[str, Round] = field(default_factory=dict)
    readers: dict[str, Reader] = field(default_factory=dict)
    planned: int = 0
    stopped: tuple[str, str] | None = None
    ended: bool = False
    caught_up: bool = False
    principal: str = ""
    idle_since_ms: int | None = None

    @property
    def pending(self) -> int:
        """Splits that nobody holds."""
        return sum(one.pending for one in self.rounds.values())


@dataclass(slots=True)
class HeldPlan:
    """A plan of the range door: its slots' lists, and the reports that came in by (slot, index). `asked` are the slots
    whose lists grew or were sealed, in order. `stream` is the id of the stream whose batch it is, or empty; `digest` is
    that of the request's content."""

    plan_id: str
    request_id: str
    table: str
    query: PlanQuery
    facts: SplitFacts
    assigner: SlotAssigner
    asked: array[int] = field(default_factory=lambda: array("I"))
    reports: dict[tuple[int, int], SplitReport] = field(default_factory=dict)
    used_ms: int = 0
    stream: str = ""
    digest: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether every split was handed out and reported, and every slot told its end."""
        return self.assigner.finished() and len(self.reports) == len(self.facts)


@dataclass(slots=True)
class State:
    """Every group and plan. `plans`: the one unused longest first; `requests`: plan ids by the request that opened
    them; `plan_splits`: of all plans; `last_number`: the highest given out as an epoch or a generation."""

    groups: dict[GroupKey, Group] = field(default_factory=dict)
    plans: OrderedDict[str, HeldPlan] = field(default_factory=OrderedDict)
    requests: dict[str, str] = field(default_factory=dict)
    plan_splits: int = 0
    last_number: int = 0

    def told(self) -> str:
        """What is in it, in a few words."""
        rounds = sum(len(group.rounds) for group in self.groups.values())
        return f"{len(self.groups)} groups with {rounds} open rounds, {len(self.plans)} plans"


def apply(state: State, record: Record) -> tuple[str, ...]:
    """Takes a record in; the ids of plans (rounds too) that nobody needs any more."""
    match record:
        case PlanOpened() | SlotsAsked() | PlansForgotten() | PlanUsed() | EntryReported():
            return _evolve_plans(state, record)
        case NumbersUsed(last):
            state.last_number = max(state.last_number, last)
            return ()
        case GroupCreated():
            state.last_number = max(state.last_number, record.number)
            state.groups[record.key] = Group(
                record.key,
                record.number,
                record.scope,
                record.limits,
                record.progress,
                record.progress.position,
                principal=record.principal,
            )
            return ()
        case GroupDeleted(key):
            return tuple(state.groups.pop(key).rounds)
        case ReaderJoined():
            state.last_number = max(state.last_number, record.epoch)
        case GroupMoved():
            state.last_number = max(state.last_number, record.number)
    return _evolve_group(state.groups[record.key], record)


def _evolve_plans(state: State, record: PlanRecord) -> tuple[str, ...]:
    match record:
        case PlanOpened(plan_id=plan_id):
            assigner = SlotAssigner(record.facts.sizes.tolist(), record.slots)
            held = HeldPlan(
                plan_id,
                record.request_id,
                record.table,
                record.query,
                record.facts,
                assigner,
                stream=record.stream,
                digest=record.digest,
            )
            state.plans[plan_id] = held
            state.plan_splits += len(record.facts)
            if record.request_id:
                state.requests[record.request_id] = plan_id
        case SlotsAsked(plan_id, slots):
            held = state.plans[plan_id]
            for slot in slots:
                held.assigner.next(slot, held.assigner.length(slot))
                held.asked.append(slot)
        case PlansForgotten(plan_ids):
            for plan_id in plan_ids:
                held = state.plans.pop(plan_id)
                state.plan_splits -= len(held.facts)
                state.requests.pop(held.request_id, None)
            return plan_ids
        case PlanUsed(plan_id, now_ms):
            state.plans[plan_id].used_ms = now_ms
            state.plans.move_to_end(plan_id)
        case EntryReported(plan_id, slot, index, report):
            state.plans[plan_id].reports[slot, index] = report
    return ()


def _evolve_group(group: Group, record: GroupRecord) -> tuple[str, ...]:
    match record:
        case ReaderJoined():
            _join(group, record)
        case GroupMoved():
            return _move(group, record)
        case RoundPlanned():
            return _plan(group, record)
        case SplitsAssigned():
            _assign(group, record)
        case SplitsCommitted():
            return _commit(group, record)
        case ReaderGone():
            _remove(group, record.reader_id)
        case GroupStopped():
            group.stopped = (record.code, record.text)
        case GroupEnded():
            group.ended = True
        case LeaseRenewed():
            group.readers[record.reader_id].until_ms = record.until_ms
        case NothingTold():
            group.readers[record.reader_id].heard = record.sequence
        case TableSeen():
            group.caught_up = True
        case GroupIdle(since_ms=since_ms):
            group.idle_since_ms = since_ms
    return ()


def _join(group: Group, record: ReaderJoined) -> None:
    before = group.readers.get(record.reader_id)
    reader = Reader(record.reader_id, record.epoch, record.request_id, record.principal)
    if before is not None:
        reader.held = before.held
        reader.untold = dict(before.held)
    group.readers[record.reader_id] = reader
    group.idle_since_ms = None


def _move(group: Group, record: GroupMoved) -> tuple[str, ...]:
    forgotten = tuple(group.rounds)
    group.number = record.number
    group.progress = record.progress
    group.committed = record.progress.position
    group.rounds = {}
    group.readers = {}
    group.stopped = None
    group.ended = False
    group.caught_up = False
    return forgotten


def _plan(group: Group, record: RoundPlanned) -> tuple[str, ...]:
    group.progress = record.progress
    group.caught_up = False
    group.planned += 1
    made = Round.of(
        group.planned,
        record.plan_id,
        record.commit_range,
        record.facts,
        record.reshaped,
        record.commits,
        tuple(group.rounds.values()),
    )
    group.rounds[record.plan_id] = made
    return _settle(group)


def _assign(group: Group, record: SplitsAssigned) -> None:
    reader = group.readers[record.reader_id]
    for split in record.splits:
        plan_id, index = split
        group.rounds[plan_id].assign(index, reader.reader_id)
        reader.held[split] = None
        reader.untold.pop(split, None)
    reader.sequence, reader.answered = record.sequence, record.splits
    reader.heard = max(reader.heard, record.sequence)


def _commit(group: Group, record: SplitsCommitted) -> tuple[str, ...]:
    for plan_id, index, ordinal in record.ordinals:
        group.rounds[plan_id].ordinals[index] = ordinal
    for plan_id, index in record.finished:
        found = group.rounds[plan_id]
        holder = found.holders.get(index)
        found.finish(index)
        if holder is not None:
            group.readers[holder].held.pop((plan_id, index), None)
            group.readers[holder].untold.pop((plan_id, index), None)
    return _settle(group)


def _settle(group: Group) -> tuple[str, ...]:
    """The committed position moves over rounds that are finished, the oldest first."""
    over = []
    for plan_id, first in list(group.rounds.items()):
        if not first.is_finished:
            break
        group.committed = first.commit_range.upto
        del group.rounds[plan_id]
        over.append(plan_id)
    return tuple(over)


def _remove(group: Group, reader_id: str) -> None:
    reader = group.readers.pop(reader_id)
    for plan_id, index in reader.held:
        group.rounds[plan_id].give_back(index)
