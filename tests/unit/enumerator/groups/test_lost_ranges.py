"""Lost ranges and cleaned rounds: groups are moved or stopped by the policy of their scope."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.enumerator.groups.discovery_failures import MOST_CONTRADICTIONS
from penstock.proto.errors import ConfigurationError, Fenced, PositionExpired
from penstock.proto.model.groups import Assignments, GroupScope, GroupSpec, OnLostRange, StartAt, StartLatest
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Changes, PlanRequest
from tests.unit.enumerator.scripted_service import Script, World, at, earliest_world, spec_of


def test_lost_range_stops_the_group_with_its_error_until_a_reset() -> None:
    world = World()
    world.script.fails = [PositionExpired("file f.parquet of table /lake was cleaned")]
    world.service.split_discovery.discover()
    assert world.summary() == "stopped 0 0"
    with pytest.raises(PositionExpired, match=r"group 'g' of table 't' stopped at 0: file f.parquet .*groups reset"):
        world.request_splits()
    outcome = world.service.reset_group("t", "g", StartLatest(), dry_run=True)
    assert (outcome.before, outcome.after, outcome.dropped_splits) == (EARLIEST, at(1), 0)
    assert world.summary() == "stopped 0 0"
    world.service.reset_group("t", "g", StartLatest(), dry_run=False)
    assert world.summary() == "running 001 001"
    with pytest.raises(Fenced, match="not a member"):
        world.request_splits()


@pytest.mark.parametrize(("policy", "after"), [(OnLostRange.EARLIEST, "003"), (OnLostRange.SNAPSHOT, "0")])
def test_lost_range_is_skipped_only_by_the_policy_of_the_scope(
    policy: OnLostRange, after: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(Script(newest=5, first=3), spec=replace(spec_of(on_lost_range=policy), start=StartAt(at(1))))
    world.script.fails = [PositionExpired("cleaned")]
    with caplog.at_level("WARNING"):
        world.service.split_discovery.discover()
    assert "range lost" in caplog.text
    assert world.summary() == f"running {after} {after}"


def test_lost_range_that_cannot_be_skipped_stops_the_group() -> None:
    world = World(spec=spec_of(on_lost_range=OnLostRange.SNAPSHOT))
    world.script.fails = [PositionExpired("cleaned")]
    world.service.split_discovery.discover()
    assert world.summary() == "stopped 0 0"


def test_changes_cannot_restart_from_a_snapshot() -> None:
    world = World()
    request = PlanRequest(table="t", query=Changes("rows"))
    scope = GroupScope(request=request, on_lost_range=OnLostRange.SNAPSHOT)
    with pytest.raises(ConfigurationError, match="onLostRange=snapshot is for rows"):
        world.service.join_group("c", "r", GroupSpec(scope=scope), "x")


def test_temporarily_missing_range_moves_no_group_back() -> None:
    """The earliest position of the table is before that of the group: the range exists and is not skipped."""
    spec = replace(spec_of(on_lost_range=OnLostRange.EARLIEST), start=StartAt(at(3)))
    world = World(Script(newest=5, first=1, missing=2), spec=spec)
    for _ in range(2):
        world.service.split_discovery.discover()
        assert world.summary() == "running 003 003"
        world.clock.now_ms += 60_000
    world.service.split_discovery.discover()
    assert world.summary() == "running 003 004"
    assert world.service.describe_group("t", "g").error == ""


def test_permanently_missing_range_stops_the_group_at_its_position() -> None:
    spec = replace(spec_of(on_lost_range=OnLostRange.EARLIEST), start=StartAt(at(3)))
    world = World(Script(newest=5, first=1, missing=20), spec=spec)
    for _ in range(10):
        world.service.split_discovery.discover()
        world.clock.now_ms += 60_000
    assert world.summary() == "stopped 003 003"
    assert world.script.discoveries == MOST_CONTRADICTIONS + 1
    assert world.service.describe_group("t", "g").error_code == "POSITION_EXPIRED"


@pytest.mark.parametrize(
    ("policy", "first", "after"), [("EARLIEST", 2, "002"), ("EARLIEST", 1, "001"), ("SNAPSHOT", 1, "0")]
)
def test_cleaned_open_round_moves_the_group_by_the_policy_of_its_scope(policy: str, first: int, after: str) -> None:
    """Its readers could never finish it. The file must be missing for the duration of a lease."""
    world = World(Script(newest=2, first=first), spec=spec_of(on_lost_range=OnLostRange[policy]))
    for _ in range(2):
        world.service.split_discovery.discover()
    world.script.clean, world.script.gone, world.script.newest = "003", {"f1.parquet"}, 0
    world.service.split_discovery.discover()
    world.clock.now_ms += world.settings.lease_ms - 1
    world.service.split_discovery.discover()
    assert world.summary() == "running 0 002"
    world.clock.now_ms += 1
    world.service.split_discovery.discover()
    assert world.summary() == f"running {after} {after}"
    with pytest.raises(Fenced):
        world.request_splits()


def test_group_with_policy_fail_keeps_its_open_rounds() -> None:
    """Its reader gets the error with the file name; if the file reappears, the split is read."""
    world = World(Script(newest=2))
    world.service.split_discovery.discover()
    world.script.clean, world.script.gone = "003", {"f1.parquet"}
    for _ in range(3):
        world.service.split_discovery.discover()
        world.clock.now_ms += world.settings.lease_ms
    assert world.summary() == "running 0 002"
    assert world.script.checks == 0


def test_lost_range_is_skipped_after_the_open_rounds_are_read() -> None:
    world = earliest_world(first=4)
    world.script.newest, world.script.missing = 5, 1
    world.service.split_discovery.discover()
    assert world.summary() == "running 0 002", "its readers get what was planned"
    assignments = world.request_splits()
    assert isinstance(assignments, Assignments)
    world.finish(assignments)
    world.clock.now_ms += 60_000
    world.script.missing = 1
    world.service.split_discovery.discover()
    assert world.summary() == "running 004 004"
