"""What an event means: `step`. Pure: the state is read, never changed; an error means that nothing happened.

The caller appends the durable records, lets `state.evolve` take all of them in, and only then gives the answer.
"""

from __future__ import annotations

from penstock.enumerator.core import events as ev
from penstock.enumerator.core import group_lifecycle, members, plans, split_assignment
from penstock.enumerator.core.records import Moved
from penstock.enumerator.core.results import Settings, Step
from penstock.enumerator.core.state import State


def step(state: State, event: ev.Event, now_ms: int, settings: Settings) -> Step:
    """The decision. Errors: Fenced, UnknownGroup, UnknownPlan, UnknownSplit, ConfigurationError, Overloaded, and of a
    stopped group the error that stopped it."""
    match event:
        case ev.CreateGroup():
            return group_lifecycle.create(state, event, settings)
        case ev.Join():
            return members.join(state, event, now_ms, settings)
        case ev.Heartbeat(member):
            group, _ = members.member_of(state, member)
            return Step((members.renewed(group, member, now_ms, settings),))
        case ev.RequestSplits():
            return split_assignment.request(state, event, now_ms, settings)
        case ev.CommitSplits():
            return split_assignment.commit(state, event, now_ms, settings)
        case ev.Leave(member):
            return members.leave(state, member)
        case ev.Reset(key, progress):
            group = members.group_of(state, key)
            return Step((group_lifecycle.moved(group, state.last_number + 1, progress, Moved.RESET),))
        case ev.Delete(key):
            return group_lifecycle.delete(members.group_of(state, key))
        case ev.Discovered() | ev.NothingFound() | ev.CannotGoOn() | ev.RangeLost():
            return group_lifecycle.found(state, event)
        case ev.OpenPlan():
            return plans.open_plan(state, event, now_ms, settings)
        case ev.UsePlan(plan_id):
            return plans.use(state, plan_id, now_ms, settings)
        case ev.NextEntry():
            return plans.next_entry(state, event, now_ms, settings)
        case ev.FinishEntry():
            return plans.finish_entry(state, event, now_ms, settings)
        case ev.Tick(before_ms):
            expired = plans.expired(state, now_ms, settings)
            idle = members.without_readers(state, before_ms, now_ms, settings)
            return Step((*members.overdue(state, before_ms, now_ms, settings), *idle, *expired))
        case ev.Restarted():
            return Step(
                (*members.overdue(state, now_ms - settings.lease_ms, now_ms, settings), *plans.used(state, now_ms))
            )
