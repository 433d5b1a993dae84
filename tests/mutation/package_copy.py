"""A copy of the package and of the tests of a part of it, in which mutmut makes mutants and runs the tests.

mutmut writes a copy of each function for each change of it, and chooses one by a variable of the process. Of each
mutant it runs the tests that reach its function, the fastest first, until one fails, in a fork of a process that has
imported all of them. The worktree is only read.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CHILDREN = int(os.environ.get("PENSTOCK_MUTANT_PROCESSES", str(os.cpu_count() or 1)))
CAUGHT = {"killed", "timeout", "segfault"}
MISSED = {"survived", "no tests"}
PYTEST = """
[tool.mutmut]
source_paths = ["src/penstock"]
only_mutate = ["src/penstock/{part}/*"]
do_not_mutate_patterns = ["cast[(]"]
pytest_add_cli_args_test_selection = {selected}
also_copy = ["tools"]
use_git_change_detection = false
track_dependencies = false
timeout_multiplier = 4.0
"""
"""Casts have no effect, so that their mutants are the same program. A mutant that takes four times as long as the
original is caught: most of these do not end."""


class Part(NamedTuple):
    """A folder of the package whose mutants are made."""

    folder: str
    """Below the package; its modules, not those of folders in it."""
    tests: tuple[str, ...]
    """Folders of tests that are copied, beside the modules of `tests` itself."""
    selected: tuple[str, ...]
    """What judges a mutant, below `tests`."""
    least_caught: float = 0.9
    """The part of its mutants that must be caught, without those that are the same program."""


CORE = Part(
    "enumerator/core",
    ("unit/enumerator", "simulation", "state_space", "mutation", "fixtures/state"),
    ("unit/enumerator/core", "mutation/part_of_models.py"),
)
PLANNER = Part("enumerator/planning", ("unit/enumerator", "oracle", "golden"), ("unit/enumerator/planning",), 0.7)
"""Its other judges, reads of all golden tables, take minutes for each mutant and are not run."""
MERGE = Part(
    "reader/merge",
    ("unit/reader", "oracle"),
    ("unit/reader/merge", "unit/reader/test_merge_rules_read.py", "unit/reader/test_partial_histories.py"),
)
"""The kernels that it calls are compiled by numba, and are not changed: mutmut chooses a mutant when a function is
called, which compiled code does not."""
PARTS = (CORE, PLANNER, MERGE)


class Survivor(NamedTuple):
    """A mutant that no test detects."""

    name: str
    """mutmut's name: module, class, function and number."""
    removed: str
    """The changed lines, joined by a space."""
    added: str
    """What is there instead."""

    def __str__(self) -> str:
        return f"{self.name}\n  - {self.removed}\n  + {self.added}"


class PackageCopy:
    """The copy, in a folder of its own."""

    def __init__(self, part: Part, folder: pathlib.Path) -> None:
        self.folder = folder
        self._selected = [*(f"tests/{name}" for name in part.selected), "-p", "no:cacheprovider"]
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / "src" / "penstock", folder / "src" / "penstock", ignore=ignored)
        for name in ("histories", *part.tests):  # every test records its histories
            shutil.copytree(REPOSITORY / "tests" / name, folder / "tests" / name, ignore=ignored)
        for path in [*(REPOSITORY / "tests").glob("*.py"), *(REPOSITORY / "tests" / "unit").glob("*.py")]:
            shutil.copyfile(path, folder / path.relative_to(REPOSITORY))
        (folder / "tools").mkdir()
        shutil.copyfile(REPOSITORY / "tools" / "run_suites.py", folder / "tools" / "run_suites.py")
        options = (REPOSITORY / "pyproject.toml").read_text().partition("[tool.pytest.ini_options]\n")
        own = PYTEST.format(part=part.folder, selected=self._selected)
        (folder / "pyproject.toml").write_text(options[1] + options[2].partition("\n[")[0] + own)

    def collected(self) -> int:
        """The number of tests that judge a mutant. AssertionError: they cannot be imported in the copy."""
        command = [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q", "--rootdir=.", *self._selected]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        count = re.search(r"^(\d+) tests collected", result.stdout, re.MULTILINE)
        assert count and result.returncode == 0, (result.stdout + result.stderr)[-3000:]
        return int(count[1])

    def mutants(self) -> list[str]:
        """Makes all mutants, and measures which tests reach which function. Their names, in order."""
        self._mutmut("run", "--max-children=1", "none.*")  # fails because no mutant has this name
        return sorted(self._statuses())

    def statuses(self, names: list[str]) -> dict[str, str]:
        """Runs the tests of these mutants; mutmut's word for each outcome."""
        output = self._mutmut("run", f"--max-children={CHILDREN}", *names)
        statuses = self._statuses()
        outcomes = {name: statuses[name] for name in names}
        left = {name: status for name, status in outcomes.items() if status not in CAUGHT | MISSED}
        assert not left, f"no outcome: {left}\n{output[-2000:]}"
        return outcomes

    def survivor(self, name: str) -> Survivor:
        """The change of a mutant."""
        return survivor_of(name, self._mutmut("show", name))

    def _statuses(self) -> dict[str, str]:
        output = self._mutmut("results", "--all", "true")
        statuses = dict(re.findall(r"^ *(penstock\.\S+): (.+)$", output, re.MULTILINE))
        assert statuses, output[-2000:]
        return statuses

    def _mutmut(self, *arguments: str) -> str:
        command = [sys.executable, "-P", "-m", "mutmut", *arguments]
        result = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return result.stdout.decode(errors="replace")


def survivor_of(name: str, diff: str) -> Survivor:
    """The change that a diff of mutmut shows."""
    lines = diff.splitlines()
    removed = [line[1:].strip() for line in lines if line.startswith("-") and not line.startswith("---")]
    added = [line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++")]
    assert removed or added, f"no change of {name}: {diff[-500:]}"
    return Survivor(name, " ".join(removed), " ".join(added))
