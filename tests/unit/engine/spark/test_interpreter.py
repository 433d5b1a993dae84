"""An installed PySpark of the same version replaces PySpark's archive, and nothing else does. Its daemon."""

from __future__ import annotations

import gc
import json
import pathlib
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator

import psutil
import pyspark
import pytest

from penstock.engine.spark import daemon
from penstock.engine.spark.interpreter import daemon_arguments, without_archives

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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["-m", "pyspark.daemon", "pyspark.worker"], ["-m", "penstock.engine.spark.daemon", "pyspark.worker"]),
        (["-m", "mine.daemon", "pyspark.worker"], ["-m", "mine.daemon", "pyspark.worker"]),
        (["-m", "pyspark.worker", "pyspark.daemon"], ["-m", "pyspark.worker", "pyspark.daemon"]),
        (["-c", "-m", "pyspark.daemon"], ["-c", "-m", "pyspark.daemon"]),
        (["-m"], ["-m"]),
        ([], []),
    ],
)
def test_only_sparks_own_daemon_is_replaced(given: list[str], expected: list[str]) -> None:
    assert daemon_arguments(given) == expected


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


WORKER = """
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


def daemon_log(python: str, folder: pathlib.Path) -> str:
    """The stderr of a daemon that `python` runs as Spark does, when Spark closes the socket of a worker that writes."""
    (folder / "pyspark_test_worker.py").write_text(WORKER)
    environment = {"PYTHON_WORKER_FACTORY_SECRET": "secret", "PYTHONPATH": str(folder)}
    with subprocess.Popen(
        [python, "-m", "pyspark.daemon", "pyspark_test_worker"],
        env={**environment, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        port = int.from_bytes(process.stdout.read(4), "big")
        with socket.create_connection(("127.0.0.1", port), 60) as connection, connection.makefile("rb") as answers:
            worker = int.from_bytes(answers.read(4), "big")
            connection.sendall(len(b"secret").to_bytes(4, "big") + b"secret")
            assert answers.read(6) == len(b"ok").to_bytes(4, "big") + b"ok"
            connection.sendall(b"1")
            assert answers.read(1 << 16) == bytes(1 << 16)
        psutil.wait_procs([psutil.Process(worker)] if psutil.pid_exists(worker) else [], timeout=60)
        process.stdin.close()
        return process.stderr.read().decode()


def test_daemon_prints_nothing_when_spark_ends_a_task_early(tmp_path: pathlib.Path) -> None:
    assert daemon_log(PENSTOCK_PYTHON, tmp_path) == ""


def test_pysparks_own_daemon_prints_a_traceback_then(tmp_path: pathlib.Path) -> None:
    """The reason for the daemon of Penstock."""
    log = daemon_log(sys.executable, tmp_path)
    assert log.startswith("Traceback (most recent call last):\n")
    assert re.search(r"    outfile.flush\(\)\n(BrokenPipe|ConnectionReset)Error: .*\n\Z", log)
