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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil

Answer = TypeVar("Answer")
SAMPLED_EVERY_S = 0.002
BENCH = pathlib.Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one request: seconds on the wall, and processor seconds of the process and all that it started.

    `python_s`: the part of `cpu_s` that was not the JVM's.
    """

    wall_s: float
    cpu_s: float
    python_s: float


def tree_cpu_s(process: psutil.Process) -> tuple[float, float]:
    """(processor seconds of a process tree, of these not the JVM's). Of children that ended, too, once waited for."""
    total = python = 0.0
    for one in (process, *process.children(recursive=True)):
        try:
            times, name = one.cpu_times(), one.name()
        except psutil.NoSuchProcess:
            continue
        spent = times.user + times.system + times.children_user + times.children_system
        total += spent
        python += 0.0 if name.startswith("java") else spent
    return total, python


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
        own = {"PYSPARK_PYTHON": str(command[0]), "PYTHONPATH": str(BENCH), "PYTHONUTF8": "1"}
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
        cpu, python = tree_cpu_s(self._seen)
        began = time.perf_counter()
        answer = self.ask(request)
        wall = time.perf_counter() - began
        cpu_after, python_after = tree_cpu_s(self._seen)
        spent = answer.get("cpu_s", cpu_after - cpu)
        return answer, Cost(answer.get("wall_s", wall), spent, python_after - python)

    def peak_of(self, work: Callable[[], Answer]) -> tuple[Answer, int]:
        """What `work` gives, and the highest anonymous memory while it ran."""
        peak, ended = 0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not ended.is_set():
                peak = max(peak, anonymous_bytes(self.pid))
                time.sleep(SAMPLED_EVERY_S)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            found = work()
        finally:
            ended.set()
            watcher.join()
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
