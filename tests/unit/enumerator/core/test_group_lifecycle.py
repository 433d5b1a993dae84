"""The table of states and transitions of a group equals the behaviour of `decide`."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any
from unittest.mock import patch

import pytest

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core import group_lifecycle
from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.group_lifecycle import TRANSITIONS, GroupState, state_of
from penstock.enumerator.core.records import Moved
from penstock.enumerator.core.results import CoordinatorSettings, Decision, changes
from penstock.enumerator.core.split_facts import facts_of
from penstock.enumerator.core.state import Group, State, apply
from penstock.proto.errors import PenstockError
from penstock.proto.model.groups import GroupScope, Member, OnLostRange, SplitProgress, SplitRef
from penstock.proto.model.positions import CommitRange
from penstock.proto.model.queries import NO_LIMITS, Incremental, PlanRequest
from tests.unit.enumerator.core.groups import KEY, at

Transition = tuple[GroupState, type[ev.Event[Any]], GroupState]
SETTINGS = CoordinatorSettings(lease_ms=3_000, group_expiry_ms=1_000)
SCOPE = GroupScope(request=PlanRequest(table="t", query=Incremental()), upto=at(3), on_lost_range=OnLostRange.SNAPSHOT)
WALKS = 400
EVENTS = 60


class RandomEvents:
    """A group under random events."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.state = State()
        self.now_ms = self.ticked_ms = 0
        self.sequence = 0

    def events(self) -> Iterator[ev.AnyEvent]:
        """Each event fits the state of the group at that time."""
        for _ in range(EVENTS):
            self.now_ms += self.random.choice((0, 500, 1_000))
            group = self.state.groups.get(KEY)
            yield self._create() if group is None else self._event(group)

    def _create(self) -> ev.AnyEvent:
        return ev.CreateGroup(key=KEY, scope=SCOPE, limits=NO_LIMITS, progress=Progress(at(0)))

    def _event(self, group: Group) -> ev.AnyEvent:
        kinds = ("discover", "nothing", "join", "request", "commit", "leave", "tick")
        return getattr(self, "_" + self.random.choice((*kinds * 3, "fail", "lost", "reset", "delete")))(group)  # type: ignore[no-any-return]

    def _round_fields(self, group: Group) -> Mapping[str, Any]:
        stale = self.random.random() < 0.1
        return {"key": KEY, "number": group.number - stale, "start": group.progress.position}

    def _discover(self, group: Group) -> ev.AnyEvent:
        number = int(group.progress.position.order_key) + 1
        splits = [(1, "p", "a")] * self.random.choice((0, 1, 1, 2))
        return ev.Discovered(
            **self._round_fields(group),
            commit_range=CommitRange(group.progress.position, at(number)),
            progress=Progress(at(number)),
            facts=facts_of(splits),
            reshaped=frozenset(),
            commits=1,
        )

    def _nothing(self, group: Group) -> ev.AnyEvent:
        return ev.NothingFound(**self._round_fields(group))

    def _fail(self, group: Group) -> ev.AnyEvent:
        return ev.CannotGoOn(**self._round_fields(group), code="CORRUPT_FILE", text="damaged")

    def _lost(self, group: Group) -> ev.AnyEvent:
        return ev.RangeLost(**self._round_fields(group), progress=Progress(at(self.random.choice((0, 3)))))

    def _reset(self, group: Group) -> ev.AnyEvent:
        return ev.Reset(KEY, Progress(at(self.random.choice((0, 3)))))

    def _delete(self, group: Group) -> ev.AnyEvent:
        return ev.Delete(KEY)

    def _tick(self, group: Group) -> ev.AnyEvent:
        before_ms, self.ticked_ms = self.ticked_ms, self.now_ms
        return ev.Tick(before_ms)

    def _join(self, group: Group) -> ev.AnyEvent:
        return ev.Join(key=KEY, reader_id="r", scope=SCOPE, request_id=str(self.random.random()))

    def _member(self, group: Group) -> Member:
        reader = group.readers.get("r")
        return Member(KEY.table, KEY.group, "r", 0 if reader is None else reader.epoch)

    def _request(self, group: Group) -> ev.AnyEvent:
        self.sequence += 1
        return ev.RequestSplits(self._member(group), 5, self.sequence)

    def _commit(self, group: Group) -> ev.AnyEvent:
        held = group.readers["r"].held if "r" in group.readers else ()
        done = tuple(SplitProgress(ref=SplitRef(*split), ordinal=1, finished=True) for split in held)
        return ev.CommitSplits(self._member(group), done)

    def _leave(self, group: Group) -> ev.AnyEvent:
        return ev.Leave(self._member(group))


