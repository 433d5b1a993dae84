"""Heartbeats: their age, their owner, and their end."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading

import pytest

from penstock.proto.errors import StorageError
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.transaction import heartbeat
from penstock.writer.transaction.heartbeat import age_s, beating, heartbeat_path, start_heartbeat, writer_is_dead
from penstock.writer.transaction.lock import LockOwner, this_process

T = "20261123000000000"


@pytest.fixture
def storage(tmp_path: pathlib.Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


def test_age_is_that_of_the_last_beat(storage: LocalStorage, tmp_path: pathlib.Path) -> None:
    assert age_s(storage, T, 1000.0) is None
    start_heartbeat(storage, T)
    os.utime(tmp_path / heartbeat_path(T), (900, 900))
    assert age_s(storage, T, 1000.0) == 100.0


def test_writer_is_dead_only_if_its_process_ended(storage: LocalStorage) -> None:
    assert not writer_is_dead(storage, T), "no heartbeat"
    start_heartbeat(storage, T)
    assert not writer_is_dead(storage, T)
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    storage.replace(heartbeat_path(T), LockOwner(this_process().host, int(ended.stdout), 1).encode())
    assert writer_is_dead(storage, T)
    storage.replace(heartbeat_path(T), LockOwner("another machine", int(ended.stdout), 1).encode())
    assert not writer_is_dead(storage, T), "processes of another machine are unknown"
    storage.replace(heartbeat_path(T), b"")
    assert not writer_is_dead(storage, T), "a heartbeat of Hudi is empty"


def test_beats_renew_age_until_block_ends(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    beaten = threading.Semaphore(0)

    def touch(path: str) -> bool:
        assert path == heartbeat_path(T)
        beaten.release()
        raise StorageError("the disk is away")  # the next beat follows

    monkeypatch.setattr(heartbeat, "INTERVAL_S", 0.001)
    monkeypatch.setattr(storage, "touch", touch)
    before = set(threading.enumerate())
    with beating(storage, T):
        assert beaten.acquire(timeout=60) and beaten.acquire(timeout=60), "goes on after a failure"
    assert not set(threading.enumerate()) - before
