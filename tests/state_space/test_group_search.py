"""Every state of a small scope of one group is searched: no invariant is broken, and nothing can get stuck."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.long_record import add_to_record
from tests.state_space import scopes
from tests.state_space.counts import GROUPS
from tests.state_space.group_table import Scope
from tests.state_space.group_world import GroupWorld
from tests.state_space.search import Graph, check_liveness, search


def searched(scope: Scope) -> Graph[object]:
    """The whole graph of a scope, checked."""
    model = GroupWorld(scope)
    graph = search(model)
    check_liveness(model, graph)
    return graph


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scope", scopes.IN_CI, ids=lambda scope: scope.name)
def test_every_state_of_a_small_scope(scope: Scope, record_property: Callable[[str, object], None]) -> None:
    graph = searched(scope)
    record_property("searched", f"{scope.name}, {scope.most_faults} faults at most: {graph}")
    assert (scope.most_faults, len(graph.states), len(graph.targets)) == GROUPS[scope.name], str(graph)


@pytest.mark.timeout(600)
def test_every_state_without_faults(record_property: Callable[[str, object], None]) -> None:
    graph = searched(scopes.WITHOUT_FAULTS)
    record_property("searched", f"{scopes.WITHOUT_FAULTS.name}: {graph}")
    assert (len(graph.states), len(graph.targets)) == (842, 2_149)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("scope", scopes.LONG, ids=lambda scope: f"{scope.name}, {scope.most_faults} faults")
def test_every_state_with_more_faults(scope: Scope) -> None:
    graph = searched(scope)
    add_to_record(f"{scope.name}, at most {scope.most_faults} faults: {graph}")
