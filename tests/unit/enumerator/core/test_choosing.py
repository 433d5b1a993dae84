"""The order that readers may rely on: who may have which split while others are open."""

from __future__ import annotations

from penstock.proto.model.groups import NothingYet
from tests.unit.enumerator.core.groups import Core


def test_a_file_group_stays_with_one_reader_while_a_split_of_it_is_open() -> None:
    core = Core()
    one, other = core.join("one"), core.join("other")
    first, second = core.plan(("p", "a"), ("p", "b")), core.plan(("p", "a"))
    assert core.ask(one, 1, most=1) == [(first, 0)]
    assert core.ask(other, 1) == [(first, 1)]
    assert core.ask(one, 2) == [(second, 0)]


def test_what_follows_a_reshaped_partition_waits_for_what_was_before() -> None:
    core = Core()
    one, other = core.join("one"), core.join("other")
    first = core.plan(("p", "a"), ("q", "x"))
    second = core.plan(("p", "b"), ("q", "y"), reshaped=("p",))
    assert core.ask(one, 1, most=1) == [(first, 0)]
    assert core.ask(other, 1) == [(first, 1), (second, 1)]
    core.commit(one, (first, 0, 1), finished=True)
    assert core.ask(other, 2) == [(second, 0)]


def test_a_round_waits_for_the_whole_partition_of_a_round_in_which_that_was_reshaped() -> None:
    """Rows of `a` became rows of `b` in the middle of the round: what it holds of `a` comes before what follows in `b`.
    The simulation found it."""
    core = Core()
    one, other = core.join("one"), core.join("other")
    first = core.plan(("p", "a"), reshaped=("p",))
    second = core.plan(("p", "b"))
    assert core.ask(one, 1) == [(first, 0), (second, 0)]
    core = Core()
    one, other = core.join("one"), core.join("other")
    first = core.plan(("p", "a"), reshaped=("p",))
    assert core.ask(one, 1) == [(first, 0)]
    second = core.plan(("p", "b"))
    assert isinstance(core.ask(other, 1), NothingYet)
    core.commit(one, (first, 0, 1), finished=True)
    assert core.ask(other, 2) == [(second, 0)]


def test_splits_of_a_partition_that_their_own_round_reshaped_go_to_one_reader_in_order() -> None:
    """The same within one round: a plan's splits are in commit order. The simulation found it."""
    core = Core()
    one, other = core.join("one"), core.join("other")
    plan_id = core.plan(("p", "a"), ("q", "x"), ("p", "b"), ("p", "c"), reshaped=("p",))
    assert core.ask(one, 1, most=1) == [(plan_id, 0)]
    assert core.ask(other, 1) == [(plan_id, 1)]
    assert isinstance(core.ask(other, 2), NothingYet)
    assert core.ask(one, 2, most=1) == [(plan_id, 2)]
    core.commit(one, (plan_id, 0, 1), (plan_id, 2, 1), finished=True)
    assert core.ask(other, 3) == [(plan_id, 3)]


def test_a_split_that_came_back_comes_first_again_in_a_reshaped_partition() -> None:
    core = Core()
    one, other = core.join("one"), core.join("other")
    plan_id = core.plan(("p", "a"), ("p", "b"), reshaped=("p",))
    core.ask(one, 1)
    core.commit(one, (plan_id, 0, 1))
    again = core.join("one", "again")
    assert isinstance(core.ask(other, 1), NothingYet)
    assert core.ask(again, 1) == [(plan_id, 0), (plan_id, 1)]
