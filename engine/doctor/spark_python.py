"""Checks the Python that Spark starts for its processes. `findings` rates the result."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Final

from penstock.engine.doctor.findings import Finding, PythonFacts, judged_spark_python
from penstock.engine.spark.interpreter import command
from penstock.engine.spark.startup import VARIABLES

PACKAGES: Final = ("penstock", "pyarrow")
"""The packages that each of Spark's Python processes imports, beside PySpark itself, which Spark provides."""
_TIMEOUT_S: Final = 30
_PROBE: Final = """
import json, sys
from importlib import metadata
versions = {}
for name in sys.argv[1:]:
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps([list(sys.version_info[:2]), versions]))
"""


def spark_python_finding(
    environment: Mapping[str, str],
    which: Callable[[str], str | None] = shutil.which,
    probe: Callable[[str], PythonFacts | None] | None = None,
) -> Finding:
    """The finding on the command that Spark would run from here: PYSPARK_DRIVER_PYTHON, else PYSPARK_PYTHON, else the
    `python3` of the PATH. `probe` returns what a Python at a path has; None if it does not run."""
    variable = next((name for name in VARIABLES if name in environment), "")
    name = environment[variable] if variable else "python3"
    path = which(name)
    facts = (probe or probed_python)(path) if path is not None else None
    return judged_spark_python(variable, name, path, facts, this_python(), command())


def this_python() -> PythonFacts:
    """The facts of the Python of this process."""
    return PythonFacts(sys.version_info[:2], {name: metadata.version(name) for name in PACKAGES})


def probed_python(path: str) -> PythonFacts | None:
    """The facts of the Python at `path`, in a process of its own; None if it does not run as Python."""
    try:
        process = subprocess.run(
            [path, "-c", _PROBE, *PACKAGES], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
        answer = json.loads(process.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    match answer:
        case [[int(major), int(minor)], dict(versions)]:
            return PythonFacts((major, minor), versions)
        case _:
            return None
