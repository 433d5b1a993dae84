"""The processes of a soak: `penstock serve --state` and a Spark driver, killed at random and started again.

Decides which process is killed when. `soak_writer` writes the table, `test_soak` compares the rows.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import psutil

from penstock.engine.spark import interpreter
from tests.interop.chaos_harness import Actor
from tests.interop.chaos_writer import waited
from tests.interop.soak_samples import Samples, processes_of
from tests.loopback_ports import free_port
from tests.progress import PROGRESS_S

QUERIES: Final = ("changes", "windows")
KINDS: Final = {"server": 0.3, "driver": 0.15, "planner": 0.15, "executor": 0.4}
"""Kinds of processes to kill, with their weights."""


@dataclass
class Driver(Actor):
    """The Spark driver, in a session with all the processes that it starts."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """More of its environment."""

    def start(self) -> None:
        self.starts += 1
        self.killed, self.started_at = False, time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.words],
                env={**os.environ, "PYSPARK_PYTHON": interpreter.command(), **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)


@dataclass
class Soak:
    """The server and the driver of one folder."""

    table: pathlib.Path
    folder: pathlib.Path
    rng: random.Random
    samples: Samples
    sample_every_s: float
    strikes_s: tuple[float, float] = (2, 10)
    """The shortest and longest time from one kill to the next."""
    every: str = "0 seconds"
    """The interval of micro-batches."""
    port: int = field(default_factory=free_port)
    happened: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "logs").mkdir()
        address = f"127.0.0.1:{self.port}"
        serve = ["serve", "--table", f"t={self.table}", "--state", str(self.folder / "state"), "--listen", address]
        self.server = Actor("server", [*serve, "--poll-interval", "200ms"], self.folder / "logs")
        script = str(pathlib.Path(__file__).with_name("soak_driver.py"))
        self.driver = Driver("driver", [script, address, str(self.folder), self.every], self.folder / "logs")
        self._next_sample_s = 0.0

    def begin(self) -> None:
        """Starts both processes."""
        self.server.start()
        self.driver.start()

    def run(self, seconds: float, kill_all_s: float) -> None:
        """Runs for some seconds after the first rows, and longer on a slow machine, until each kind was killed once.

        All kinds are killed for the first `kill_all_s` and until each was; after that only Python workers.
        """
        waited(self._has_begun, PROGRESS_S, "a first micro-batch of each stream")
        began = time.monotonic()
        first = list(KINDS)
        self.rng.shuffle(first)
        strike_at = began + 1
        while (now := time.monotonic()) < began + seconds or (first and now < began + seconds + PROGRESS_S):
            self.attend()
            if now >= strike_at and self._works():
                kind = self._drawn(first) if first or now < began + kill_all_s else "executor"
                if self._strike(kind) and kind in first:
                    first.remove(kind)
                strike_at = now + self.rng.uniform(*self.strikes_s)
            time.sleep(0.05)

    def attend(self) -> None:
        """Starts killed processes again, and samples all at an interval."""
        now = time.monotonic()
        for actor in (self.server, self.driver):
            if actor.is_up:
                continue
            if not actor.killed:
                status = actor.process.returncode if actor.process else None
                self.problems.append(f"{actor.name} ended by itself ({status}): {actor.log.read_text()[-1500:]}")
                actor.killed, actor.again_at = True, now
            if now >= actor.again_at:
                actor.start()
        if now >= self._next_sample_s:
            self._next_sample_s = now + self.sample_every_s
            self.samples.sample(self._processes())

    def end(self) -> None:
        """Stops both processes; each must exit in order."""
        (self.folder / "stop").touch()
        for actor, seconds in ((self.driver, 60), (self.server, 30)):
            if actor is self.server:
                actor.send(signal.SIGTERM)
            status = None if actor.process is None else actor.process.wait(seconds)
            if status != 0:
                self.problems.append(f"{actor.name} ended with {status}: {actor.log.read_text()[-1500:]}")

    def abandon(self) -> None:
        """Kills all processes."""
        left = [process for _, process in self._processes()]
        for actor in (self.driver, self.server):
            actor.send(signal.SIGKILL)
            if actor.process is not None:
                actor.process.wait(10)
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events that the drivers wrote; a line that a kill truncated is omitted."""
        path = self.folder / f"{name}.jsonl"
        processes = []
        for line in path.read_text().splitlines() if path.exists() else []:
            with contextlib.suppress(json.JSONDecodeError):
                processes.append(json.loads(line))
        return processes

    def committed(self, query: str) -> str:
        """The order key of the newest committed micro-batch of the query's checkpoint; empty: none."""
        return committed(self.folder / "checkpoint" / query)

    def _has_begun(self) -> bool:
        self.attend()
        return all(self.committed(query) for query in QUERIES)

    def _works(self) -> bool:
        """Whether the current driver has completed a micro-batch."""
        path = self.folder / "progress.jsonl"
        young = time.monotonic() - self.driver.started_at
        return self.driver.is_up and path.exists() and time.time() - path.stat().st_mtime < young

    def _drawn(self, first: list[str]) -> str:
        """Draws each kind once, then at random."""
        return first[0] if first else self.rng.choices(list(KINDS), weights=list(KINDS.values()))[0]

    def _strike(self, kind: str) -> bool:
        """Kills one process of a kind; False: there is none now."""
        rng = self.rng
        match kind:
            case "server":
                self.server.kill(rng.choice((0, 0, 0.5, 2, 6)))
            case "driver":
                self.driver.kill(rng.choice((0, 0, 3)))
            case _:
                processes = [process for name, process in self._processes() if name == kind]
                if not processes:
                    return False
                with contextlib.suppress(psutil.Error):
                    rng.choice(processes).kill()
        self.happened[f"{kind} killed"] += 1
        return True

    def _processes(self) -> list[tuple[str, psutil.Process]]:
        pids = [actor.process.pid if actor.process and actor.is_up else None for actor in (self.server, self.driver)]
        return processes_of(*pids)


def committed(checkpoint: pathlib.Path, source: int = 0) -> str:
    """The order key of a query's newest committed micro-batch, for one of its sources; empty: none."""
    commits = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    if not commits:
        return ""
    offset = (checkpoint / "offsets" / str(max(commits))).read_text().splitlines()[2 + source]
    return max(re.findall(r'"order_key": ?"(\d+)"', offset), default="")
