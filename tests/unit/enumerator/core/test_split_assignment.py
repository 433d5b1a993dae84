"""Requests and commits of members that were lost, doubled or late on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.coordinator.coordinator import durable_coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.proto.errors import Fenced, StorageError
from penstock.proto.model.groups import NothingYet, OnLostRange
from penstock.proto.model.queries import NO_LIMITS
from tests.memory_store import DirectJournal, MemoryStore
from tests.unit.enumerator.core.groups import KEY, SCOPE, Core, at


def test_a_request_that_was_answered_with_nothing_hands_out_nothing_when_it_comes_again() -> None:
    """Its first answer was taken; who goes on to the next request would hold splits that it never heard of."""
    core = Core()
    member = core.join("r")
    assert isinstance(core.ask(member, 1), NothingYet)
    plan_id = core.plan(("p", "a"))
    assert isinstance(core.ask(member, 1), NothingYet)
    assert core.ask(member, 2) == [(plan_id, 0)]


def test_a_request_older_than_one_that_was_answered_with_nothing_is_refused() -> None:
    core = Core()
    member = core.join("r")
    core.ask(member, 1)
    core.ask(member, 2)
    core.plan(("p", "a"))
    with pytest.raises(Fenced, match="request 2 was already handled"):
        core.ask(member, 1)


def test_a_new_epoch_counts_its_requests_anew() -> None:
    core = Core()
    core.ask(core.join("r", "first"), 7)
    member = core.join("r", "second")
    plan_id = core.plan(("p", "a"))
    assert core.ask(member, 1) == [(plan_id, 0)]


def test_an_ordinal_told_twice_in_one_commit_does_not_move_back() -> None:
    core = Core()
    member = core.join("r")
    plan_id = core.plan(("p", "a"))
    core.ask(member, 1)
    core.commit(member, (plan_id, 0, 5), (plan_id, 0, 3))
    assert core.group.rounds[plan_id].ordinals == {0: 5}


def test_a_commit_of_what_another_process_planned_is_not_taken_for_one_of_the_past() -> None:
    """A process that lost its store and does not know it yet: to it the round is none, or one that is long finished.
    The simulation found it."""
    store = MemoryStore()
    old = durable_coordinator(store, DirectJournal(store), clock_ms=lambda: 1_000, settings=CoordinatorSettings())
    core = Core(tells=old)
    member = core.join("r")
    taken = store.reopened()
    core.tells = durable_coordinator(
        taken, DirectJournal(taken), clock_ms=lambda: 1_000, settings=CoordinatorSettings()
    )
    plan_id = core.plan(("p", "a"))
    assert core.ask(member, 1) == [(plan_id, 0)]
    core.tells = old
    with pytest.raises(StorageError, match="opened anew"):
        core.commit(member, (plan_id, 0, 1), finished=True)


def test_a_finished_split_is_told_again_without_harm() -> None:
    core = Core()
    member = core.join("r")
    plan_id = core.plan(("p", "a"))
    core.ask(member, 1)
    core.commit(member, (plan_id, 0, 1), finished=True)
    assert not core.group.rounds
    core.commit(member, (plan_id, 0, 1), finished=True)
    assert core.group.committed == core.group.progress.position


def test_a_lost_range_moves_a_group_to_earliest_only_forwards() -> None:
    scope = replace(SCOPE, on_lost_range=OnLostRange.EARLIEST)
    key = GroupKey("t", "earliest")
    core = Core()
    core.tell(ev.CreateGroup(key=key, scope=scope, limits=NO_LIMITS, progress=Progress(at(3))))
    for place, expected in ((1, 3), (3, 3), (4, 4)):
        group = core.state.groups[key]
        core.tell(ev.RangeLost(key=key, number=group.number, start=at(3), progress=Progress(at(place))))
        assert core.state.groups[key].progress.position == at(expected)


def test_the_loss_of_an_open_round_moves_a_group_to_what_it_committed_at_the_earliest() -> None:
    scope = replace(SCOPE, on_lost_range=OnLostRange.EARLIEST)
    for place, plan_id, expected in ((0, "open", 2), (1, "open", 1), (2, "over", 2), (2, "open", 2)):
        core = Core(scope=scope)
        core.plan()
        open_round = core.plan(("p", "a"))
        assert (core.group.committed, core.group.progress.position) == (at(1), at(2))
        lost = ev.RangeLost(
            key=KEY,
            number=core.group.number,
            start=at(2),
            progress=Progress(at(place)),
            plan_id=open_round if plan_id == "open" else "r0",
        )
        core.tell(lost)
        assert core.group.progress.position == at(expected)
        assert bool(core.group.rounds) == (plan_id == "over" or place == 0)
