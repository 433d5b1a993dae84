"""A group as discovery reads it: the request for its next round, and the interface that its table implements."""

from __future__ import annotations

import inspect

import pytest

from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.split_facts import facts_of
from penstock.enumerator.core.state import Group, Round
from penstock.enumerator.groups.group_tables import GroupTables, followed
from penstock.enumerator.tables.followed_tables import FollowedTables
from penstock.proto.model.groups import GroupScope, OnLostRange
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, RoundLimits
from penstock.proto.model.streams import Progress

KEY = GroupKey("t", "g")
REQUEST = PlanRequest(table="t", query=Incremental(EARLIEST))


def at(number: int) -> Position:
    return Position(InstantTime(f"{number:03}"))


def group(on_lost_range: OnLostRange = OnLostRange.FAIL) -> Group:
    """Committed up to 001, planned up to 003, to end at 009."""
    return Group(
        key=KEY,
        number=7,
        scope=GroupScope(request=REQUEST, upto=at(9), on_lost_range=on_lost_range),
        limits=RoundLimits(max_commits=2),
        progress=Progress(at(3), consumed=frozenset({InstantTime("003")})),
        committed=at(1),
    )


@pytest.mark.parametrize("policy", OnLostRange)
def test_next_round_starts_after_what_is_planned_and_keeps_the_scope(policy: OnLostRange) -> None:
    state = group(policy)
    read = followed(KEY, state)
    assert (read.key, read.number, read.on_lost_range) == (KEY, 7, policy)
    assert read.start == at(3) != state.committed
    assert read.following.progress is state.progress
    assert (read.following.request, read.following.limits, read.following.upto) == (REQUEST, state.limits, at(9))


def test_group_with_an_open_round_is_not_drained() -> None:
    state = group()
    assert followed(KEY, state).following.drained
    state.rounds["p"] = Round.of(1, "p", CommitRange(at(1), at(3)), facts_of([(1, "p", "f")]), frozenset(), 1, ())
    assert not followed(KEY, state).following.drained


def test_followed_group_is_unchanged_by_later_events() -> None:
    state = group()
    read = followed(KEY, state)
    state.progress, state.limits = Progress(at(5)), RoundLimits()
    assert read.start == at(3) and read.following.limits == RoundLimits(max_commits=2)


@pytest.mark.parametrize("name", [name for name in vars(GroupTables) if not name.startswith("_")])
def test_tables_take_the_arguments_of_the_interface(name: str) -> None:
    """`FollowedTables` is passed as GroupTables by position; names of later parameters may differ."""
    expected = inspect.signature(getattr(GroupTables, name)).parameters
    actual = inspect.signature(getattr(FollowedTables, name)).parameters
    assert len(actual) == len(expected)
    assert [each.kind for each in actual.values()] == [each.kind for each in expected.values()]
