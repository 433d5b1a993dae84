"""Checks this machine: Python, libraries, Java, the Python of Spark, compiled kernels. `findings` rates the results."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pkgutil import iter_modules
from typing import Any, Final

from penstock.engine.demo.prerequisites import banner_of, java_major
from penstock.engine.doctor.findings import (
    Finding,
    Level,
    PythonFacts,
    judged_java,
    judged_kernels,
    judged_library,
    judged_spark_python,
    requirement_of,
)
from penstock.engine.spark.interpreter import command
from penstock.engine.spark.startup import VARIABLES

PACKAGES: Final = ("penstock", "pyarrow")
"""The packages that each of Spark's Python processes imports, beside PySpark itself, which Spark provides."""
_TIMEOUT_S: Final = 30
_KERNEL_PACKAGES: Final = ("penstock.reader.kernels", "penstock.writer.kernels")
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


def machine_findings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Findings on Python, each library, Java, the Python of Spark if that is installed, and the compiled kernels."""
    yield Finding("python", Level.OK, f"{platform.python_version()} on {platform.platform(terse=True)}")
    yield from library_findings()
    home = environment.get("JAVA_HOME")
    banner = banner_of(f"{home}/bin/java" if home else "java")
    first = banner.strip().splitlines()[0][:80] if banner and banner.strip() else banner
    has_spark = _version("pyspark") is not None
    yield judged_java(java_major(banner or ""), first, has_spark)
    if has_spark:
        yield spark_python_finding(environment)
    yield kernel_finding()


def library_findings() -> Iterator[Finding]:
    """Findings on the version of Penstock, and on the libraries that its metadata requires."""
    try:
        own = importlib.metadata.distribution("penstock")
    except importlib.metadata.PackageNotFoundError:
        yield Finding("penstock", Level.WARN, "not installed as a package: versions of libraries cannot be compared")
        return
    yield Finding("penstock", Level.OK, own.version)
    seen: set[str] = set()
    for line in own.requires or ():
        needed = requirement_of(line)
        if needed is not None and needed.name not in seen:
            seen.add(needed.name)
            yield judged_library(needed, _version(needed.name))


def kernel_finding() -> Finding:
    """The finding on the cache of compiled kernels."""
    try:
        from penstock.reader.kernels import cache, winners
    except ImportError as error:
        return Finding("kernel cache", Level.FAIL, f"numba cannot be imported: {error}", "reinstall numba")
    folder = cache.cache_folder(str(winners.__file__))
    compiled, kernels = cached_kernels()
    return judged_kernels(None if folder is None else str(folder), compiled, kernels)


def cached_kernels() -> tuple[int, int]:
    """The number of kernels with valid machine code in the cache, and the number of all kernels."""
    files = [kernel._cache._cache_file for kernel in kernels()]
    return sum(bool(_index_of(file)) for file in files), len(files)


def kernels() -> list[Any]:
    """numba's functions of all kernels of the package, of the reader and the writer."""
    from numba.core.dispatcher import Dispatcher

    from penstock.reader.kernels.compilation import Kernel

    found: dict[int, Any] = {}
    for package in (importlib.import_module(name) for name in _KERNEL_PACKAGES):
        for module in iter_modules(package.__path__):
            for value in list(vars(importlib.import_module(f"{package.__name__}.{module.name}")).values()):
                kernel = value.dispatcher() if isinstance(value, Kernel) else value
                saved = getattr(kernel, "_cache", None)
                if isinstance(kernel, Dispatcher) and getattr(saved, "cache_path", None) is not None:
                    found[id(kernel)] = kernel
    return list(found.values())


def _index_of(cache_file: Any) -> object:
    """numba's index of a kernel's machine code; empty if the source or the version of numba is another."""
    try:
        return cache_file._load_index()
    except Exception:  # noqa: BLE001 - numba unpickles the file; any damaged file is compiled again
        return None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


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
    return PythonFacts(sys.version_info[:2], {name: importlib.metadata.version(name) for name in PACKAGES})


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
