"""The processes of a hybrid run: broker, `penstock serve --state` and readers, killed at given moments.

The harness decides which process is killed when, tracks the phase of the readers, and checks errors of processes that
end on their own. `topic_records` and `lake_rounds` write, `topic_fold` compares.
"""

from __future__ import annotations

import json
import pathlib
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.histories.reports import ask_for_groups
from tests.hybrid.delivered import Delivered
from tests.interop.chaos_harness import Actor
from tests.interop.soak_harness import Driver
from tests.loopback_ports import free_port

LEASE_S = 3
HERE = pathlib.Path(__file__).parent
HANDED_OVER = "hand-over resolved"
"""The log message of a server or a driver that has fixed the offsets."""
EXCUSED = {"KafkaUnavailable", "ServerUnavailable"}
"""Errors with which a stream may fail while the broker or the server is unreachable for longer than the retries."""
EXCUSED_CODES = {"KAFKA_UNAVAILABLE", "SERVER_UNAVAILABLE", "FENCED"}
"""Errors with which a reader may end on its own, for example after a suspension longer than its lease."""
_RAISED = re.compile(r"\bpenstock\.proto\.errors\.(\w+):")
_CODE = re.compile(r"^error \[(\w+)\]: ", re.MULTILINE)


def is_excused(text: str) -> bool:
    """Whether a stream failed with excused errors only. `text` is Spark's traceback, with the module of each error of
    Penstock. Error names inside of messages do not count."""
    raised = set(_RAISED.findall(text))
    return bool(raised) and raised <= EXCUSED


def has_excused_end(text: str) -> bool:
    """Whether the last error of a command's log is an excused one."""
    codes = _CODE.findall(text)
    return bool(codes) and codes[-1] in EXCUSED_CODES


class EntryPoint(StrEnum):
    """The way of reading: Spark with embedded planning, Spark with a server, or a consumer group."""

    SPARK = "spark"
    SERVED = "spark-server"
    GROUP = "group"


class Moment(StrEnum):
    """LAKE: rows of the table arrive. SWITCHING: the offsets were just fixed. KAFKA: rows of the topic arrive."""

    LAKE = "lake"
    SWITCHING = "switching"
    KAFKA = "kafka"


class Victim(StrEnum):
    """The process that is killed with SIGKILL."""

    READER = "reader"
    SERVER = "server"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Strike:
    """A kill `delay_s` after the moment; the victim restarts after `away_s`."""

    moment: Moment
    victim: Victim
    delay_s: float
    away_s: float


