"""An installed PySpark of the same version replaces PySpark's archive, and Spark's jar is left out. The daemon."""

from __future__ import annotations

import gc
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import psutil
import pyspark
import pytest

from penstock.engine.spark import daemon
from penstock.engine.spark.interpreter import without_archives

PENSTOCK_PYTHON = str(pathlib.Path(sys.executable).with_name("penstock-python"))
OTHERS = ["", "/nowhere", "/nowhere.zip"]


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


@pytest.fixture(autouse=True)
def freezes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each call of `gc.freeze`, which this process does not carry out."""
    calls: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(len(calls)))
    return calls


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    """A socket for a worker, which uses it no more."""
    with socket.socket() as created:
        yield created


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_worker_ends_quietly_if_spark_no_longer_reads(
    monkeypatch: pytest.MonkeyPatch, sock: socket.socket, error: type[OSError]
) -> None:
    def fails(sock: object, authenticated: bool) -> int:
        raise error

    monkeypatch.setattr(daemon, "_worker", fails)
    assert daemon.worker(sock, True) == 1


def test_other_ends_of_a_worker_are_unchanged(monkeypatch: pytest.MonkeyPatch, sock: socket.socket) -> None:
    def fails(sock: object, authenticated: bool) -> int:
        raise OSError("no space left")

    monkeypatch.setattr(daemon, "_worker", lambda sock, authenticated: 7 if authenticated else 0)
    assert [daemon.worker(sock, authenticated) for authenticated in (False, True)] == [0, 7]
    monkeypatch.setattr(daemon, "_worker", fails)
    with pytest.raises(OSError, match="no space left"):
        daemon.worker(sock, True)


def test_objects_of_modules_are_left_out_of_collections_once(
    monkeypatch: pytest.MonkeyPatch, sock: socket.socket, freezes: list[int]
) -> None:
    monkeypatch.setattr(daemon, "_loaded_modules", daemon.LoadedModules())
    monkeypatch.setattr(daemon, "_worker", lambda sock, authenticated: 0)
    for _ in range(3):
        daemon.worker(sock, True)
    assert freezes == [0]
    monkeypatch.setitem(sys.modules, "loaded_by_a_task", sys)
    for _ in range(3):
        daemon.worker(sock, True)
    assert freezes == [0, 1]


def answered(connection: socket.socket, accepted: socket.socket) -> None:
    """A request and its answer: from then on, Linux delays acknowledgements of `accepted`."""
    connection.sendall(b"function")
    accepted.recv(8)
    accepted.sendall(b"rows")
    connection.recv(4)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such option")
def test_each_task_acknowledges_its_input_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The option is 0 if acknowledgements are delayed."""
    seen: list[int] = []

    def task(sock: socket.socket, authenticated: bool) -> int:
        seen.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))
        return 0

    monkeypatch.setattr(daemon, "_worker", task)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        accepted, _ = server.accept()
        with accepted:
            for _ in range(2):
                answered(connection, accepted)
                task(accepted, True)  # PySpark's worker alone
                daemon.worker(accepted, True)
    assert seen == [0, 1, 0, 1]


def test_a_socket_without_acknowledgements_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_worker", lambda sock, authenticated: 3)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert daemon.worker(ours, True) == 3


ENDLESS_WORKER = """
import sys
from pyspark.util import handle_worker_exception

def main(infile, outfile):
    try:
        infile.read(1)
        while True:
            outfile.write(bytes(1 << 16))
    except BaseException as error:
        handle_worker_exception(error, outfile)
        sys.exit(-1)
"""
"""A worker that writes without end, and ends as PySpark's workers do after an error."""
DESCRIBING_WORKER = """
import importlib, json, os, sys

def main(infile, outfile):
    infile.read(1)
    importlib.invalidate_caches()
    about = [sys.path, sys.argv[1:], sys.executable, os.environ["PYTHONPATH"], hash("text"), os.getcwd()]
    about.append([path for path in sys.path_importer_cache if path.endswith((".jar", ".zip"))])
    outfile.write(json.dumps(about).ljust(1 << 16).encode())
    outfile.flush()
"""


USING_WORKER = """
import sys

def main(infile, outfile):
    has_modules = "penstock.engine.spark.task.read" in sys.modules
    if infile.read(1) == b"+":
        sys.path.append("added")
        import penstock.engine.spark.task.read
    if has_modules:
        import pyarrow.dataset, pyarrow.parquet
        pyarrow.parquet.write_table(pyarrow.table({"n": range(100_000)}), "file", row_group_size=1_000)
        assert pyarrow.dataset.dataset("file").to_table(use_threads=True).num_rows == 100_000
    outfile.write(str(has_modules).ljust(1 << 16).encode())
    outfile.flush()
"""
"""Tells whether the process had the modules of a task when it started; uses them for the request `+`. Modules of the
daemon work, with threads."""


