"""Breadth-first search of all states that a model can reach, and what must hold of the whole graph.

A model gives the successors of a state. A state is hashable, and equal states behave equally. The search ends when no
state is left; it has no limit of depth.
"""

from __future__ import annotations

import gc
import itertools
from array import array
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from tests.simulation.checkers import CheckFailed, fail

S = TypeVar("S", bound=Hashable)


class Step(NamedTuple, Generic[S]):
    """A step of one process."""

    process: str
    """The process that makes the step. FAULT: the step is a fault."""
    text: str
    """What happens, for traces."""
    state: S
    """The state after the step."""


FAULT = "fault"


class Model(Protocol[S]):
    """The states and steps to be searched."""

    def initial(self) -> S:
        """The first state."""
        ...

    def steps(self, state: S) -> Iterable[Step[S]]:
        """All steps from the state. CheckFailed if a step breaks an invariant."""
        ...

    def is_goal(self, state: S) -> bool:
        """Whether everything is finished in the state. CheckFailed if something is missing or too much."""
        ...


@dataclass(slots=True)
class Graph(Generic[S]):
    """All states that can be reached, and the steps between them."""

    states: list[S] = field(default_factory=list)
    parents: array[int] = field(default_factory=lambda: array("l"))
    """By state: the state from which it was reached first; -1 for the first state."""
    goals: bytearray = field(default_factory=bytearray)
    """By state: 1 if it is a goal."""
    first_step: array[int] = field(default_factory=lambda: array("l"))
    """By state: the place of its first step in `targets`."""
    targets: array[int] = field(default_factory=lambda: array("l"))
    """By step: the state after it."""
    processes: bytearray = field(default_factory=bytearray)
    """By step: the number of its process in `names`."""
    names: list[str] = field(default_factory=lambda: [FAULT])
    """Names of the processes."""

    def steps_of(self, state: int) -> Iterator[tuple[int, int]]:
        """(process, target) of each step from the state."""
        for place in range(self.first_step[state], self.first_step[state + 1]):
            yield self.processes[place], self.targets[place]

    def __str__(self) -> str:
        return f"{len(self.states)} states, {len(self.targets)} transitions"


@contextmanager
def _without_cycles() -> Iterator[None]:
    """The states have no reference cycles, and a collector would look at millions of them again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def search(model: Model[S]) -> Graph[S]:
    """All reachable states. CheckFailed, with the shortest trace to the violation, if an invariant is broken."""
    with _without_cycles():
        return _searched(model)


def _searched(model: Model[S]) -> Graph[S]:
    graph: Graph[S] = Graph()
    numbers: dict[S, int] = {}
    processes: dict[str, int] = {FAULT: 0}

    def number_of(state: S, parent: int) -> int:
        number = numbers.get(state)
        if number is None:
            number = numbers[state] = len(graph.states)
            graph.states.append(state)
            graph.parents.append(parent)
        return number

    number_of(model.initial(), -1)
    at = 0
    while at < len(graph.states):
        graph.first_step.append(len(graph.targets))
        try:
            graph.goals.append(model.is_goal(graph.states[at]))
            for process, _, target in model.steps(graph.states[at]):
                if process not in processes:
                    processes[process] = len(processes)
                    graph.names.append(process)
                graph.targets.append(number_of(target, at))
                graph.processes.append(processes[process])
        except CheckFailed as error:
            raise CheckFailed(error.check, f"{error.args[0]}\n{trace(model, graph, at)}") from error
        at += 1
    graph.first_step.append(len(graph.targets))
    return graph


def trace(model: Model[S], graph: Graph[S], state: int) -> str:
    """The steps from the first state to this one, a line each."""
    way = [state]
    while graph.parents[way[-1]] >= 0:
        way.append(graph.parents[way[-1]])
    way.reverse()
    lines = []
    for before, after in itertools.pairwise(way):
        step = next(step for step in model.steps(graph.states[before]) if step.state == graph.states[after])
        lines.append(f"  {step.process}: {step.text}")
    return "\n".join(lines)


def check_liveness(model: Model[S], graph: Graph[S]) -> None:
    """From every state, if no further fault happens and every process that can make a step makes one at some time, a
    goal is reached. CheckFailed('liveness')."""
    _check_goal_is_reachable(model, graph)
    for component in _components(graph):
        inside = set(component)
        if _is_fair_cycle(graph, component, inside):
            fail(
                "liveness", f"a cycle of {len(component)} states without progress\n{trace(model, graph, component[0])}"
            )


def _check_goal_is_reachable(model: Model[S], graph: Graph[S]) -> None:
    before: list[list[int]] = [[] for _ in graph.states]
    for state in range(len(graph.states)):
        for process, target in graph.steps_of(state):
            if process:
                before[target].append(state)
    reaches = bytearray(graph.goals)
    waiting = [state for state in range(len(graph.states)) if reaches[state]]
    while waiting:
        for state in before[waiting.pop()]:
            if not reaches[state]:
                reaches[state] = 1
                waiting.append(state)
    stuck = reaches.find(0)
    if stuck >= 0:
        fail("liveness", f"no goal can be reached from here without faults\n{trace(model, graph, stuck)}")


def _is_fair_cycle(graph: Graph[S], component: list[int], inside: set[int]) -> bool:
    """Whether every process can be fair in the component for ever: each makes a step inside of it, or can make none in
    some state of it."""
    steps_inside: set[int] = set()
    always_able: set[int] | None = None
    for state in component:
        able: set[int] = set()
        for process, target in graph.steps_of(state):
            if process:
                able.add(process)
                if target in inside:
                    steps_inside.add(process)
        always_able = able if always_able is None else always_able & able
    return bool(steps_inside) and (always_able or set()) <= steps_inside


def _components(graph: Graph[S]) -> Iterator[list[int]]:
    """The strongly connected components of the graph without faults and without goals (Tarjan's algorithm): a cycle
    that can be left only through a goal is not excused by the goal."""
    count = len(graph.states)
    index, low = array("l", [-1]) * count, array("l", [0]) * count
    on_stack = bytearray(count)
    stack: list[int] = []
    number = 0
    for root in range(count):
        if index[root] >= 0 or graph.goals[root]:
            continue
        work = [(root, graph.first_step[root])]
        index[root] = low[root] = number
        number += 1
        stack.append(root)
        on_stack[root] = 1
        while work:
            state, place = work[-1]
            if place < graph.first_step[state + 1]:
                work[-1] = (state, place + 1)
                target = graph.targets[place]
                if not graph.processes[place] or graph.goals[target]:
                    continue
                if index[target] < 0:
                    index[target] = low[target] = number
                    number += 1
                    stack.append(target)
                    on_stack[target] = 1
                    work.append((target, graph.first_step[target]))
                elif on_stack[target]:
                    low[state] = min(low[state], index[target])
                continue
            work.pop()
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[state])
            if low[state] == index[state]:
                component = []
                while True:
                    member = stack.pop()
                    on_stack[member] = 0
                    component.append(member)
                    if member == state:
                        break
                yield component
