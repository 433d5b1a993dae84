"""Every state of one plan of the plan API is searched: two slots, two attempts of each, speculative copies, faults."""

from __future__ import annotations

import os
import pathlib

import pytest

from tests.state_space.plan_world import FAULTS, PlanWorld
from tests.state_space.search import check_liveness, search

COUNTS = {0: (913, 2_419), 1: (21_105, 71_275), 2: (167_114, 690_523)}
"""By number of faults: states and transitions."""


@pytest.mark.parametrize("faults", [0, 1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_every_state_of_a_plan(faults: int) -> None:
    model = PlanWorld(frozenset(FAULTS), faults)
    graph = search(model)
    check_liveness(model, graph)
    assert (len(graph.states), len(graph.targets)) == COUNTS[faults], str(graph)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_every_state_of_a_plan_with_all_faults() -> None:
    model = PlanWorld(frozenset(FAULTS), len(FAULTS))
    graph = search(model)
    check_liveness(model, graph)
    path = os.environ.get("PENSTOCK_NOTES")
    if path:
        with pathlib.Path(path).open("a") as notes:
            notes.write(f"a plan with all faults: {graph}\n")
