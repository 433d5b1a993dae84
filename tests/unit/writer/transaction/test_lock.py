"""The table's lock: one holder at a time, and the lock of a killed process does not stay."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import threading

import pytest

from penstock.proto.errors import WriteConflict
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.transaction.lock import LOCK_FILE, LockOwner, is_dead, table_lock, this_process


class Time:
    """A clock that only `sleep` moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def storage(tmp_path: pathlib.Path) -> LocalStorage:
    (tmp_path / ".hoodie").mkdir()
    return LocalStorage(str(tmp_path))


def test_lock_excludes_others_and_is_released(storage: LocalStorage) -> None:
    time = Time()
    with table_lock(storage, timeout_s=5, monotonic=time.monotonic, sleep=time.sleep):
        assert storage.file_info(LOCK_FILE) is not None
        with (
            pytest.raises(
                WriteConflict,
                match=r"another writer has held the table's lock \(.*, created 20\d\d-\d\d-\d\d [\d:]{8} UTC\) for 5 s",
            ),
            table_lock(storage, timeout_s=5, monotonic=time.monotonic, sleep=time.sleep),
        ):
            pass
        assert time.now >= 5
    assert storage.file_info(LOCK_FILE) is None


def test_lock_of_hudi_is_respected_and_stays(storage: LocalStorage) -> None:
    storage.create(LOCK_FILE, b"")
    time = Time()
    with pytest.raises(WriteConflict), table_lock(storage, timeout_s=1, monotonic=time.monotonic, sleep=time.sleep):
        pass
    assert storage.read_bytes(LOCK_FILE, 10) == b""


def test_lock_of_a_process_that_ended_is_taken_over(storage: LocalStorage) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = int(pathlib.Path(f"/proc/{ended.pid}/stat").read_text().rpartition(")")[2].split()[19])
    content = LockOwner(this_process().host, ended.pid, started).encode()
    assert not is_dead(content)
    ended.communicate(b"\n")
    assert is_dead(content)
    storage.create(LOCK_FILE, content)
    time = Time()
    with table_lock(storage, timeout_s=0, monotonic=time.monotonic, sleep=time.sleep):
        assert json.loads(storage.read_bytes(LOCK_FILE, 1000))["pid"] == this_process().pid


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"host": "h", "pid": "x", "started": 1}', b"\xff", b"null"])
def test_lock_of_unknown_content_belongs_to_a_writer_that_may_run(content: bytes) -> None:
    assert not is_dead(content)


def test_lock_of_another_machine_belongs_to_a_writer_that_may_run() -> None:
    assert not is_dead(LockOwner("another", 1, 1).encode())


def test_lock_that_another_took_over_stays_and_the_loss_is_noticed(storage: LocalStorage) -> None:
    """Also if the other one is a writer of the same process."""
    time = Time()
    with table_lock(storage, timeout_s=0, monotonic=time.monotonic, sleep=time.sleep) as check_lock:
        check_lock()
        storage.remove(LOCK_FILE)
        with pytest.raises(WriteConflict, match="lost the table's lock"):
            check_lock()
        with table_lock(storage, timeout_s=0, monotonic=time.monotonic, sleep=time.sleep):
            with pytest.raises(WriteConflict, match="lost the table's lock"):
                check_lock()
            storage.replace(LOCK_FILE, b"another")
    assert storage.read_bytes(LOCK_FILE, 10) == b"another"


def test_counts_of_threads_under_the_lock_are_exact(storage: LocalStorage) -> None:
    """Each thread reads a number, and writes the next one: a lock that two hold loses counts."""
    storage.create("count", b"0")

    def count() -> None:
        for _ in range(20):
            time = Time()
            while True:
                try:
                    with table_lock(storage, timeout_s=0, monotonic=time.monotonic, sleep=time.sleep):
                        storage.replace("count", str(int(storage.read_bytes("count", 10)) + 1).encode())
                        break
                except WriteConflict:
                    continue

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert storage.read_bytes("count", 10) == b"80"
