"""`penstock tail` as a process that is killed, with a server in the test process."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine.arrow import read
from penstock.engine.group.lease import monotonic_ms
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.run import RunningServer, serve_enumerator
from penstock.proto.errors import StorageError
from penstock.proto.model.queries import Incremental, PlanRequest

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden
CASE = "A_compaction_then_updates_v9_h120"


class RealTime:
    """The clock of the scripted group, running in real time."""

    @property
    def now(self) -> int:
        return monotonic_ms()


@pytest.fixture
def table(golden: GoldenTables) -> str:
    """A merge-on-read table with base and log files."""
    return str(golden.table(CASE))


@pytest.fixture
def real(group: Any, table: str) -> Any:
    """The scripted group, with one round over the whole table."""
    planned = EmbeddedEnumerator().plan(PlanRequest(table=table, query=Incremental()))
    assert len(planned.splits) > 1
    group.rounds, group.scans = {"plan-1": planned.splits}, {"plan-1": planned.scan}
    group.clock = RealTime()
    return group


@pytest.fixture
def server(real: Any) -> Iterator[RunningServer]:
    """A server on loopback."""
    with serve_enumerator(real, "127.0.0.1:0", real) as running:
        yield running


def tail(server: RunningServer, *arguments: object) -> subprocess.Popen[bytes]:
    """The started `penstock tail` process."""
    command = [sys.executable, "-m", "penstock", "tail", "trips", "--server", server.address, "--group", "g"]
    words = [*command, "--reader-id", "r", *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def files(folder: pathlib.Path) -> dict[str, pa.Table]:
    """Contents by file name, without hidden files."""
    return {path.name: pq.read_table(path) for path in sorted(folder.glob("[!.]*"))}


def test_crash_between_rename_and_commit_leaves_each_split_once(
    real: Any, server: RunningServer, table: str, tmp_path: pathlib.Path
) -> None:
    """SIGKILL at each commit: the file exists, and the server has no commit."""
    commit, running = real.commit_splits, []

    def killed(member: Any, done: Any) -> None:
        os.kill(running[-1].pid, signal.SIGKILL)
        raise StorageError("the calling process has ended")

    real.commit_splits = killed
    running.append(tail(server, "--exit-at-end", "--output-dir", tmp_path))
    out, err = running[-1].communicate(timeout=60)
    assert (running[-1].returncode, out, err) == (-signal.SIGKILL, b"", b"")
    written = files(tmp_path)
    assert len(written) == 1
    assert real.committed() == {}
    real.commit_splits = commit
    running.append(tail(server, "--exit-at-end", "--output-dir", tmp_path))
    out, err = running[-1].communicate(timeout=60)
    assert (running[-1].returncode, out, err) == (0, b"", b"")
    contents = files(tmp_path)
    assert set(contents) == {f"{split.split_id}.parquet" for split in real.rounds["plan-1"]}
    rows = pa.concat_tables(contents.values()).to_pylist()
    expected = read(table, query="incremental", after="earliest").read_all().to_pylist()
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    assert all(finished for _, finished in real.committed().values())


def test_sigterm_leaves_the_group_and_is_no_error(real: Any, server: RunningServer) -> None:
    process = tail(server)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"{")
    give_up = time.monotonic() + 30
    while not (real.committed() and all(finished for _, finished in dict(real.committed()).values())):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert real.calls_of("leave")
