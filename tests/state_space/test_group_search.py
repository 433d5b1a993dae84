"""Every state of a small scope of one group is searched: no invariant is broken, and nothing can get stuck."""

from __future__ import annotations

import os
import pathlib
import re

import pytest

from tests.state_space import scopes
from tests.state_space.group_table import Scope
from tests.state_space.group_world import GroupWorld
from tests.state_space.search import Graph, check_liveness, search

COUNTS = {
    "two splits of a row": (542_918, 1_759_919),
    "three splits": (45_565, 133_016),
    "three splits, one at a time": (62_155, 177_392),
    "three splits, the second commit replaces": (41_487, 123_314),
    "three splits with a watermark": (93_089, 282_432),
    "three splits with an end": (39_004, 116_129),
}
"""States and transitions of each scope: every clone counts the same. They change with the core and with the model."""


def searched(scope: Scope) -> Graph[object]:
    """The whole graph of a scope, checked."""
    model = GroupWorld(scope)
    graph = search(model)
    check_liveness(model, graph)
    return graph


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scope", scopes.IN_CI, ids=lambda scope: scope.name)
def test_every_state_of_a_small_scope(scope: Scope) -> None:
    graph = searched(scope)
    assert (len(graph.states), len(graph.targets)) == COUNTS[scope.name], str(graph)


def test_guide_has_the_counts() -> None:
    text = (pathlib.Path(__file__).parents[2] / "docs/development/testing.md").read_text()
    for name, (states, transitions) in COUNTS.items():
        assert re.search(rf"\| {name} \| [12] \| {states:,} \| {transitions:,} \|", text), name


@pytest.mark.timeout(600)
def test_every_state_without_faults() -> None:
    graph = searched(scopes.WITHOUT_FAULTS)
    assert (len(graph.states), len(graph.targets)) == (898, 2_239)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("scope", scopes.LONG, ids=lambda scope: f"{scope.name}, {scope.most_faults} faults")
def test_every_state_with_more_faults(scope: Scope) -> None:
    graph = searched(scope)
    path = os.environ.get("PENSTOCK_NOTES")
    if path:
        with pathlib.Path(path).open("a") as notes:
            notes.write(f"{scope.name}, at most {scope.most_faults} faults: {graph}\n")
