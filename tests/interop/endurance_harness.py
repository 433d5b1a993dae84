"""The steady processes of an endurance run, which nobody kills, and the measurements of them.

A server, a Spark driver (`endurance_driver`), two readers of a group, of which one is killed from time to time, and a
reader that continues from a table in its topic. `soak_harness` has the processes that are killed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import pathlib
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psutil
import pyarrow.parquet as pq

from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import PenstockError
from tests.histories.reports import ask_for_groups
from tests.hybrid.topic_records import TopicProducer
from tests.interop.chaos_harness import Actor
from tests.interop.endurance_series import Measurements
from tests.interop.soak_harness import Driver, committed
from tests.interop.soak_samples import processes_of
from tests.interop.soak_writer import SoakWriter
from tests.loopback_ports import free_port

GROUP_READER: Final = pathlib.Path(__file__).parents[1] / "hybrid" / "group_reader_process.py"
QUERIES: Final = ("rows", "changes", "windows", "joined")
GROUP: Final = "changes"
LEASE_S: Final = 10
STRIKES_S: Final = (20.0, 90.0)
SIZES_EVERY_S: Final = 15.0
RECORDS_EVERY_S: Final = 1.0
AHEAD: Final = 8
"""The most commits between a writer and its slowest reader: the cleaner retains more."""


class Writers(threading.Thread):
    """Writes to the tables in turn until stopped, with pauses. Waits for readers more than AHEAD commits behind."""

    def __init__(self, writers: Sequence[SoakWriter], pause_s: float) -> None:
        super().__init__(name="endurance-writers", daemon=True)
        self._writers, self._pause_s, self._stop_requested = writers, pause_s, threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Writes; `failure` is its error."""
        try:
            while not self._stop_requested.wait(self._pause_s):
                for writer in self._writers:
                    if len(writer.commits) < AHEAD or writer.have_committed(writer.commits[-AHEAD].order_key):
                        writer.write_one()
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self.failure = error

    def stop(self) -> None:
        """Returns after the current write."""
        self._stop_requested.set()
        self.join()


