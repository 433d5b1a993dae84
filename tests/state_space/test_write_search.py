"""Every state of two writes that a server coordinates is searched: leases, epochs, commits, and faults."""

from __future__ import annotations

import pytest

from tests.invariants import invariants_of
from tests.long_record import add_to_record
from tests.simulation import writes_states, writes_timeline, writes_world
from tests.simulation.broken_writes import BROKEN, EPOCHS, RIVALS, Broken
from tests.simulation.checkers import CheckFailed
from tests.simulation.writes_values import Writer
from tests.simulation.writes_world import FAULTS, WriteWorld
from tests.state_space import search as searches
from tests.state_space.counts import WRITES
from tests.state_space.search import check_liveness, search

SCOPES = dict(zip(WRITES, (RIVALS, EPOCHS), strict=True))


@pytest.mark.parametrize("scope", SCOPES)
def test_every_state_of_two_writes(scope: str) -> None:
    faults, states, transitions = WRITES[scope]
    model = WriteWorld(SCOPES[scope], frozenset(FAULTS), faults)
    graph = search(model)
    check_liveness(model, graph)
    assert (len(graph.states), len(graph.targets)) == (states, transitions), str(graph)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("writers", [RIVALS, EPOCHS], ids=SCOPES)
def test_every_state_of_two_writes_with_two_faults(writers: tuple[Writer, ...]) -> None:
    model = WriteWorld(writers, frozenset(FAULTS), 2)
    graph = search(model)
    check_liveness(model, graph)
    add_to_record(f"two writes with two faults: {graph}")


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_each_defect_is_detected_by_its_invariant(broken: Broken) -> None:
    with broken.in_place() as world, pytest.raises(CheckFailed) as caught:
        model = world(broken.writers, frozenset(FAULTS), 1)
        check_liveness(model, search(model))
    assert caught.value.check == broken.invariant, str(caught.value)


def test_each_invariant_has_a_defect_that_breaks_it() -> None:
    checked = invariants_of((writes_world, writes_states, writes_timeline, searches))
    assert checked == {broken.invariant for broken in BROKEN}