def observed() -> set[Transition]:
    """The transitions of all sequences: changes of the state or the generation."""
    transitions: set[Transition] = set()
    for seed in range(WALKS):
        random_events = RandomEvents(seed)
        for event in random_events.events():
            before, number = (
                random_events.state.groups.get(KEY),
                getattr(random_events.state.groups.get(KEY), "number", 0),
            )
            left = state_of(before)
            try:
                decision: Decision[Any] = decide(random_events.state, event, random_events.now_ms, SETTINGS)
            except PenstockError:
                continue
            for record in decision.records:
                apply(random_events.state, record)
            group = random_events.state.groups.get(KEY)
            if (left, number) != (state_of(group), getattr(group, "number", 0)):
                transitions.add((left, type(event), state_of(group)))
    return transitions


def rows() -> set[Transition]:
    """The rows of the table."""
    return {
        (state, event, to) for state, of_state in TRANSITIONS.items() for event, ends in of_state.items() for to in ends
    }


def test_transition_table_has_exactly_the_transitions_of_decide() -> None:
    assert set(TRANSITIONS) == set(GroupState)
    assert observed() == rows()


def test_transition_table_is_drawn_in_the_docstring() -> None:
    drawing = group_lifecycle.__doc__ or ""
    missing = {name for state, event, _ in rows() for name in (state.name, event.__name__) if name not in drawing}
    assert not missing


@pytest.mark.parametrize("broken", ["a stopped group goes on", "a lost range is ignored"])
def test_transition_table_differs_from_a_broken_core(broken: str) -> None:
    real = group_lifecycle.discovered

    def broken_discovered(state: State, event: Any, now_ms: int) -> Decision[None]:
        group = state.groups.get(event.key)
        if broken == "a lost range is ignored" and isinstance(event, ev.RangeLost):
            return changes()
        if (
            broken == "a stopped group goes on"
            and group is not None
            and group.stopped
            and isinstance(event, ev.Discovered)
        ):
            return changes(group_lifecycle.moved(group, state.last_number + 1, group.progress, Moved.RESET))
        return real(state, event, now_ms)

    with patch.object(group_lifecycle, "discovered", broken_discovered):
        assert observed() != rows()


@pytest.mark.parametrize("at_newest", [True, False])
def test_start_after_the_newest_instant_is_a_new_generation(at_newest: bool) -> None:
    """Discoveries of the generation before it have no effect."""
    state = State()

    def handle(event: ev.AnyEvent) -> None:
        for record in decide(state, event, 0, SETTINGS).records:
            apply(state, record)

    create = ev.CreateGroup(key=KEY, scope=SCOPE, limits=NO_LIMITS, progress=Progress(at(0)), at_newest=at_newest)
    handle(create)
    before = state.groups[KEY].number
    handle(ev.Join(key=KEY, scope=SCOPE, reader_id="r", request_id="j"))
    handle(ev.Started(KEY, before, Progress(at(2))))
    group = state.groups[KEY]
    if not at_newest:
        assert (group.number, group.progress.position) == (before, at(0))
        return
    assert group.number == state.last_number > before and group.progress.position == at(2)
    handle(ev.Started(KEY, before, Progress(at(3))))
    assert state.groups[KEY].progress.position == at(2)
