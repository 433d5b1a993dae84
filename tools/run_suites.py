"""Runs the suites of a selection, its parts in parallel.

`python tools/run_suites.py sample` runs what `make test` runs: of a test with many parameter sets, a sample
(tests/sampling.py), and the type checkers. `python tools/run_suites.py rest` runs what the sample leaves out, and
`make test-ops`. Suites with a JVM or with a Ray cluster wait much, so two processes run them, and each shares one
Spark session, one process of Hudi, one broker and one cluster among its suites. All other parts have a lower priority
(`nice`) and use the processor time that is left: Spark gives a Python worker ten seconds to start. Further arguments
are passed to pytest.

Prints the output of the suites without a JVM as it is written, then the output of each other part. Exits with the first
exit status that is not 0.

In CI, tests that failed run once more after all parts, alone on the machine: a machine of CI can stand
still for longer than a process waits for another. They are at most MOST_REPEATED, and none of NEVER_REPEATED. The
output of the first failure stays, and the last line names the tests that passed only then.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
WITH_JVM = {
    "sample": ("(interop or kafka)", "((spark or packaging or ray) and not (interop or kafka))"),
    "rest": ("(interop and not (kafka or spark))", "(kafka or spark or ((packaging or ray) and not interop))"),
}
"""The suites of each of the two processes, which take about as long as each other."""
MARKERS_WITH_JVM = ("spark", "interop", "kafka", "packaging", "ray")
WITHOUT_JVM = f"not ({' or '.join(MARKERS_WITH_JVM)})"
PATHS_WITH_JVM = (
    "tests/bench",
    "tests/catalogs/test_hive_metastore.py",
    "tests/demo",
    "tests/docs",
    "tests/engines/test_ray.py",
    "tests/hybrid",
    "tests/interop",
    "tests/kafka",
    "tests/packaging",
    "tests/spark",
    "tests/streaming",
)
"""The folders and files that hold every test with such a marker. The processes with a JVM collect only them, because
the collection of all tests takes as long as ten tests. `tests/conftest.py` refuses such a test elsewhere."""
SELECTIONS = {"sample": "not exhaustive", "rest": "exhaustive"}
PARALLEL_TARGETS = {"sample": "types-only", "rest": "test-ops-only"}
"""The target of the Makefile that runs in parallel with the suites of a selection."""
LOW_PRIORITY = ("nice", "-n", "10")
PARALLEL = (f"--numprocesses={min(4, (os.cpu_count() or 1) + 1)}", "--dist=worksteal")
"""One process more than processors: many tests wait for a process that they started."""

MOST_REPEATED = 3
"""With more failed tests, none runs again."""
NEVER_REPEATED = ("tests/fuzz", "tests/golden", "tests/simulation", "tests/state_space")
"""Tests of rows and of states: the machine does not decide their result."""


class Environments(NamedTuple):
    """The environment variables of both kinds of suites."""

    with_jvm: dict[str, str]
    """Kernels as users run them."""
    without_jvm: dict[str, str]
    """Kernels that check every index. Their machine code differs, so they have a separate cache."""


class Part(NamedTuple):
    """A command that runs in parallel with the others."""

    command: list[str]
    """The program and its arguments."""
    variables: dict[str, str]
    """Its environment."""
    cache: pathlib.Path | None = None
    """Where its pytest records the tests that failed."""


def environments(variables: Mapping[str, str]) -> Environments:
    """The environments of the suites, based on the caller's variables."""
    # NumPy's OpenBLAS starts threads in each process, which wait for work by using a core.
    base = {"OPENBLAS_NUM_THREADS": "1", **variables, "PENSTOCK_TEST_INSTALLED": "1"}
    cache = base.setdefault("NUMBA_CACHE_DIR", str(REPOSITORY / ".cache" / "numba"))
    return Environments(base, {**base, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": f"{cache}-checked"})


def command(selection: str, suites: str, *arguments: str) -> list[str]:
    """The command line of the suites of a selection. `arguments` are pytest's: options, and paths of tests."""
    marks = f"{suites} and not (long or ops) and {SELECTIONS[selection]}"
    return [sys.executable, "-P", "-m", "pytest", "-m", marks, *arguments]


def not_collected(path: str, markers: Collection[str]) -> bool:
    """Whether the process that should run a test does not collect it: the test has a marker of a suite with a JVM, and
    its file, relative to the repository, is outside PATHS_WITH_JVM. `make test-ops` and `make long` collect their tests
    themselves."""
    if {"ops", "long"} & set(markers) or not set(MARKERS_WITH_JVM) & set(markers):
        return False
    file = pathlib.PurePosixPath(path)
    return not any(file.is_relative_to(place) for place in PATHS_WITH_JVM)


def parts(selection: str, variables: Mapping[str, str], caches: pathlib.Path, *options: str) -> list[Part]:
    """The parts of a selection; the output of the first one is printed as it is written. `caches` is an empty folder
    for what pytest records."""
    suites = environments(variables)
    marks = (WITHOUT_JVM, *WITH_JVM[selection])
    records = [caches / str(place) for place in range(len(marks))]
    commands = [
        command(selection, some, *paths, "-o", f"cache_dir={record}", *options)
        for some, paths, record in zip(marks, (PARALLEL, PATHS_WITH_JVM, PATHS_WITH_JVM), records, strict=True)
    ]
    return [
        Part([*LOW_PRIORITY, *commands[0]], suites.without_jvm, records[0]),
        *(Part(some, suites.with_jvm, record) for some, record in zip(commands[1:], records[1:], strict=True)),
        Part([*LOW_PRIORITY, "make", "--no-print-directory", PARALLEL_TARGETS[selection]], dict(variables)),
    ]


def run(first: Part, *others: Part, repeats: bool) -> int:
    """Runs the parts in parallel. The outputs of `others` are printed after that of `first`, the last one first. With
    `repeats`, failed tests may run once more."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(running(part)) for part in others]
        statuses = [subprocess.run(first.command, cwd=REPOSITORY, env=first.variables).returncode]
        statuses += [process.wait() for process in processes]
    print(f"penstock: suites ran for {time.monotonic() - began:.0f} s", flush=True)
    if repeats and passed_when_repeated((first, *others), statuses):
        return 0
    return next((status for status in statuses if status), 0)


def passed_when_repeated(parts: Sequence[Part], statuses: Sequence[int]) -> bool:
    """Whether all parts that failed had failed tests only (pytest's exit status 1), and these pass when they run again
    by themselves. Prints their ids."""
    again = [(part, failed_tests(part)) for part, status in zip(parts, statuses, strict=True) if status]
    names = [name for _, failed in again for name in failed]
    if (
        not may_repeat(names)
        or any(status not in (0, 1) for status in statuses)
        or not all(failed for _, failed in again)
    ):
        return False
    for part, failed in again:
        once_more = [sys.executable, "-P", "-m", "pytest", *failed]
        if subprocess.run(once_more, cwd=REPOSITORY, env=part.variables).returncode:
            return False
    print(f"penstock: failed at first, and passed when repeated: {', '.join(names)}", flush=True)
    return True


def failed_tests(part: Part) -> tuple[str, ...]:
    """The ids of the tests of a part that failed, as its pytest recorded them; none if it recorded none."""
    file = None if part.cache is None else part.cache / "v" / "cache" / "lastfailed"
    return tuple(json.loads(file.read_text())) if file is not None and file.exists() else ()


def may_repeat(names: Sequence[str]) -> bool:
    """Whether tests with these ids run again."""
    files = [pathlib.PurePosixPath(name.partition("::")[0]) for name in names]
    return 0 < len(files) <= MOST_REPEATED and not any(
        file.is_relative_to(folder) for file in files for folder in NEVER_REPEATED
    )


@contextlib.contextmanager
def running(part: Part) -> Iterator[subprocess.Popen[str]]:
    """The process of a part. At the end it is killed if it still runs, and its output is printed."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            part.command, cwd=REPOSITORY, env=part.variables, stdout=output, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            output.seek(0)
            sys.stdout.write(output.read())


if __name__ == "__main__":
    if sys.argv[1:2] not in (["sample"], ["rest"]):
        sys.exit("usage: run_suites.py sample|rest [pytest's options]")
    with tempfile.TemporaryDirectory() as folder:
        commands = parts(sys.argv[1], os.environ, pathlib.Path(folder), *sys.argv[2:])
        status = run(*commands, repeats=bool(os.environ.get("CI")))
    sys.exit(status)
