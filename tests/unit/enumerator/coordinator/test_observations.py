"""Events of groups that a service sends to its observer, and gauges that it measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from penstock.enumerator.continuous.types import Advance, Following, Issued, NextRound, ReaderPlace
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.groups.lag_monitor import MEASURE_MS, LagMonitor
from penstock.enumerator.observer import (
    GroupGauges,
    GroupMeasured,
    GroupRemoved,
    LagMeasured,
    Observation,
    SplitReported,
    SplitsCounted,
    TableMeasured,
)
from penstock.proto.errors import Fenced
from penstock.proto.model.groups import Assignments, GroupLag, SplitProgress
from penstock.proto.model.reports import SplitReport
from tests.unit.enumerator.scripted_service import Clock, Script, World, at, service_of, spec_of

REPORT = SplitReport(rows=7, size_bytes=70)


@dataclass
class Noted:
    """Collects events by subject."""

    events: Counter[tuple[str, str]] = field(default_factory=Counter)
    gauges: dict[tuple[str, str], GroupGauges] = field(default_factory=dict)
    lags: dict[tuple[str, str], GroupLag | None] = field(default_factory=dict)
    tables: dict[str, TableMeasured] = field(default_factory=dict)
    reports: list[SplitReport] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def observe(self, event: Observation) -> None:
        match event:
            case SplitsCounted():
                self.events[event.event.value, event.group] += event.count
            case GroupMeasured(table, group, gauges):
                self.gauges[table, group] = gauges
            case LagMeasured(table, group, lag):
                self.lags[table, group] = lag
            case GroupRemoved(_, group):
                self.removed.append(group)
            case TableMeasured():
                self.tables[event.table] = event
            case SplitReported():
                self.reports.append(event.report)
            case _:
                pass


class Dated(Script):
    """Rounds were issued at 5 s, 2 s before they were planned; the cleaner is one commit before the group."""

    def advance(self, path: str, name: str, following: Following) -> Advance:
        result = super().advance(path, name, following)
        return (
            replace(result, issued=Issued(instant_ms=5_000, delay_ms=2_000))
            if isinstance(result, NextRound)
            else result
        )

    def lags(self, path: str, readers: Sequence[ReaderPlace]) -> list[GroupLag]:
        return [GroupLag(commits=2, size_bytes=5, seconds=1.0, loss_commits=1, loss_seconds=9_000.0) for _ in readers]


def observed() -> tuple[World, Noted]:
    """A world with a collecting observer."""
    noted, clock, script = Noted(), Clock(), Dated(newest=1)
    world = World(script, clock)
    coordinator = Coordinator(clock_ms=clock, settings=CoordinatorSettings(), observer=noted)
    world.service = service_of(script, clock, coordinator)
    world.member = world.service.join_group("g", "r1", spec_of(), "first").member
    return world, noted


def test_split_events_are_counted_once() -> None:
    world, noted = observed()
    world.service.split_discovery.discover()
    assignments = world.request_splits(1)
    assert isinstance(assignments, Assignments)
    done = SplitProgress(ref=assignments.splits[0].ref, ordinal=7, finished=True, report=REPORT)
    world.service.commit_splits(world.member, (done,))
    world.service.commit_splits(world.member, (done,))
    world.request_splits(1)
    for _ in range(5):
        world.clock.now_ms += 20_000
        world.service.coordinator.tick()
    with pytest.raises(Fenced):
        world.request_splits()
    assert noted.events == {
        ("discovered", "g"): 2,
        ("assigned", "g"): 2,
        ("finished", "g"): 1,
        ("expired", "g"): 1,
        ("fenced", "g"): 1,
    }
    assert noted.reports == [REPORT]
    world.service.delete_group("t", "g")
    assert noted.removed == ["g"]


def test_gauges_have_the_lag_of_a_group_and_a_close_loss_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world, noted = observed()
    world.service.split_discovery.discover()
    world.request_splits(1)
    world.clock.now_ms += MEASURE_MS
    with caplog.at_level("WARNING"):
        LagMonitor(world.service.split_discovery).measure()
    assert noted.gauges["t", "g"] == GroupGauges(
        pending_splits=1,
        assigned_splits=1,
        finished_splits=0,
        pending_bytes=10,
        issued_instant_s=5.0,
        issued_delay_s=2.0,
        discovery_age_s=30.0,
    )
    assert noted.tables == {"t": TableMeasured(table="t", loss_commits=1, loss_s=9_000.0)}
    lag = noted.lags["t", "g"]
    assert lag is not None and lag.commits == 2
    assert "range will be lost" in caplog.text
    assert at(1) == world.service.list_groups()[0].planned


def test_discovery_age_grows_if_due_and_is_absent_if_paused() -> None:
    world, noted = observed()
    world.service.split_discovery.interval_ms = {"t": 5_000}.__getitem__
    measurer = LagMonitor(world.service.split_discovery)
    measurer.measure()
    world.clock.now_ms += 40_000
    measurer.measure()
    assert noted.gauges["t", "g"].discovery_age_s == 40.0
    assert noted.gauges["t", "g"].poll_interval_s == 5.0
    world.service.split_discovery.coordinator.settings = CoordinatorSettings(max_rounds=1)
    world.service.split_discovery.discover()
    measurer.measure()
    assert noted.gauges["t", "g"].discovery_age_s is None
