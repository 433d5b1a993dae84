"""Rollbacks that another process began: a write whose rollback is planned never completes, and a rollback of a
completed write is carried on."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.settings import timeline_zone
from penstock.engine.write.write import write
from penstock.proto.errors import WriteConflict
from penstock.table.hudi_table import open_table
from penstock.table.storage.local_writes import LocalStorage
from penstock.table.timeline.instants import Action, State, instant_file_name
from penstock.table.timeline.services.rollback_encoder import encode_rollback_plan
from penstock.writer.transaction import failed_writes, rollback_requests
from penstock.writer.transaction.running_writes import timeline_path
from penstock.writer.transaction.transaction import Transaction, WriteEnvironment

SCHEMA = pa.schema([("id", pa.string()), ("seq", pa.int64())])


@pytest.fixture(params=[9, 6])
def path(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    """A table of each layout with one row."""
    table = str(tmp_path / "table")
    create_table(table, SCHEMA, record_key="id", ordering="seq", table_version=request.param, buckets=1)
    write(table, rows("a"))
    return table


def rows(key: str) -> pa.Table:
    return pa.table({"id": [key], "seq": [1]}, SCHEMA)


def keys(path: str) -> list[str]:
    return sorted(penstock.read(path).read_all()["id"].to_pylist())


def plan_rollback(path: str, requested_time: str) -> None:
    """What a process leaves that is killed after it planned the rollback of an instant, pending or completed."""
    table, storage = open_table(path), LocalStorage(path)
    timeline = table.timeline()
    target = next(item for item in timeline.instants if item.requested_time == requested_time)
    requests = rollback_requests.requests_by_markers(table, storage, requested_time)
    later = f"{int(timeline.instants[-1].requested_time) + 1:017d}"
    name = instant_file_name(later, Action.ROLLBACK, State.REQUESTED, None, table.properties.layout)
    plan = encode_rollback_plan(target, requests, storage.base_path)
    storage.create(timeline_path(table.properties, name), plan)


def during_completion(monkeypatch: pytest.MonkeyPatch, action: Callable[[Transaction], None]) -> None:
    """Runs the action before a write completes, when all its files are written."""
    complete = Transaction.complete

    def later(self: Transaction, *arguments: object, **options: object) -> object:
        action(self)
        return complete(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Transaction, "complete", later)


def test_write_whose_rollback_is_planned_does_not_complete(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its heartbeat is fresh: the process was paused, another writer began the rollback, and it continues."""
    with monkeypatch.context() as patch:
        during_completion(patch, lambda begun: plan_rollback(path, begun.requested_time))
        with pytest.raises(WriteConflict, match="another writer rolled back"):
            write(path, rows("b"))
    assert keys(path) == ["a"]
    write(path, rows("c"))
    assert keys(path) == ["a", "c"]
    assert all(item.is_completed for item in open_table(path).timeline().instants)


def test_write_that_lost_the_lock_does_not_complete(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_lock(begun: Transaction) -> None:
        check = Transaction._check_conflicts

        def checked(self: Transaction, *arguments: object, **options: object) -> None:
            check(self, *arguments, **options)  # type: ignore[arg-type]
            self.storage.remove(".hoodie/lock")

        patch.setattr(Transaction, "_check_conflicts", checked)

    with monkeypatch.context() as patch:
        during_completion(patch, lose_lock)
        with pytest.raises(WriteConflict, match="lost the table's lock"):
            write(path, rows("b"))
    assert keys(path) == ["a"]
    write(path, rows("c"))
    assert keys(path) == ["a", "c"]


def test_rollback_of_completed_write_is_carried_on(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the table would name files that the rollback removes."""
    with monkeypatch.context() as patch:
        patch.setattr("penstock.writer.transaction.transaction.remove_traces", lambda storage, instant: None)
        newest = write(path, rows("b")).instant
    plan_rollback(path, newest)
    assert keys(path) == ["a", "b"]
    table = open_table(path)
    zone = timeline_zone(table.properties, "")
    failed_writes.roll_back_failed(table, LocalStorage(path), WriteEnvironment(zone=zone), sole_writer=False)
    assert keys(path) == ["a"]
    write(path, rows("c"))
    assert keys(path) == ["a", "c"]


def fail(begun: Transaction) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("is_complete", [False, True])
def test_rollback_by_name_completes_the_one_that_was_begun(
    path: str, monkeypatch: pytest.MonkeyPatch, is_complete: bool
) -> None:
    """A second rollback would leave the first one pending for ever, and Hudi's next write would fail at it."""
    with monkeypatch.context() as patch:
        patch.setattr("penstock.writer.transaction.transaction.remove_traces", lambda storage, instant: None)
        if not is_complete:
            patch.setattr("penstock.writer.transaction.failed_writes.roll_back", lambda *arguments: None)
            during_completion(patch, fail)
        with contextlib.nullcontext() if is_complete else pytest.raises(ZeroDivisionError):
            write(path, rows("b"))
    newest = open_table(path).timeline().instants[-1]
    assert newest.is_completed is is_complete
    plan_rollback(path, newest.requested_time)
    pathlib.Path(path, ".hoodie/.heartbeat", newest.requested_time).unlink(missing_ok=is_complete)
    assert penstock.rollback(path, newest.requested_time) == (newest.requested_time,)
    timeline = open_table(path).timeline()
    assert [(item.action, item.is_completed) for item in timeline.instants][-1:] == [(Action.ROLLBACK, True)]
    assert sum(item.action is Action.ROLLBACK for item in timeline.instants) == 1
    assert keys(path) == ["a"]
    write(path, rows("c"))
    assert keys(path) == ["a", "c"]


def test_rollback_of_a_stopped_compaction_keeps_its_plan(tmp_path: pathlib.Path) -> None:
    """As Hudi's `rollbackInflightCompaction`: logs that later writes add belong to the plan."""
    path = str(tmp_path / "table")
    create_table(path, SCHEMA, record_key="id", ordering="seq", table_version=6, table_type="merge_on_read", buckets=1)
    for key in ("a", "b"):
        write(path, rows(key))
    (planned,) = (result.instant for result in penstock.compact(path, schedule_only=True))
    write(path, rows("c"))
    hoodie = pathlib.Path(path, ".hoodie")
    (hoodie / f"{planned}.compaction.inflight").touch()
    plan_rollback(path, planned)
    write(path, rows("d"))
    assert keys(path) == ["a", "b", "c", "d"]
    assert [file.name for file in hoodie.glob(f"{planned}*")] == [f"{planned}.compaction.requested"]
    penstock.compact(path, run_only=True)
    assert keys(path) == ["a", "b", "c", "d"]
