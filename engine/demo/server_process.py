"""Runs `penstock serve` as a process, as a user would; its log shows which slot received which split."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import StorageError

START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 10.0

_ADDRESS = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3}:\d+)")
_ASSIGNED = re.compile(r"\bsplit assigned\b(?P<fields>.*)")
_FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')


@dataclass(frozen=True, slots=True)
class Handout:
    """One line of the server's log: the assignment of a split."""

    plan: str
    """The plan id."""
    slot: int
    """The slot of the plan that received the split."""
    split: str
    """The split id."""


@dataclass(frozen=True, slots=True)
class HandoutSummary:
    """Totals of assignments."""

    splits: int
    """Number of assignments."""
    plans: int
    """Number of distinct plans."""
    slots: int
    """Number of distinct (plan, slot) pairs."""
    most_slots: int
    """The highest number of slots of one plan."""
    repeated: tuple[str, ...]
    """Splits that one plan assigned more than once; there must be none."""


def summary(handed: Sequence[Handout]) -> HandoutSummary:
    """The totals of these assignments."""
    slots = {(one.plan, one.slot) for one in handed}
    of_plan = Counter(plan for plan, _ in slots)
    times = Counter((one.plan, one.split) for one in handed)
    repeated = tuple(split for (_, split), count in times.items() if count > 1)
    return HandoutSummary(len(handed), len(of_plan), len(slots), max(of_plan.values(), default=0), repeated)


def handouts(log: str) -> tuple[Handout, ...]:
    """The assignments in the log, in its order. Replayed answers are not in the log."""
    lines = (match for match in map(_ASSIGNED.search, log.splitlines()) if match)
    fields = ({key: _plain(value) for key, value in _FIELD.findall(line["fields"])} for line in lines)
    return tuple(Handout(field["plan"], int(field["slot"]), field["split"]) for field in fields)


def _plain(value: str) -> str:
    return str(json.loads(value)) if value.startswith('"') else value


class ServerProcess:
    """A server for one table, from construction until `stop`."""

    def __init__(self, name: str, table: pathlib.Path, folder: pathlib.Path) -> None:
        self._log_path = folder / "server.log"
        self._announced = folder / "server.address"
        command = [
            sys.executable,
            "-m",
            "penstock",
            "-vv",
            "serve",
            "--table",
            f"{name}={table}",
            "--listen",
            "127.0.0.1:0",
        ]
        with self._announced.open("wb") as announced, self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=announced, stderr=log
            )
        try:
            self.address = self._wait_for_address()
        except BaseException:
            self.stop()
            raise

    def log(self) -> str:
        """The server's log so far."""
        return self._log_path.read_text(errors="replace")

    def stop(self) -> None:
        """Terminates the server, and kills it if it does not end within 10 seconds."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)

    def _wait_for_address(self) -> str:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            match = _ADDRESS.search(self._announced.read_text(errors="replace"))
            if match:
                return match[1]
            time.sleep(0.05)
        raise StorageError(f"the server did not announce an address within {START_TIMEOUT_S:g} s: {self.log()[-2000:]}")
