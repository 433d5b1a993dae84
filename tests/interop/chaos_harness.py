"""The processes of a chaos test: `penstock serve --state` and `penstock tail` readers, killed and started again.

Decides which process is killed when, and with which errors a process may end. `chaos_writer` writes the table,
`test_chaos` compares the rows.
"""

from __future__ import annotations

import contextlib
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

import penstock
from penstock.proto.errors import Fenced, PenstockError
from tests.histories.journal import keep_state
from tests.histories.reports import ask_for_groups
from tests.interop.chaos_writer import waited
from tests.loopback_ports import free_port
from tests.progress import PROGRESS_S

LEASE_S = 4
READERS = 4
STARTING_S = 2.0
MAY_END_WITH = ("FENCED", "STORAGE", "SERVER_UNAVAILABLE")
"""Errors with which a reader may end: its lease expired while the reader or the server was suspended."""


@dataclass
class Actor:
    """A process that is started again after a kill."""

    name: str
    words: list[str]
    folder: pathlib.Path
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    killed: bool = False
    again_at: float = 0.0
    continue_at: float = 0.0
    started_at: float = 0.0

    @property
    def log(self) -> pathlib.Path:
        """The output of the current process."""
        return self.folder / f"{self.name}-{self.starts}.log"

    def start(self) -> None:
        self.starts += 1
        self.killed, self.continue_at, self.started_at = False, 0.0, time.monotonic()
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "penstock", *self.words]
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL)

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self, away_s: float) -> None:
        """Kills the process with SIGKILL. It is started again after `away_s` seconds."""
        self.killed, self.again_at, self.continue_at = True, time.monotonic() + away_s, 0.0
        self.send(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(PROGRESS_S)
        if "--state" in self.words:
            keep_state(pathlib.Path(self.words[self.words.index("--state") + 1]))

    def pause(self, seconds: float) -> None:
        """Suspends the process for some seconds."""
        self.send(signal.SIGSTOP)
        self.continue_at = time.monotonic() + seconds


@dataclass
class ChaosHarness:
    """The server and the readers of one state directory."""

    table: pathlib.Path
    folder: pathlib.Path
    rng: random.Random
    port: int = field(default_factory=free_port)
    metrics_port: int = field(default_factory=free_port)
    happened: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    first_seen_ns: dict[str, int] = field(default_factory=dict)
    measured: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.output, self.state = self.folder / "output", self.folder / "state"
        for directory in (self.output, self.folder / "logs"):
            directory.mkdir()
        serve = ["serve", "--table", f"t={self.table}", "--state", str(self.state), "--listen", self.address]
        serve += ["--lease", f"{LEASE_S}s", "--poll-interval", "200ms", "--metrics-listen", str(self.metrics_port)]
        self.server = Actor("server", serve, self.folder / "logs")
        tail = ["tail", "t", "--server", self.address, "--group", "changes", "--query", "cdc", "--cdc-format", "rows"]
        tail += ["--output-dir", str(self.output), "--reader-id"]
        self.readers = [Actor(f"r{n}", [*tail, f"r{n}"], self.folder / "logs") for n in range(READERS)]

    @property
    def address(self) -> str:
        """The address of the server; the same for all its processes."""
        return f"127.0.0.1:{self.port}"

    def begin(self) -> None:
        """Starts all processes, the server first."""
        for actor in (self.server, *self.readers):
            actor.start()

    def chaos(self, seconds: float, is_enough: Callable[[], bool]) -> None:
        """Kills and suspends random processes after the first output, for `seconds`, and on a slow machine until
        `is_enough`. In the last third of the time only readers."""
        waited(self._all_work, PROGRESS_S, "a first file of output")
        began = time.monotonic()
        strike_at = began
        measured_at = began
        while (now := time.monotonic()) < began + seconds or not is_enough():
            assert now < began + seconds + PROGRESS_S, f"not enough after {now - began:.0f} s: {dict(self.happened)}"
            self.attend()
            spares_server = now > began + seconds * 2 / 3 and self.happened["server killed"] > 0
            if now >= strike_at:
                self._strike(spares_server)
                strike_at = now + self.rng.uniform(0.5, 4)
            if now >= measured_at and spares_server:
                self._measure()
                measured_at = now + 1
            time.sleep(0.02)

    def attend(self) -> None:
        """Starts killed processes again, and checks the output."""
        now = time.monotonic()
        for actor in (self.server, *self.readers):
            if actor.is_up:
                if actor.continue_at and now >= actor.continue_at:
                    actor.continue_at = 0.0
                    actor.send(signal.SIGCONT)
                continue
            if not actor.killed:
                self._ended(actor)
                actor.killed, actor.again_at = True, now
            if now >= actor.again_at:
                actor.start()
        for path in self.output.glob("[!.]*"):
            if path.name not in self.first_seen_ns:
                self.first_seen_ns[path.name] = path.stat().st_mtime_ns

    def round_ends(self) -> list[str]:
        """Order keys at which rounds of the changes ended, from the log of the servers. A last round that was never
        assigned is not in the log."""
        logs = "".join(path.read_text() for path in self.server.folder.glob("server-*.log"))
        return sorted(set(re.findall(r"round planned table=t group=changes .*? upto=(\d+)", logs)))

    def end(self) -> None:
        """Stops all processes by SIGTERM. Each must exit without an error."""
        for actor in (*self.readers, self.server):
            actor.send(signal.SIGCONT)
            is_young = (
                time.monotonic() - actor.started_at < 60
            )  # the process may not have installed its signal handlers yet
            if actor is self.server:
                ask_for_groups(self.address)
            actor.send(signal.SIGTERM)
            status = 0 if actor.process is None else actor.process.wait(PROGRESS_S)
            if status == 0 or actor.continue_at or (is_young and status == -signal.SIGTERM):
                continue
            if not self._may_end(actor):
                self.problems.append(f"{actor.name} ended with {status}: {_log_text(actor)}")

    def abandon(self) -> None:
        """Kills all processes."""
        for actor in (*self.readers, self.server):
            if actor.is_up and actor.process is not None:
                actor.process.kill()
                actor.process.wait(PROGRESS_S)

    def _strike(self, spares_server: bool) -> None:
        rng = self.rng
        victim, draw = rng.choice(self.readers), rng.random()
        young = victim if draw >= 0.33 else self.server
        if time.monotonic() - young.started_at < STARTING_S and rng.random() < 0.8:
            return  # mostly readers that have already started to work
        if draw < 0.25 and not spares_server:
            self.server.kill(rng.choice((0, 0, 0.5, 2, LEASE_S + 1)))
            self.happened["server killed"] += 1
        elif draw < 0.33 and not spares_server:
            self.server.pause(rng.uniform(0.2, 2))
            self.happened["server stopped for a while"] += 1
        elif draw < 0.48:
            victim.pause(rng.choice((0.5, LEASE_S + 1)))
            self.happened["reader stopped for a while"] += 1
        else:
            victim.kill(rng.choice((0, 0, 0.5, LEASE_S + 1)))
            self.happened["reader killed"] += 1

    def _all_work(self) -> bool:
        self.attend()
        return bool(self.first_seen_ns)

    def _ended(self, actor: Actor) -> None:
        if not self._may_end(actor):
            status = actor.process.returncode if actor.process else None
            self.problems.append(f"{actor.name} ended by itself ({status}): {_log_text(actor)}")

    def _may_end(self, actor: Actor) -> bool:
        """Whether the actor is a reader that ended with an error of MAY_END_WITH; counts it."""
        code = re.search(r"error \[([A-Z_]+)\]", _log_text(actor))
        if actor is self.server or code is None or code[1] not in MAY_END_WITH:
            return False
        self.happened[f"reader ended with {code[1]}"] += 1
        return True

    def _measure(self) -> None:
        if self.server.is_up and self.server.process is not None:
            with contextlib.suppress(psutil.Error):
                seen = psutil.Process(self.server.process.pid)
                self.measured.append((self.server.starts, seen.memory_info().rss, seen.num_fds()))


class RowsReader(threading.Thread):
    """A second group with one reader in this process: the rows after each round, with the position of the round."""

    def __init__(self, address: str) -> None:
        super().__init__(name="chaos-rows", daemon=True)
        self._consumer = penstock.Consumer(address, "t", group="rows", reader_id="here")
        self._stopping = threading.Event()
        self.delivered: dict[tuple[str, str, int], tuple[str, list[dict[str, object]]]] = {}
        self.again = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Reads until `stop` is called."""
        try:
            while not self._stopping.is_set():
                try:
                    self._take()
                except Fenced:
                    self.again += 1
                    with contextlib.suppress(PenstockError):
                        self._consumer.join()
                except PenstockError as error:
                    if not error.retryable:
                        raise
            self._consumer.close()
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self.failure = error

    def stop(self) -> None:
        """Stops the reader; returns after it has left the group."""
        self._stopping.set()
        self._consumer.wake()
        self.join()

    def _take(self) -> None:
        batch = self._consumer.poll(500)
        if batch is None:
            return
        place = (batch.plan_id, batch.split_id, batch.first_ordinal)
        rows = batch.batch.select(["p", "id", "n", "_hoodie_commit_time"]).to_pylist()
        self.delivered[place] = (str(batch.position.order_key), rows)
        self._consumer.commit(batch)


def _log_text(actor: Actor) -> str:
    return actor.log.read_text(errors="replace")[-1500:]
