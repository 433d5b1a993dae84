"""An installed PySpark of the same version replaces PySpark's archive, and Spark's jar is left out."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pyspark
import pytest

from penstock.engine.spark.interpreter import without_archives
from tests.unit.engine.spark.daemon_process import PENSTOCK_PYTHON, ended_daemon

OTHERS = ["", "/nowhere", "/nowhere.zip"]
DESCRIBING_WORKER = """
import importlib, json, os, sys

def main(infile, outfile):
    infile.read(1)
    importlib.invalidate_caches()
    about = {
        "arguments": sys.argv[1:],
        "executable": sys.executable,
        "hash": hash("text"),
        "path": sys.path,
        "PYTHONPATH": os.environ["PYTHONPATH"].split(":"),
        "read": [path for path in sys.path_importer_cache if path.endswith((".jar", ".zip"))],
    }
    outfile.write(json.dumps(about).ljust(1 << 16).encode())
    outfile.flush()
"""
"""A worker that describes its process."""


def archive(folder: pathlib.Path, package: str, version: str) -> str:
    path = folder / f"{package}.zip"
    with zipfile.ZipFile(path, "w") as written:
        written.writestr(f"{package}/version.py", version)
        written.writestr(f"{package}/__init__.py", "raise ImportError('out of the archive')")
    return str(path)


def installed(folder: pathlib.Path, package: str, version: str) -> str:
    (folder / package).mkdir(parents=True)
    (folder / package / "version.py").write_text(version)
    return str(folder)


@pytest.mark.parametrize("package", ["pyspark", "py4j"])
def test_installed_package_of_the_same_version_comes_first(tmp_path: pathlib.Path, package: str) -> None:
    zipped, folder = archive(tmp_path, package, "4.3.0"), installed(tmp_path / "site", package, "4.3.0")
    assert without_archives([OTHERS[0], zipped, *OTHERS[1:], folder]) == [*OTHERS, folder]


@pytest.mark.parametrize("version", [None, "4.2.1"])
def test_archive_stays_without_an_installed_package(tmp_path: pathlib.Path, version: str | None) -> None:
    path = [archive(tmp_path, "pyspark", "4.3.0"), *OTHERS]
    if version is not None:
        path.append(installed(tmp_path / "site", "pyspark", version))
    assert without_archives(path) == path


def test_only_the_jar_of_spark_itself_is_left_out() -> None:
    """Other jars may contain Python modules, as Delta's do."""
    others = ["/spark/jars/delta-core_2.13-4.0.jar", "/spark-core_2.13-4.3.0.jar/folder", "/my/spark-core.zip"]
    assert without_archives([*others, "/spark/jars/spark-core_2.13-4.3.0.jar"]) == others


def test_paths_that_are_no_archive_stay(tmp_path: pathlib.Path) -> None:
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK")
    path = [str(broken), archive(tmp_path, "other", "4.3.0"), installed(tmp_path / "site", "pyspark", "4.3.0")]
    assert without_archives(path) == path


def test_daemon_is_pysparks_own_from_the_installed_package(tmp_path: pathlib.Path) -> None:
    """Started as Spark does, the daemon writes its port (4 bytes) and ends with its input."""
    package = pathlib.Path(pyspark.__file__).parent
    zipped = archive(tmp_path, "pyspark", (package / "version.py").read_text())
    process = subprocess.run(
        [PENSTOCK_PYTHON, "-m", "pyspark.daemon", "pyspark.worker"],
        env={"PYTHONPATH": f"{zipped}:{package.parent}", "PYTHON_WORKER_FACTORY_SECRET": "secret"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert len(process.stdout) == 4, process.stderr.decode()
    assert 0 < int.from_bytes(process.stdout, "big") < 1 << 16


def test_arguments_and_environment_are_passed_on(tmp_path: pathlib.Path) -> None:
    other = archive(tmp_path, "other", "1")
    code = "import json, os, sys; print(json.dumps([sys.argv, sys.prefix, os.environ['PYTHONPATH'], os.environ['A']]))"
    process = subprocess.run(
        [PENSTOCK_PYTHON, "-c", code, "one", "-m"],
        env={"PYTHONPATH": f"{other}:here:{tmp_path}", "A": "b"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(process.stdout) == [["-c", "one", "-m"], sys.prefix, f"{other}:here:{tmp_path}", "b"]


def test_exit_code_is_that_of_python() -> None:
    ended = subprocess.run([PENSTOCK_PYTHON, "-c", "raise SystemExit(7)"], timeout=60, check=False)
    assert ended.returncode == 7


def test_another_daemon_is_run_as_it_is(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.py").write_text("import sys; print(__name__, *sys.argv[1:], 'pyspark' in sys.modules)")
    started = subprocess.run(
        [PENSTOCK_PYTHON, "-m", "mine", "-m", "pyspark.daemon"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert started.stdout == b"__main__ -m pyspark.daemon False\n"


@pytest.mark.parametrize("safe", [{}, {"PYTHONSAFEPATH": "1"}])
def test_workers_have_the_path_of_pysparks_own_daemon_without_the_jar(
    tmp_path: pathlib.Path, safe: dict[str, str]
) -> None:
    jar, other = str(tmp_path / "spark-core_2.13-4.3.0.jar"), archive(tmp_path, "other", "1")
    shutil.copyfile(other, jar)
    environment = {**safe, "PYTHONHASHSEED": "0", "PYTHONPATH": f"{jar}:{other}:{tmp_path}"}
    expected, given = (
        json.loads(ended_daemon(python, tmp_path, DESCRIBING_WORKER, environment).answers[0])
        for python in (sys.executable, PENSTOCK_PYTHON)
    )
    for name in ("path", "PYTHONPATH", "read"):
        assert jar in expected[name], "Python reads the jar if it is on the path"
        expected[name].remove(jar)
    assert given == expected


def test_working_folder_may_be_deleted(tmp_path: pathlib.Path) -> None:
    (folder := tmp_path / "deleted").mkdir()
    command = 'rmdir "$PWD"; exec "$0" -m pyspark.daemon'
    process = subprocess.run(
        ["/bin/sh", "-c", command, PENSTOCK_PYTHON],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert len(process.stdout) == 4, process.stderr.decode()
