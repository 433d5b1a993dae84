"""The command `penstock-python`: Python for Spark's processes, out of compiled code (`PYSPARK_PYTHON=penstock-python`).

Spark starts a Python daemon for each kind of process that a query has (four for a first read), and puts its archive
`pyspark.zip` in front of the installed package. The archive holds sources alone, so every daemon compiles PySpark anew.
Here it steps back for an installed package of the same version; where there is none, nothing is changed.

Nothing but the choice of the import path belongs here; nothing of `penstock` or `pyspark` may be imported above it: it
runs in front of every daemon.
"""

from __future__ import annotations

import os
import pathlib
import sys
import zipfile
from collections.abc import Sequence
from typing import Final, NoReturn

PACKAGES: Final = ("pyspark", "py4j")


def command() -> str:
    """What to set PYSPARK_PYTHON to: `penstock-python` beside this Python; this Python where it is not."""
    beside = pathlib.Path(sys.executable).with_name("penstock-python")
    return str(beside) if beside.exists() else sys.executable


def compiled_first(path: Sequence[str]) -> list[str]:
    """`path` without those archives of PySpark and Py4J that a folder further back holds in the same version."""
    return [entry for entry in path if not any(_is_elsewhere(package, entry, path) for package in PACKAGES)]


def _is_elsewhere(package: str, archive: str, path: Sequence[str]) -> bool:
    """Whether `archive` is a zip of the package, and a folder of the path holds the package in that version."""
    version = _archived_version(package, archive)
    return version is not None and any(_installed_version(package, folder) == version for folder in path)


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


def main() -> NoReturn:
    """This installation's Python in place of this process: its arguments, its environment but for those archives."""
    archives = set(sys.path).difference(compiled_first(sys.path))
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(entry for entry in given if entry not in archives)
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], {**os.environ, "PYTHONPATH": path})
