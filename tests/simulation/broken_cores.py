"""Cores, shells and discoveries with one defect each. The simulation must detect each defect."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from penstock.enumerator.core import events as ev
from penstock.enumerator.core import group_lifecycle, members, rounds, split_assignment
from penstock.enumerator.core.records import GroupKey, NothingGranted, SplitsCommitted
from penstock.enumerator.core.results import Decision
from penstock.enumerator.core.rounds import Round
from penstock.enumerator.core.slot_assigner import Assigned, Assignment, Sealed, SlotAssigner
from penstock.enumerator.core.split_facts import facts_of
from penstock.enumerator.core.state import Group, Reader, State
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.streams.watermark import next_watermark
from penstock.proto.errors import UnknownSplit
from penstock.proto.model.groups import Member
from penstock.proto.model.positions import CommitRange, Position
from penstock.proto.model.streams import EventTimeRule, Watermark
from tests.memory_store import MemoryStore
from tests.simulation.simulated_discovery import Discovery, DiscoveryRequest
from tests.simulation.simulated_server import Reply, Server
from tests.simulation.simulated_table import DATA, Instant, View, position
from tests.simulation.simulated_world import Parts, World

WATERMARK = frozenset({"watermark"})
TAKEOVERS = 30


@dataclass(frozen=True, slots=True)
class Broken:
    """A defect of the product, in its parts or patched into it, and the checks that may detect it first."""

    name: str
    noticed_by: frozenset[str]
    parts: Parts = field(default_factory=Parts)
    patches: tuple[tuple[object, str, Any], ...] = ()
    takeovers: int = 0
    """More takeovers of the store in each schedule than usual: some defects show between two servers only."""

    @contextmanager
    def in_place(self) -> Iterator[Parts]:
        """Applies the patches for the duration of the context."""
        with ExitStack() as stack:
            for target, name, value in self.patches:
                stack.enter_context(patch.object(target, name, value))
            yield self.parts


class MovesOnEmptyPoll(Server):
    """An empty discovery moves the position to now."""

    def decide(self, event: ev.Event[Any]) -> Decision[Any]:
        if isinstance(event, ev.NothingFound):
            group = self.state.groups[event.key]
            now = position(self.world.clock())
            if now > event.start and group.scope.upto is None:
                moved = ev.Discovered(
                    key=event.key,
                    number=event.number,
                    start=event.start,
                    commit_range=CommitRange(event.start, now),
                    progress=replace(group.progress, position=now),
                    facts=facts_of(()),
                    reshaped=frozenset(),
                    commits=0,
                )
                return super().decide(moved)
        return super().decide(event)


class CutsByRequestedTime(Discovery):
    """The limit selects the commits that were requested first; the position moves to the last of them."""

    def end(self, view: View, request: DiscoveryRequest) -> tuple[Position, list[Instant]]:
        start, most = request.progress.position, request.limits.max_commits
        later = [
            item
            for item in view.instants
            if item.kind in DATA and position(item.order_key) > start and item.order_key < self.horizon(view)
        ]
        if not most or len(later) <= most or request.upto is not None:
            return super().end(view, request)
        taken = sorted(later, key=lambda item: item.requested)[:most]
        return max(position(item.order_key) for item in taken), sorted(taken, key=lambda item: item.order_key)


class AcceptsStaleDiscovery(Server):
    """A round is accepted at any current position of the group."""

    def decide(self, event: ev.Event[Any]) -> Decision[Any]:
        if isinstance(event, ev.Discovered) and event.key in self.state.groups:
            group = self.state.groups[event.key]
            event = replace(event, start=group.progress.position, number=group.number)
        return super().decide(event)


class RepliesBeforeAppend(Server):
    """The answer is sent before its records are durable."""

    def reply_once_durable(self, reply: Reply, event: ev.Event[Any], answer: Any) -> None:
        self._record_reply(reply, event, answer)


def any_epoch(state: State, member: Member) -> tuple[Group, Reader]:
    """The reader with that id, in any epoch."""
    group = members.group_of(state, GroupKey(member.table, member.group))
    reader = group.readers.get(member.reader_id)
    if reader is None:
        return members_of(state, member)
    return group, reader


members_of = members.member_of


class CountsItsRounds(Server):
    """Plan ids count from one in each process."""

    ids: dict[tuple[GroupKey, int, CommitRange], str] = {}  # noqa: RUF012 - of the newest process

    def __init__(self, world: World, store: MemoryStore) -> None:
        type(self).ids = {}
        super().__init__(world, store)

    @classmethod
    def round_id(cls, key: GroupKey, number: int, commit_range: CommitRange) -> str:
        """The next number."""
        return cls.ids.setdefault((key, number, commit_range), f"r{len(cls.ids) + 1}")


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


class ForgetsEmptyAnswers(Server):
    """A late copy of a request whose answer was empty grants splits."""

    def decide(self, event: ev.Event[Any]) -> Decision[Any]:
        decision = super().decide(event)
        return Decision(
            tuple(record for record in decision.records if not isinstance(record, NothingGranted)), decision.answer
        )


class AnswersCommitsFromMemory(Server):
    """A commit that changes nothing is not written, even if this process lost its store."""

    def decide(self, event: ev.Event[Any]) -> Decision[Any]:
        decision = super().decide(event)
        if isinstance(event, ev.CommitSplits):
            remaining = (
                record
                for record in decision.records
                if not isinstance(record, SplitsCommitted) or record.ordinals or record.finished
            )
            return Decision(tuple(remaining), decision.answer)
        return decision


class NoHoldBack(Discovery):
    """Layout 1: pending writes do not limit the range."""

    def horizon(self, view: View) -> int:
        return 2**60


class ForgetsTheWatermark(Server):
    """The watermark is not restored after a restart."""

    def __init__(self, world: World, store: MemoryStore) -> None:
        super().__init__(world, store)
        for group in self.state.groups.values():
            group.watermark = Watermark()


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


BROKEN = (
    Broken("position moves on an empty poll", frozenset({"cause", "exactly once"}), Parts(server=MovesOnEmptyPoll)),
    Broken("limit cut by requested time", frozenset({"exactly once"}), Parts(discovery=CutsByRequestedTime)),
    Broken("stale discovery accepted", frozenset({"position", "identity"}), Parts(server=AcceptsStaleDiscovery)),
    Broken("reply before append", frozenset({"durable"}), Parts(server=RepliesBeforeAppend)),
    Broken(
        "epoch unchecked",
        frozenset({"fencing", "durable"}),
        patches=((members, "member_of", any_epoch), (split_assignment, "member_of", any_epoch)),
    ),
    Broken(
        "split ids from a counter",
        frozenset({"identity"}),
        Parts(server=CountsItsRounds),
        patches=((group_lifecycle, "round_id", CountsItsRounds.round_id),),
    ),
    Broken("unsealed list", frozenset({"sealed", "exactly once"}), patches=((SlotAssigner, "entry", entry_unsealed),)),
    Broken("no hold-back on layout 1", frozenset({"cause", "exactly once"}), Parts(discovery=NoHoldBack)),
    Broken("empty answer not recorded", frozenset({"liveness"}), Parts(server=ForgetsEmptyAnswers)),
    Broken(
        "commits answered from memory",
        frozenset({"durable", "liveness"}),
        Parts(server=AnswersCommitsFromMemory),
        takeovers=TAKEOVERS,
    ),
    Broken(
        "a lost range moves back",
        frozenset({"backwards"}),
        patches=((group_lifecycle, "moves_back", lambda *of, of_round: False),),
    ),
    Broken("file groups in no order", frozenset({"order"}), patches=((split_assignment, "choose", choose_any),)),
    Broken("watermark without held splits", WATERMARK, patches=((Round, "remaining_span", span_of_pending),)),
    Broken("watermark without pending splits", WATERMARK, patches=((Round, "remaining_span", span_of_held),)),
    Broken("watermark without later commits", WATERMARK, patches=((rounds, "span_to_come", without_coming),)),
    Broken("watermark one too high", WATERMARK, patches=((rounds, "next_watermark", one_too_high),)),
    Broken("watermark lost by a restart", WATERMARK | {"replay", "shortened"}, Parts(server=ForgetsTheWatermark)),
)
