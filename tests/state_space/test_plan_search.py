"""Every state of one plan of the plan API is searched: two slots, two attempts of each, speculative copies, faults."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.long_record import add_to_record
from tests.state_space.counts import PLANS
from tests.state_space.plan_world import FAULTS, PlanWorld
from tests.state_space.search import check_liveness, search


@pytest.mark.parametrize("faults", [0, 1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_every_state_of_a_plan(faults: int, record_property: Callable[[str, object], None]) -> None:
    model = PlanWorld(frozenset(FAULTS), faults)
    graph = search(model)
    check_liveness(model, graph)
    record_property("searched", f"a plan, {faults} faults at most: {graph}")
    assert (len(graph.states), len(graph.targets)) == PLANS[faults], str(graph)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_every_state_of_a_plan_with_all_faults() -> None:
    model = PlanWorld(frozenset(FAULTS), len(FAULTS))
    graph = search(model)
    check_liveness(model, graph)
    add_to_record(f"a plan with all faults: {graph}")
