"""A copy of a request that arrives after a restart. Its member receives the splits with its next request, and reads the
splits of a file group in order."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.enumerator.core import events as ev
from penstock.enumerator.core import split_assignment
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.results import SplitsGranted
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.proto.errors import Overloaded
from penstock.proto.model.groups import Member, NothingYet
from tests.unit.enumerator.core import test_over_tables
from tests.unit.enumerator.core.groups import Core


def replayed(state: State) -> State:
    """The state of a server that read the log. Empty answers are not in it."""
    result = State()
    for record in compacted_records(state):
        apply(result, record)
    return result


def asked(core: Core, member: Member, sequence: int, received: int | None, most: int = 1) -> list[tuple[str, int]]:
    """The splits of a request of a member that says what it received."""
    answer = core.handle(ev.RequestSplits(member, most, sequence, received=received))
    return [(one.plan_id, one.index) for one in answer.splits] if isinstance(answer, SplitsGranted) else []


def after_a_copy(core: Core, *rounds: tuple[str, str], copies: int = 1, most: int = 1) -> tuple[Member, list[str]]:
    """A member whose first request was answered without splits. The server restarted, planned rounds of a split, and
    received copies of the request. Nobody hears their answers."""
    member = core.join("r")
    assert asked(core, member, 1, received=0) == []
    core.own = replayed(core.own)
    core.handle(ev.Restarted())
    plans = [core.plan(each) for each in rounds]
    for _ in range(copies):
        assert len(asked(core, member, 1, received=0, most=most)) == most
    return member, plans


@pytest.mark.parametrize("copies", [1, 2])
def test_splits_of_a_copy_are_delivered_with_the_next_request(copies: int) -> None:
    core = Core()
    member, (first, second) = after_a_copy(core, ("p", "a"), ("p", "a"), copies=copies)
    assert asked(core, member, 2, received=0) == [(first, 0)], "the earlier split of the file group"
    assert asked(core, member, 2, received=0) == [(first, 0)], "a repeated request has the same answer"
    core.commit(member, (first, 0, 1), finished=True)
    assert asked(core, member, 3, received=2) == [(second, 0)]


def test_all_splits_of_a_copy_are_delivered_whatever_the_next_request_allows() -> None:
    core = Core()
    member, plans = after_a_copy(core, ("p", "a"), ("p", "b"), ("p", "c"), most=2)
    assert asked(core, member, 2, received=0, most=1) == [(plans[0], 0), (plans[1], 0)]
    assert asked(core, member, 3, received=2, most=1) == [(plans[2], 0)]


def test_copies_of_several_requests_lose_no_split() -> None:
    core = Core()
    member, (first,) = after_a_copy(core, ("p", "a"))
    assert asked(core, member, 2, received=0) == [(first, 0)]  # a copy, too: the member is at its third request
    assert asked(core, member, 3, received=0) == [(first, 0)]
    assert isinstance(core.request_splits(member, 4), NothingYet)


def test_member_that_does_not_say_what_it_received_is_trusted() -> None:
    core = Core()
    member, (_, second) = after_a_copy(core, ("p", "a"), ("p", "a"))
    assert asked(core, member, 2, received=None) == [(second, 0)], "it received every answer"


def test_limit_of_held_splits_does_not_refuse_missed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Core()
    member, (first,) = after_a_copy(core, ("p", "a"))
    monkeypatch.setattr(split_assignment, "MAX_HELD", 1)
    assert asked(core, member, 2, received=0) == [(first, 0)]
    with pytest.raises(Overloaded):
        asked(core, member, 3, received=2)


# --- groups over tables


def asked_over_tables(core: test_over_tables.Core, sequence: int, received: int, without: Any = ()) -> list[Any]:
    """Table, split and epoch of each split of a request."""
    event = ev.RequestSplits(core.member, 10, sequence, core.tables, frozenset(without), received=received)
    answer = core.handle(event)
    splits = answer.splits if isinstance(answer, SplitsGranted) else ()
    return [(one.table, one.plan_id, one.index, one.epoch) for one in splits]


def test_splits_of_a_copy_over_tables_are_delivered_with_the_next_request() -> None:
    core = test_over_tables.Core(3)
    assert asked_over_tables(core, 1, received=0) == []
    core.state = replayed(core.state)
    core.plan(0, 2)
    core.plan(1, 1)
    copied = asked_over_tables(core, 1, received=0)
    assert [table for table, *_ in copied] == ["s.000", "s.000", "s.001"]
    core.plan(2, 1)
    assert asked_over_tables(core, 2, received=0, without={"s.000"}) == copied, "also of a table that is left out"
    assert asked_over_tables(core, 2, received=0) == copied, "a repeated request has the same answer"
    assert core.state.groups[GroupKey("s.002", "g")].readers == {}
    assert [table for table, *_ in asked_over_tables(core, 3, received=2)] == ["s.002"]
    assert asked_over_tables(core, 4, received=3) == []
