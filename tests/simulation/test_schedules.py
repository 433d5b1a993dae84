"""Seeded schedules over the core: `make test` runs 500, `make test-all` 1,500, `make long` 10^5 from PENSTOCK_SEED.

A failure contains its seed and its trace; `python -m tests.simulation.replay_seed SEED` repeats it.
"""

from __future__ import annotations

import os
import statistics

import pytest

from tests.long_record import add_to_record
from tests.simulation.schedules import Summary, run_many
from tests.simulation.simulated_world import run_schedule

SCHEDULES = 1_500
SAMPLE = 500
LONG_SCHEDULES = int(os.environ.get("PENSTOCK_SCHEDULES", "100000"))
LONG_FIRST = int(os.environ.get("PENSTOCK_SEED", "1")) << 24
LEAST_OF_A_KIND = 0.1
"""Events of each kind for a schedule, on average."""

FAULTS = frozenset(
    {
        "archived",
        "cleaned",
        "clock jumped",
        "completed out of order",
        "consumed instant rolled back",
        "crash after reply",
        "crash before append",
        "crash before reply",
        "discovery concurrent",
        "discovery delayed",
        "discovery doubled",
        "discovery failed",
        "disk slow",
        "fenced server",
        "late instant",
        "message delayed",
        "message doubled",
        "message lost",
        "operator reset",
        "pending instant rolled back",
        "planned round cleaned",
        "range out of sight",
        "reader died",
        "reader id twice",
        "reader left",
        "reader slow",
        "reader stood still",
        "reply delayed",
        "reply doubled",
        "reply lost",
        "server killed",
        "server stood still",
        "speculative attempt",
        "takeover",
        "task died",
    }
)
"""Every kind of event of a schedule; each must happen often."""

FEATURES = frozenset(
    {
        "back-pressure",
        "call to a server that lost its store",
        "log shortened",
        "range checked",
        "reset",
        "round ends inside an instant",
        "rows after a watermark",
    }
)


def check(summary: Summary, schedules: int) -> None:
    """No schedule failed, and each kind of event happened often enough."""
    assert not summary.failures, f"{len(summary.failures)} failed\n" + "\n\n".join(summary.failures[:3])
    assert len(summary.events) == schedules
    assert statistics.median(summary.events) >= 30
    assert statistics.median(summary.faults) >= 3
    assert set(summary.kinds) == FAULTS
    rare = {kind: count for kind, count in summary.kinds.items() if count < LEAST_OF_A_KIND * schedules}
    assert not rare, f"faults that came about too seldom: {rare}"
    in_part = summary.features["range checked in part"]
    assert 0 < in_part * 10 < summary.features["range checked"], "most ranges are checked for all of their keys"
    assert all(summary.features[feature] >= LEAST_OF_A_KIND * schedules for feature in FEATURES)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("first", "schedules"), [(0, SAMPLE), pytest.param(SAMPLE, SCHEDULES - SAMPLE, marks=pytest.mark.exhaustive)]
)
def test_schedules_of_thousands_of_seeds(first: int, schedules: int) -> None:
    check(run_many(first, schedules), schedules)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_schedules_of_a_hundred_thousand_seeds() -> None:
    summary = run_many(LONG_FIRST, LONG_SCHEDULES)
    add_to_record(f"simulation from seed {LONG_FIRST}: {summary}")
    check(summary, LONG_SCHEDULES)


def test_schedule_of_a_seed_is_deterministic() -> None:
    one, other = run_schedule(7), run_schedule(7)
    assert (one.events, one.faults, one.features) == (other.events, other.faults, other.features)
