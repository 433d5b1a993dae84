"""SIGKILL in mid-stream, of the driver and of the server: no commit is skipped or repeated, and each is complete.

The driver (restart_driver.py) waits for this test at every step, so that each kill is at a defined moment.
"""

from __future__ import annotations

import pathlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from tests.spark.line_process import LineProcess

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]
CASE = "B_v9_inc_mor"
DATA_COMMITS = [f"inc_{n:02}" for n in (1, 2, 3, 4, 6, 7, 9, 10, 11)]
"""Commit 5 is a compaction, 8 a clustering."""


class Bench:
    """A table, its server, drivers over one checkpoint, and their output files."""

    def __init__(self, table: pathlib.Path, workspace: pathlib.Path) -> None:
        self._table, self._workspace = table, workspace
        self._started: list[LineProcess] = []
        self.output = workspace / "out"
        self.output.mkdir()
        self.address = "127.0.0.1:0"

    def server(self) -> LineProcess:
        """`penstock serve`; a second one has the address of the first."""
        command = [sys.executable, "-m", "penstock", "serve", "--table", f"t={self._table}", "--listen", self.address]
        server = self._start(command, "server.log")
        self.address = server.line()
        return server

    def driver(self) -> LineProcess:
        """A driver that continues from the checkpoint."""
        script = pathlib.Path(__file__).with_name("restart_driver.py")
        paths = [str(self._workspace / "checkpoint"), str(self.output)]
        return self._start([sys.executable, str(script), self.address, "t", *paths], "driver.log")

    def stop(self) -> None:
        """Stops all processes."""
        for process in self._started:
            process.kill()

    def _start(self, command: list[str], log: str) -> LineProcess:
        self._started.append(LineProcess(command, self._workspace / log))
        return self._started[-1]


@pytest.fixture
def bench(golden: Any, tmp_path: pathlib.Path) -> Iterator[Bench]:
    """Stops all processes after the test."""
    created = Bench(golden.table(CASE), tmp_path)
    yield created
    created.stop()


def run_until(driver: LineProcess, step: str) -> list[str]:
    """Lets the driver continue until it prints `step`, where it waits; all its lines."""
    message = [driver.line()]
    while message[-1] != step:
        assert not message[-1].startswith("failed"), message[-1]
        driver.go_on()
        message.append(driver.line())
    return message


def check(bench: Bench, golden: Any, rows_of: RowsOf) -> None:
    """Data micro-batches are data commits, and each equals that commit's own rows."""
    assert sorted(path.name for path in bench.output.iterdir()) == sorted(
        f"{batch_id}.parquet" for batch_id in range(len(DATA_COMMITS))
    )
    for batch_id, query_id in enumerate(DATA_COMMITS):
        rows = pq.read_table(bench.output / f"{batch_id}.parquet")
        assert rows_of(rows) == rows_of(golden.expected(CASE, query_id)), query_id


def steps(first: int, last: int) -> list[str]:
    """The lines of a driver from one micro-batch to the next."""
    return [f"{step} {n}" for n in range(first, last + 1) for step in ("planned", "written")]


@pytest.mark.long
def test_driver_killed_repeats_uncommitted_rows(bench: Bench, golden: Any, rows_of: RowsOf) -> None:
    """With rows written but not committed: they are read and written again, with a new plan."""
    bench.server()
    first = bench.driver()
    assert run_until(first, "written 3") == steps(0, 3)
    first.kill()
    (bench.output / "3.parquet").unlink()
    second = bench.driver()
    assert run_until(second, "done") == [*steps(3, len(DATA_COMMITS) - 1), "done"]
    check(bench, golden, rows_of)


def test_server_killed_fails_or_continues_the_stream(bench: Bench, golden: Any, rows_of: RowsOf) -> None:
    """With an open plan the stream fails with an error that names the plan, and continues after a restart of the query.
    Between two micro-batches it continues by itself."""
    server, driver = bench.server(), bench.driver()
    assert run_until(driver, "planned 2") == [*steps(0, 1), "planned 2"]
    server.kill()
    server = bench.server()
    driver.go_on()
    failure = driver.line()
    assert failure.startswith("failed") and "UnknownPlan: no plan" in failure
    driver.go_on()
    assert run_until(driver, "written 5") == steps(2, 5)
    server.kill()
    bench.server()
    driver.go_on()
    assert run_until(driver, "done") == [*steps(6, len(DATA_COMMITS) - 1), "done"]
    check(bench, golden, rows_of)
