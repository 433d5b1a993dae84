"""The order of assignment that readers may rely on while other splits are open."""

from __future__ import annotations

from penstock.proto.model.groups import NothingYet
from tests.unit.enumerator.core.groups import Core


def test_file_group_stays_with_one_reader_while_one_of_its_splits_is_open() -> None:
    core = Core()
    one, other = core.join("one"), core.join("other")
    first, second = core.plan(("p", "a"), ("p", "b")), core.plan(("p", "a"))
    assert core.request_splits(one, 1, most=1) == [(first, 0)]
    assert core.request_splits(other, 1) == [(first, 1)]
    assert core.request_splits(one, 2) == [(second, 0)]


def test_splits_after_a_reshaped_partition_wait_for_earlier_splits() -> None:
    core = Core()
    one, other = core.join("one"), core.join("other")
    first = core.plan(("p", "a"), ("q", "x"))
    second = core.plan(("p", "b"), ("q", "y"), reshaped=("p",))
    assert core.request_splits(one, 1, most=1) == [(first, 0)]
    assert core.request_splits(other, 1) == [(first, 1), (second, 1)]
    core.commit(one, (first, 0, 1), finished=True)
    assert core.request_splits(other, 2) == [(second, 0)]


def test_round_waits_for_the_whole_partition_that_an_earlier_round_reshaped() -> None:
    """Rows of `a` became rows of `b` within the round: its splits of `a` precede later splits of `b`. A regression test
    of a failure in the simulation."""
    core = Core()
    one, other = core.join("one"), core.join("other")
    first = core.plan(("p", "a"), reshaped=("p",))
    second = core.plan(("p", "b"))
    assert core.request_splits(one, 1) == [(first, 0), (second, 0)]
    core = Core()
    one, other = core.join("one"), core.join("other")
    first = core.plan(("p", "a"), reshaped=("p",))
    assert core.request_splits(one, 1) == [(first, 0)]
    second = core.plan(("p", "b"))
    assert isinstance(core.request_splits(other, 1), NothingYet)
    core.commit(one, (first, 0, 1), finished=True)
    assert core.request_splits(other, 2) == [(second, 0)]


def test_splits_of_a_partition_reshaped_in_their_round_go_to_one_reader_in_order() -> None:
    """The same within one round: its splits are in commit order. A regression test of a failure in the simulation."""
    core = Core()
    one, other = core.join("one"), core.join("other")
    plan_id = core.plan(("p", "a"), ("q", "x"), ("p", "b"), ("p", "c"), reshaped=("p",))
    assert core.request_splits(one, 1, most=1) == [(plan_id, 0)]
    assert core.request_splits(other, 1) == [(plan_id, 1)]
    assert isinstance(core.request_splits(other, 2), NothingYet)
    assert core.request_splits(one, 2, most=1) == [(plan_id, 2)]
    core.commit(one, (plan_id, 0, 1), (plan_id, 2, 1), finished=True)
    assert core.request_splits(other, 3) == [(plan_id, 3)]


def test_returned_split_is_assigned_first_in_a_reshaped_partition() -> None:
    core = Core()
    one, other = core.join("one"), core.join("other")
    plan_id = core.plan(("p", "a"), ("p", "b"), reshaped=("p",))
    core.request_splits(one, 1)
    core.commit(one, (plan_id, 0, 1))
    again = core.join("one", "again")
    assert isinstance(core.request_splits(other, 1), NothingYet)
    assert core.request_splits(again, 1) == [(plan_id, 0), (plan_id, 1)]