@dataclass(kw_only=True)
class HybridHarness:
    """All processes around one table and one topic. `reading`: options of the stream by the registry's names; `client`:
    settings of the Kafka client; `checkpoint`: of the Spark query that fills the table, if any."""

    entry_point: EntryPoint
    broker: Any
    table: pathlib.Path
    folder: pathlib.Path
    reading: Mapping[str, str]
    client: Mapping[str, str]
    checkpoint: pathlib.Path | None
    readers: int
    happened: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("logs", "out"):
            (self.folder / name).mkdir()
        self.delivered = Delivered(self.folder / "out")
        self.address = f"127.0.0.1:{free_port()}"
        serve = ["serve", "--config", str(self._config()), "--state", str(self.folder / "state")]
        serve += ["--listen", self.address, "--lease", f"{LEASE_S}s", "--poll-interval", "200ms"]
        self.server = None if self.entry_point is EntryPoint.SPARK else Actor("server", serve, self.folder / "logs")
        self.actors: list[Actor] = [] if self.server is None else [self.server]
        self.actors += [Driver(f"reader{n}", self._reader(n), self.folder / "logs") for n in range(self.readers)]
        self._restarting: threading.Thread | None = None
        self._broker_again_at = 0.0
        self._hold = self.folder / "hold"

    def warm_up(self) -> None:
        """Starts the Spark drivers, which is slow; they wait for `begin`."""
        if self.entry_point is not EntryPoint.GROUP:
            for actor in self.actors:
                if actor is not self.server:
                    actor.start()

    def begin(self, strikes: Sequence[Strike]) -> None:
        """Starts all work, the server first."""
        if any(strike.moment is Moment.LAKE for strike in strikes):
            self._hold.touch()
        for actor in self.actors:
            if not actor.is_up:
                actor.start()
        (self.folder / "begin").touch()

    def execute_strikes(self, strikes: Sequence[Strike], rng: random.Random, within_s: float) -> None:
        """Executes the strikes in order, each at its moment. Readers write no second batch before a strike in the
        lake."""
        for strike in strikes:
            self.wait(lambda moment=strike.moment: self.is_reached(moment), within_s, f"moment {strike.moment}")
            until = time.monotonic() + strike.delay_s
            self.wait(lambda until=until: time.monotonic() >= until, within_s, "the time of a strike")
            self._strike(strike, rng)
            self._hold.unlink(missing_ok=True)

    def is_reached(self, moment: Moment) -> bool:
        """Whether the readers have reached the moment."""
        self.delivered.refresh()
        match moment:
            case Moment.LAKE:
                return self.delivered.is_begun()
            case Moment.SWITCHING:
                return self.delivered.has_topic_rows() or self._is_logged(HANDED_OVER)
            case Moment.KAFKA:
                return self.delivered.has_topic_rows()

    def wait(self, until: Any, seconds: float, what: str) -> None:
        """Waits for a condition and restarts ended processes meanwhile."""
        give_up = time.monotonic() + seconds
        while not until():
            self.attend()
            assert time.monotonic() < give_up, f"{what}: not within {seconds:.0f} s\n{self.log_tails()}"
            time.sleep(0.02)

    def attend(self) -> None:
        """Restarts processes that ended."""
        now = time.monotonic()
        for actor in self.actors:
            if actor.is_up:
                continue
            if not actor.killed:
                self._ended(actor)
                actor.killed, actor.again_at = True, now
            if now >= actor.again_at:
                actor.start()
        if not self.broker.pids and now >= self._broker_again_at and self._restarting is None:
            self._restarting = threading.Thread(target=self.broker.start, daemon=True)
            self._restarting.start()
        if self._restarting is not None and not self._restarting.is_alive():
            self._restarting = None

    def end(self) -> None:
        """Waits for the end of the readers, then of the server."""
        (self.folder / "stop").touch()
        for actor in reversed(self.actors):
            if actor is self.server:
                ask_for_groups(self.address)
                actor.send(signal.SIGTERM)
            status = actor.process.wait(60) if actor.process else None
            if status != 0 and not actor.killed:  # killed last, after all rows had arrived
                self.problems.append(f"{actor.name} ended with {status}: {_tail(actor)}")
        self.delivered.refresh()
        self.problems += [text for text in self._failures() if not is_excused(text)]

    def abandon(self) -> None:
        """Kills all processes and starts the broker."""
        for actor in reversed(self.actors):
            actor.send(signal.SIGKILL)
            if actor.process is not None:
                actor.process.wait(10)
        if self._restarting is not None:
            self._restarting.join()
        self.broker.start()

    def log_tails(self) -> str:
        """The last log lines of all processes."""
        return "\n".join(
            [*self.problems, *self._failures()[-3:], *(f"{one.name}: {_tail(one)}" for one in self.actors)]
        )

    def _config(self) -> pathlib.Path:
        """Writes the server's configuration, with the Kafka client settings of the table."""
        lines = ["[tables.t]", f"path = {json.dumps(str(self.table))}"]
        if self.checkpoint is not None:
            lines.append(f"kafkaCheckpoint = {json.dumps([str(self.checkpoint)])}")
        lines += ["[tables.t.kafka]", *(f'"{key}" = {json.dumps(value)}' for key, value in self.client.items())]
        path = self.folder / "server.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def _reader(self, number: int) -> list[str]:
        arguments: dict[str, Any] = {"folder": str(self.folder)}
        if self.entry_point is EntryPoint.GROUP:
            options = {name.replace(".", "_"): value for name, value in self.reading.items()}
            options |= {"kafka": dict(self.client), "group": "hybrid", "reader_id": f"r{number}"}
            arguments |= {"server": self.address, "table": "t", "options": options}
            return [str(HERE / "group_reader_process.py"), json.dumps(arguments)]
        options = {**self.reading, **{f"kafka.{key}": value for key, value in self.client.items()}}
        if self.server is not None:
            options["server"] = self.address
        elif self.checkpoint is not None:
            options["kafkaCheckpoint"] = str(self.checkpoint)
        arguments |= {"target": str(self.table) if self.server is None else "t", "options": options}
        return [str(HERE / "spark_reader.py"), json.dumps(arguments)]

    def _strike(self, strike: Strike, rng: random.Random) -> None:
        self.happened[f"{strike.victim} killed, {self._phase()}"] += 1
        match strike.victim:
            case Victim.BROKER:
                self._broker_again_at = time.monotonic() + strike.away_s
                self.broker.kill()
            case Victim.SERVER if self.server is not None:
                self.server.kill(strike.away_s)
            case _:
                rng.choice([actor for actor in self.actors if actor is not self.server]).kill(strike.away_s)

    def _phase(self) -> str:
        return next(str(moment) for moment in reversed(Moment) if moment is Moment.LAKE or self.is_reached(moment))

    def _is_logged(self, words: str) -> bool:
        return any(words in log.read_text(errors="replace") for log in (self.folder / "logs").glob("*.log"))

    def _failures(self) -> list[str]:
        path = self.folder / "failed.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _ended(self, actor: Actor) -> None:
        text = _tail(actor)
        if has_excused_end(text):
            self.happened[f"{actor.name} ended"] += 1
            return
        status = actor.process.returncode if actor.process else None
        self.problems.append(f"{actor.name} ended by itself ({status}): {text}")


def _tail(actor: Actor) -> str:
    return actor.log.read_text(errors="replace")[-1500:] if actor.log.exists() else ""
