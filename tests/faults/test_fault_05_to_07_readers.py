"""Faults 5, 6 and 7 with real readers: stopped longer than their lease, killed within a split, disconnected from the
server.

In every case the committed batches are Hudi's changes, each once.
"""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import Fenced, StorageError
from penstock.proto.model.groups import Member, ReaderState, SplitProgress, SplitRef
from tests.faults.fault_proxy import FaultProxy
from tests.faults.local_server import LocalServer
from tests.faults.served import (
    CASE,
    ONCE,
    RETRY_DELAYS,
    Served,
    check_changes,
    drain,
    end,
    following,
    penstock,
    until,
    written,
)
from tests.progress import PROGRESS_S

pytestmark = pytest.mark.golden
PROGRAM = pathlib.Path(__file__).with_name("reader_process.py")


@contextmanager
def reader_process(server: Served | LocalServer, reader_id: str, log: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    """A process of `reader_process.py`, killed at the end."""
    with log.open("a") as stderr:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), server.address, reader_id],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        assert process.stdin is not None
        end(process)
        process.stdin.close()


def read_line(process: subprocess.Popen[str], line: str = "") -> str:
    """Sends `line`, if given, to the process and returns its next line."""
    assert process.stdin is not None and process.stdout is not None
    if line:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


def readers(client: EnumeratorClient) -> dict[str, ReaderState]:
    return {one.reader_id: one for one in client.describe_group("t", "g").readers}


@pytest.mark.exhaustive
def test_fault_05_reader_stopped_longer_than_its_lease_commits_nothing(golden: Any, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out"
    with (
        Served(tmp_path, golden.table(CASE), lease="3s", metrics=True) as server,
        reader_process(server, "zombie", tmp_path / "reader.log") as zombie,
    ):
        client = server.client(RETRY_DELAYS)
        assert read_line(zombie).startswith("holds ")
        epoch = readers(client)["zombie"].epoch
        assert client.describe_group("t", "g").held_splits == 2
        zombie.send_signal(signal.SIGSTOP)
        until(lambda: "zombie" not in readers(client), "the lease is over")
        assert server.metric("penstock_split_events_total", event="expired") == 2
        arguments = ["t", "--server", server.address, "--group", "g", "--query", "cdc", "--cdc-format", "hudi"]
        log = tmp_path / "tail.log"
        tail = penstock("tail", *arguments, "--format", "jsonl", "--output-dir", out, "--exit-at-end", log=log)
        try:
            assert tail.wait(PROGRESS_S) == 0, log.read_text()
        finally:
            end(tail)
        check_changes(golden, written(out))
        rows = server.metric("penstock_reader_records_total")
        assert rows == sum(batch.num_rows for batch in written(out))
        assert server.metric("penstock_split_events_total", event="fenced") == 0
        zombie.send_signal(signal.SIGCONT)
        assert read_line(zombie, "go on").startswith("FENCED ")
        before = server.metric("penstock_split_events_total", event="fenced")
        stale = SplitProgress(ref=SplitRef("r0", 0), ordinal=1, finished=True)
        with pytest.raises(Fenced, match="it is not a member"):  # independent of its own clock
            client.commit_splits(Member("t", "g", "zombie", epoch), (stale,))
        assert server.metric("penstock_split_events_total", event="fenced") == before + 1
        assert server.metric("penstock_reader_records_total") == rows


@pytest.mark.exhaustive
def test_fault_06_splits_of_a_killed_reader_stay_for_its_lease_then_move(golden: Any, tmp_path: pathlib.Path) -> None:
    """The restarted reader holds the splits of the killed one. It is killed too, and another reader reads them."""
    log = tmp_path / "reader.log"
    with Served(tmp_path, golden.table(CASE), lease="4s") as server:
        client = server.client(ONCE)
        with reader_process(server, "killed", log) as first:
            held = read_line(first)
            assert held.startswith("holds ")
            first.kill()
            first.wait()
        before = readers(client)["killed"]
        assert before.held_splits == 2
        with reader_process(server, "killed", log) as second, following(server, "other") as other:
            batch = other.poll()
            assert batch is not None and batch.split_id != held.split()[1]
            assert read_line(second) == held
            now = readers(client)["killed"]
            assert now.epoch > before.epoch and now.held_splits == 2
            second.kill()
            until(lambda: "killed" not in readers(client), "its lease is over")
            other.commit(batch)
            check_changes(golden, [batch.batch, *drain(other)])


SHORT = CallLimits(deadline_ms=1_500, attempts=1, heartbeat_deadline_ms=1_500)


def test_fault_07_reader_without_heartbeats_stops_before_its_lease_ends(golden: Any, tmp_path: pathlib.Path) -> None:
    """Bytes take 0.4 s in each direction: a lease that the reader counted from an answer would end later than the
    server's."""
    with (
        Served(tmp_path, golden.table(CASE), lease="4s") as server,
        FaultProxy(server.address) as proxy,
        following(None, "cut-off", enumerator=EnumeratorClient(proxy.address, SHORT)) as reader,
    ):
        client = server.client(ONCE)
        batch = reader.poll()
        assert batch is not None
        proxy.to_server.delay_s = proxy.to_client.delay_s = 0.4
        before_bytes = proxy.to_client.passed_bytes
        until(lambda: proxy.to_client.passed_bytes > before_bytes, "a heartbeat is answered, late")
        proxy.to_server.dropped = True
        at_server = readers(client).get("cut-off")
        assert reader.lease_left_ms <= (0 if at_server is None else at_server.lease_left_ms)
        until(lambda: reader.lease_left_ms == 0, "the reader stops by itself")
        for call in (lambda: reader.commit(batch), reader.poll):
            with pytest.raises(Fenced, match="its lease of 4000 ms is over"):
                call()
        assert proxy.to_server.lost_bytes > 0
        until(lambda: "cut-off" not in readers(client), "the server gives its splits to others")
        with following(server, "other") as other:
            check_changes(golden, drain(other))
        proxy.heal()
        until(lambda: answers(reader.join), "the reader is heard again")
        assert drain(reader) == []


def answers(call: Any) -> bool:
    """Whether the call raises Fenced; False for a StorageError."""
    try:
        call()
    except StorageError:
        return False
    return True


@pytest.mark.exhaustive
def test_fault_07_commit_whose_answer_is_lost_counts_once(golden: Any, tmp_path: pathlib.Path) -> None:
    """Only one direction is open: the server gets the commit, but the reader gets no answer and stops. After it joins
    again it continues after this commit."""
    with (
        Served(tmp_path, golden.table(CASE), lease="3s") as server,
        FaultProxy(server.address) as proxy,
        following(None, "r", enumerator=EnumeratorClient(proxy.address, SHORT)) as reader,
    ):
        client = server.client(ONCE)
        batch = reader.poll()
        assert batch is not None
        proxy.to_client.dropped = True
        with pytest.raises(Fenced):
            reader.commit(batch)
        until(lambda: "r" not in readers(client), "its lease is over")
        proxy.heal()
        until(lambda: answers(reader.join), "the reader is heard again")
        check_changes(golden, [batch.batch, *drain(reader)])
