"""Processes that answer requests, and their cost: CPU seconds of the process tree, peak of anonymous memory.

Each contestant runs in its own process, so that contestants share no caches, threads or garbage.
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
MEMORY_SAMPLE_INTERVAL_S = 0.002
CPU_SAMPLE_INTERVAL_S = 0.2
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one request."""

    wall_s: float
    """Seconds of wall time."""
    cpu_s: float
    """CPU seconds of the process and its descendants."""
    python_s: float
    """The part of `cpu_s` outside the JVM."""


class TreeMeter:
    """CPU seconds of a process and its descendants since the meter was created. The meter samples each process
    repeatedly, because the time of an ended child is otherwise lost: Spark's daemon does not wait for its workers."""

    def __init__(self, root: psutil.Process) -> None:
        self._root = root
        self._last: dict[psutil.Process, float] = {}
        self._java: set[psutil.Process] = set()
        self.sample()
        self._first = dict(self._last)

    def sample(self) -> None:
        """Records the CPU time of each process so far."""
        for process in (self._root, *self._root.children(recursive=True)):
            try:
                times = process.cpu_times()
                if process not in self._last and process.name().startswith("java"):
                    self._java.add(process)
            except psutil.NoSuchProcess:
                continue
            self._last[process] = times.user + times.system

    def spent_s(self) -> tuple[float, float]:
        """(CPU seconds, CPU seconds outside the JVM), as of the last sample."""
        spent = {process: last - self._first.get(process, 0.0) for process, last in self._last.items()}
        return sum(spent.values()), sum(s for process, s in spent.items() if process not in self._java)


@contextmanager
def repeatedly(sample: Callable[[], None], every_s: float) -> Iterator[None]:
    """Calls `sample` in a thread while the block runs, and once after it."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(every_s):
            sample()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    sample()


def anonymous_bytes(pid: int) -> int:
    """Anonymous resident bytes of a process (Linux; elsewhere its whole resident set)."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return int(psutil.Process(pid).memory_info().rss)
    return int(text.partition("RssAnon:")[2].split()[0]) << 10


class Worker:
    """A process that prints one line when it is ready, then one line per request: `{"ok": …}` or `{"error": text}`."""

    def __init__(self, command: Sequence[str | pathlib.Path], *, environment: Mapping[str, str] | None = None) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by stop()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
        added = {"PYSPARK_PYTHON": str(command[0]), "PYTHONPATH": str(REPOSITORY), "PYTHONUTF8": "1"}
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [str(part) for part in command],
            env={**inherited, **added, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._process_info = psutil.Process(self._process.pid)
        try:
            self.hello = self._answer()
        except BaseException:
            self.stop()
            raise
        self.started_s = time.perf_counter() - began

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def ask(self, request: Mapping[str, Any]) -> Any:
        """The answer to a request. Raises RuntimeError with the text of its error."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def costed(self, request: Mapping[str, Any]) -> tuple[Any, Cost]:
        """The answer and its cost. The `cpu_s` of an answer takes precedence over the system's count in clock ticks."""
        meter = TreeMeter(self._process_info)
        began = time.perf_counter()
        with repeatedly(meter.sample, CPU_SAMPLE_INTERVAL_S):
            answer = self.ask(request)
            wall = time.perf_counter() - began
        spent, python = meter.spent_s()
        own = answer if isinstance(answer, dict) else {}  # a write has no answer
        return answer, Cost(own.get("wall_s", wall), own.get("cpu_s", spent), python)

    def peak_of(self, work: Callable[[], Answer]) -> tuple[Answer, int]:
        """The result of `work`, and the peak of anonymous memory while it ran."""
        peak = 0

        def sample() -> None:
            nonlocal peak
            peak = max(peak, anonymous_bytes(self.pid))

        with repeatedly(sample, MEMORY_SAMPLE_INTERVAL_S):
            result = work()
        return result, peak

    def stop(self) -> None:
        """Stops the process and its children."""
        assert self._process.stdin and self._process.stdout
        started = self._process_info.children(recursive=True) if self._process.poll() is None else []
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
