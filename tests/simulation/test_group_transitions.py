"""The transitions of groups in the simulation are those of the transition table."""

from __future__ import annotations

from typing import Any

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.group_lifecycle import TRANSITIONS, state_of
from penstock.enumerator.core.results import Decision
from tests.simulation.simulated_server import Server
from tests.simulation.simulated_world import Parts, run_schedule

SCHEDULES = 25


class Recording(Server):
    """Compares each transition of a group with the table."""

    seen = 0

    def decide(self, event: ev.Event[Any]) -> Decision[Any]:
        decision = super().decide(event)
        keys = {record.key for record in decision.records if hasattr(record, "key")}
        self.pending = {key: (state_of(self.state.groups.get(key)), self._number(key)) for key in keys}
        return decision

    def applied(self, event: ev.Event[Any]) -> None:
        for key, (before, number) in self.pending.items():
            after = state_of(self.state.groups.get(key))
            if (before, number) != (after, self._number(key)):
                type(self).seen += 1
                assert after in TRANSITIONS[before].get(type(event), ()), (before, event, after)

    def _number(self, key: Any) -> int:
        group = self.state.groups.get(key)
        return 0 if group is None else group.number


def test_transition_table_has_every_transition_of_the_simulation() -> None:
    Recording.seen = 0
    for seed in range(SCHEDULES):
        run_schedule(seed, Parts(server=Recording))
    assert Recording.seen >= SCHEDULES
