"""The command `penstock-python`: a Python for Spark's processes that uses compiled PySpark modules.

Use it as `PYSPARK_PYTHON=penstock-python`. Spark starts a Python daemon for each kind of process of a query (four for
a first read), and puts its archive `pyspark.zip` before the installed package on the import path. The archive contains
only sources, so every daemon compiles PySpark again. This command removes the archive from the path if a package of the
same version is installed. It also starts `penstock.engine.spark.daemon` in place of PySpark's daemon. Otherwise it
changes nothing.

It runs before every daemon, so this module must not import `penstock` or `pyspark`.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

PACKAGES: Final = ("pyspark", "py4j")
DAEMONS: Final = {"pyspark.daemon": "penstock.engine.spark.daemon"}
"""The daemon that is started in place of Spark's."""


def command() -> str:
    """The value for PYSPARK_PYTHON: `penstock-python` beside this Python, or this Python if that does not exist."""
    beside = pathlib.Path(sys.executable).with_name("penstock-python")
    return str(beside) if beside.exists() else sys.executable


def without_archives(path: Sequence[str]) -> list[str]:
    """`path` without the archives of PySpark and Py4J whose version a folder of the path also contains."""
    return [entry for entry in path if not any(_is_elsewhere(package, entry, path) for package in PACKAGES)]


def _is_elsewhere(package: str, archive: str, path: Sequence[str]) -> bool:
    """Whether `archive` is a zip of the package, and a folder of the path contains the package in that version."""
    version = _archived_version(package, archive)
    return version is not None and any(_installed_version(package, folder) == version for folder in path)


def _archived_version(package: str, archive: str) -> bytes | None:
    if not archive.endswith(".zip"):
        return None
    import zipfile  # late, because `penstock.spark` imports this module

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


def daemon_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments of Python, in which `-m pyspark.daemon` names the daemon of Penstock."""
    match list(arguments):
        case ["-m", module, *rest]:
            return ["-m", DAEMONS.get(module, module), *rest]
        case others:
            return others


def main() -> NoReturn:
    """Replaces this process with Python: the arguments of `daemon_arguments`, and the same environment without those
    archives."""
    archives = set(sys.path).difference(without_archives(sys.path))
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(entry for entry in entries if entry not in archives)
    os.execve(sys.executable, [sys.executable, *daemon_arguments(sys.argv[1:])], {**os.environ, "PYTHONPATH": path})
