"""Spark's Python daemon from compiled code: `spark.python.daemon.module=penstock.engine.spark.daemon`.

Spark starts a daemon for each kind of Python process, and puts its archive `pyspark.zip` in front of the installed
package. The archive holds sources alone, so every daemon compiles PySpark anew. Here it steps back for an installed
package of the same version; where there is none, nothing is changed. What the daemon does is PySpark's own.

Nothing but the choice of the import path belongs here; nothing of `penstock` or `pyspark` may be imported above it.
"""

from __future__ import annotations

import pathlib
import runpy
import sys
import zipfile
from collections.abc import Sequence
from typing import Final

PACKAGES: Final = ("pyspark", "py4j")


def compiled_first(path: Sequence[str]) -> list[str]:
    """`path` without those archives of PySpark and Py4J that a folder further back holds in the same version."""
    return [entry for entry in path if not any(_is_elsewhere(package, entry, path) for package in PACKAGES)]


def _is_elsewhere(package: str, archive: str, path: Sequence[str]) -> bool:
    """Whether `archive` is a zip of the package, and a folder of the path holds the package in that version."""
    told = _archived_version(package, archive)
    return told is not None and any(_installed_version(package, folder) == told for folder in path)


def _archived_version(package: str, archive: str) -> bytes | None:
    if not archive.endswith(".zip"):
        return None
    try:
        with zipfile.ZipFile(archive) as opened:
            return opened.read(f"{package}/version.py")
    except (OSError, KeyError, zipfile.BadZipFile):
        return None


def _installed_version(package: str, folder: str) -> bytes | None:
    try:
        return (pathlib.Path(folder) / package / "version.py").read_bytes()
    except OSError:
        return None


if __name__ == "__main__":
    sys.path[:] = compiled_first(sys.path)
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
