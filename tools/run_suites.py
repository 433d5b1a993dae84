"""Runs the suites: those without a JVM in several processes, beside them those with a JVM in one.

`python tools/run_suites.py sample` runs what `make test` runs: of a test with many parameter sets, a sample
(tests/sampling.py). `python tools/run_suites.py rest` runs what the sample leaves out. Suites with a JVM wait more than
they work, and share one session of Spark, one process of Hudi and one broker: they run one after the other. Further
arguments go to pytest.

Exits with the first exit status that is not 0.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import NamedTuple

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
WITH_JVM = "(spark or interop or kafka or packaging)"
SELECTIONS = {"sample": "not exhaustive", "rest": "exhaustive"}
PARALLEL = ("--numprocesses=logical", "--maxprocesses=4", "--dist=worksteal")


class Environments(NamedTuple):
    """The environment variables of both parts."""

    with_jvm: dict[str, str]
    """Kernels as users run them."""
    without_jvm: dict[str, str]
    """Kernels that check every index: other machine code, with a cache of its own."""


def environments(variables: Mapping[str, str]) -> Environments:
    """The environments, made of the caller's."""
    base = {**variables, "PENSTOCK_TEST_INSTALLED": "1"}
    cache = base.setdefault("NUMBA_CACHE_DIR", str(REPOSITORY / ".cache" / "numba"))
    return Environments(base, {**base, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": f"{cache}-checked"})


def command(selection: str, suites: str, *options: str) -> list[str]:
    """The command line of a part of the suites."""
    marks = f"{suites} and not (long or ops) and {SELECTIONS[selection]}"
    return [sys.executable, "-P", "-m", "pytest", "-m", marks, *options]


def run(selection: str, *options: str) -> int:
    """Runs both parts at the same time, prints the output of one after that of the other."""
    began = time.monotonic()
    suites = environments(os.environ)
    with tempfile.TemporaryFile("w+") as output:
        with_jvm = subprocess.Popen(
            command(selection, WITH_JVM, *options),
            cwd=REPOSITORY,
            env=suites.with_jvm,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            without_jvm = subprocess.run(
                command(selection, f"not {WITH_JVM}", *PARALLEL, *options), cwd=REPOSITORY, env=suites.without_jvm
            )
            with_jvm.wait()
        finally:
            with_jvm.kill()
            with_jvm.wait()
            output.seek(0)
            sys.stdout.write(output.read())
    print(f"penstock: suites ran for {time.monotonic() - began:.0f} s", flush=True)
    return without_jvm.returncode or with_jvm.returncode


if __name__ == "__main__":
    if sys.argv[1:2] not in (["sample"], ["rest"]):
        sys.exit("usage: run_suites.py sample|rest [pytest's options]")
    sys.exit(run(sys.argv[1], *sys.argv[2:]))
