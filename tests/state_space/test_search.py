"""The search itself, on models of a few states."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.simulation.checkers import CheckFailed, fail
from tests.state_space.search import FAULT, Step, check_liveness, search


class Small:
    """States are numbers; `edges` are (process, from, to). State 9 is the goal, and state -1 breaks an invariant."""

    def __init__(self, *edges: tuple[str, int, int]) -> None:
        self.edges = edges

    def initial(self) -> int:
        return 0

    def steps(self, state: int) -> Iterable[Step[int]]:
        if state == -1:
            fail("never", "state -1")
        return [Step(process, f"to {after}", after) for process, before, after in self.edges if before == state]

    def is_goal(self, state: int) -> bool:
        return state == 9


def test_every_state_is_counted_once() -> None:
    graph = search(Small(("a", 0, 1), ("b", 0, 2), ("b", 1, 3), ("a", 2, 3), ("a", 3, 9)))
    assert (len(graph.states), len(graph.targets)) == (5, 5)


def test_violation_has_the_shortest_trace() -> None:
    with pytest.raises(CheckFailed, match=r"never: state -1\n  a: to 1\n  b: to -1$"):
        search(Small(("a", 0, 2), ("a", 2, 3), ("a", 3, -1), ("a", 0, 1), ("b", 1, -1)))


def test_dead_end_is_no_liveness() -> None:
    with pytest.raises(CheckFailed, match="no goal can be reached"):
        check(Small(("a", 0, 9), (FAULT, 0, 1)))


def test_fault_does_not_help() -> None:
    with pytest.raises(CheckFailed, match="no goal can be reached"):
        check(Small(("a", 0, 1), (FAULT, 1, 9)))


def test_cycle_of_one_process_is_no_progress() -> None:
    with pytest.raises(CheckFailed, match="a cycle of 2 states"):
        check(Small(("a", 0, 1), ("a", 1, 0), ("a", 1, 9)))


def test_cycle_that_another_process_leaves_is_progress() -> None:
    check(Small(("a", 0, 1), ("a", 1, 0), ("b", 1, 9), ("b", 0, 9)))


def test_cycle_in_which_the_other_process_is_not_always_able_is_no_progress() -> None:
    with pytest.raises(CheckFailed, match="a cycle of 2 states"):
        check(Small(("a", 0, 1), ("a", 1, 0), ("b", 1, 9)))


def test_cycle_from_which_one_step_leads_to_a_goal_and_back_is_no_progress() -> None:
    """The goal is in a strongly connected component with the cycle, which a process can make for ever."""
    with pytest.raises(CheckFailed, match="a cycle of 2 states"):
        check(Small(("a", 0, 1), ("a", 1, 0), ("a", 1, 9), ("a", 9, 0)))


def test_cycle_through_a_goal_is_progress() -> None:
    check(Small(("a", 0, 9), ("a", 9, 0)))


def check(model: Small) -> None:
    """Searches the model and checks its liveness."""
    check_liveness(model, search(model))
