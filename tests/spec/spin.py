"""Runs Spin: random runs of a specification, whose output is a trace, and searches of all its states."""

from __future__ import annotations

import pathlib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.long_record import add_to_record
from tests.ops.places import BIN, REPOSITORY, missing

SPEC: Final = REPOSITORY / "spec"
MOST_STEPS: Final = 20_000
"""Steps of a random run; a run that needs more has no end, and is no trace."""
MOST_DEPTH: Final = 1_000_000
MOST_MIB: Final = 6_000


@dataclass(frozen=True, slots=True)
class Search:
    """The result of a search of all states."""

    states: int
    """Distinct states."""
    transitions: int
    """Transitions between them."""
    violated: str
    """The name of the invariant that is broken; 'liveness' for a property of infinite runs; '' for none."""
    text: str
    """The output of the search."""


def spin() -> str:
    """The path of Spin. Without it the test fails in CI and is skipped elsewhere."""
    path = BIN / "spin"
    if not path.exists():
        missing("spin")
    return str(path)


def random_run(specification: str, seed: int, defines: Sequence[str] = ()) -> str:
    """The lines that a random run prints."""
    command = [spin(), "-T", f"-n{seed}", f"-u{MOST_STEPS}", "-DTRACE", *_flags(defines), str(SPEC / specification)]
    with tempfile.TemporaryDirectory() as folder:  # Spin writes scratch files of fixed names
        ended = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    return "".join(f"{line}\n" for line in ended.stdout.splitlines() if line.startswith("{"))


def search(
    specification: str, folder: pathlib.Path, defines: Sequence[str] = (), *, is_liveness: bool = False, fast: str = "1"
) -> Search:
    """Searches all states for a broken invariant, or all infinite runs in which every process makes the steps that it
    can make for ever. Stops at the first violation. `fast`: how much the compiler optimizes; "2" also stores states in
    less memory, which takes more time."""
    flags = _flags([*defines, "LIVENESS"] if is_liveness else defines)
    _run([spin(), *flags, "-a", str(SPEC / specification)], folder)
    checks = ["-DNFAIR=3"] if is_liveness else ["-DSAFETY"]
    if fast == "2":
        checks.append("-DCOLLAPSE")
    _run(["gcc", f"-O{fast}", "-w", f"-DMEMLIM={MOST_MIB}", *checks, "-o", "pan", "pan.c"], folder)
    text = _run(["./pan", f"-m{MOST_DEPTH}", *(["-a", "-f"] if is_liveness else [])], folder)
    return read_search(text)


def noted(name: str, result: Search) -> None:
    """Adds the counts of a search to the record of a long run, if there is one."""
    add_to_record(f"{name}: {result.states:,} states, {result.transitions:,} transitions")


def read_search(text: str) -> Search:
    """The result that a search printed. AssertionError if it did not visit all states."""
    counts = [
        re.search(rf"^\s*(\d+)(?:\.\d+)? {word}", text, re.MULTILINE) for word in ("states, stored", "transitions")
    ]
    errors = re.search(r"errors: (\d+)", text)
    assert errors and all(counts), f"the search did not end:\n{text[-3000:]}"
    states, transitions = (int(count[1]) for count in counts if count)
    violated = ""
    if int(errors[1]):
        name = re.search(r"assertion violated \(*(\w+)", text)
        violated = "liveness" if "acceptance cycle" in text else name[1] if name else text[:200]
    else:
        incomplete = ("Search not completed", "max search depth too small", "out of memory", "memory limit")
        assert not any(words in text for words in incomplete), f"states were left out:\n{text[-3000:]}"
    return Search(states, transitions, violated, text)


def _flags(defines: Sequence[str]) -> list[str]:
    return [f"-D{define}" for define in defines]


def _run(command: Sequence[str], folder: pathlib.Path) -> str:
    ended = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert ended.returncode == 0 or "assertion violated" in ended.stdout, f"{command}: {ended.stdout[-3000:]}"
    return ended.stdout
