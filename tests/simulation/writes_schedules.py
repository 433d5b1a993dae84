"""Random schedules of writes: racing writers, crashes, lost and repeated messages, leases that end.

After the faults every process makes its steps in a calm period, and everything must be settled.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.checkers import fail
from tests.simulation.writes_values import World, Writer
from tests.simulation.writes_world import FAULTS, WriteWorld
from tests.state_space.search import FAULT

WRITERS: Final = (
    Writer("a", 1, "f"),
    Writer("a", 2, "fg"),
    Writer("a", 3, "h"),
    Writer("b", 1, "g"),
    Writer("b", 2, "gh"),
    Writer("c", 1, "fh"),
)
"""Three owners, up to three epochs of each, and three file groups."""
STEPS: Final = 90
CALM_STEPS: Final = 600
FAULT_CHANCE: Final = 0.12


@dataclass
class Outcomes:
    """What happened in schedules."""

    faults: Counter[str] = field(default_factory=Counter)
    """Faults by kind."""
    completed: Counter[int] = field(default_factory=Counter)
    """Schedules by how many of their writes were completed."""


class Schedules(WriteWorld):
    """Schedules over one model, which remembers what the core has decided."""

    def __init__(self, writers: tuple[Writer, ...] = WRITERS) -> None:
        super().__init__(writers, frozenset(FAULTS), len(FAULTS))
        self._is_calm = False

    def may_happen(self, world: World, kind: str) -> bool:
        """Whether a fault of this kind may happen now: any, any number of times."""
        return not self._is_calm

    def run(self, seed: int, outcomes: Outcomes) -> None:
        """One schedule. CheckFailed."""
        rng, world = random.Random(seed), self.initial()
        for number in range(STEPS + CALM_STEPS):
            self._is_calm = number >= STEPS
            if self.is_goal(world):
                break
            by_fault: dict[bool, list[tuple[str, World]]] = {True: [], False: []}
            for process, text, state in self._steps(world):
                if state != world:
                    by_fault[process == FAULT].append((text, state))
            is_fault = bool(by_fault[True]) and rng.random() < FAULT_CHANCE
            if not by_fault[is_fault]:
                fail("liveness", f"schedule {seed}: nothing can happen any more in {world}")
            text, state = rng.choice(by_fault[is_fault])
            if is_fault:
                outcomes.faults[_kind_of(text)] += 1
            world = state._replace(faults=frozenset())
            self.check(world)
        if not self.is_goal(world):
            fail("liveness", f"schedule {seed}: not settled: {world}")
        outcomes.completed[sum(client.stage == "done" for client in world.clients)] += 1


def _kind_of(text: str) -> str:
    return "answer lost" if text.endswith("is lost") else next(kind for kind in FAULTS if text.startswith(kind))
