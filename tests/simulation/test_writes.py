"""Random schedules of writes that a server coordinates; a schedule is repeated with its seed."""

from __future__ import annotations

import pytest

from tests.long_record import add_to_record
from tests.simulation.broken_writes import BROKEN, Broken
from tests.simulation.checkers import CheckFailed
from tests.simulation.writes_schedules import Outcomes, Schedules
from tests.simulation.writes_world import FAULTS

SEEDS = 60
DETECTED_WITHIN = 60
IN_SCHEDULES = ("completed without a look at the timeline", "leases unchecked", "failed write commits")
"""Defects that random schedules must find too; the search of all states has every defect."""


def test_schedules_keep_every_invariant() -> None:
    schedules, outcomes = Schedules(), Outcomes()
    for seed in range(SEEDS):
        schedules.run(seed, outcomes)
    assert set(outcomes.faults) == set(FAULTS), "each kind of fault happens"
    assert sum(number * schedules for number, schedules in outcomes.completed.items()) > SEEDS // 2


@pytest.mark.parametrize(
    "broken", [each for each in BROKEN if each.name in IN_SCHEDULES], ids=lambda broken: broken.name
)
def test_schedules_detect_defects(broken: Broken) -> None:
    with broken.in_place(Schedules) as world, pytest.raises(CheckFailed) as caught:
        schedules = world()  # type: ignore[call-arg]
        assert isinstance(schedules, Schedules)
        for seed in range(DETECTED_WITHIN):
            schedules.run(seed, Outcomes())
    assert caught.value.check == broken.invariant, str(caught.value)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_many_schedules_keep_every_invariant() -> None:
    outcomes = Outcomes()
    for first in range(0, 20_000, 500):
        schedules = Schedules()  # another model now and then, so that memory stays bounded
        for seed in range(first, first + 500):
            schedules.run(seed, outcomes)
    add_to_record(f"20,000 schedules of writes: {outcomes}")
