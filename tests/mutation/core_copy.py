"""A copy of the package and of the tests of the core, in which mutmut makes mutants and runs the tests.

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
TESTS = ("unit/enumerator", "simulation", "state_space", "mutation", "fixtures/state")
"""Folders of tests that are copied, beside the modules of `tests` itself."""
SELECTED = ("tests/unit/enumerator/core", "tests/mutation/part_of_models.py")
"""What judges a mutant."""
CHILDREN = int(os.environ.get("PENSTOCK_MUTANT_PROCESSES", str(os.cpu_count() or 1)))
CAUGHT = {"killed", "timeout", "segfault"}
MISSED = {"survived", "no tests"}
PYTEST = """
[tool.mutmut]
source_paths = ["src/penstock"]
only_mutate = ["src/penstock/enumerator/core/*"]
do_not_mutate_patterns = ["cast[(]"]
pytest_add_cli_args_test_selection = {selected}
also_copy = ["tools"]
use_git_change_detection = false
track_dependencies = false
timeout_multiplier = 4.0
"""
"""Casts have no effect, so that their mutants are the same program. A mutant that takes four times as long as the
original is caught: most of these do not end."""


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


class CoreCopy:
    """The copy, in a folder of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / "src" / "penstock", folder / "src" / "penstock", ignore=ignored)
        for name in TESTS:
            shutil.copytree(REPOSITORY / "tests" / name, folder / "tests" / name, ignore=ignored)
        for path in [*(REPOSITORY / "tests").glob("*.py"), *(REPOSITORY / "tests" / "unit").glob("*.py")]:
            shutil.copyfile(path, folder / path.relative_to(REPOSITORY))
        (folder / "tools").mkdir()
        shutil.copyfile(REPOSITORY / "tools" / "run_suites.py", folder / "tools" / "run_suites.py")
        options = (REPOSITORY / "pyproject.toml").read_text().partition("[tool.pytest.ini_options]\n")
        own = PYTEST.format(selected=[*SELECTED, "-p", "no:cacheprovider"])
        (folder / "pyproject.toml").write_text(options[1] + options[2].partition("\n[")[0] + own)

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
