"""The same simulation detects each broken core within a stated number of schedules."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.invariants import invariants_of
from tests.simulation import checkers, simulated_readers, simulated_server, simulated_slots, simulated_world
from tests.simulation.broken_cores import BROKEN, TAKEOVERS, Broken
from tests.simulation.checkers import CheckFailed
from tests.simulation.simulated_world import run_schedule

MOST_SCHEDULES = 300


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_each_broken_core_is_detected_by_its_invariant(broken: Broken) -> None:
    others: Counter[str] = Counter()
    with broken.in_place() as parts:
        for seed in range(MOST_SCHEDULES):
            try:
                run_schedule(seed, parts, broken.takeovers)
            except CheckFailed as error:
                if error.check == broken.invariant:
                    return
                others[error.check] += 1
    pytest.fail(f"{broken.name}: not detected by {broken.invariant!r} in {MOST_SCHEDULES} schedules, but by {others}")


def test_each_invariant_has_a_broken_core() -> None:
    modules = (checkers, simulated_readers, simulated_server, simulated_slots, simulated_world)
    assert invariants_of(modules) == {broken.invariant for broken in BROKEN}


def test_core_itself_passes_the_same_seeds() -> None:
    for seed in range(30):
        run_schedule(seed)
    for seed in range(10):
        run_schedule(seed, takeovers=TAKEOVERS)
