"""Fault 4: two servers on one state directory: the second waits, gives up, or takes over and fences the first."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
from dataclasses import dataclass, field

import pytest

from penstock.enumerator.store.protocol import StoredRecord
from penstock.enumerator.store.sqlite.check import check_state
from penstock.enumerator.store.sqlite.lock import Clocks
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.proto.errors import Fenced, StorageError
from tests.faults.state_steps import everything, reopened, started


@dataclass
class FakeClock:
    """A clock that advances in `sleep`, with actions at given times."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)
    at: float = float("inf")

    def clocks(self, then: object = None) -> Clocks:
        def sleep(seconds: float) -> None:
            self.now += seconds
            self.slept.append(seconds)
            if self.now >= self.at and callable(then):
                then()

        return Clocks(monotonic=lambda: self.now, sleep=sleep, wall=lambda: 0.0)


def ask(process: subprocess.Popen[str], line: str) -> str:
    """Requests the other process to append a line and returns its output."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_fault_04_second_server_gives_up_and_names_the_first(tmp_path: pathlib.Path) -> None:
    with started("serve", tmp_path / "state") as other:
        assert first_line(other) == "epoch 1"
        clock = FakeClock()
        with pytest.raises(StorageError, match=rf"process {other.pid} on {socket.gethostname()} since 20.* 5000 ms"):
            open_sqlite(tmp_path / "state", wait_ms=5000, clocks=clock.clocks())
        assert 4.9 < clock.now < 5.2 and len(clock.slept) > 10
        assert ask(other, "still") == "durable still"
        assert other.stdin is not None
        other.stdin.close()


def test_fault_04_second_server_waits_until_the_first_ends(tmp_path: pathlib.Path) -> None:
    first = open_sqlite(tmp_path / "state")
    first.append([StoredRecord("k", 1, b"a")])
    clock = FakeClock(at=3.0)
    second = open_sqlite(tmp_path / "state", wait_ms=60_000, clocks=clock.clocks(first.close))
    assert 3.0 <= clock.now < 3.1 and second.epoch == 2
    assert everything(second) == ([b"a"], {})
    second.close()


def test_fault_04_killed_servers_directory_is_free_at_once(tmp_path: pathlib.Path) -> None:
    with started("serve", tmp_path / "state") as other:
        assert first_line(other) == "epoch 1" and ask(other, "a") == "durable a"
        other.kill()
        other.wait()
        store = open_sqlite(tmp_path / "state")
    assert store.epoch == 2 and everything(store) == ([b"a"], {})
    store.close()


def test_fault_04_takeover_fences_the_first(tmp_path: pathlib.Path) -> None:
    state = tmp_path / "state"
    with started("serve", state) as other:
        assert first_line(other) == "epoch 1" and ask(other, "a") == "durable a"
        store = open_sqlite(state, takeover=True)
        assert store.epoch == 2
        store.append([StoredRecord("line", 1, b"b")])
        refused = ask(other, "c")
        assert refused.startswith("FENCED ") and f"epoch 2 writes now (process {os.getpid()} on " in refused
        assert ask(other, "d").startswith("FENCED ")
        store.append([StoredRecord("line", 1, b"e")])
        with pytest.raises(StorageError, match=f"process {os.getpid()} "):  # the lock of the newest leader counts
            open_sqlite(state)
        assert other.stdin is not None
        other.stdin.close()
    with pytest.raises(StorageError, match=f"process {os.getpid()} "):  # even if the first has ended
        open_sqlite(state)
    assert check_state(state).live
    store.close()
    assert reopened(state)[0] == [b"a", b"b", b"e"]


def test_fault_04_suspended_server_is_fenced_when_it_resumes(tmp_path: pathlib.Path) -> None:
    state = tmp_path / "state"
    with started("serve", state) as other:
        assert first_line(other) == "epoch 1" and ask(other, "a") == "durable a"
        other.send_signal(signal.SIGSTOP)
        with started("takeover", state) as newer:
            assert first_line(newer) == "epoch 2" and ask(newer, "b") == "durable b"
            other.send_signal(signal.SIGCONT)
            assert ask(other, "c").startswith("FENCED ")
            assert ask(newer, "d") == "durable d"
            assert newer.stdin is not None and other.stdin is not None
            newer.stdin.close()
            other.stdin.close()
    assert reopened(state)[0] == [b"a", b"b", b"d"]


def test_fault_04_of_many_takeovers_the_last_leads(tmp_path: pathlib.Path) -> None:
    stores = [open_sqlite(tmp_path / "state", takeover=True) for _ in range(5)]
    assert [store.epoch for store in stores] == [1, 2, 3, 4, 5]
    for store in stores[:-1]:
        with pytest.raises(Fenced, match="epoch 5 writes now"):
            store.append([StoredRecord("k", 1, b"old")])
        store.close()
    stores[-1].append([StoredRecord("k", 1, b"new")])
    with pytest.raises(StorageError):
        open_sqlite(tmp_path / "state")
    stores[-1].close()
    assert reopened(tmp_path / "state")[0] == [b"new"]
    assert [path.name for path in (tmp_path / "state").glob("*lock*")] == ["penstock.lock"]
