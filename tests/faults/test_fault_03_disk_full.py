"""Fault 3: a full or failing disk. Records that are not durable are not acknowledged; the store stays down until
reopened."""

from __future__ import annotations

import pathlib
import sqlite3
from types import SimpleNamespace

import pytest

from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.store.journal import Journal
from penstock.enumerator.store.protocol import PlanPieces, StoredRecord
from penstock.enumerator.store.sqlite.connections import connect as plain_connect
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.enumerator.store.sqlite.store import SqliteStore
from penstock.proto.codec.errors import failure_of
from penstock.proto.errors import PenstockError, StorageError
from tests.faults.state_steps import reopened, started
from tests.memory_store import DirectJournal


def small(uri: str) -> sqlite3.Connection:
    """A database limited to 24 pages."""
    connection = plain_connect(uri)
    connection.execute("PRAGMA max_page_count = 24")
    return connection


class FailingConnection(sqlite3.Connection):
    """A disk whose sync fails on request of the test."""

    failing = False

    def execute(self, sql: str, *arguments: object) -> sqlite3.Cursor:  # type: ignore[override]
        if sql == "COMMIT" and FailingConnection.failing:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error
        return super().execute(sql, *arguments)  # type: ignore[arg-type]


def failing(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, factory=FailingConnection)


def record(number: int) -> StoredRecord:
    return StoredRecord("number", 1, b"%d " % number + b"." * 2000)


def no_path_for_clients(store: SqliteStore, folder: pathlib.Path) -> None:
    """What a client of the server receives does not name its folders; the error in its log does."""
    coordinator = Coordinator(clock_ms=lambda: 0, settings=CoordinatorSettings(), journal=DirectJournal(store))
    lost: list[PenstockError] = []
    coordinator.when_lost = lost.append
    for call in (lambda: coordinator.handle(ev.AddTable(table="t", path="/lake/t")), store.plan_ids):
        with pytest.raises(StorageError) as caught:
            call()
        sent = failure_of(caught.value).details
        assert str(folder) not in sent and "state directory of the server" in sent, sent
        assert str(folder) in str(caught.value), "the negative control"
    [first, *_] = lost
    assert str(folder) in str(first) and str(folder) not in failure_of(first).details


def stays_down(store: SqliteStore, text: str) -> None:
    """Each call reports its error, whatever the error is."""
    calls = [lambda: store.append([record(0)]), lambda: store.rewrite([]), lambda: next(store.records())]
    for call in [*calls, store.plan_ids, lambda: store.scan("p"), lambda: store.splits("p", [0])]:
        with pytest.raises(StorageError, match=text):
            call()


def test_fault_03_full_disk_is_unavailable_and_the_store_stays_down(tmp_path: pathlib.Path) -> None:
    store = open_sqlite(tmp_path / "state", connect=small)
    durable = 0
    with pytest.raises(StorageError, match="the disk is full: make room") as caught:
        for durable in range(100):
            store.append([record(durable)])
    assert str(tmp_path) in str(caught.value) and 3 < durable < 99
    stays_down(store, "the disk is full")
    no_path_for_clients(store, tmp_path)
    store.close()
    assert [int(p.split()[0]) for p in reopened(tmp_path / "state")[0]] == list(range(durable))


def test_fault_03_plan_that_does_not_fit_leaves_nothing(tmp_path: pathlib.Path) -> None:
    store = open_sqlite(tmp_path / "state", connect=small)
    store.append([record(0)])
    with pytest.raises(StorageError, match="the disk is full"):
        store.append([record(1)], [PlanPieces("p", b"", (b"." * 1000,) * 1000)])
    store.close()
    assert reopened(tmp_path / "state") == ([record(0).payload], {})


@pytest.mark.parametrize("rewriting", [False, True])
def test_fault_03_failed_sync_is_not_tried_again(tmp_path: pathlib.Path, rewriting: bool) -> None:
    store = open_sqlite(tmp_path / "state", connect=failing)
    store.append([record(0)])
    FailingConnection.failing = True
    try:
        with pytest.raises(StorageError, match="the disk failed and its content is unknown"):
            store.rewrite([]) if rewriting else store.append([record(1)])
    finally:
        FailingConnection.failing = False
    stays_down(store, "the disk failed")
    store.close()
    assert reopened(tmp_path / "state")[0] == [record(0).payload]


def test_fault_03_failed_disk_without_space_is_reported_as_full(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite itself does not report it when it cannot extend a memory-mapped file."""
    store = open_sqlite(tmp_path / "state", connect=failing)
    monkeypatch.setattr(FailingConnection, "failing", True)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=4096))
    with pytest.raises(StorageError, match=r"disk I/O error \(the disk is full: make room"):
        store.append([record(0)])
    monkeypatch.undo()
    store.close()


def test_fault_03_every_waiting_call_gets_the_disk_error(tmp_path: pathlib.Path) -> None:
    store = open_sqlite(tmp_path / "state", connect=small)
    journal = Journal(store)
    tickets = [journal.append([record(i)]) for i in range(40)]
    failed = [i for i, ticket in enumerate(tickets) if not survives(ticket.wait)]
    assert failed and failed == list(range(failed[0], 40))
    assert not survives(journal.append([record(99)]).wait)
    journal.close()
    store.close()
    assert [int(p.split()[0]) for p in reopened(tmp_path / "state")[0]] == list(range(failed[0]))


def survives(wait: object) -> bool:
    """Whether the wait ends well within the time of the test."""
    assert callable(wait)
    try:
        wait(20)
    except StorageError as error:
        assert "the disk is full" in str(error)
        return False
    return True


def test_fault_03_file_size_limit_is_reported_as_a_full_disk(tmp_path: pathlib.Path) -> None:
    with started("full", tmp_path / "state", 200_000) as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
    durable = [int(line.split()[1]) for line in lines if line.startswith("durable")]
    errors = [line for line in lines if not line.startswith("durable")]
    assert len(durable) > 5 and errors and all(line.startswith("STORAGE ") for line in errors)
    stored = [int(p.split()[0]) for p in reopened(tmp_path / "state")[0]]
    assert stored[: len(durable)] == durable and len(stored) <= len(durable) + 1
