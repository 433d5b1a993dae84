"""Processes that answer requests, and what they cost: processor seconds of a whole tree, peak of anonymous memory.

A contestant runs in a process of its own, so that nobody's caches, threads or garbage are another's. Not here: what is
asked of it.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil

Answer = TypeVar("Answer")
SAMPLED_EVERY_S = 0.002
LOOKED_EVERY_S = 0.2
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one request: seconds on the wall, and processor seconds of the process and all that it started.

    `python_s`: the part of `cpu_s` that was not the JVM's.
    """

    wall_s: float
    cpu_s: float
    python_s: float


class TreeMeter:
    """Processor seconds of a process and its descendants since it was made, by looking at each again and again: what a
    child had taken is not lost when it ends, for Spark's daemon of Python workers does not wait for them."""

    def __init__(self, root: psutil.Process) -> None:
        self._root = root
        self._last: dict[psutil.Process, float] = {}
        self._java: set[psutil.Process] = set()
        self.look()
        self._first = dict(self._last)

    def look(self) -> None:
        """Takes in what each has spent by now."""
        for one in (self._root, *self._root.children(recursive=True)):
            try:
                times = one.cpu_times()
                if one not in self._last and one.name().startswith("java"):
                    self._java.add(one)
            except psutil.NoSuchProcess:
                continue
            self._last[one] = times.user + times.system

    def spent_s(self) -> tuple[float, float]:
        """(all of it, of this not the JVM's), as of the last look."""
        spent = {one: last - self._first.get(one, 0.0) for one, last in self._last.items()}
        return sum(spent.values()), sum(s for one, s in spent.items() if one not in self._java)


@contextmanager
def repeatedly(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """Calls `look` in a thread while the block runs, and once behind it."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(every_s):
            look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    look()


def anonymous_bytes(pid: int) -> int:
    """Anonymous resident bytes of a process (Linux; elsewhere its whole resident set)."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return int(psutil.Process(pid).memory_info().rss)
    return int(text.partition("RssAnon:")[2].split()[0]) << 10


class Worker:
    """A process that says one line when it is up, then one a request: `{"ok": …}` or `{"error": text}`."""

    def __init__(self, command: Sequence[str | pathlib.Path], *, environment: Mapping[str, str] | None = None) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by stop()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
        own = {"PYSPARK_PYTHON": str(command[0]), "PYTHONPATH": str(REPOSITORY), "PYTHONUTF8": "1"}
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [str(part) for part in command],
            env={**kept, **own, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._seen = psutil.Process(self._process.pid)
        try:
            self.said = self._answer()
        except BaseException:
            self.stop()
            raise
        self.started_s = time.perf_counter() - began

    @property
    def pid(self) -> int:
        """The process's own id."""
        return self._process.pid

    def ask(self, request: Mapping[str, Any]) -> Any:
        """The answer to a request; RuntimeError with the text of its error."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def costed(self, request: Mapping[str, Any]) -> tuple[Any, Cost]:
        """The answer, and what it cost; an answer's own `cpu_s` goes before what the system counts in ticks."""
        meter = TreeMeter(self._seen)
        began = time.perf_counter()
        with repeatedly(meter.look, LOOKED_EVERY_S):
            answer = self.ask(request)
            wall = time.perf_counter() - began
        spent, python = meter.spent_s()
        return answer, Cost(answer.get("wall_s", wall), answer.get("cpu_s", spent), python)

    def peak_of(self, work: Callable[[], Answer]) -> tuple[Answer, int]:
        """What `work` gives, and the highest anonymous memory while it ran."""
        peak = 0

        def look() -> None:
            nonlocal peak
            peak = max(peak, anonymous_bytes(self.pid))

        with repeatedly(look, SAMPLED_EVERY_S):
            found = work()
        return found, peak

    def stop(self) -> None:
        """Ends the process and what it started."""
        assert self._process.stdin and self._process.stdout
        started = self._seen.children(recursive=True) if self._process.poll() is None else []
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)
        for child in psutil.wait_procs(started, timeout=10)[1]:
            child.kill()
        self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _answer(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError(f"a contestant's process ended: {self._log.read()[-4000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["ok"]
