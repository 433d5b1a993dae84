"""The command `penstock-python`: a Python for Spark's processes that starts faster.

Use it as `PYSPARK_PYTHON=penstock-python`. Spark starts a Python daemon for each kind of process of a query (four for
a first read), and puts archives on the import path of each:

* `pyspark.zip`, before the installed package. It contains only sources, so every daemon compiles PySpark again. This
  command removes it if a package of the same version is installed.
* its jar `spark-core`, which contains no Python modules. Every process reads the names of its 6,000 classes when it
  starts, and again when PySpark invalidates the caches of imports: before its first task, in Spark 4.0 before each.
  This command removes it.

It also runs `penstock.engine.spark.daemon` in place of PySpark's daemon. Otherwise it changes nothing.

Every Python process of Spark starts with this module, so it imports little, and `penstock` and `pyspark` only where it
runs the daemon.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Final

PACKAGES: Final = ("pyspark", "py4j")


def command() -> str:
    """The value for PYSPARK_PYTHON: `penstock-python` beside this Python, or this Python if that does not exist."""
    beside = pathlib.Path(sys.executable).with_name("penstock-python")
    return str(beside) if beside.exists() else sys.executable


def without_archives(path: Sequence[str]) -> list[str]:
    """`path` without Spark's own jar, and without the archives of PySpark and Py4J whose version a folder of the path
    also contains."""
    return [
        entry
        for entry in path
        if not _is_jar_of_spark(entry) and not any(_is_elsewhere(package, entry, path) for package in PACKAGES)
    ]


def _is_jar_of_spark(entry: str) -> bool:
    name = pathlib.PurePath(entry).name
    return name.startswith("spark-core_") and name.endswith(".jar")


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


def _run_daemon(arguments: list[str], path: list[str]) -> None:
    """Runs Penstock's daemon in this process, with this `path`. Its first entry and the arguments are as `python -m`
    sets them. Another start of Python would take as long as the daemon's own modules."""
    for archive in set(sys.path).difference(path):
        sys.path_importer_cache.pop(archive, None)  # it would be read again when caches of imports are invalidated
    sys.path[:] = path
    if not sys.flags.safe_path:
        sys.path[:1] = _working_folder()  # instead of the folder of this command
    sys.argv[:] = arguments
    from penstock.engine.spark import daemon  # late, because it imports pyspark

    daemon.main()


def _working_folder() -> list[str]:
    """The working folder, unless it was deleted."""
    try:
        return [str(pathlib.Path.cwd())]
    except OSError:
        return []


def main() -> None:
    """Runs Penstock's daemon in this process if the arguments name PySpark's. Otherwise replaces this process with
    Python. The environment is the same without those archives."""
    path = without_archives(sys.path)
    archives = set(sys.path).difference(path)
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in entries if entry not in archives)
    match sys.argv[1:]:
        case ["-m", "pyspark.daemon", *_] as arguments:
            _run_daemon(arguments[1:], path)
        case arguments:
            os.execv(sys.executable, [sys.executable, *arguments])
