"""The processes around two tables that streams of a standalone cluster write from a topic, killed and started again.

One of the tables is written through a server. Decides which process is killed when. `sink_driver` writes,
`sink_judgements` compares.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import penstock
from penstock.engine.spark import interpreter
from tests.hybrid.penstock_sink import SCHEMA
from tests.hybrid.topic_records import PARTITIONS, ends
from tests.interop.chaos_harness import Actor
from tests.interop.hudi_process import REPOSITORY
from tests.interop.sink_failpoints import NOTES
from tests.interop.soak_harness import Driver
from tests.loopback_ports import free_port
from tests.progress import PROGRESS_S
from tests.spark.standalone import HOSTS, Standalone

TABLES: Final = ("upserts", "inserts")
SERVED: Final = "upserts"
"""A server coordinates the writes of this table, the driver those of the other one."""
KINDS: Final = {"executor": 0.4, "worker": 0.15, "driver": 0.2, "server": 0.15, "broker": 0.1}
"""Kinds of processes to kill, with their weights."""
EXCUSED: Final = re.compile(
    r"executor .{0,80}(?:exited|lost|[Rr]emoved)|Worker shutting down|ExecutorLostFailure|FetchFailed|Failed to fetch"
    r"|Checkpoint block|Python worker exited unexpectedly|TimeoutException|DisconnectException|NetworkException"
    r"|KafkaException|a task fails on purpose|errors\.WriteConflict"
)
"""Errors with which a stream may fail, and continue after a restart: an executor with rows of the micro-batch, a worker
of Python or the broker was killed, a task failed too often, or what a killed driver had begun was still ending."""
OUR_ERRORS: Final = re.compile(r"penstock\.proto\.errors\.(?!WriteConflict)\w+")
"""No kill explains these."""


def create_tables(folder: pathlib.Path) -> None:
    """Both tables, empty: the newest row of each key, and a row for each record."""
    penstock.create_table(
        str(folder / "upserts"), SCHEMA, record_key="id", partition_by="region", ordering="ts", buckets=2
    )
    penstock.create_table(
        str(folder / "inserts"),
        SCHEMA.remove(SCHEMA.get_field_index("_hoodie_is_deleted")),
        record_key="n",
        partition_by="region",
        table_type="copy_on_write",
        index="simple",
    )


@dataclass(kw_only=True)
class SinkCluster:
    """The cluster, and the driver of the streams."""

    folder: pathlib.Path
    broker: Any
    topic: str
    jars: str
    rng: random.Random
    seed: int
    every: str = "0 seconds"
    speculates: bool = True
    dies_at: int = -1
    forgets: bool = False
    services_s: float = 60.0
    """The time from one compaction to the next."""
    server_address: str = field(default_factory=lambda: f"127.0.0.1:{free_port()}")
    happened: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("logs", "cluster", NOTES):
            (self.folder / name).mkdir()
        create_tables(self.folder)
        variables = {
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PENSTOCK_FAILPOINTS": str(self.seed),
            "PYSPARK_PYTHON": interpreter.command(),
        }
        self.spark = Standalone(self.folder / "cluster", variables)
        request = {
            "master": self.spark.master,
            "jars": self.jars,
            "bootstrap": self.broker.bootstrap,
            "topic": self.topic,
            "server": self.server_address,
            "folder": str(self.folder),
            "seed": self.seed,
            "every": self.every,
            "speculates": self.speculates,
            "dies_at": self.dies_at,
            "forgets": self.forgets,
        }
        words = ["-P", "-m", "tests.interop.sink_driver", json.dumps(request)]
        self.driver = Driver("driver", words, self.folder / "logs", variables=variables)
        table = f"{SERVED}={self.folder / SERVED}"
        serve = ["serve", "--table", table, "--state", str(self.folder / "state"), "--listen", self.server_address]
        self.server = Actor("server", serve, self.folder / "logs")
        self._restarting: threading.Thread | None = None

    def begin(self) -> None:
        """Starts the server and the driver, and waits for a first micro-batch of each stream."""
        self.server.start()
        self.driver.start()
        self.wait(lambda: all(self.batches(name) for name in TABLES), "a first micro-batch of each stream")

    def run(self, seconds: float, strikes_s: tuple[float, float], kinds: Mapping[str, float]) -> None:
        """Kills processes for some seconds, and longer on a slow machine, until each kind was killed once.
        `strikes_s`: the shortest and the longest time between two kills; `kinds`: with their weights."""
        began = serve_at = time.monotonic()
        first = list(kinds)
        self.rng.shuffle(first)
        strike_at = began
        while (now := time.monotonic()) < began + seconds or (first and now < began + seconds + PROGRESS_S):
            self.attend()
            if now >= strike_at and self._works():
                kind = first[0] if first else self.rng.choices(list(kinds), weights=list(kinds.values()))[0]
                if self._strike(kind) and kind in first:
                    first.remove(kind)
                strike_at = time.monotonic() + self.rng.uniform(*strikes_s)
            if now >= serve_at + self.services_s:
                self.compact()
                serve_at = time.monotonic()
            time.sleep(0.05)

    def compact(self) -> None:
        """Compacts the merge-on-read table beside the stream, if it is due."""
        path = str(self.folder / "upserts")
        result = penstock.maintain(path, compact_after=5, skip=("cluster", "clean", "archive"))
        self.happened["compaction"] += bool(result.compactions)

    def attend(self) -> None:
        """Starts the server and the driver again if they were killed, by a strike or the driver by itself."""
        if not self.server.is_up:
            if not self.server.killed:
                self.problems.append(f"server ended by itself: {self.server.log.read_text()[-1500:]}")
            if time.monotonic() >= self.server.again_at:
                self.server.start()
        if self._restarting is not None and not self._restarting.is_alive():
            self._restarting = None
        if self.driver.is_up:
            return
        if not self.driver.killed:
            status = self.driver.process.returncode if self.driver.process else None
            died = len(list(self.folder.glob("died-*")))
            if status == -signal.SIGKILL and died > self.happened["driver died"]:
                self.happened["driver died"] = died
            else:
                self.problems.append(f"driver ended by itself ({status}): {self.driver.log.read_text()[-1500:]}")
            self.driver.killed, self.driver.again_at = True, time.monotonic()
        if time.monotonic() >= self.driver.again_at:
            self.driver.start()

    def wait(self, until: Any, what: str, seconds: float = PROGRESS_S) -> None:
        """Waits for a condition, and starts killed processes again meanwhile."""
        give_up = time.monotonic() + seconds
        while not until():
            self.attend()
            assert time.monotonic() < give_up and not self.unexcused(), (
                f"{what}: not within {seconds:.0f} s; {self.problems}, {self.events('failed')[-2:]}, "
                f"{self.driver.log.read_text()[-2000:]}"
            )
            time.sleep(0.1)

    def catch_up(self) -> None:
        """Waits until both streams have the whole topic in their checkpoints."""
        if self._restarting is not None:
            self._restarting.join()
        end = ends(self.broker.bootstrap, self.topic)
        for name in TABLES:
            self.wait(lambda name=name: self._is_at(name, end), f"{name} at the end of the topic")

    def end(self) -> None:
        """Ends the driver and then the server, which must exit in order."""
        (self.folder / "stop").touch()
        for actor in (self.driver, self.server):
            if actor is self.server:
                actor.send(signal.SIGTERM)
            status = actor.process.wait(PROGRESS_S) if actor.process else None
            if status != 0:
                self.problems.append(f"{actor.name} ended with {status}: {actor.log.read_text()[-1500:]}")

    def abandon(self) -> None:
        """Kills all processes but the broker, which runs afterwards."""
        for actor in (self.driver, self.server):
            actor.send(signal.SIGKILL)
            if actor.process is not None:
                actor.process.wait(10)
        self.spark.stop()
        if self._restarting is not None:
            self._restarting.join()
        self.broker.start()

    def batches(self, name: str) -> list[int]:
        """The micro-batches that the checkpoint of a stream has completed."""
        return sorted(int(path.name) for path in (self.folder / "checkpoint" / name / "commits").glob("[0-9]*"))

    def offsets(self, name: str, batch: int) -> dict[int, int]:
        """The offsets at the end of a micro-batch, by partition."""
        lines = (self.folder / "checkpoint" / name / "offsets" / str(batch)).read_text().splitlines()
        return {int(number): offset for number, offset in json.loads(lines[2])[self.topic].items()}

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events that the drivers wrote, without a line that a kill truncated."""
        path = self.folder / f"{name}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def unexcused(self) -> list[str]:
        """The failures of streams that no kill explains."""
        texts = [event["text"] for event in self.events("failed")]
        return [text for text in texts if OUR_ERRORS.search(text) or not EXCUSED.search(text)]

    def _is_at(self, name: str, end: dict[int, int]) -> bool:
        batches = self.batches(name)
        return bool(batches) and self.offsets(name, batches[-1]) == {n: end[n] for n in range(PARTITIONS)}

    def _works(self) -> bool:
        """Whether the current driver has completed a micro-batch, and the broker runs."""
        path = self.folder / "progress.jsonl"
        young = time.monotonic() - self.driver.started_at
        works = self.driver.is_up and path.exists() and time.time() - path.stat().st_mtime < young
        return works and self._restarting is None

    def _strike(self, kind: str) -> bool:
        """Kills a process of a kind; False: there is none now."""
        match kind:
            case "driver":
                self.driver.kill(self.rng.choice((0, 0, 3)))
            case "server":
                if not self.server.is_up:
                    return False
                self.server.kill(self.rng.choice((0, 0, 3)))
            case "worker":
                self.spark.restart_worker(self.rng.choice(HOSTS))
            case "broker":
                self.broker.kill()
                self._restarting = threading.Thread(target=self.broker.start, daemon=True)
                self._restarting.start()
            case _:
                executors = sorted(self.spark.executors().values())
                if not executors:
                    return False
                pid = self.rng.choice(executors)
                os.kill(pid, signal.SIGKILL)
        self.happened[f"{kind} killed"] += 1
        return True
