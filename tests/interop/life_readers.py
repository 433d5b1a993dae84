"""The server of a table's life and the readers of its consumer groups, of which one is killed from time to time."""

from __future__ import annotations

import contextlib
import json
import pathlib
import random
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import psutil

from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import PenstockError
from tests.histories.reports import ask_for_groups
from tests.interop.chaos_harness import Actor
from tests.interop.endurance_harness import GROUP, GROUP_READER, LEASE_S, measure_process, size_of, tail_of
from tests.interop.endurance_series import Measurements
from tests.interop.soak_harness import Driver
from tests.loopback_ports import free_port

STEADY: Final = "r0"


class LifeReaders:
    """A server for all tables, and a group of two readers of the changes of each. The second reader is killed."""

    def __init__(self, tables: Mapping[str, pathlib.Path], folder: pathlib.Path, rng: random.Random) -> None:
        self.folder, self._rng = folder, rng
        self.address = f"127.0.0.1:{free_port()}"
        self.happened: Counter[str] = Counter()
        self.problems: list[str] = []
        logs = folder / "logs"
        logs.mkdir(parents=True)
        config = folder / "server.toml"
        lines = [f"[tables.{name}]\npath = {json.dumps(str(path))}\n" for name, path in tables.items()]
        config.write_text("".join(lines))
        serve = ["serve", "--config", str(config), "--state", str(folder / "state"), "--listen", self.address]
        self.server = Actor("server", [*serve, "--lease", f"{LEASE_S}s", "--poll-interval", "500ms"], logs)
        self.readers = {(table, reader): self._reader(table, reader) for table in tables for reader in (STEADY, "r1")}
        self._strike_at = 0.0

    def begin(self) -> None:
        """Starts all processes."""
        for actor in (self.server, *self.readers.values()):
            actor.start()

    def attend(self, strikes_s: tuple[float, float] | None) -> None:
        """Starts killed readers again, and kills one when its time has come. None: no more kills."""
        now = time.monotonic()
        for actor in (self.server, *self.readers.values()):
            if not actor.is_up:
                status = actor.process.returncode if actor.process else None
                assert actor.killed, f"{actor.name} ended by itself ({status}): {tail_of(actor)}"
                if now >= actor.again_at:
                    actor.start()
        if strikes_s is None:
            return
        if now >= self._strike_at > 0:
            victims: Sequence[Actor] = [actor for (_, name), actor in self.readers.items() if name != STEADY]
            self._rng.choice(victims).kill(self._rng.choice((0, 0.5, LEASE_S + 1)))
            self.happened["group reader killed"] += 1
            self._strike_at = 0.0
        if not self._strike_at:
            self._strike_at = now + self._rng.uniform(*strikes_s)

    def have_committed(self, table: str, order_key: str) -> bool:
        """Whether the table's group has committed up to a commit."""
        client = EnumeratorClient(self.address, CallLimits(attempts=1, deadline_ms=2000))
        try:
            return str(client.describe_group(table, GROUP).summary.committed.order_key) >= order_key
        except PenstockError:
            return False
        finally:
            client.close()

    def measure(self, measured: Measurements, at_s: float) -> None:
        """Samples the steady processes, and the server's store."""
        actors = {"server": self.server}
        actors |= {f"group reader of {table}": actor for (table, name), actor in self.readers.items() if name == STEADY}
        for name, actor in actors.items():
            if actor.process and actor.is_up:
                with contextlib.suppress(psutil.Error):
                    measure_process(measured, name, psutil.Process(actor.process.pid), at_s)
        measured.add("store", "server", at_s, size_of(self.folder / "state"))

    def out(self, table: str) -> pathlib.Path:
        """Where the readers of a table write."""
        return self.folder / table / "out"

    def end(self) -> None:
        """Stops all processes. Each must exit in order."""
        for table, _ in self.readers:
            (self.folder / table / "stop").touch()
        for actor in (*self.readers.values(), self.server):
            if actor is self.server:
                ask_for_groups(self.address)
                actor.send(signal.SIGTERM)
            status = None if actor.process is None else actor.process.wait(120)
            if status != 0 and not actor.killed:
                self.problems.append(f"{actor.name} ended with {status}: {tail_of(actor)}")

    def abandon(self) -> None:
        """Kills all processes."""
        for actor in (*self.readers.values(), self.server):
            actor.send(signal.SIGKILL)
            if actor.process is not None:
                actor.process.wait(10)

    def _reader(self, table: str, reader: str) -> Driver:
        folder = self.folder / table
        (folder / "out").mkdir(parents=True, exist_ok=True)
        options = {"query": "cdc", "cdc_format": "rows", "after": "earliest", "group": GROUP, "reader_id": reader}
        arguments = {"server": self.address, "table": table, "folder": str(folder), "options": options}
        return Driver(f"{table}-{reader}", [str(GROUP_READER), json.dumps(arguments)], self.folder / "logs")
