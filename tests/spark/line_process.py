"""A process that a test controls line by line, and may kill with its children."""

from __future__ import annotations

import contextlib
import os
import pathlib
import queue
import signal
import subprocess
import threading

from penstock.engine.spark import interpreter
from tests.progress import PROGRESS_S


class LineProcess:
    """A process in a separate session, with its stdout line by line; its stderr goes to `log`."""

    def __init__(self, command: list[str], log: pathlib.Path, environment: dict[str, str] | None = None) -> None:
        self._log = log
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": interpreter.command(), **(environment or {})},
            )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._pump, daemon=True).start()

    @property
    def pid(self) -> int:
        """The id of the process, which leads its session."""
        return self._process.pid

    def line(self) -> str:
        """The next line. AssertionError: no line in time, or the process ended."""
        try:
            line = self._lines.get(timeout=PROGRESS_S)
        except queue.Empty:
            line = ""
        assert line, f"no line in time: {self._log.read_text()[-3000:]}"
        return line

    def go_on(self, text: str = "") -> None:
        """Sends a line to stdin: the process may continue from its current step."""
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Sends SIGTERM to the process, and calls kill() if it does not end in time."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self.kill()

    def kill(self) -> None:
        """Kills the process and its children with SIGKILL (for a driver: its JVM and Python workers)."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PROGRESS_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _pump(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError):  # closed by kill
            for line in self._process.stdout:
                self._lines.put(line.rstrip("\n"))
        self._lines.put("")
