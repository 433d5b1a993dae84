"""Seeded schedules of a group over tables, with watermarks, snapshots and alignment, and cores with one defect each,
which they must detect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core import group_lifecycle, over_tables
from penstock.enumerator.core.records import GroupCreated
from penstock.enumerator.core.results import Decision
from penstock.enumerator.core.state import Group, Reader, State
from penstock.enumerator.groups import aligned_groups
from penstock.enumerator.streams import alignment
from tests.simulation.checkers import CheckFailed
from tests.simulation.tables_alignment import UNLIMITED
from tests.simulation.tables_members import run_tables_schedule

SCHEDULES = 120
FOUND = (301, 466)
"""Schedules that found a defect: a member whose lease had ended left, and stayed a member of a table's group."""
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
        "snapshot started",
        "table appeared or went",
        "table failed",
        "table waited",
    }
)


def test_every_row_of_every_table_is_committed_once() -> None:
    faults: Counter[str] = Counter()
    for seed in (*range(SCHEDULES), *FOUND):
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


def without_snapshot(state: State, event: ev.AddTables, settings: Any) -> Any:
    """A table that appears later does not start with a snapshot, as the first ones do."""
    decision = add(state, event, settings)
    records = [replace(record, at_snapshot=False) for record in decision.records if isinstance(record, GroupCreated)]
    return Decision(tuple(records), decision.answer)


def past_snapshot(state: State, event: Any, now_ms: int) -> Any:
    """The first round of a snapshot moves the group past all of it."""
    snapshot = event.progress.snapshot if isinstance(event, ev.Discovered) else None
    if snapshot is not None:
        event = replace(event, progress=Progress(snapshot.at))
    return discovered(state, event, now_ms)


def high_with_split(group: Group, splits: Any, epoch: int = 0) -> Any:
    """A split has the highest event time of its table, not the watermark."""
    return tuple(replace(one, watermark_us=group.watermark.high_us) for one in granted(group, splits, epoch))


def highest_of(tables: Iterable[Group]) -> int | None:
    """The highest watermark of the tables."""
    marks = (group.watermark.at_us for group in tables)
    return max((at_us for at_us in marks if at_us is not None), default=None)


def without_ceiling(group: Group, reader: Reader, most: int, ceiling: Any = None) -> Any:
    """Splits are assigned whatever other tables are at."""
    return choose(group, reader, most, UNLIMITED)


def slowest_waits(group: Group, reader: Reader, most: int, ceiling: Any = None) -> Any:
    """The slowest table is bound by its ceiling too."""
    return choose(group, reader, most, None if ceiling is None else replace(ceiling, is_lowest=False))


in_turn, add, choose, granted = over_tables._in_turn, over_tables.add, over_tables.choose, over_tables.granted
discovered = group_lifecycle.discovered
TABLES, LIFECYCLE, ALIGNED = over_tables, group_lifecycle, aligned_groups

BROKEN: dict[str, tuple[frozenset[str], object, str, Any]] = {
    "the first name is always first": (frozenset({"starved"}), TABLES, "_in_turn", by_name),
    "heartbeats do not reach the tables": (frozenset({"lease"}), TABLES, "leases", none_of_them),
    "a repeated request is answered anew": (frozenset({"liveness", "answer"}), TABLES, "_answered", none_of_them),
    "a member that joins again keeps its epochs": (
        frozenset({"epochs"}),
        TABLES,
        "joined",
        lambda state, event, decision: decision,
    ),
    "a reader that left keeps its splits": (frozenset({"left"}), TABLES, "departures", none_of_them),
    "a late table starts at its newest instant": (frozenset({"position"}), TABLES, "add", at_newest),
    "a late table starts without its snapshot": (frozenset({"snapshot"}), TABLES, "add", without_snapshot),
    "the rest of a snapshot is skipped": (frozenset({"exactly once"}), LIFECYCLE, "discovered", past_snapshot),
    "tables with an error stop the rest": (
        frozenset({"liveness", "answer", "held"}),
        TABLES,
        "_in_turn",
        lambda state, whole, reader, event: [],
    ),
    "a split has the highest event time as watermark": (frozenset({"watermark"}), TABLES, "granted", high_with_split),
    "the group has its highest watermark": (frozenset({"watermark"}), TABLES, "watermark_of", highest_of),
    "a table does not wait": (frozenset({"aligned"}), TABLES, "choose", without_ceiling),
    "the slowest table waits": (frozenset({"held", "liveness"}), TABLES, "choose", slowest_waits),
    "idle tables hold back the others": (frozenset({"liveness"}), alignment, "is_active", lambda member, now_ms: True),
    "no table holds back the others": (frozenset({"aligned"}), alignment, "is_active", lambda member, now_ms: False),
    "a table that waits counts as idle": (frozenset({"aligned"}), ALIGNED, "withheld", lambda group, ceiling: False),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_core_is_detected(name: str) -> None:
    noticed_by, target, attribute, value = BROKEN[name]
    result = None
    with patch.object(target, attribute, value):
        for seed in range(MOST_SCHEDULES):
            try:
                run_tables_schedule(seed)
            except CheckFailed as error:
                result = error
                break
    assert result is not None, f"{name}: not detected in {MOST_SCHEDULES} schedules"
    assert result.check in noticed_by, f"{name} was noticed otherwise: {result}"