@dataclass(frozen=True)
class Ended:
    """A daemon that ended, after its workers."""

    answers: list[bytes]
    """The first 64 KiB that each worker wrote."""
    log: str
    """The daemon's stderr."""


def ended(
    python: str,
    folder: pathlib.Path,
    worker: str,
    environment: Mapping[str, str] | None = None,
    requests: Sequence[bytes] = (b"1",),
) -> Ended:
    """Runs a daemon as Spark does, with `worker`, the source of a module, in a new process for each request. Spark
    closes its socket after 64 KiB of the answer. The import path begins with `folder`."""
    (folder / "pyspark_test_worker.py").write_text(worker)
    given = {"PYTHON_WORKER_FACTORY_SECRET": "secret", "PYTHONPATH": str(folder)}
    with subprocess.Popen(
        [python, "-m", "pyspark.daemon", "pyspark_test_worker"],
        env={**given, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1", **(environment or {})},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        port = int.from_bytes(process.stdout.read(4), "big")
        answers = [answer(port, request) for request in requests]
        process.stdin.close()
        return Ended(answers, process.stderr.read().decode())


def answer(port: int, request: bytes) -> bytes:
    """The first 64 KiB of the answer of a new worker, which has ended."""
    with socket.create_connection(("127.0.0.1", port), 60) as connection, connection.makefile("rb") as received:
        worker_pid = int.from_bytes(received.read(4), "big")
        connection.sendall(len(b"secret").to_bytes(4, "big") + b"secret")
        assert received.read(6) == len(b"ok").to_bytes(4, "big") + b"ok"
        connection.sendall(request)
        result = received.read(1 << 16)
    psutil.wait_procs([psutil.Process(worker_pid)] if psutil.pid_exists(worker_pid) else [], timeout=60)
    return result


def test_daemon_prints_nothing_when_spark_ends_a_task_early(tmp_path: pathlib.Path) -> None:
    assert ended(PENSTOCK_PYTHON, tmp_path, ENDLESS_WORKER) == Ended([bytes(1 << 16)], "")


def test_pysparks_own_daemon_prints_a_traceback_then(tmp_path: pathlib.Path) -> None:
    """The reason for the daemon of Penstock."""
    log = ended(sys.executable, tmp_path, ENDLESS_WORKER).log
    assert log.startswith("Traceback (most recent call last):\n")
    assert re.search(r"    outfile.flush\(\)\n(BrokenPipe|ConnectionReset)Error: .*\n\Z", log)


@pytest.mark.parametrize(
    ("requests", "expected"), [("---", [False] * 3), ("+--", [False, True, True]), ("-+-", [False, False, True])]
)
def test_processes_have_the_modules_that_an_earlier_task_used(
    tmp_path: pathlib.Path, requests: str, expected: list[bool]
) -> None:
    given = ended(PENSTOCK_PYTHON, tmp_path, USING_WORKER, requests=[request.encode() for request in requests])
    assert [answer.split() for answer in given.answers] == [[str(has).encode()] for has in expected], given.log
    assert given.log == ""


@pytest.mark.parametrize(("name", "has"), [("numpy.py", False), ("penstock/__init__.py", False), ("other.py", True)])
def test_modules_of_an_application_are_not_replaced(tmp_path: pathlib.Path, name: str, has: bool) -> None:
    """The daemon would import another module of that name than the tasks."""
    (tmp_path / "added" / name).parent.mkdir(parents=True)
    (tmp_path / "added" / name).touch()
    given = ended(PENSTOCK_PYTHON, tmp_path, USING_WORKER, requests=[b"+", b"-"])
    assert [answer.split() for answer in given.answers] == [[b"False"], [str(has).encode()]], given.log


@pytest.mark.parametrize("safe", [{}, {"PYTHONSAFEPATH": "1"}])
def test_workers_have_the_path_of_pysparks_own_daemon_without_the_jar(
    tmp_path: pathlib.Path, safe: dict[str, str]
) -> None:
    jar, other = str(tmp_path / "spark-core_2.13-4.3.0.jar"), archive(tmp_path, "other", "1")
    shutil.copyfile(other, jar)
    environment = {**safe, "PYTHONHASHSEED": "0", "PYTHONPATH": f"{jar}:{other}:{tmp_path}"}
    expected, given = (
        json.loads(ended(python, tmp_path, DESCRIBING_WORKER, environment).answers[0])
        for python in (sys.executable, PENSTOCK_PYTHON)
    )
    assert jar in expected[0] and jar in expected[-1], "Python reads the jar if it is on the path"
    assert given == [without(jar, about) if isinstance(about, list) else about for about in expected[:3]] + [
        f"{other}:{tmp_path}",
        *expected[4:6],
        without(jar, expected[-1]),
    ]


def without(jar: str, path: list[str]) -> list[str]:
    return [entry for entry in path if entry != jar]
