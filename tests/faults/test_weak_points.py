"""Weak points of other systems' sources that Penstock must not have, checked at the service; each by its number."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any

import pytest

from penstock.enumerator.continuous.types import Advance, Following
from penstock.enumerator.groups.split_discovery import SplitDiscovery
from penstock.enumerator.service import EnumeratorService
from penstock.proto.errors import ConfigurationError, StorageError
from penstock.proto.model.groups import Assignments, GroupSpec, OnLostRange, SplitRef
from tests.faults.served import CASE, until
from tests.unit.enumerator.scripted_service import Clock, Script, World, at, names, spec_of


def test_weak_point_04_of_two_discoveries_that_overlap_one_counts() -> None:
    """Both started at the same position: the second is dropped, even if it discovered more."""
    world = World(Script(newest=3))
    plain = world.script.advance
    other = SplitDiscovery(world.service.coordinator, world.script, lambda table: "/lake", world.clock)  # type: ignore[arg-type]

    def overlapped(path: str, name: str, following: Following) -> Advance:
        world.script.advance = plain  # type: ignore[method-assign]
        plan = plain(path, name, following)
        assert other.discover() == 1, "another discovery from the same position is over first"
        return plan

    world.script.advance = overlapped  # type: ignore[method-assign]
    world.service.split_discovery.discover()
    assert world.summary() == "running 0 001"
    assert names(world.request_splits()) == ["1/0", "1/1"]
    for _ in range(3):
        world.service.split_discovery.discover()
    assert names(world.request_splits()) == ["2/0", "2/1", "3/0", "3/1"]


def one_round(world: World) -> list[tuple[SplitRef, str]]:
    """The splits that the reader gets after a discovery."""
    world.service.split_discovery.discover()
    assignments = world.request_splits()
    if not isinstance(assignments, Assignments):
        return []
    world.finish(assignments)
    return [(one.ref, one.split.split_id) for one in assignments.splits]


def test_weak_point_05_round_and_split_ids_are_deterministic() -> None:
    """A service that restarts before each discovery produces the same ids as one that never stops; none twice."""
    steady, restarted = World(Script(newest=4)), World(Script(newest=4))
    expected, split_refs = [], []
    for _ in range(6):
        expected += one_round(steady)
        restarted.restart()
        split_refs += one_round(restarted)
    assert split_refs == expected
    assert len({ref for ref, _ in split_refs}) == len({split_id for _, split_id in split_refs}) == len(split_refs) == 8


@pytest.mark.golden
def test_weak_point_05_another_process_plans_the_same_split_ids(golden: Any) -> None:
    program = (
        "import sys\n"
        "from penstock.enumerator.planning.plan import plan_request\n"
        "from penstock.proto.model.queries import Incremental, PlanRequest\n"
        "from penstock.table.hudi_table import open_table\n"
        "plan = plan_request(open_table(sys.argv[1]), 't', PlanRequest(table='t', query=Incremental()))\n"
        "print([split.split_id for split in plan.splits])\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program, str(golden.table(CASE))],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, timeout=60, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert outputs[0] == outputs[1] and len(outputs[0]) > 20


@pytest.mark.parametrize("changed", [{"where": "id > 'a'"}, {"columns": ("id",)}], ids=str)
def test_weak_point_09_changed_scope_is_refused_after_a_restart_and_changes_nothing(changed: dict[str, Any]) -> None:
    world = World(Script(newest=2))
    world.service.split_discovery.discover()
    world.restart()
    scope = world.spec.scope
    others = [
        replace(scope, request=replace(scope.request, **changed)),
        replace(scope, upto=at(1)),
        replace(scope, on_lost_range=OnLostRange.EARLIEST),
    ]
    before = world.service.describe_group("t", "g")
    for other in others:
        with pytest.raises(ConfigurationError, match=r"consumes something else .* delete the group first"):
            world.service.join_group("g", "r2", GroupSpec(scope=other), "other")
    assert world.service.describe_group("t", "g") == before
    assert names(world.request_splits()) == ["1/0", "1/1"]


def test_weak_point_11_empty_a_failed_and_a_paused_discovery_move_nothing() -> None:
    world = World(Script(newest=1))
    for fails in ([], [StorageError("reset")], []):
        world.script.fails = list(fails)
        world.script.newest = 0
        world.service.split_discovery.discover()
        world.clock.now_ms += 60_000
        assert world.summary() == "running 0 0"
    world.script.newest = 1
    world.service.split_discovery.discover()
    assert names(world.request_splits()) == ["1/0", "1/1"]


def test_weak_point_11_waiting_reader_is_woken_during_a_discovery() -> None:
    """Discovery runs once an hour; for a group created during a discovery it runs again at once."""
    script, gate, begun = Script(newest=1), threading.Event(), threading.Event()
    plain = script.advance

    def slow(path: str, name: str, following: Following) -> Advance:
        begun.set()
        gate.wait(30)
        return plain(path, name, following)

    script.advance = slow  # type: ignore[method-assign]
    service = EnumeratorService({"t": "/lake"}, reads=script, follows=script, clock_ms=Clock(), poll_ms=3_600_000)  # type: ignore[arg-type]
    service.start()
    try:
        service.join_group("first", "r", spec_of(), "1")
        assert begun.wait(30)
        member = service.join_group("second", "r", spec_of(), "2").member
        gate.set()
        until(lambda: service.describe_group("t", "second").pending_splits, "the second discovery")
        assert names(service.request_splits(member, 9, 1)) == ["1/0", "1/1"]
    finally:
        gate.set()
        service.stop()
