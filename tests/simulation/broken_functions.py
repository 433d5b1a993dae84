"""Functions of the core with one defect each, which the simulation and the exhaustive search put in place of the real
ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from penstock.enumerator.core import members
from penstock.enumerator.core import records as rec
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.rounds import HELD, PENDING, Round
from penstock.enumerator.core.slot_assigner import Assigned, Assignment, Sealed, SlotAssigner
from penstock.enumerator.core.state import Group, Reader, State
from penstock.enumerator.core.stored.codec import decode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.store.protocol import StoredRecord
from penstock.enumerator.streams.watermark import next_watermark
from penstock.proto.errors import UnknownSplit
from penstock.proto.model.groups import Member
from penstock.proto.model.positions import CommitRange
from penstock.proto.model.streams import EventTimeRule, Watermark

members_of, give_back = members.member_of, Round.give_back


def any_epoch(state: State, member: Member) -> tuple[Group, Reader]:
    """The reader with that id, in any epoch."""
    group = members.group_of(state, GroupKey(member.table, member.group))
    reader = group.readers.get(member.reader_id)
    if reader is None:
        return members_of(state, member)
    return group, reader


def entry_unsealed(self: SlotAssigner, slot: int, index: int) -> Assignment | None:
    """The list ends if no split is available now."""
    reported = self._lists[slot]
    if 0 <= index < len(reported):
        return Assigned(reported[index], replayed=True)
    if index != len(reported):
        raise UnknownSplit(f"slot {slot} has {len(reported)} splits so far")
    is_over = self._started[slot] and not self._pending[slot] and self._most_loaded() is None
    return Sealed(replayed=True) if is_over else None


def choose_any(group: Group, reader: Reader, most: int, ceiling: object = None) -> tuple[tuple[str, int], ...]:
    """Any pending split, without the order of file groups."""
    reported = tuple(reader.undelivered)[:most]
    pending = ((one.plan_id, index) for one in group.rounds.values() for index in one.pending_in_order())
    return reported + tuple(itertools.islice(pending, most - len(reported)))


def span_of_pending(open_round: Round) -> EventTimeSpan:
    """The span of the splits that nobody holds."""
    lows = open_round.facts.lows_us
    if lows is None:
        return EventTimeSpan()
    pending = [int(lows[index]) for index in open_round.pending_in_order()]
    return EventTimeSpan(min(pending, default=None), None, is_unbounded=-(2**63) in pending)


def span_of_held(open_round: Round) -> EventTimeSpan:
    """The span of the splits that a reader holds."""
    lows = open_round.facts.lows_us
    if lows is None:
        return EventTimeSpan()
    held = [int(lows[index]) for index in open_round.holders]
    return EventTimeSpan(min(held, default=None), None, is_unbounded=-(2**63) in held)


def without_coming(rounds: Iterable[Round], coming: EventTimeSpan) -> EventTimeSpan:
    """Commits that are not planned raise the highest event time only."""
    remaining = EventTimeSpan(high_us=coming.high_us)
    for open_round in rounds:
        remaining |= open_round.remaining_span()
    return remaining


def one_too_high(before: Watermark, planned: EventTimeSpan, coming: EventTimeSpan, rule: EventTimeRule) -> Watermark:
    """The lowest event time that is still to come, instead of the number before it."""
    low = coming.low_us
    return next_watermark(before, planned, replace(coming, low_us=None if low is None else low + 1), rule)


def round_id_of_range(key: GroupKey, number: int, commit_range: CommitRange) -> str:
    """Plan ids are those of the range, whatever the generation."""
    return f"{key} {commit_range}"


def pending_or_held(self: Round) -> Iterator[int]:
    """Splits that readers hold count as pending."""
    return iter([index for index in range(len(self.facts)) if self.status[index] in (PENDING, HELD)])


def gives_back_from_the_start(self: Round, index: int) -> None:
    """A split that is pending again starts at its first row."""
    give_back(self, index)
    self.ordinals.pop(index, None)


def keeps_undelivered(group: Group, record: rec.SplitsAssigned) -> None:
    """Splits are never delivered."""
    reader = group.readers[record.reader_id]
    for plan_id, index in record.splits:
        group.rounds[plan_id].assign(index, reader.reader_id)
        reader.held[plan_id, index] = None
        reader.undelivered[plan_id, index] = None
    reader.sequence, reader.answered = record.sequence, record.splits
    reader.heard = max(reader.heard, record.sequence)


def loses_ordinals(state: State) -> Iterator[rec.Record]:
    """A compaction of the log that forgets partly finished splits."""
    for record in compacted_records(state):
        yield replace(record, ordinals=()) if isinstance(record, rec.SplitsCommitted) else record


def loses_watermarks(state: State) -> Iterator[rec.Record]:
    """A compaction of the log that forgets watermarks."""
    return (record for record in compacted_records(state) if not isinstance(record, rec.WatermarkMoved))


def decodes_another(stored: StoredRecord) -> rec.Record:
    """The last split of an assignment, or the last slot that was asked, is lost."""
    record = decode_record(stored)
    if isinstance(record, rec.SplitsAssigned):
        return replace(record, splits=record.splits[:-1])
    return replace(record, slots=record.slots[:-1]) if isinstance(record, rec.SlotsAsked) else record
