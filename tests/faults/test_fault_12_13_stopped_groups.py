"""Faults 12 to 14 at the service: lost or late instants stop the group until it is reset."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from penstock.engine.cli.main import run
from penstock.engine.consumer import Consumer
from penstock.enumerator.coordinator.coordinator import durable_coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.proto.errors import DataInvalidated, Fenced, LateInstant, PenstockError, PositionExpired
from penstock.proto.model.groups import Assignments, GroupScope, GroupSpec, StartAt
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.table.hudi_table import open_table
from tests.faults.served import CASE, check_changes
from tests.memory_store import DirectJournal, MemoryStore
from tests.scripted_timeline import ScriptedTimeline
from tests.unit.enumerator.scripted_service import Clock, Script, World

ERRORS = [
    PositionExpired("file f.parquet of table /lake was cleaned"),
    LateInstant("instant 7 completed before position 9"),
    DataInvalidated("instant 7 of table /lake was rolled back"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_fault_13_group_stays_stopped_over_a_restart_until_a_reset(
    error: PenstockError, capsys: pytest.CaptureFixture[str]
) -> None:
    """Resets the group with the command line, through a server."""
    world = World(Script(newest=2))
    world.script.fails = [error]
    world.service.split_discovery.discover()
    world.restart()
    world.service.split_discovery.discover()
    assert world.script.discoveries == 1, "discovery skips a stopped group"
    with serve_enumerator(world.service, "127.0.0.1:0", world.service) as server:
        assert run(["groups", "describe", "t", "g", "--server", server.address, "--format", "json"]) == 0
        description = json.loads(capsys.readouterr().out)
        assert error.code in json.dumps(description) and str(error) in json.dumps(description)
        assert run(["groups", "reset", "t", "g", "--server", server.address, "--to", "earliest"]) == 0
        with pytest.raises(Fenced):
            world.request_splits()
        world.service.split_discovery.discover()
        member = world.service.join_group("g", "r1", world.spec, "again").member
        assert isinstance(world.service.request_splits(member, 9, 1), Assignments)
        server.stop(0)


def service_on(script: ScriptedTimeline, store: MemoryStore, clock: Clock) -> EnumeratorService:
    """A new process on this state."""
    coordinator = durable_coordinator(store, DirectJournal(store), clock_ms=clock, settings=CoordinatorSettings())
    return EnumeratorService({"t": str(script.path)}, clock_ms=clock, coordinator=coordinator, poll_ms=None)


def consumed(service: EnumeratorService) -> list[Any]:
    """The rows that a reader of group `g` gets until no split is left."""
    batches = []
    with Consumer(None, "t", group="g", reader_id="r", query="cdc", cdc_format="hudi", enumerator=service) as reader:
        service.split_discovery.discover()
        while (consumed := reader.poll(0)) is not None:
            batches.append(consumed.batch)
            reader.commit(consumed)
    return batches


@pytest.mark.golden
def test_fault_13_rollback_of_a_consumed_instant_stops_the_group_of_a_real_table(
    golden: Any, tmp_path: pathlib.Path
) -> None:
    """The group stays stopped after a restart; consumed rows are never silently retracted. After a reset all rows are
    read again."""
    script, store, clock = ScriptedTimeline(golden.copy(CASE, tmp_path), tmp_path / "aside"), MemoryStore(), Clock()
    service = service_on(script, store, clock)
    check_changes(golden, consumed(service))
    script.take(script.data[-1])
    for _ in range(2):
        service.split_discovery.discover()
        described = service.describe_group("t", "g")
        assert (described.summary.state, described.error_code) == ("stopped", "DATA_INVALIDATED")
        assert script.data[-1] in described.error and "reset" in described.error
        with pytest.raises(DataInvalidated, match="penstock groups reset"):
            consumed(service)
        store = store.reopened()
        service = service_on(script, store, clock)
    script.give(script.data[-1])
    service.reset_group("t", "g", StartAt(), dry_run=False)
    check_changes(golden, consumed(service))


@pytest.mark.golden
def test_fault_12_group_continues_when_consumed_instants_are_archived(golden: Any, tmp_path: pathlib.Path) -> None:
    """The position of the group advances over instants that are only in the archive; a new group cannot start before
    them."""
    path = golden.copy("A_archive_v9_h120", tmp_path)
    table = open_table(str(path))
    script, store, clock = ScriptedTimeline(path, tmp_path / "aside"), MemoryStore(), Clock()
    service = service_on(script, store, clock)
    spec = GroupSpec(scope=GroupScope(request=PlanRequest(table="t", query=Incremental())))
    archived = max(table.archive().commits)
    after_archived = GroupSpec(scope=spec.scope, start=StartAt(Position(InstantTime(script.keys[script.data[0]]))))
    assert str(archived) < script.data[0]
    service.join_group("late", "r", after_archived, "x")
    service.split_discovery.discover()
    described = service.describe_group("t", "late")
    assert (described.summary.state, described.error) == ("running", "")
    assert described.summary.planned.order_key == script.keys[script.data[-1]]
