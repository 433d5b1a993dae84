"""Looks at this machine: Python, libraries, Java, the cache of compiled kernels. Shell: nothing is judged here."""

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


def machine_findings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Python, each library against its bounds, Java, the kernels."""
    yield Finding("python", Level.OK, f"{platform.python_version()} on {platform.platform(terse=True)}")
    yield from library_findings()
    home = environment.get("JAVA_HOME")
    banner = banner_of(f"{home}/bin/java" if home else "java")
    first = banner.strip().splitlines()[0][:80] if banner and banner.strip() else banner
    yield judged_java(java_major(banner or ""), first, _version("pyspark") is not None)
    yield kernel_finding()


def library_findings() -> Iterator[Finding]:
    """Penstock's own version, and what its metadata requires."""
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
    """Kernels whose machine code is kept and holds for the source that is here."""
    try:
        from penstock.reader.kernels import cache, winners
    except ImportError as error:
        return Finding("kernel cache", Level.FAIL, f"numba cannot be imported: {error}", "reinstall numba")
    folder = cache.cache_folder(str(winners.__file__))
    compiled, kernels = kept_kernels()
    return judged_kernels(None if folder is None else str(folder), compiled, kernels)


def kept_kernels() -> tuple[int, int]:
    """How many kernels have machine code that holds for their source, of how many there are."""
    package = importlib.import_module("penstock.reader.kernels")
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__)
    ]
    caches: dict[int, Any] = {}
    for module in modules:
        for value in vars(module).values():
            kept = getattr(getattr(value, "_cache", None), "_cache_file", None)
            if kept is not None:
                caches[id(value)] = kept
    return sum(bool(_index_of(kept)) for kept in caches.values()), len(caches)


def _index_of(kept: Any) -> object:
    """numba's index of a kernel's machine code: empty unless it is of this source and this numba."""
    try:
        return kept._load_index()
    except Exception:  # noqa: BLE001 - a cache file is bytes of whoever wrote it last; a damaged one is compiled anew
        return None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
