"""Each broken core is found by the same simulation, within a stated number of schedules."""

from __future__ import annotations

import pytest

from tests.simulation.broken_cores import BROKEN, Broken
from tests.simulation.checkers import CheckFailed
from tests.simulation.simulated_world import run_schedule

MOST_SCHEDULES = 300


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_a_broken_core_is_found(broken: Broken) -> None:
    found = None
    with broken.in_place() as parts:
        for seed in range(MOST_SCHEDULES):
            try:
                run_schedule(seed, parts)
            except CheckFailed as error:
                found = error
                break
    assert found is not None, f"{broken.name}: not found in {MOST_SCHEDULES} schedules"
    assert found.check in broken.noticed_by, f"{broken.name} was noticed otherwise: {found}"


def test_the_same_seeds_find_nothing_in_the_core_itself() -> None:
    for seed in range(30):
        run_schedule(seed)
