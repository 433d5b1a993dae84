"""Opening a state directory: creation, settings of the database, and errors of unusable paths."""

from __future__ import annotations

import os
import pathlib
import sqlite3
from contextlib import closing

import pytest

from penstock.enumerator.store.protocol import PlanPieces, StoredRecord
from penstock.enumerator.store.sqlite.connections import connect as plain_connect
from penstock.enumerator.store.sqlite.lock import Clocks, read_lock, take_lock
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.proto.errors import ConfigurationError, StorageError

RECORD = StoredRecord("k", 1, b"a")


def test_state_directory_is_created_for_its_user_only(tmp_path: pathlib.Path) -> None:
    store = open_sqlite(tmp_path / "a" / "state")
    store.append([RECORD])
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "a" / "state").iterdir()}
    names = {"penstock.db", "penstock.db-wal", "penstock.db-shm", "penstock.lock"}
    assert modes == dict.fromkeys(names, 0o600)
    assert (tmp_path / "a" / "state").stat().st_mode & 0o777 == 0o700
    store.close()
    assert {path.name for path in (tmp_path / "a" / "state").iterdir()} == {"penstock.db", "penstock.lock"}


def test_state_id_is_stable_and_unique(tmp_path: pathlib.Path) -> None:
    ids = []
    for name in ("one", "one", "two"):
        store = open_sqlite(tmp_path / name)
        assert store.directory == tmp_path / name
        ids.append(store.state_id)
        store.close()
    assert ids[0] == ids[1] != ids[2] and len(ids[0]) == 32


def test_every_commit_is_synced_and_the_wal_stays_small(tmp_path: pathlib.Path) -> None:
    opened: list[sqlite3.Connection] = []

    def connect(uri: str) -> sqlite3.Connection:
        opened.append(plain_connect(uri))
        return opened[-1]

    store = open_sqlite(tmp_path, connect=connect)
    writer = opened[-2]
    values = {name: writer.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
    assert values == {"journal_mode": "wal", "synchronous": 2}
    for _ in range(6):
        store.append([], [PlanPieces("p", b"", (b"." * 100_000,) * 100)])
    assert (tmp_path / "penstock.db-wal").stat().st_size < 64 << 20
    assert (tmp_path / "penstock.db").stat().st_size < 64 << 20  # freed pages are used again
    store.close()


def test_creation_of_a_state_that_was_killed_is_completed(tmp_path: pathlib.Path) -> None:
    for name in ("penstock.db.new", "penstock.db.new-journal", "penstock.db.new-wal"):
        (tmp_path / name).write_bytes(b"half")
    store = open_sqlite(tmp_path)
    assert store.epoch == 1 and list(store.records()) == []
    store.close()
    assert not list(tmp_path.glob("*.new*"))


@pytest.mark.parametrize("below", [False, True])
def test_file_as_state_directory_is_refused(tmp_path: pathlib.Path, below: bool) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=f"state directory {tmp_path}.*that is a file"):
        open_sqlite(tmp_path / "file" / "state" if below else tmp_path / "file")


def test_failed_open_releases_the_directory(tmp_path: pathlib.Path) -> None:
    def broken(uri: str) -> sqlite3.Connection:
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        raise error

    with pytest.raises(StorageError, match="check its permissions"):
        open_sqlite(tmp_path, connect=broken)
    assert read_lock(tmp_path)[1] is False
    open_sqlite(tmp_path).close()


def test_write_blocked_by_another_program_is_an_error(tmp_path: pathlib.Path) -> None:
    open_sqlite(tmp_path).close()

    def impatient(uri: str) -> sqlite3.Connection:
        connection = plain_connect(uri)
        connection.execute("PRAGMA busy_timeout = 0")
        return connection

    with closing(sqlite3.connect(tmp_path / "penstock.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="another process holds a write transaction open"):
            open_sqlite(tmp_path, connect=impatient)
    store = open_sqlite(tmp_path)
    assert store.epoch == 2
    store.close()


def test_lock_that_was_replaced_while_it_was_taken_is_not_the_newest(tmp_path: pathlib.Path) -> None:
    first = take_lock(tmp_path, takeover=False, wait_ms=0, clocks=Clocks())
    assert first.is_newest() and not first.from_another
    second = take_lock(tmp_path, takeover=True, wait_ms=0, clocks=Clocks())
    assert second.is_newest() and second.from_another and not first.is_newest()
    holder, live = read_lock(tmp_path)
    assert live and holder is not None and holder.pid == os.getpid()
    first.release()
    assert read_lock(tmp_path)[1]
    second.release()
    second.release()
    assert not read_lock(tmp_path)[1]


def test_open_without_the_newest_lock_takes_no_epoch(tmp_path: pathlib.Path) -> None:
    """Two processes take over at once: the one without the newest lock stops before it fences the other."""
    open_sqlite(tmp_path).close()
    winners = []

    def overtaken(uri: str) -> sqlite3.Connection:
        if not winners:
            winners.append(open_sqlite(tmp_path, takeover=True))
        return plain_connect(uri)

    with pytest.raises(StorageError, match="another process took it over at this moment"):
        open_sqlite(tmp_path, takeover=True, connect=overtaken)
    winners[0].append([RECORD])
    winners[0].close()


def test_unreadable_lock_holder_is_no_error(tmp_path: pathlib.Path) -> None:
    store = open_sqlite(tmp_path)
    (tmp_path / "penstock.lock").write_bytes(b"[[[")
    with pytest.raises(StorageError, match="another process serves from it"):
        open_sqlite(tmp_path)
    store.close()


def test_unusual_directory_names_are_accepted(tmp_path: pathlib.Path) -> None:
    state = tmp_path / "a?mode=memory&b#c %41 é"
    store = open_sqlite(state)
    store.append([RECORD])
    store.close()
    assert (state / "penstock.db").exists()
    again = open_sqlite(state)
    assert list(again.records()) == [RECORD]
    again.close()
