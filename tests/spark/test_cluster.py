"""A standalone cluster of a master and two one-core workers: faults in a task, an executor or the driver change no row
(fault 9).

Each task of the source pulls its splits from a `penstock serve` process. The test compares the rows of each attempt of
a slot byte for byte, and the sink, a folder of Parquet per micro-batch, with Hudi's rows.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame

from tests.histories.journal import keep_state
from tests.loopback_ports import free_port
from tests.spark.line_process import LineProcess
from tests.spark.standalone import Standalone, waited

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]
CASE = "B_v9_inc_mor"
BEFORE = "inc_06"
COMMITS = ["inc_07", "inc_09", "inc_10", "inc_11"]
"""One micro-batch each, after BEFORE. The second one, with the fault, has two tasks."""
AWAY_S = 9.0
"""The time of an ordinary restart of the server under load."""


class Cluster:
    """Master, workers, a server of the table, and the current driver; each stream has a workspace."""

    def __init__(self, table: pathlib.Path, folder: pathlib.Path) -> None:
        self._folder, self._spark = folder, Standalone(folder)
        self._driver: LineProcess | None = None
        self._speculates = False
        self.executors = self._spark.executors
        self.address = f"127.0.0.1:{free_port()}"
        self._serve = [sys.executable, "-m", "penstock", "serve", "--table", f"t={table}", "--listen", self.address]
        self._serve += ["--state", str(folder / "state")]
        self._server = LineProcess(self._serve, self._folder / "server.log")
        assert self._server.line() == self.address

    def restart_server(self, away_s: float, while_away: Callable[[], object]) -> None:
        """Kills the server with SIGKILL, calls `while_away`, and starts a new process on the same state after
        `away_s`."""
        self._server.kill()
        keep_state(self._folder / "state")
        while_away()
        begin_s = time.monotonic()
        waited(lambda: time.monotonic() - begin_s >= away_s, "the end of the outage")
        self._server = LineProcess(self._serve, self._folder / "server.log")
        assert self._server.line() == self.address

    def driver(self, *, speculates: bool) -> LineProcess:
        """The running driver, otherwise a new one."""
        if self._driver is None or self._speculates != speculates:
            self.kill_driver()
            script = pathlib.Path(__file__).with_name("cluster_driver.py")
            words = [sys.executable, str(script), self._spark.master, str(speculates).lower()]
            self._driver, self._speculates = LineProcess(words, self._folder / "driver.log"), speculates
            assert self._driver.line() == "ready"
        return self._driver

    def kill_driver(self) -> None:
        """Kills the driver and its JVM with SIGKILL; the master ends its executors."""
        if self._driver is not None:
            self._driver.kill()
            self._driver = None

    def stop(self) -> None:
        """Stops all processes."""
        self.kill_driver()
        self._server.kill()
        self._spark.stop()


class Stream:
    """A stream's folder: its checkpoint, its output, and the records of its attempts."""

    def __init__(self, folder: pathlib.Path, address: str, harm: str, harmed: int, **options: str) -> None:
        self.folder = folder
        (folder / "attempts").mkdir()
        requested = {"server": address, "table": "t", "folder": str(folder), "harm": harm, "harmed": harmed}
        self.request = json.dumps({**requested, "options": options})

    def harmed(self) -> dict[str, Any]:
        """The record of the waiting attempt; waits for it."""
        waited(lambda: (self.folder / "harmed").exists(), "a task that does harm")
        return self.attempts(0)[-1]

    def go(self) -> None:
        """Lets waiting tasks continue (also those of killed executors and drivers)."""
        (self.folder / "go").touch()

    def attempts(self, slot: int) -> list[dict[str, Any]]:
        """The records of every attempt of the slot in every micro-batch with a fault, the earliest first."""
        harmed = json.loads(self.request)["harmed"]
        notes = sorted(
            (self.folder / "attempts").glob(f"{harmed}-{slot}-*.json"), key=lambda path: path.stat().st_mtime_ns
        )
        return [json.loads(note.read_text()) for note in notes]

    def check(self, golden: Any, rows_of: RowsOf) -> None:
        """The sink has Hudi's rows, micro-batch by micro-batch."""
        written = sorted(int(path.name) for path in (self.folder / "out").iterdir())
        assert written == list(range(len(COMMITS)))
        for batch_id, query_id in enumerate(COMMITS):
            rows = ds.dataset(self.folder / "out" / str(batch_id), format="parquet").to_table()
            assert rows_of(rows) == rows_of(golden.expected(CASE, query_id)), query_id

    def check_attempts(self, *, executors: int) -> None:
        """The slot was read more than once, on so many executors, and each attempt got the same bytes; it was one of
        two. `penstock-python` started their processes."""
        assert self.attempts(1)
        notes = self.attempts(0)
        assert len(notes) > 1
        assert notes[0]["rows"] > 0
        assert {(note["digest"], note["rows"]) for note in notes} == {(notes[0]["digest"], notes[0]["rows"])}
        assert not any(".zip" in note["pyspark"] for note in notes)
        assert len({note["executor"] for note in notes}) >= executors, notes


