"""Seeded schedules of a group over tables, and cores with one defect each, which they must detect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from penstock.enumerator.core import events as ev
from penstock.enumerator.core import over_tables
from penstock.enumerator.core.records import GroupCreated
from penstock.enumerator.core.results import Decision
from penstock.enumerator.core.state import Group, Reader, State
from tests.simulation.checkers import CheckFailed
from tests.simulation.tables_members import run_tables_schedule

SCHEDULES = 120
MOST_SCHEDULES = 60
"""Within which a defect is detected."""

FAULTS = frozenset(
    {
        "crash before append",
        "crash before reply",
        "delayed",
        "discovery failed",
        "log shortened",
        "member wants no table",
        "message doubled",
        "message lost",
        "reader died",
        "reader left",
        "reader paused",
        "reader twice",
        "reply lost",
        "table appeared or went",
        "table failed",
    }
)


def test_every_row_of_every_table_is_committed_once() -> None:
    faults: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        world = run_tables_schedule(seed)
        assert world.events > 30
        faults += world.faults
    assert set(faults) == FAULTS
    assert min(faults.values()) >= SCHEDULES / 8, f"too seldom: {faults}"


def by_name(state: State, whole: Group, reader: Reader, event: ev.RequestSplits) -> list[Group]:
    """The tables in the order of their names: the first one is always served first."""
    return sorted(in_turn(state, whole, reader, event), key=lambda group: group.key)


def none_of_them(*of: Any) -> Iterator[Any]:
    """Nothing happens in the groups of tables."""
    yield from ()


def at_newest(state: State, event: ev.AddTables, settings: Any) -> Any:
    """A table that appears later starts at its newest instant, as the first ones do."""
    decision = add(state, event, settings)
    records = [replace(record, at_newest=True) for record in decision.records if isinstance(record, GroupCreated)]
    return Decision(tuple(records), decision.answer)


in_turn, add = over_tables._in_turn, over_tables.add

BROKEN: dict[str, tuple[frozenset[str], str, Any]] = {
    "the first name is always first": (frozenset({"starved"}), "_in_turn", by_name),
    "heartbeats do not reach the tables": (frozenset({"lease"}), "leases", none_of_them),
    "a repeated request is answered anew": (frozenset({"liveness", "answer"}), "_answered", none_of_them),
    "a member that joins again keeps its epochs": (
        frozenset({"exactly once", "answer", "left"}),
        "joined",
        lambda state, event, decision: decision,
    ),
    "a reader that left keeps its splits": (frozenset({"left"}), "departures", none_of_them),
    "a late table starts at its newest instant": (frozenset({"position"}), "add", at_newest),
    "tables with an error stop the rest": (
        frozenset({"liveness", "answer"}),
        "_in_turn",
        lambda state, whole, reader, event: [],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_core_is_detected(name: str) -> None:
    noticed_by, attribute, value = BROKEN[name]
    result = None
    with patch.object(over_tables, attribute, value):
        for seed in range(MOST_SCHEDULES):
            try:
                run_tables_schedule(seed)
            except CheckFailed as error:
                result = error
                break
    assert result is not None, f"{name}: not detected in {MOST_SCHEDULES} schedules"
    assert result.check in noticed_by, f"{name} was noticed otherwise: {result}"
