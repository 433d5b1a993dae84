"""`decide`: from state and event to a decision. Pure: reads the state, never changes it; an error changes nothing.

The caller appends the durable records, applies all records (`state.apply`), and then returns the answer.
"""

from __future__ import annotations

from typing import TypeVar, cast

from penstock.enumerator.core import events as ev
from penstock.enumerator.core import group_lifecycle, members, over_tables, plans, split_assignment, tables
from penstock.enumerator.core.records import Moved
from penstock.enumerator.core.results import CoordinatorSettings, Decision, changes
from penstock.enumerator.core.state import State
from penstock.enumerator.core.writes.decide import decide_write, overdue_writes

A = TypeVar("A")


def decide(state: State, event: ev.Event[A], now_ms: int, settings: CoordinatorSettings) -> Decision[A]:
    """The decision about an event. Errors: Fenced, UnknownGroup, UnknownPlan, UnknownSplit, ConfigurationError,
    Overloaded; for a stopped group the error that stopped it."""
    decision = _decide(state, cast("ev.AnyEvent", event), now_ms, settings)
    return cast("Decision[A]", decision)  # Python's type checkers do not infer A from the class of the event


def _decide(state: State, event: ev.AnyEvent, now_ms: int, settings: CoordinatorSettings) -> Decision[object]:
    match event:
        case ev.CreateGroup():
            created = group_lifecycle.create(state, event, settings)
            return over_tables.create(state, event, created, settings) if event.scope.over_tables else created
        case ev.AddTables():
            return over_tables.add(state, event, settings)
        case ev.Join():
            joined = members.join(state, event, now_ms, settings)
            return over_tables.joined(state, event, joined) if event.scope.over_tables else joined
        case ev.Heartbeat(member):
            group, reader = members.member_of(state, member)
            lease = members.renewed(group, member, now_ms, settings)
            return changes(lease, *over_tables.leases(state, group, reader, lease.until_ms))
        case ev.RequestSplits(member):
            group, _ = members.member_of(state, member)
            if group.scope.over_tables:
                return over_tables.request(state, event, now_ms, settings)
            return split_assignment.request(state, event, now_ms, settings)
        case ev.CommitSplits():
            return split_assignment.commit(state, event, now_ms, settings)
        case ev.Leave(member):
            left = members.leave(state, member)
            return changes(*over_tables.departures(state, member), *left.records)
        case ev.Reset(key, progress, at_snapshot):
            group, number = members.group_of(state, key), state.last_number + 1
            return changes(group_lifecycle.moved(group, number, progress, Moved.RESET, at_snapshot=at_snapshot))
        case ev.Delete(key):
            group = members.group_of(state, key)
            return over_tables.delete(state, group) if group.scope.over_tables else group_lifecycle.delete(group)
        case ev.Started():
            return group_lifecycle.started(state, event)
        case ev.Discovered() | ev.NothingFound() | ev.CannotGoOn() | ev.RangeLost():
            return group_lifecycle.discovered(state, event, now_ms)
        case ev.OpenPlan():
            return plans.open_plan(state, event, now_ms, settings)
        case ev.UsePlan(plan_id):
            return plans.use(state, plan_id, now_ms, settings)
        case ev.NextEntry():
            return plans.next_entry(state, event, now_ms, settings)
        case ev.FinishEntry():
            return plans.finish_entry(state, event, now_ms, settings)
        case ev.AddTable():
            added = tables.TableAdded(
                table=event.table,
                path=event.path,
                poll_interval_ms=event.poll_interval_ms,
                principal=event.principal,
            )
            return changes(*tables.add(state.tables, added))
        case ev.DropTable(table):
            return changes(*tables.drop(state.tables, table))
        case ev.Tick(before_ms):
            expired = plans.expired(state, now_ms, settings)
            idle = members.without_readers(state, before_ms, now_ms, settings)
            overdue = overdue_writes(state.writes, before_ms, now_ms, settings.writes)
            return changes(*members.overdue(state, before_ms, now_ms, settings), *idle, *expired, *overdue)
        case ev.Restarted():
            leases = members.overdue(state, now_ms - settings.lease_ms, now_ms, settings)
            open_writes = overdue_writes(state.writes, now_ms, now_ms, settings.writes)
            return changes(*leases, *plans.used(state, now_ms), *open_writes)
        case _:
            decision = decide_write(state.writes, event, now_ms, settings.writes)
            return Decision(decision.records, decision.answer)