@pytest.fixture(scope="module")
def cluster(golden: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """For all tests of this module, in an order that needs the fewest drivers."""
    created = Cluster(golden.table(CASE), tmp_path_factory.mktemp("cluster"))
    try:
        yield created
    finally:
        created.stop()


def late(golden: Any) -> dict[str, str]:
    """The option with which a stream begins before COMMITS."""
    (key,) = [query["end"] for query in golden.case(CASE)["queries"] if query["id"] == BEFORE]
    return {"after": key}


def test_task_that_fails_is_retried_with_the_same_rows(
    cluster: Cluster, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    """It fails after it has read its slot: the next attempt reads the same rows."""
    stream = Stream(tmp_path, cluster.address, "fail", 1, **late(golden))
    driver = cluster.driver(speculates=True)
    driver.go_on(stream.request)
    assert driver.line() == "done"
    stream.check(golden, rows_of)
    stream.check_attempts(executors=1)


def test_slow_task_runs_twice_with_the_same_rows(
    cluster: Cluster, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    """Speculation: the copy on the other executor ends the micro-batch, and the first attempt is killed."""
    stream = Stream(tmp_path, cluster.address, "stay", 1, **late(golden))
    driver = cluster.driver(speculates=True)
    driver.go_on(stream.request)
    assert driver.line() == "done"
    assert not (stream.folder / "go").exists(), "the first attempt never went on"
    stream.check(golden, rows_of)
    stream.check_attempts(executors=2)


@pytest.mark.long
def test_driver_killed_in_mid_batch_changes_no_row(
    cluster: Cluster, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    """With an open plan, one task done and the other reading: a new driver continues from the checkpoint."""
    stream = Stream(tmp_path, cluster.address, "stay all", 1, **late(golden))
    driver = cluster.driver(speculates=True)
    driver.go_on(stream.request)
    before = stream.harmed()
    waited(lambda: stream.attempts(1), "the other slot")
    cluster.kill_driver()
    stream.go()
    (checkpointed,) = [sorted(path.name for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))]
    assert checkpointed == ["0"]
    driver = cluster.driver(speculates=False)
    driver.go_on(stream.request)
    assert driver.line() == "done"
    stream.check(golden, rows_of)
    assert {note["executor"].split("/")[0] for note in stream.attempts(0)} > {before["executor"].split("/")[0]}


@pytest.mark.exhaustive
def test_server_restart_during_a_micro_batch_changes_no_row(
    cluster: Cluster, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    """It is down when the tasks request their first splits: they wait for it, and none of them fails."""
    stream = Stream(tmp_path, cluster.address, "plan", 1, **late(golden))
    driver = cluster.driver(speculates=False)
    driver.go_on(stream.request)
    waited(lambda: (tmp_path / "harmed").exists(), "the plan of a micro-batch")
    cluster.restart_server(AWAY_S, stream.go)
    assert driver.line() == "done"
    stream.check(golden, rows_of)
    notes = [json.loads(note.read_text()) for note in (tmp_path / "attempts").glob("*.json")]
    assert notes and not any(note["attempt"] for note in notes), "a task failed"


@pytest.mark.exhaustive
def test_executor_that_is_lost_changes_no_row(
    cluster: Cluster, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    """Killed in mid-stage: another executor reads the same slot again."""
    stream = Stream(tmp_path, cluster.address, "stay", 1, **late(golden))
    driver = cluster.driver(speculates=False)
    driver.go_on(stream.request)
    executor = stream.harmed()["executor"]
    os.kill(cluster.executors()[executor], signal.SIGKILL)
    assert driver.line() == "done"
    stream.go()
    stream.check(golden, rows_of)
    stream.check_attempts(executors=2)
