"""States that have one canonical form make the same steps: no state is left out because another stands for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.state_space import scopes
from tests.state_space.canonical_worlds import CanonicalForm, World
from tests.state_space.group_table import Scope
from tests.state_space.group_world import GroupWorld
from tests.state_space.search import search


class Described(CanonicalForm):
    """The canonical form, and others of the same states."""

    def stretched(self, world: World) -> World:
        """The state with higher numbers, gaps between them, and other ids."""
        numbers, requests, joins = self.used_by(world)
        return self.under(
            world,
            {each: 3 * each + (each > 0) for each in numbers},
            [{number: 5 * number for number in each} for each in requests],
            [{name: f"other {name}" for name in each} for each in joins],
        )


RESTART = replace(scopes.WITHOUT_FAULTS, name="restart", faults=frozenset({"restart"}), most_faults=1)
DOUBLED = replace(scopes.TWO_SPLITS, name="doubled", faults=frozenset({"request doubled"}), most_faults=1)


@pytest.mark.parametrize(
    "scope",
    [scopes.WITHOUT_FAULTS, RESTART, DOUBLED],
    ids=lambda scope: scope.name,
)
def test_states_of_one_form_make_the_same_steps(scope: Scope) -> None:
    model = GroupWorld(scope)
    form = Described(model.server)
    states = search(model).states
    assert len(states) > 500
    for state in states:
        expected = {form.of(step.state) for step in model.raw_steps(state)}
        for other in (form.stretched(state), form.exchanged(state), form.stretched(form.exchanged(state))):
            assert form.of(other) == form.of(state)
            assert {form.of(step.state) for step in model.raw_steps(other)} == expected


def test_states_that_behave_differently_have_different_forms() -> None:
    """The negative control: a form that forgets the second copy of a request."""
    model = GroupWorld(DOUBLED)
    form = Described(model.server)
    steps: dict[World, set[World]] = {}
    differing = 0
    for state in search(model).states:
        after = {form.of(step.state)._replace(copy=None) for step in model.raw_steps(state)}
        differing += steps.setdefault(state._replace(copy=None), after) != after
    assert differing
