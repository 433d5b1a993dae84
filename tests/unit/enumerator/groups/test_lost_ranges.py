"""Lost ranges and cleaned rounds: groups are moved or stopped by the policy of their scope."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.enumerator.groups.discovery_failures import MOST_CONTRADICTIONS
from penstock.proto.errors import ConfigurationError, Fenced, PositionExpired
from penstock.proto.model.groups import (
    Assignments,
    GroupScope,
    GroupSpec,
    OnLostRange,
    StartAt,
    StartLatest,
    StartSnapshot,
)
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import Changes, PlanRequest, RoundLimits
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


# --- inside the snapshot with which a group starts


def snapshot_world(policy: OnLostRange, **script: int) -> World:
    """A group that starts with a snapshot of three splits, one a round; its first round is planned."""
    spec = replace(spec_of(on_lost_range=policy), start=StartSnapshot(), limits=RoundLimits(max_files=1))
    world = World(Script(newest=5, splits=3, **script), spec=spec)
    world.service.split_discovery.discover()
    assert world.summary() == "running 0+0 0+1"
    return world


def finished(world: World) -> list[str]:
    """The splits that the group gets until it is caught up."""
    names: list[str] = []
    for _ in range(20):
        world.service.split_discovery.discover()
        answer = world.request_splits(1)
        if isinstance(answer, Assignments):
            names += [one.split.split_id for one in answer.splits]
            world.finish(answer)
    return names


def test_snapshot_is_read_round_by_round_over_restarts_and_then_the_commits() -> None:
    world = snapshot_world(OnLostRange.FAIL)
    described = world.service.describe_group("t", "g")
    assert described.snapshot is not None and (described.snapshot.done, described.snapshot.total) == (1, 3)
    world.restart()
    world.member = world.service.join_group("g", "r1", world.spec, "again").member
    world.sequence = 0
    assert finished(world) == ["5/0", "5/1", "5/2"]
    assert world.summary() == "running 005 005"
    assert world.service.describe_group("t", "g").snapshot is None
    world.script.newest = 6
    assert finished(world) == ["6/0", "6/1", "6/2"]


@pytest.mark.parametrize(
    ("policy", "summary"),
    [
        (OnLostRange.FAIL, "stopped 0+0 0+1"),
        (OnLostRange.SNAPSHOT, "running 0+0 0+0"),
        (OnLostRange.EARLIEST, "running 0+0 0+1"),
    ],
)
def test_lost_part_of_a_snapshot_is_handled_by_the_policy(policy: OnLostRange, summary: str) -> None:
    world = snapshot_world(policy, first=3)
    world.script.newest = 6  # the list of splits is another one
    world.service.split_discovery.discover()
    assert world.summary() == summary
    if policy is OnLostRange.FAIL:
        with pytest.raises(PositionExpired, match="has changed: the digest of its splits"):
            world.request_splits()
        return
    world.clock.now_ms += 60_000
    if policy is OnLostRange.SNAPSHOT:
        world.member = world.service.join_group("g", "r1", world.spec, "again").member
        world.sequence = 0
        assert finished(world) == ["6/0", "6/1", "6/2"], "all rows again, from a new snapshot"
    else:
        world.finish(world.request_splits(1))  # type: ignore[arg-type]
        world.service.split_discovery.discover()
        assert world.summary() == "running 003 003", "what is left of the table"


def test_snapshot_that_cannot_be_planned_again_stops_the_group() -> None:
    world = snapshot_world(OnLostRange.SNAPSHOT)
    world.service.reset_group("t", "g", StartSnapshot(), dry_run=False)
    world.script.fails = [PositionExpired("cleaned")]
    world.service.split_discovery.discover()
    assert world.summary() == "stopped 0+0 0+0", "the same snapshot again: it would be lost again"


def test_cleaned_round_of_a_snapshot_is_planned_again_as_a_snapshot() -> None:
    world = snapshot_world(OnLostRange.SNAPSHOT)
    world.script.clean, world.script.gone = "006", {"f0.parquet"}
    world.service.split_discovery.discover()
    world.script.newest = 7
    world.script.fails = []
    world.clock.now_ms += world.settings.lease_ms
    world.service.split_discovery.discover()
    described = world.service.describe_group("t", "g")
    assert described.snapshot is not None and described.summary.committed == Position(EARLIEST.order_key, 0)
    with pytest.raises(Fenced):
        world.request_splits()


@pytest.mark.parametrize("policy", [OnLostRange.SNAPSHOT, OnLostRange.EARLIEST])
def test_file_that_is_missing_from_the_range_planned_again_stops_the_group(policy: OnLostRange) -> None:
    """The file was not removed by a cleaner: the newest state of the table still names it. Otherwise the group would
    read the same rows again and again."""
    world = World(Script(newest=2), spec=spec_of(on_lost_range=policy))
    world.service.split_discovery.discover()
    world.script.clean, world.script.gone = "003", {"f1.parquet"}
    assert states_of(world, 3) == ["running", "stopped", "stopped"]
    error = world.service.describe_group("t", "g").error
    assert "file f1.parquet" in error and "planned again" in error and "restore the file" in error


def test_snapshot_of_which_a_file_is_missing_again_stops_the_group() -> None:
    world = snapshot_world(OnLostRange.SNAPSHOT)
    world.script.clean, world.script.gone = "006", {"f0.parquet"}
    assert states_of(world, 2) == ["running", "stopped"]
    assert world.summary() == "stopped 0+0 005"


def test_another_file_that_is_missing_later_moves_the_group_again(caplog: pytest.LogCaptureFixture) -> None:
    world = snapshot_world(OnLostRange.SNAPSHOT)
    world.script.clean, world.script.gone = "006", {"f0.parquet"}
    assert states_of(world, 1) == ["running"]
    world.script.newest, world.script.gone = 6, set()
    assert states_of(world, 1) == ["running"], "the snapshot is planned anew"
    world.script.clean, world.script.gone = "007", {"f1.parquet"}
    with caplog.at_level("WARNING"):
        assert states_of(world, 2) == ["running", "running"]
        world.script.clean = "008"
        assert states_of(world, 2)[-1] == "stopped"
    moves = [line for line in caplog.messages if line.startswith("range lost") and "f1.parquet" in line]
    assert len(moves) == 1, "another file of another snapshot may be lost once too"


def states_of(world: World, leases: int) -> list[str]:
    """The states of the group, each after the discoveries of one lease in which the files stay missing."""
    states = []
    for _ in range(leases):
        for _ in range(2):
            world.service.split_discovery.discover()
        world.clock.now_ms += world.settings.lease_ms
        world.service.split_discovery.discover()
        states.append(world.summary().split()[0])
    return states
