"""Checks this machine: Python, libraries, Java, the Python of Spark, compiled kernels. `findings` rates the results."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
from collections.abc import Iterator, Mapping
from pkgutil import iter_modules
from typing import Any

from penstock.engine.demo.prerequisites import banner_of, java_major
from penstock.engine.doctor.findings import (
    Finding,
    Level,
    judged_java,
    judged_kernels,
    judged_library,
    requirement_of,
)
from penstock.engine.doctor.spark_python import spark_python_finding


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
    package = importlib.import_module("penstock.reader.kernels")
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__)
    ]
    caches: dict[int, Any] = {}
    for module in modules:
        for value in vars(module).values():
            cache_file = getattr(getattr(value, "_cache", None), "_cache_file", None)
            if cache_file is not None:
                caches[id(value)] = cache_file
    return sum(bool(_index_of(cache_file)) for cache_file in caches.values()), len(caches)


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
