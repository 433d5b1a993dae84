"""Cores, shells and discoveries with one defect each. The simulation must detect each defect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from penstock.enumerator.core import events as ev
from penstock.enumerator.core import group_lifecycle, members, rounds, split_assignment
from penstock.enumerator.core import state as core_state
from penstock.enumerator.core.records import GroupKey, NothingGranted, ReaderJoined, RoundPlanned, SplitsCommitted
from penstock.enumerator.core.results import Decision
from penstock.enumerator.core.rounds import Round
from penstock.enumerator.core.slot_assigner import SlotAssigner
from penstock.enumerator.core.split_facts import facts_of
from penstock.proto.model.positions import CommitRange, Position
from penstock.proto.model.streams import Watermark
from tests.memory_store import MemoryStore
from tests.simulation import checkers, simulated_server
from tests.simulation.broken_functions import (
    any_epoch,
    choose_any,
    decodes_another,
    entry_unsealed,
    gives_back_from_the_start,
    keeps_undelivered,
    loses_ordinals,
    one_too_high,
    pending_or_held,
    span_of_held,
    span_of_pending,
    without_coming,
)
from tests.simulation.simulated_discovery import Discovery, DiscoveryRequest
from tests.simulation.simulated_server import Reply, Server
from tests.simulation.simulated_table import DATA, Instant, View, position
from tests.simulation.simulated_world import Parts, World

TAKEOVERS = 30


@dataclass(frozen=True, slots=True)
class Broken:
    """A defect of the product, in its parts or patched into it, and the invariant that detects it."""

    name: str
    invariant: str
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


class IgnoresWhatWasReceived(Server):
    """The splits of an answer that its member did not receive are not delivered again."""

    def decide(self, event: ev.Event[Any]) -> Decision[Any]:
        return super().decide(replace(event, received=None) if isinstance(event, ev.RequestSplits) else event)


class ForgetsEmptyAnswers(IgnoresWhatWasReceived):
    """A late copy of a request whose answer was empty grants splits, which no other request delivers."""

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


class GivesEpochsAgain(Server):
    """A reader that joins receives the last number that was used."""

    def decide(self, event: ev.Event[Any]) -> Decision[Any]:
        decision = super().decide(event)
        records = (
            replace(record, epoch=record.epoch - 1) if isinstance(record, ReaderJoined) else record
            for record in decision.records
        )
        return Decision(tuple(records), decision.answer)


class PlansTwice(Server):
    """A round begins before the position of the group."""

    def decide(self, event: ev.Event[Any]) -> Decision[Any]:
        decision = super().decide(event)
        records = (
            replace(record, commit_range=replace(record.commit_range, after=position(1)))
            if isinstance(record, RoundPlanned)
            else record
            for record in decision.records
        )
        return Decision(tuple(records), decision.answer)


BROKEN = (
    Broken("position moves on an empty poll", "cause", Parts(server=MovesOnEmptyPoll)),
    Broken("limit cut by requested time", "exactly once", Parts(discovery=CutsByRequestedTime)),
    Broken("stale discovery accepted", "position", Parts(server=AcceptsStaleDiscovery)),
    Broken("reply before append", "durable", Parts(server=RepliesBeforeAppend)),
    Broken(
        "epoch unchecked",
        "fencing",
        patches=((members, "member_of", any_epoch), (split_assignment, "member_of", any_epoch)),
    ),
    Broken(
        "split ids from a counter",
        "identity",
        Parts(server=CountsItsRounds),
        patches=((group_lifecycle, "round_id", CountsItsRounds.round_id),),
    ),
    Broken("epoch given again", "number", Parts(server=GivesEpochsAgain)),
    Broken("round planned twice", "position", Parts(server=PlansTwice)),
    Broken("held split assigned again", "ownership", patches=((Round, "pending_in_order", pending_or_held),)),
    Broken("ordinal lost with its reader", "exactly once", patches=((Round, "give_back", gives_back_from_the_start),)),
    Broken("split never delivered", "answer", patches=((core_state, "_assign", keeps_undelivered),)),
    Broken("record decoded as another", "codec", patches=((simulated_server, "decode_record", decodes_another),)),
    Broken("compaction loses ordinals", "shortened", patches=((checkers, "compacted_records", loses_ordinals),)),
    Broken("unsealed list", "sealed", patches=((SlotAssigner, "entry", entry_unsealed),)),
    Broken("no hold-back on layout 1", "cause", Parts(discovery=NoHoldBack)),
    Broken("empty answer not recorded", "liveness", Parts(server=ForgetsEmptyAnswers)),
    Broken("missed splits not delivered again", "liveness", Parts(server=IgnoresWhatWasReceived), takeovers=TAKEOVERS),
    Broken(
        "commits answered from memory",
        "liveness",
        Parts(server=AnswersCommitsFromMemory),
        takeovers=TAKEOVERS,
    ),
    Broken(
        "a lost range moves back",
        "backwards",
        patches=((group_lifecycle, "moves_back", lambda *of, of_round: False),),
    ),
    Broken("file groups in no order", "order", patches=((split_assignment, "choose", choose_any),)),
    Broken("watermark without held splits", "watermark", patches=((Round, "remaining_span", span_of_pending),)),
    Broken("watermark without pending splits", "watermark", patches=((Round, "remaining_span", span_of_held),)),
    Broken("watermark without later commits", "watermark", patches=((rounds, "span_to_come", without_coming),)),
    Broken("watermark one too high", "watermark", patches=((rounds, "next_watermark", one_too_high),)),
    Broken("watermark lost by a restart", "replay", Parts(server=ForgetsTheWatermark)),
)
