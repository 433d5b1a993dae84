"""Real `penstock serve` and `penstock tail` processes, waits for conditions, and comparison with Hudi's changes.

Every wait has a deadline, and fails with the log of the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import grpc
import pyarrow as pa
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.engine.consumer import Consumer
from penstock.proto.client.client import CallLimits, EnumeratorClient
from tests.faults.checks import fail
from tests.golden.changes import hudi_changes, lost_decimals
from tests.histories.journal import keep_state
from tests.histories.reports import ask_for_groups
from tests.loopback_ports import free_port
from tests.progress import PROGRESS_S

CASE: Final = "B_v9_cdc_cow_data_before_after"
"""A table of ten commits (updates, deletes, moves, replacements) with the 24 changes that Hudi returned for it."""
ONCE: Final = CallLimits(deadline_ms=60_000, attempts=1)
RETRY_DELAYS: Final = CallLimits(deadline_ms=60_000, attempts=60, first_pause_ms=50, longest_pause_ms=300)
_T = TypeVar("_T")


def until(condition: Callable[[], _T], what: str, timeout_s: float = PROGRESS_S) -> _T:
    """Waits until `condition` returns a true value and returns it. Fails after `timeout_s`."""
    end_s = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < end_s, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)
    return answer


def penstock(*arguments: object, log: pathlib.Path, **more: Any) -> subprocess.Popen[str]:
    """Starts a `penstock` command as a process; stdout is a pipe, stderr is appended to `log`."""
    program = "import sys; from penstock.engine.cli.main import run; sys.exit(run(sys.argv[1:]))"
    with log.open("a") as stderr:
        return subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=stderr, text=True, **more,
        )  # fmt: skip


class Served:
    """`penstock serve` at one address. After `kill` and `start` a new process has the same address."""

    def __init__(
        self,
        folder: pathlib.Path,
        table: pathlib.Path | str,
        *,
        state: str | None = "state",
        name: str = "server",
        lease: str = "30s",
        metrics: bool = False,
        flags: Iterable[str] = (),
    ) -> None:
        """Not started yet."""
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics_address = f"127.0.0.1:{free_port()}" if metrics else ""
        self.log = folder / f"{name}.log"
        self.process: subprocess.Popen[str] | None = None
        self.state = None if state is None else folder / state
        self._arguments = ["serve", "--table", f"t={table}", "--listen", self.address, "--lease", lease]
        self._arguments += ["--poll-interval", "200ms", *flags]
        if self.state is not None:
            self._arguments += ["--state", str(self.state)]
        if metrics:
            self._arguments += ["--metrics-listen", self.metrics_address]

    def start(self, failpoints: str = "", *, ready: bool = True) -> Self:
        """Starts a new process and waits until it serves."""
        environment = {**os.environ, "PENSTOCK_FAILPOINTS": failpoints}
        self.process = penstock(*self._arguments, log=self.log, env=environment)
        if ready:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Waits for SERVING and closes the cached connection to the previous process."""
        until(
            lambda: self._check_running() and self.serves() == "SERVING",
            f"SERVING; its log: {self.log.read_text()[-2000:]}",
        )
        self.client().close()

    def serves(self) -> str:
        """Status of the health service; empty if the server is unreachable."""
        with grpc.insecure_channel(self.address) as channel:
            try:
                response = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2)
            except grpc.RpcError:
                return ""
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))

    @property
    def pid(self) -> int:
        """Process id of the last process."""
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.wait_killed()

    def wait_killed(self) -> None:
        """Waits until the process has ended by SIGKILL, from a failpoint or `kill`."""
        assert self.process is not None
        assert self.process.wait(PROGRESS_S) == -signal.SIGKILL, self.log.read_text()[-2000:]
        assert self.process.stdout is not None
        self.process.stdout.close()
        if self.state is not None:
            keep_state(self.state)

    def client(self, limits: CallLimits = RETRY_DELAYS) -> EnumeratorClient:
        """A client of the address, with a new connection."""
        client = EnumeratorClient(self.address, limits)
        client.close()
        return client

    def metrics(self) -> dict[str, float]:
        """Every sample of the metrics page by its name with labels."""
        with urllib.request.urlopen(f"http://{self.metrics_address}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples with these labels."""
        samples = self.metrics().items()
        expected = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(v for k, v in samples if re.match(rf"{name}\b", k) and all(item in k for item in expected))

    def _check_running(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"ended: {self.log.read_text()[-2000:]}"
        return True

    def __enter__(self) -> Self:
        return self.start() if self.process is None else self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self.process is not None and self.process.poll() is None:
            ask_for_groups(self.address)
        end(self.process)


def end(process: subprocess.Popen[str] | None) -> None:
    """Kills the process, even if it is suspended, and waits for its end."""
    if process is None:
        return
    with contextlib.suppress(OSError):
        process.send_signal(signal.SIGCONT)
    process.kill()
    process.wait(PROGRESS_S)
    if process.stdout is not None:
        process.stdout.close()


def following(server: Served | None, reader_id: str, **options: Any) -> Consumer:
    """A reader of group `g`: changes in Hudi's format, two splits at a time; embedded without a server."""
    settings = {"query": "cdc", "cdc_format": "hudi", "max_splits": 2, **options}
    return Consumer(server and server.address, "t", group="g", reader_id=reader_id, **settings)


def drain(reader: Consumer) -> list[pa.RecordBatch]:
    """Reads and commits until the group has no split left."""
    batches = []

    def is_done() -> bool:
        while (consumed := reader.poll(0)) is not None:
            batches.append(consumed.batch)
            reader.commit(consumed)
        return reader.caught_up

    until(is_done, f"{reader} has it all")
    return batches


def differing(golden: Any, batches: Iterable[pa.RecordBatch], case: str = CASE) -> list[Any]:
    """Differences between these batches and the changes that Hudi returned for the whole table, as multisets; empty if
    they are equal."""
    hudi_rows, received = golden.expected(case, "cdc_all"), pa.Table.from_batches(batches)
    lost = lost_decimals(hudi_rows)
    expected, actual = hudi_changes(hudi_rows, lost), hudi_changes(received, lost)
    assert expected.total() >= 20
    return [*(("lacks", item) for item in expected - actual), *(("too much", item) for item in actual - expected)]


def check_changes(golden: Any, batches: Iterable[pa.RecordBatch], case: str = CASE) -> None:
    """The batches are the changes that Hudi returned for the whole table, each once."""
    if found := differing(golden, batches, case):
        fail("the table's changes", f"{len(found)} differ: {found[:3]}")


def written(folder: pathlib.Path) -> list[pa.RecordBatch]:
    """The rows in the files of `penstock tail --output-dir --format jsonl`."""
    rows = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    batches: list[pa.RecordBatch] = pa.Table.from_pylist(rows).to_batches()
    return batches
