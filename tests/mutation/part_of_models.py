"""Parts of the simulation and of the state space, which judge a mutant after its unit tests, in order of their length.

Not collected by other runs: `package_copy` names this file.
"""

from __future__ import annotations

import pytest

from tests.simulation.schedules import run_piece
from tests.simulation.tables_members import run_tables_schedule
from tests.state_space import scopes
from tests.state_space.test_group_search import searched


def test_search_without_faults() -> None:
    graph = searched(scopes.WITHOUT_FAULTS)
    assert (len(graph.states), len(graph.targets)) == (842, 2_149)


@pytest.mark.parametrize(("first", "count"), [(0, 40), (40, 160)])
def test_schedules(first: int, count: int) -> None:
    assert not run_piece(first, count).failures


def test_schedules_over_tables() -> None:
    for seed in range(6):
        run_tables_schedule(seed)
