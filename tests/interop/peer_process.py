"""A separate process that answers each JSON line with one, and is started again when its JVM is lost."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

SIGNS_OF_A_LOST_SESSION = ("OutOfMemoryError", "stopped SparkContext", "ConnectionRefusedError", "Py4JNetworkError")
"""In an error: the JVM is unusable, and the next request starts another."""


class PeerProcess:
    """A Python of a peer's environment with its driver, the first part of `command`. The driver prints one line when it
    is ready, then one per request: `{"ok": …}` or `{"error": text}`. One request at a time, from any thread."""

    def __init__(self, command: Sequence[str | pathlib.Path], folder: pathlib.Path, python_path: str = "") -> None:
        """`python_path`: where the driver finds modules of the suite; '' for a driver that needs none."""
        self._command, self._folder = [str(part) for part in command], folder
        self._python_path = {"PYTHONPATH": python_path} if python_path else {}
        self._log, self._asking = (folder / "spark.log").open("w"), threading.Lock()
        self._start()

    def started(self) -> None:
        """Waits until it is ready."""
        self._answer()

    def stop(self) -> None:
        """Ends the process and its JVM."""
        self._end()
        self._log.close()

    def _start(self) -> None:
        self._is_lost = False
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTHON"))
        }
        self._process = subprocess.Popen(
            self._command,
            cwd=self._folder,
            env={**environment, **self._python_path, "PYSPARK_PYTHON": self._command[0]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )

    def _end(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait(30)
        self._process.stdout.close()

    def _ask(self, request: Mapping[str, Any]) -> Any:
        with self._asking:
            return self._answered(request)

    def _answered(self, request: Mapping[str, Any]) -> Any:
        if self._is_lost:
            self._end()
            self._start()
            self.started()
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._is_lost = True
            self._log.flush()
            raise RuntimeError(f"the peer's process ended: {(self._folder / 'spark.log').read_text()[-3000:]}")
        answer = json.loads(line)
        if "error" in answer:
            self._is_lost = any(sign in answer["error"] for sign in SIGNS_OF_A_LOST_SESSION)
            raise RuntimeError(answer["error"])
        return answer["ok"]
