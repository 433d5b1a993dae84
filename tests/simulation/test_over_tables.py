"""Seeded schedules of a group over tables, with watermarks, snapshots and alignment, and cores with one defect each,
which they must detect."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest

from tests.invariants import invariants_of
from tests.simulation import tables_alignment, tables_ledger, tables_members, tables_snapshot, tables_world
from tests.simulation.broken_tables import BROKEN, Broken
from tests.simulation.checkers import CheckFailed
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


@pytest.mark.exhaustive
def test_every_row_of_every_table_is_committed_once() -> None:
    faults: Counter[str] = Counter()
    for seed in (*range(SCHEDULES), *FOUND):
        world = run_tables_schedule(seed)
        assert world.events > 30
        faults += world.faults
    assert set(faults) == FAULTS
    assert min(faults.values()) >= SCHEDULES / 8, f"too seldom: {faults}"


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_each_broken_core_is_detected_by_its_invariant(broken: Broken) -> None:
    others: Counter[str] = Counter()
    with patch.object(broken.target, broken.attribute, broken.value):
        for seed in range(MOST_SCHEDULES):
            try:
                run_tables_schedule(seed)
            except CheckFailed as error:
                if error.check == broken.invariant:
                    return
                others[error.check] += 1
    pytest.fail(f"{broken.name}: not detected by {broken.invariant!r} in {MOST_SCHEDULES} schedules, but by {others}")


def test_each_invariant_has_a_broken_core() -> None:
    modules = (tables_alignment, tables_ledger, tables_members, tables_snapshot, tables_world)
    assert invariants_of(modules) == {broken.invariant for broken in BROKEN}
