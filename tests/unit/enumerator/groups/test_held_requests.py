"""Requests for splits that are held until there are some: which changes end a wait, and what a wait gives up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from penstock.enumerator.call_waits import waiting_by
from penstock.enumerator.coordinator.group_signals import GroupSignals
from penstock.enumerator.core.records import GroupKey, LeaseRenewed, SplitsAssigned, SplitsCommitted
from penstock.proto.errors import Fenced, StorageError
from penstock.proto.model.groups import Assignments, EndOfGroup, GroupAnswer, NothingYet, StartLatest
from tests.unit.enumerator.scripted_service import Script, World, at, names, spec_of

KEY = GroupKey("t", "g")


@dataclass
class Waits:
    """How a call waits: each wait does the next step; then the call may wait no longer. Records which steps ended the
    wait, and for how long it would have taken."""

    steps: list[Callable[[], object]] = field(default_factory=list)
    woken: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __call__(self, seconds: float, news: threading.Event) -> bool:
        assert not news.is_set()
        if not self.steps:
            return False
        self.steps.pop(0)()
        self.woken.append(news.is_set())
        self.seconds.append(seconds)
        return True


def held(world: World, waits: Waits, wait_ms: int = 1000) -> GroupAnswer:
    """The answer to the next request of the member, which is held."""
    world.sequence += 1
    with waiting_by(waits):
        return world.service.request_splits(world.member, 10, world.sequence, wait_ms=wait_ms)


def test_held_request_is_answered_with_the_round_that_is_planned_meanwhile() -> None:
    world = World(Script(newest=1))
    waits = Waits([lambda: None, lambda: world.service.heartbeat(world.member), world.service.split_discovery.discover])
    assert names(held(world, waits)) == ["1/0", "1/1"]
    assert (waits.woken, waits.seconds) == ([False, False, True], [0.5] * 3)


def test_request_without_a_wait_and_one_that_may_not_wait_are_answered_at_once() -> None:
    world = World(Script(newest=1))
    unused = Waits([lambda: pytest.fail("waited")])
    assert held(world, unused, wait_ms=0) == NothingYet(500)
    assert held(world, Waits()) == NothingYet(500)
    world.service.split_discovery.discover()
    world.sequence -= 1
    assert world.request_splits() == NothingYet(500), "it was answered: its copy gets no splits"
    assert names(held(world, unused)) == ["1/0", "1/1"]


def test_splits_that_another_reader_returns_end_the_wait() -> None:
    world = World(Script(newest=1))
    world.service.split_discovery.discover()
    other = world.service.join_group("g", "r2", world.spec, "second").member
    taken = world.service.request_splits(other, 10, 1)
    waits = Waits([lambda: world.service.leave_group(other)])
    assert (names(held(world, waits)), waits.woken) == (names(taken), [True])


def test_end_of_the_group_ends_the_wait() -> None:
    world = World(Script(newest=1), spec=spec_of(upto=at(1)))
    world.service.split_discovery.discover()
    assignments = world.request_splits()
    assert isinstance(assignments, Assignments)
    finish, look = (lambda: world.finish(assignments)), world.service.split_discovery.discover
    waits = Waits([finish, look])
    assert (held(world, waits), waits.woken) == (EndOfGroup(), [True])


@pytest.mark.parametrize("move", ["join", "reset"])
def test_fence_of_the_member_ends_the_wait(move: str) -> None:
    world = World(Script(newest=1))

    def fence() -> None:
        if move == "join":
            world.service.join_group("g", "r1", world.spec, "again")
        else:
            world.service.reset_group("t", "g", StartLatest(), dry_run=False)

    waits = Waits([fence])
    with pytest.raises(Fenced):
        held(world, waits)
    assert waits.woken == [True]


def test_call_that_ended_meanwhile_gets_no_splits() -> None:
    world = World(Script(newest=1))

    def cancelled() -> None:
        world.service.split_discovery.discover()
        raise StorageError("the call was cancelled")

    with pytest.raises(StorageError):
        held(world, Waits([cancelled]))
    assert world.service.describe_group("t", "g").pending_splits == 2
    world.sequence -= 1
    assert names(world.request_splits()) == ["1/0", "1/1"]


def test_only_changes_that_may_free_splits_are_signalled_to_the_group() -> None:
    signals = GroupSignals()
    place = ("plan", 0)
    with signals.of("g") as own, signals.of("other") as other:
        signals.send([LeaseRenewed(key=KEY, reader_id="r", until_ms=1)])
        signals.send([SplitsAssigned(key=KEY, reader_id="r", sequence=1, splits=(place,))])
        signals.send([SplitsCommitted(key=KEY, ordinals=((*place, 5),), finished=())])
        assert not own.is_set()
        signals.send([SplitsCommitted(key=KEY, ordinals=(), finished=(place,))])
        assert own.is_set() and not other.is_set()
    own.clear()
    signals.send([SplitsCommitted(key=KEY, ordinals=(), finished=(place,))])
    assert not own.is_set(), "the call has ended"
