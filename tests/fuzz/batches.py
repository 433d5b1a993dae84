"""Starts batches (`run_batch`) and collects their outcomes."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


@dataclass
class Outcome:
    """Counts of inputs by outcome ('answer', an error's code, 'BUG'), the problems, and the largest memory growth of a
    batch."""

    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    problems: list[str] = field(default_factory=list)
    grown_kib: int = 0

    @property
    def inputs(self) -> int:
        """The number of judged inputs."""
        return self.outcomes.total()

    def add(self, other: Outcome) -> None:
        """Adds another batch's outcome."""
        self.outcomes += other.outcomes
        self.problems += other.problems
        self.grown_kib = max(self.grown_kib, other.grown_kib)


def checked_kernels(environment: Mapping[str, str]) -> str:
    """The cache of kernels that check their bounds: that of the suites, or one beside it."""
    folder = environment.get("NUMBA_CACHE_DIR", "")
    if environment.get("NUMBA_BOUNDSCHECK") == "1" and folder:
        return folder
    return (
        f"{folder}-checked" if folder else str(pathlib.Path(tempfile.gettempdir()) / f"penstock-checked-{os.getuid()}")
    )


def run_batch(kind: str, first: int, count: int, *options: str) -> Outcome:
    """The outcome of one batch. A process that died is a problem that names the current seed."""
    with tempfile.TemporaryDirectory() as folder:
        progress = pathlib.Path(folder) / "progress"
        progress.write_bytes(bytes(8))
        program = ("-m", "tests.fuzz.run_batch")
        command: Sequence[str] = [sys.executable, *program, kind, str(first), str(count), str(progress), *options]
        environment = {
            **os.environ,
            "MALLOC_ARENA_MAX": "2",  # threads reserve additional address space
            "NUMBA_BOUNDSCHECK": "1",
            "NUMBA_CACHE_DIR": checked_kernels(os.environ),
        }
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, env=environment)
        if done.returncode:
            seed = int.from_bytes(progress.read_bytes()[:8], "little")
            number = -done.returncode
            how = signal.Signals(number).name if number in set(signal.Signals) else f"exit {done.returncode}"
            return Outcome(problems=[f"{kind}: the process died ({how}) at seed {seed}: {done.stderr[-1500:]}"])
    report = json.loads(done.stdout)
    problems = [f"{kind}: seed {item['seed']} of {item['member']}: {item['trace']}" for item in report["failures"]]
    return Outcome(collections.Counter(report["outcomes"]), problems, report["grown_kib"])
