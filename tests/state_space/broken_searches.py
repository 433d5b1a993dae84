"""Cores, servers and worlds with one defect each. The search must detect each defect, by its invariant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from penstock.enumerator.core import events as ev
from penstock.enumerator.core import group_lifecycle, members, rounds, split_assignment
from penstock.enumerator.core import records as rec
from penstock.enumerator.core import state as core_state
from penstock.enumerator.core.results import Decision
from penstock.enumerator.core.rounds import Round
from penstock.enumerator.core.slot_assigner import SlotAssigner
from penstock.enumerator.core.state import State
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
    round_id_of_range,
    span_of_held,
    span_of_pending,
    without_coming,
)
from tests.state_space import group_server, plan_world, scopes
from tests.state_space.canonical_worlds import Reader
from tests.state_space.group_server import KEY, GroupServer
from tests.state_space.group_table import Scope
from tests.state_space.group_world import NEW_JOIN, GroupWorld
from tests.state_space.plan_world import PlanWorld
from tests.state_space.search import Model

Patch = tuple[object, str, Any]


@dataclass(frozen=True, slots=True)
class Broken:
    """A defect, and the invariant that detects it."""

    name: str
    invariant: str
    model: Callable[[], Model[Any]]
    patches: tuple[Patch, ...] = ()

    @contextmanager
    def in_place(self) -> Iterator[Model[Any]]:
        """The model with the defect."""
        with ExitStack() as stack:
            for target, name, value in self.patches:
                stack.enter_context(patch.object(target, name, value))
            yield self.model()


def _group(
    server: type[GroupServer] = GroupServer,
    world: type[GroupWorld] = GroupWorld,
    scope: Scope = scopes.THREE_SPLITS,
) -> Callable[[], GroupWorld]:
    class Changed(world):  # type: ignore[valid-type,misc]
        server_type = server

    return lambda: Changed(scope)


def _timed() -> GroupWorld:
    return GroupWorld(scopes.TIMED)


def _replaced() -> GroupWorld:
    return GroupWorld(scopes.REPLACED)


def _lost() -> GroupWorld:
    return GroupWorld(scopes.LOST)


def _never_back(*of: object, of_round: bool) -> bool:
    return False


COPIED = replace(scopes.TWO_SPLITS, faults=frozenset({"request doubled", "restart"}))


def _careless() -> GroupWorld:
    faults = frozenset({"lease expired", "request doubled"})
    return JoinsAgain(replace(scopes.THREE_SPLITS, faults=faults, most_faults=2))


def _plan(world: type[PlanWorld] = PlanWorld) -> Callable[[], PlanWorld]:
    return lambda: world(frozenset(plan_world.FAULTS), 1)


# --- servers and worlds


class StopsForNothing(GroupServer):
    """A discovery that found nothing stops the group."""

    def decide(self, state: State, event: ev.AnyEvent) -> Decision[Any]:
        if isinstance(event, ev.NothingFound):
            event = ev.CannotGoOn(key=event.key, number=event.number, start=event.start, code="CORRUPT_FILE", text="")
        return super().decide(state, event)


class AcceptsStaleDiscovery(GroupServer):
    """A round is accepted at any current position of the group."""

    def decide(self, state: State, event: ev.AnyEvent) -> Decision[Any]:
        if isinstance(event, ev.Discovered):
            group = state.groups[KEY]
            event = replace(event, start=group.progress.position, number=group.number)
        return super().decide(state, event)


class IgnoresWhatWasReceived(GroupServer):
    """The splits of an answer that its reader did not receive are not delivered again."""

    def decide(self, state: State, event: ev.AnyEvent) -> Decision[Any]:
        return super().decide(state, replace(event, received=None) if isinstance(event, ev.RequestSplits) else event)


class ForgetsEmptyAnswers(IgnoresWhatWasReceived):
    """A second copy of a request whose answer was empty receives splits, which no other request delivers."""

    def decide(self, state: State, event: ev.AnyEvent) -> Decision[Any]:
        decision = super().decide(state, event)
        kept = tuple(record for record in decision.records if not isinstance(record, rec.NothingGranted))
        return Decision(kept, decision.answer)


class KeepsDeparturesInMemory(GroupServer):
    """That a reader is gone is not appended."""

    def durable(self, decision: Decision[Any]) -> list[rec.Durable]:
        return [record for record in super().durable(decision) if not isinstance(record, rec.ReaderGone)]


class GivesEpochsAgain(GroupServer):
    """A reader that joins again keeps its epoch."""

    def decide(self, state: State, event: ev.AnyEvent) -> Decision[Any]:
        decision = super().decide(state, event)
        if not isinstance(event, ev.Join):
            return decision
        records = tuple(
            replace(each, epoch=each.epoch - 1) if isinstance(each, rec.ReaderJoined) else each
            for each in decision.records
        )
        return Decision(records, decision.answer)


class NeverAnswersARepeatedOpen(PlanWorld):
    """A driver whose first answer was lost receives none."""

    def decided(self, state: State, event: ev.AnyEvent) -> Any:
        if isinstance(event, ev.OpenPlan) and event.request_id in state.requests:
            return Decision((), None)
        return super().decided(state, event)


class AnswersBeforeSync(GroupWorld):
    """Answers are sent before their records are durable."""

    def releases(self, is_durable: bool) -> bool:
        return True


class JoinsAgain(GroupWorld):
    """A reader whose split is not known joins again."""

    def heard(self, reader: Reader) -> Iterator[Reader]:
        if reader.answer == ("unknown split",):
            yield Reader(0, 0, 0, (), NEW_JOIN, None)
        else:
            yield from super().heard(reader)


class PlanAnswersBeforeSync(PlanWorld):
    """Answers are sent before their records are durable."""

    def releases(self, is_durable: bool) -> bool:
        return True


class StartsEmpty(PlanWorld):
    """A restarted server does not read its log."""

    def restored(self, log: int) -> State:
        return State()


class KeepsListsInMemory(PlanWorld):
    """Entries of lists are not appended."""

    def appends(self, record: rec.Durable) -> bool:
        return not isinstance(record, rec.SlotsAsked)


# --- patches of the core


def _loses_lists(state: State) -> Iterator[rec.Record]:
    return (record for record in _compacted_plans(state) if not isinstance(record, rec.SlotsAsked))


def _steals_again(self: SlotAssigner, slot: int) -> int | None:
    owner = _owner(self, slot)
    if owner is None and self._lists[1 - slot] and not self._sealed[slot]:
        self._pending[slot].append(self._lists[1 - slot][0])
        return slot
    return owner


_compacted_plans = plan_world.compacted_records
_owner = SlotAssigner._owner

GROUP: tuple[Broken, ...] = (
    Broken("answers before the log is synced", "durable", _group(world=AnswersBeforeSync)),
    Broken("discovery that found nothing stops", "cause", _group(StopsForNothing)),
    Broken("stale discovery accepted", "position", _group(AcceptsStaleDiscovery)),
    Broken("empty answer not recorded", "liveness", _group(ForgetsEmptyAnswers)),
    Broken("missed splits not delivered again", "liveness", _group(IgnoresWhatWasReceived, scope=COPIED)),
    Broken("lost range moves back", "backwards", _lost, ((group_lifecycle, "moves_back", _never_back),)),
    Broken("departure not appended", "replay", _group(KeepsDeparturesInMemory)),
    Broken("epoch given again", "number", _group(GivesEpochsAgain)),
    Broken("plan id without its generation", "identity", _group(), ((group_lifecycle, "round_id", round_id_of_range),)),
    Broken("held split assigned again", "ownership", _group(), ((Round, "pending_in_order", pending_or_held),)),
    Broken(
        "epoch unchecked",
        "fencing",
        _careless,
        ((members, "member_of", any_epoch), (split_assignment, "member_of", any_epoch)),
    ),
    Broken(
        "ordinal lost with its reader", "exactly once", _group(), ((Round, "give_back", gives_back_from_the_start),)
    ),
    Broken("file groups in no order", "order", _group(), ((split_assignment, "choose", choose_any),)),
    Broken("file groups of a replacement in no order", "order", _replaced, ((split_assignment, "choose", choose_any),)),
    Broken("split never delivered", "answer", _group(), ((core_state, "_assign", keeps_undelivered),)),
    Broken("compaction loses ordinals", "shortened", _group(), ((group_server, "compacted_records", loses_ordinals),)),
    Broken("record decoded as another", "codec", _group(), ((group_server, "decode_record", decodes_another),)),
    Broken("watermark without held splits", "watermark", _timed, ((Round, "remaining_span", span_of_pending),)),
    Broken("watermark without pending splits", "watermark", _timed, ((Round, "remaining_span", span_of_held),)),
    Broken("watermark without later commits", "watermark", _timed, ((rounds, "span_to_come", without_coming),)),
    Broken("watermark one too high", "watermark", _timed, ((rounds, "next_watermark", one_too_high),)),
)
PLAN: tuple[Broken, ...] = (
    Broken("answers before the log is synced", "durable", _plan(PlanAnswersBeforeSync)),
    Broken("lists not appended", "durable", _plan(KeepsListsInMemory)),
    Broken("repeated open not answered", "liveness", _plan(NeverAnswersARepeatedOpen)),
    Broken("log not read", "replay", _plan(StartsEmpty)),
    Broken("list ends early", "sealed", _plan(), ((SlotAssigner, "entry", entry_unsealed),)),
    Broken("split in two lists", "exactly once", _plan(), ((SlotAssigner, "_owner", _steals_again),)),
    Broken("compaction loses lists", "shortened", _plan(), ((plan_world, "compacted_records", _loses_lists),)),
    Broken("record decoded as another", "codec", _plan(), ((plan_world, "decode_record", decodes_another),)),
)