@dataclass(kw_only=True)
class Steady:
    """The steady processes of one folder. `tables`: t and u by their names, and h, which continues in the topic."""

    tables: Mapping[str, pathlib.Path]
    topic: str
    bootstrap: str
    producer: TopicProducer
    folder: pathlib.Path
    rng: random.Random
    measured: Measurements
    began: float
    sample_every_s: float
    every: str
    """The interval of micro-batches."""
    address: str = field(default_factory=lambda: f"127.0.0.1:{free_port()}")
    happened: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        logs = self.folder / "logs"
        for path in (logs, *(self.folder / name / "out" for name in ("group", "hybrid"))):
            path.mkdir(parents=True)
        serve = ["serve", "--config", str(self._config()), "--state", str(self.folder / "state")]
        serve += ["--listen", self.address, "--lease", f"{LEASE_S}s", "--poll-interval", "200ms"]
        self.server = Actor("server", serve, logs)
        self.driver = Driver(
            "driver", ["-m", "tests.interop.endurance_driver", self.address, str(self.folder), self.every], logs
        )
        changes = {"query": "cdc", "cdc_format": "rows", "after": "earliest", "group": GROUP}
        self.readers = [self._reader("t", "group", f"r{n}", changes, logs) for n in range(2)]
        across = {"hybrid": "append", "kafka_topic": self.topic, "kafka": {"bootstrap.servers": self.bootstrap}}
        self.hybrid = self._reader("h", "hybrid", "h0", {**across, "group": "hybrid"}, logs)
        self._actors: tuple[Actor, ...] = (self.server, self.driver, *self.readers, self.hybrid)
        self._due: dict[Callable[[], None], float] = {}

    def begin(self) -> None:
        """Starts all processes."""
        for actor in self._actors:
            actor.start()

    def attend(self, *, works: bool = True) -> None:
        """Starts the killed reader again and measures; if it `works`, kills it and sends records. Each when its time
        has come."""
        now = time.monotonic()
        for actor in self._actors:
            if actor.is_up:
                continue
            status = actor.process.returncode if actor.process else None
            assert actor.killed, f"steady {actor.name} ended by itself ({status}): {tail_of(actor)}"
            if now >= actor.again_at:
                actor.start()
        self._each(self.sample_every_s, self._sample_processes)
        self._each(SIZES_EVERY_S, self._sample_sizes)
        if works:
            self._each(RECORDS_EVERY_S, self._send)
            self._each(self.rng.uniform(*STRIKES_S), self._strike)

    def have_committed(self, table: str, order_key: str) -> bool:
        """Whether every reader of table t or u has committed up to the commit."""
        checkpoints = self.folder / "checkpoint"
        if table == "u":
            return committed(checkpoints / "joined", 1) >= order_key
        if any(committed(checkpoints / query) < order_key for query in QUERIES):
            return False
        client = EnumeratorClient(self.address, CallLimits(attempts=1, deadline_ms=2000))
        try:
            return str(client.describe_group("t", GROUP).summary.committed.order_key) >= order_key
        except PenstockError:
            return False

    def end(self) -> None:
        """Stops all processes; each must exit in order."""
        for folder in (self.folder, self.folder / "group", self.folder / "hybrid"):
            (folder / "stop").touch()
        for actor in (*self._actors[1:], self.server):
            if actor is self.server:
                ask_for_groups(self.address)
                actor.send(signal.SIGTERM)
            status = None if actor.process is None else actor.process.wait(120)
            if status != 0 and not actor.killed:
                self.problems.append(f"steady {actor.name} ended with {status}: {tail_of(actor)}")

    def abandon(self) -> None:
        """Kills all processes."""
        for actor in reversed(self._actors):
            actor.send(signal.SIGKILL)
            if actor.process is not None:
                actor.process.wait(10)

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events that the driver wrote."""
        path = self.folder / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def measure_events(self) -> None:
        """Adds what the driver and the sinks recorded: latency, state, and the memory of the JVM."""
        zero = time.time() - (time.monotonic() - self.began)
        for event in self.events("progress"):
            at_s, query = event["at"] - zero, event["query"]
            if event["rows"]:
                self.measured.add("latency", f"micro-batch of {query}", at_s, event["ms"]["triggerExecution"] / 1000)
            if event["state_bytes"]:
                self.measured.add("state", query, at_s, event["state_bytes"])
        for event in self.events("jvm"):
            at_s = event["at"] - zero
            self.measured.add("live heap", "driver JVM", at_s, event["live"])
            for name, size in event["native"].items():
                self.measured.add("native memory", name, at_s, size)
            self.measured.add("freed memory", "driver JVM", at_s, event["before"] - event["resident"])
            self.measured.add("unexplained memory", "driver JVM", at_s, event["resident"] - event["total"])
        for name, folder, column in (
            ("commit to rows", self.folder / "out" / "rows", "_hoodie_commit_time"),
            ("commit to group", self.folder / "group" / "out", "_change_instant"),
        ):
            for at, instant in _visible(folder, column):
                self.measured.add("latency", name, at - zero, at - instant)

    def _each(self, every_s: float, action: Callable[[], None]) -> None:
        """Calls an action whose time has come, first after the interval."""
        now = time.monotonic()
        if now >= self._due.setdefault(action, now + every_s):
            self._due[action] = now + every_s
            action()

    def _send(self) -> None:
        self.producer.begin(self.rng.randrange(1, 12))

    def _strike(self) -> None:
        self.readers[1].kill(self.rng.choice((0, 0.5, LEASE_S + 1)))
        self.happened["group reader killed"] += 1

    def _sample_processes(self) -> None:
        pids = [actor.process.pid if actor.process and actor.is_up else None for actor in (self.server, self.driver)]
        processes = [
            (kind if kind in ("server", "driver", "driver JVM") else f"{kind} {process.pid}", process)
            for kind, process in processes_of(*pids)
        ]
        for name, actor in (("group reader", self.readers[0]), ("hybrid reader", self.hybrid)):
            if actor.process and actor.is_up:
                processes.append((name, psutil.Process(actor.process.pid)))
        for name, process in processes:
            measure_process(self.measured, name, process, time.monotonic() - self.began)

    def _sample_sizes(self) -> None:
        now = time.monotonic() - self.began
        self.measured.add("store", "server", now, size_of(self.folder / "state"))
        for query in QUERIES:
            self.measured.add("checkpoint", query, now, size_of(self.folder / "checkpoint" / query))

    def _reader(self, table: str, name: str, reader: str, options: Mapping[str, Any], logs: pathlib.Path) -> Driver:
        arguments = {"server": self.address, "table": table, "folder": str(self.folder / name)}
        arguments |= {"options": {**options, "reader_id": reader}}
        return Driver(f"{name}-{reader}", [str(GROUP_READER), json.dumps(arguments)], logs)

    def _config(self) -> pathlib.Path:
        lines = [f"[tables.{name}]\npath = {json.dumps(str(path))}" for name, path in self.tables.items()]
        lines.append(f'[tables.h.kafka]\n"bootstrap.servers" = {json.dumps(self.bootstrap)}')
        path = self.folder / "server.toml"
        path.write_text("\n".join(lines) + "\n")
        return path


def measure_process(measured: Measurements, name: str, process: psutil.Process, at_s: float) -> None:
    """Adds the memory, threads, open files and sockets of a process that runs."""
    with contextlib.suppress(psutil.Error), process.oneshot():
        values = {
            "memory": process.memory_info().rss,
            "threads": process.num_threads(),
            "files": process.num_fds(),
            "sockets": len(process.net_connections("all")),
        }
        for kind, value in values.items():
            measured.add(kind, name, at_s, value)


def size_of(folder: pathlib.Path) -> int:
    """Bytes of all files below a folder; those that disappear meanwhile are omitted."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _visible(folder: pathlib.Path, column: str) -> Iterator[tuple[float, float]]:
    """(time of a file, request time of its newest commit), in the order of the files' times; seconds since 1970."""
    times = []
    for path in folder.glob("[!.]*.parquet"):
        instants = [value for value in pq.read_table(path, columns=[column])[column].to_pylist() if value]
        if instants:
            newest = dt.datetime.strptime(max(instants)[:17], "%Y%m%d%H%M%S%f").replace(tzinfo=dt.UTC)
            times.append((path.stat().st_mtime, newest.timestamp()))
    return iter(sorted(times))


def tail_of(actor: Actor) -> str:
    """The end of its output."""
    return actor.log.read_text(errors="replace")[-1500:] if actor.log.exists() else "it never started"
