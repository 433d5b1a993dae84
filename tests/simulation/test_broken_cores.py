"""The same simulation detects each broken core within a stated number of schedules."""

from __future__ import annotations

import pytest

from tests.simulation.broken_cores import BROKEN, TAKEOVERS, Broken
from tests.simulation.checkers import CheckFailed
from tests.simulation.simulated_world import run_schedule

MOST_SCHEDULES = 300


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_each_broken_core_is_detected(broken: Broken) -> None:
    result = None
    with broken.in_place() as parts:
        for seed in range(MOST_SCHEDULES):
            try:
                run_schedule(seed, parts, broken.takeovers)
            except CheckFailed as error:
                result = error
                break
    assert result is not None, f"{broken.name}: not detected in {MOST_SCHEDULES} schedules"
    assert result.check in broken.noticed_by, f"{broken.name} was noticed otherwise: {result}"


def test_core_itself_passes_the_same_seeds() -> None:
    for seed in range(30):
        run_schedule(seed)
    for seed in range(10):
        run_schedule(seed, takeovers=TAKEOVERS)
