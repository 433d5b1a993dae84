"""The state of the enumerator, and `apply`, which applies a record to it. Nothing else changes the state.

`apply` makes no decision and accepts every record of `decide`. A stored state is restored by applying its records.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core.group_names import GroupNames
from penstock.enumerator.core.records import (
    UNKNOWN_SPAN,
    EntryReported,
    GroupCreated,
    GroupDeleted,
    GroupEnded,
    GroupIdle,
    GroupKey,
    GroupMoved,
    GroupRecord,
    GroupStopped,
    LeaseRenewed,
    Moved,
    NothingGranted,
    NumbersUsed,
    PlanOpened,
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
    TurnTaken,
    WatermarkMoved,
)
from penstock.enumerator.core.rounds import NO_ROWS, Round, advanced
from penstock.enumerator.core.slot_assigner import HeldPlan as HeldPlan
from penstock.enumerator.core.slot_assigner import SlotAssigner
from penstock.enumerator.core.tables import TableAdded, TableDropped, apply_to_tables
from penstock.enumerator.core.writes.records import WriteRecord
from penstock.enumerator.core.writes.state import TableWrites, apply_to_writes
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.groups import GroupScope
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import RoundLimits
from penstock.proto.model.streams import Watermark

UNKNOWN_WATERMARK: Final = Watermark()

PlanRecord = PlanOpened | SlotsAsked | PlansForgotten | PlanUsed | EntryReported


@dataclass(slots=True)
class Reader:
    """A member of a group."""

    reader_id: str
    """The name under which it joined."""
    epoch: int
    """Its epoch; calls with another epoch are fenced."""
    request_id: str
    """Id of the request that joined."""
    principal: str = ""
    """The principal that joined; '' if callers are not authenticated."""
    until_ms: int | None = None
    """End of its lease."""
    sequence: int = 0
    """Newest request that was answered with splits."""
    heard: int = 0
    """Newest request that was answered."""
    answered: tuple[tuple[str, int], ...] = ()
    """The splits of the request `sequence`."""
    held: dict[tuple[str, int], None] = field(default_factory=dict)
    """The splits that it holds, in the order assigned."""
    undelivered: dict[tuple[str, int], None] = field(default_factory=dict)
    """Held splits that its present epoch has not received yet."""


@dataclass(slots=True)
class Group:
    """A consumer group."""

    key: GroupKey
    """Its table and name."""
    number: int
    """Its generation; changes when the group is moved."""
    scope: GroupScope
    """Its read, its end, and its policy for lost ranges."""
    limits: RoundLimits
    """Limits of its rounds."""
    progress: Progress
    """How far it is planned."""
    committed: Position
    """Everything up to here is finished."""
    rounds: dict[str, Round] = field(default_factory=dict)
    """Open rounds by plan id, the oldest first."""
    readers: dict[str, Reader] = field(default_factory=dict)
    """Members by reader id."""
    rounds_planned: int = 0
    """How many rounds were planned by this process."""
    stopped: tuple[str, str] | None = None
    """Code and text of the error that stopped it."""
    ended: bool = False
    """Whether its `upto` is planned."""
    caught_up: bool = False
    """Whether the last discovery found nothing new."""
    principal: str = ""
    """The principal that created it; '' if callers were not authenticated."""
    idle_since_ms: int | None = None
    """Since when it has no readers, as far as a tick noticed."""
    at_newest: bool = False
    """Whether it starts after the newest instant of its table, which is not read yet."""
    at_snapshot: bool = False
    """Whether it starts with a snapshot of its table that is not planned yet; of a group over tables: each table."""
    turn: int = 0
    """Order among the tables of a group over tables, the lowest first: see `over_tables`."""
    fits: bool = True
    """Whether it consumes what the group over tables of its name consumes, if there is one."""
    watermark: Watermark = UNKNOWN_WATERMARK
    """Its watermark. Never decreases, unless the group is reset."""
    coming: EventTimeSpan = UNKNOWN_SPAN
    """Event times of the known commits that are not planned; UNKNOWN_SPAN until a discovery."""
    quiet_since_us: int | None = None
    """Since when nothing is new and every split is finished, if the group has an idle timeout."""

    @property
    def pending(self) -> int:
        """How many planned splits no reader holds."""
        return sum(open_round.pending for open_round in self.rounds.values())


@dataclass(slots=True)
class State:
    """All groups and plans."""

    groups: dict[GroupKey, Group] = field(default_factory=dict)
    """Groups by table and name."""
    plans: OrderedDict[str, HeldPlan] = field(default_factory=OrderedDict)
    """Plans by id, the least recently used first."""
    requests: dict[str, str] = field(default_factory=dict)
    """Plan ids by the request that opened them."""
    plan_splits: int = 0
    """Splits of all plans."""
    tables: dict[str, TableAdded] = field(default_factory=dict)
    """Tables that administrators added, by name."""
    writes: dict[str, TableWrites] = field(default_factory=dict)
    """Write transactions by table."""
    last_number: int = 0
    """Highest number used as an epoch or a generation."""
    names: GroupNames[Group] = field(default_factory=GroupNames)
    """The same groups by name and by table."""
    turns: int = 0
    """The last turn that was given to a table."""

    def summary(self) -> str:
        """Counts of groups, rounds and plans, for the log."""
        rounds = sum(len(group.rounds) for group in self.groups.values())
        return f"{len(self.groups)} groups with {rounds} open rounds, {len(self.plans)} plans"


def apply(state: State, record: Record) -> tuple[str, ...]:
    """Applies a record. Returns the ids of plans and rounds that are no longer needed."""
    if isinstance(record, WriteRecord):
        return apply_to_writes(state.writes, record)
    match record:
        case PlanOpened() | SlotsAsked() | PlansForgotten() | PlanUsed() | EntryReported():
            return _apply_to_plans(state, record)
        case NumbersUsed(last):
            state.last_number = max(state.last_number, last)
            return ()
        case GroupCreated():
            state.last_number = max(state.last_number, record.number)
            state.groups[record.key] = _created(record)
            state.names.add(state.groups[record.key])
            return ()
        case TableAdded() | TableDropped():
            return apply_to_tables(state.tables, record)
        case GroupDeleted(key):
            state.names.remove(state.groups[key])
            return tuple(state.groups.pop(key).rounds)
        case ReaderJoined():
            state.last_number = max(state.last_number, record.epoch)
        case GroupMoved():
            state.last_number = max(state.last_number, record.number)
    group = state.groups[record.key]
    if _takes_turn(group, record):
        state.turns += 1
        group.turn = state.turns
    return _apply_to_group(group, record)


def _takes_turn(group: Group, record: GroupRecord) -> bool:
    """Whether the table is considered after all others from now on. Splits that are delivered again do not count: a
    reader that joins again and again would keep its table at the end."""
    match record:
        case RoundPlanned() | ReaderGone():
            return not group.pending
        case SplitsAssigned():
            held = group.readers[record.reader_id].held
            return any(split not in held for split in record.splits)
        case _:
            return isinstance(record, TurnTaken)


def _created(record: GroupCreated) -> Group:
    return Group(
        record.key,
        record.number,
        record.scope,
        record.limits,
        record.progress,
        record.progress.position,
        principal=record.principal,
        at_newest=record.at_newest,
        at_snapshot=record.at_snapshot,
    )


def _apply_to_plans(state: State, record: PlanRecord) -> tuple[str, ...]:
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


def _apply_to_group(group: Group, record: GroupRecord) -> tuple[str, ...]:
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
        case NothingGranted():
            group.readers[record.reader_id].heard = record.sequence
        case TurnTaken():
            pass  # `apply` gives it a new turn
        case TableSeen():
            group.caught_up, group.quiet_since_us = True, record.quiet_since_us
        case WatermarkMoved():
            group.watermark, group.coming = record.watermark, record.coming
        case GroupIdle(since_ms=since_ms):
            group.idle_since_ms = since_ms
    return ()


def _join(group: Group, record: ReaderJoined) -> None:
    before = group.readers.get(record.reader_id)
    reader = Reader(record.reader_id, record.epoch, record.request_id, record.principal)
    if before is not None:
        reader.held, reader.undelivered = before.held, dict(before.held)
    group.readers[record.reader_id] = reader
    group.idle_since_ms = None


def _move(group: Group, record: GroupMoved) -> tuple[str, ...]:
    forgotten = tuple(group.rounds)
    group.number = record.number
    group.progress = record.progress
    group.committed = record.progress.position
    group.rounds = {}
    group.at_newest, group.at_snapshot = False, record.at_snapshot
    if record.cause is not Moved.STARTED:
        group.readers = {}
    group.stopped = None
    group.ended = group.caught_up = False
    group.coming, group.quiet_since_us = UNKNOWN_SPAN, None
    if record.cause is Moved.RESET:  # rows may come again on purpose
        group.watermark = UNKNOWN_WATERMARK
    return forgotten


def _plan(group: Group, record: RoundPlanned) -> tuple[str, ...]:
    group.progress = record.progress
    group.caught_up = False
    group.rounds_planned += 1
    group.rounds[record.plan_id] = Round.of(
        group.rounds_planned,
        record.plan_id,
        record.commit_range,
        record.facts,
        record.reshaped,
        record.commits,
        tuple(group.rounds.values()),
    )
    group.coming, group.quiet_since_us = record.coming, None
    _advance(group, record.facts.span())
    return _settle(group)


def _assign(group: Group, record: SplitsAssigned) -> None:
    reader = group.readers[record.reader_id]
    for split in record.splits:
        plan_id, index = split
        group.rounds[plan_id].assign(index, reader.reader_id)
        reader.held[split] = None
        reader.undelivered.pop(split, None)
    reader.sequence, reader.answered = record.sequence, record.splits
    reader.heard = max(reader.heard, record.sequence)


def _commit(group: Group, record: SplitsCommitted) -> tuple[str, ...]:
    for plan_id, index, ordinal in record.ordinals:
        group.rounds[plan_id].ordinals[index] = ordinal
    for plan_id, index in record.finished:
        open_round = group.rounds[plan_id]
        holder = open_round.holders.get(index)
        open_round.finish(index)
        if holder is not None:
            group.readers[holder].held.pop((plan_id, index), None)
            group.readers[holder].undelivered.pop((plan_id, index), None)
    if record.finished:
        _advance(group)
    return _settle(group)


def _advance(group: Group, planned: EventTimeSpan = NO_ROWS) -> None:
    group.watermark = advanced(group.watermark, group.scope.rule, group.rounds.values(), group.coming, planned)


def _settle(group: Group) -> tuple[str, ...]:
    """Moves the committed position to the end of the finished rounds, the oldest first."""
    finished = []
    for plan_id, oldest in list(group.rounds.items()):
        if not oldest.is_finished:
            break
        group.committed = oldest.commit_range.upto
        del group.rounds[plan_id]
        finished.append(plan_id)
    return tuple(finished)


def _remove(group: Group, reader_id: str) -> None:
    reader = group.readers.pop(reader_id)
    for plan_id, index in reader.held:
        group.rounds[plan_id].give_back(index)
