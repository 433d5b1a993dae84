"""Lost, duplicated and late requests and commits of members."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.coordinator.coordinator import durable_coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.results import CoordinatorSettings, GrantedSplit, SplitsGranted
from penstock.proto.errors import CorruptFile, Fenced, PenstockError, StorageError
from penstock.proto.model.groups import NothingYet, OnLostRange
from penstock.proto.model.queries import NO_LIMITS
from tests.memory_store import DirectJournal, MemoryStore
from tests.unit.enumerator.core.groups import KEY, SCOPE, Core, at


def test_repeated_request_grants_nothing_if_its_first_answer_was_empty() -> None:
    """The reader accepted the empty answer and sent its next request; it would hold splits that it never received."""
    core = Core()
    member = core.join("r")
    assert isinstance(core.request_splits(member, 1), NothingYet)
    plan_id = core.plan(("p", "a"))
    assert isinstance(core.request_splits(member, 1), NothingYet)
    assert core.request_splits(member, 2) == [(plan_id, 0)]


def test_held_request_without_splits_is_decided_again() -> None:
    """Negative control: the test above, where the call is not held."""
    core = Core()
    member = core.join("r")
    held = ev.RequestSplits(member, 1, 1, is_held=True)
    assert all(isinstance(core.handle(held), NothingYet) for _ in range(2))
    plan_id = core.plan(("p", "a"))
    answer = core.handle(held)
    assert isinstance(answer, SplitsGranted) and [(one.plan_id, one.index) for one in answer.splits] == [(plan_id, 0)]
    assert core.handle(replace(held, is_held=False)) == answer, "a copy of the request gets the same answer"
    assert isinstance(core.handle(replace(held, sequence=2)), NothingYet)
    assert isinstance(core.handle(replace(held, sequence=2, is_held=False)), NothingYet), "the last answer"
    with pytest.raises(Fenced, match="request 2 was already handled"):
        core.handle(held)


def test_request_older_than_one_with_an_empty_answer_is_refused() -> None:
    core = Core()
    member = core.join("r")
    core.request_splits(member, 1)
    core.request_splits(member, 2)
    core.plan(("p", "a"))
    with pytest.raises(Fenced, match="request 2 was already handled"):
        core.request_splits(member, 1)


def test_request_numbers_restart_with_a_new_epoch() -> None:
    core = Core()
    core.request_splits(core.join("r", "first"), 7)
    member = core.join("r", "second")
    plan_id = core.plan(("p", "a"))
    assert core.request_splits(member, 1) == [(plan_id, 0)]


def test_ordinal_repeated_in_one_commit_does_not_move_back() -> None:
    core = Core()
    member = core.join("r")
    plan_id = core.plan(("p", "a"))
    core.request_splits(member, 1)
    core.commit(member, (plan_id, 0, 5), (plan_id, 0, 3))
    assert core.group.rounds[plan_id].ordinals == {0: 5}


def test_commit_of_a_round_of_another_process_is_not_taken_for_a_finished_one() -> None:
    """A process that lost its store without notice: its state has no such round, or has it as finished. A regression
    test of a failure in the simulation."""
    store = MemoryStore()
    old = durable_coordinator(store, DirectJournal(store), clock_ms=lambda: 1_000, settings=CoordinatorSettings())
    core = Core(coordinator=old)
    member = core.join("r")
    taken = store.reopened()
    core.coordinator = durable_coordinator(
        taken, DirectJournal(taken), clock_ms=lambda: 1_000, settings=CoordinatorSettings()
    )
    plan_id = core.plan(("p", "a"))
    assert core.request_splits(member, 1) == [(plan_id, 0)]
    core.coordinator = old
    with pytest.raises(StorageError, match="opened again"):
        core.commit(member, (plan_id, 0, 1), finished=True)


def test_commit_of_a_finished_split_has_no_effect() -> None:
    core = Core()
    member = core.join("r")
    plan_id = core.plan(("p", "a"))
    core.request_splits(member, 1)
    core.commit(member, (plan_id, 0, 1), finished=True)
    assert not core.group.rounds
    core.commit(member, (plan_id, 0, 1), finished=True)
    assert core.group.committed == core.group.progress.position


def test_lost_range_moves_a_group_to_earliest_only_forwards() -> None:
    scope = replace(SCOPE, on_lost_range=OnLostRange.EARLIEST)
    key = GroupKey("t", "earliest")
    core = Core()
    core.handle(ev.CreateGroup(key=key, scope=scope, limits=NO_LIMITS, progress=Progress(at(3))))
    for place, expected in ((1, 3), (3, 3), (4, 4)):
        group = core.state.groups[key]
        core.handle(ev.RangeLost(key=key, number=group.number, start=at(3), progress=Progress(at(place))))
        assert core.state.groups[key].progress.position == at(expected)


def test_lost_open_round_never_moves_a_group_before_its_committed_position() -> None:
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
        core.handle(lost)
        assert core.group.progress.position == at(expected)
        assert bool(core.group.rounds) == (plan_id == "over" or place == 0)


@pytest.mark.parametrize(("code", "kind"), [("CORRUPT_FILE", CorruptFile), ("OF_A_LATER_RELEASE", PenstockError)])
def test_request_of_a_stopped_group_has_its_error(code: str, kind: type[PenstockError]) -> None:
    core = Core()
    member = core.join("r")
    core.handle(ev.CannotGoOn(key=KEY, number=core.group.number, start=at(0), code=code, text="file f is damaged"))
    with pytest.raises(PenstockError) as stopped:
        core.request_splits(member, 1)
    assert type(stopped.value) is kind
    assert str(stopped.value) == f"{KEY} stopped at {at(0)}: file f is damaged; then `penstock groups reset`"


def test_granted_split_of_a_group_of_one_table_names_no_table() -> None:
    core = Core()
    member = core.join("r")
    plan_id = core.plan(("p", "a"))
    answer = core.handle(ev.RequestSplits(member, 1, 1))
    assert isinstance(answer, SplitsGranted)
    assert answer.splits == (GrantedSplit(plan_id, 0, 0, at(1), watermark_us=answer.splits[0].watermark_us),)
