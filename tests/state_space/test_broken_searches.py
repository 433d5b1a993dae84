"""The search detects each broken core, server and world by the invariant that it breaks; every invariant has one."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.invariants import invariants_of
from tests.simulation import checkers, simulated_readers, simulated_server, simulated_slots, simulated_world
from tests.simulation.checkers import CheckFailed
from tests.state_space import group_ledger, group_server, group_world, plan_world, search
from tests.state_space.broken_searches import GROUP, PLAN, Broken
from tests.state_space.search import check_liveness


@pytest.mark.parametrize("broken", [*GROUP, *PLAN], ids=lambda broken: broken.name)
def test_each_defect_is_detected_by_its_invariant(broken: Broken) -> None:
    with pytest.raises(CheckFailed) as caught, broken.in_place() as model:
        check_liveness(model, search.search(model))
    assert caught.value.check == broken.invariant, str(caught.value)


@pytest.mark.parametrize(
    ("modules", "controls"),
    [((group_ledger, group_server, group_world, search), GROUP), ((plan_world, search), PLAN)],
    ids=["group", "plan"],
)
def test_each_invariant_has_a_defect_that_breaks_it(
    modules: tuple[ModuleType, ...], controls: tuple[Broken, ...]
) -> None:
    assert invariants_of(modules) == {broken.invariant for broken in controls}


def test_search_has_the_invariants_of_the_simulation() -> None:
    simulated = (checkers, simulated_readers, simulated_server, simulated_slots, simulated_world)
    assert invariants_of(simulated) <= {broken.invariant for broken in (*GROUP, *PLAN)}
