"""The daemon of Spark's Python workers: the modules of its processes, and the beginning and the end of a task."""

from __future__ import annotations

import gc
import importlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from penstock.engine.spark import daemon
from tests.unit.engine.spark.daemon_process import PENSTOCK_PYTHON, EndedDaemon, ended_daemon

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
USING_WORKER = """
import sys

def main(infile, outfile):
    has_modules = "penstock.engine.spark.task.read" in sys.modules
    request = infile.read(1)
    if request == b"+":
        import penstock.engine.spark.task.read
    if request == b"!":
        sys.modules["penstock.engine.spark.task.read"] = sys
    if has_modules:
        import pyarrow.dataset, pyarrow.parquet
        pyarrow.parquet.write_table(pyarrow.table({"n": range(100_000)}), "file", row_group_size=1_000)
        assert pyarrow.dataset.dataset("file").to_table(use_threads=True).num_rows == 100_000
    outfile.write(str(has_modules).ljust(1 << 16).encode())
    outfile.flush()
"""
"""A worker that tells whether its process had the modules of a task when it started. If so, it reads a file in several
threads. For the request `+` it uses the modules, for `!` it seems to."""


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


def test_daemon_prints_nothing_when_spark_ends_a_task_early(tmp_path: pathlib.Path) -> None:
    assert ended_daemon(PENSTOCK_PYTHON, tmp_path, ENDLESS_WORKER) == EndedDaemon([bytes(1 << 16)], "")


def test_pysparks_own_daemon_prints_a_traceback_then(tmp_path: pathlib.Path) -> None:
    """The reason for the daemon of Penstock."""
    log = ended_daemon(sys.executable, tmp_path, ENDLESS_WORKER).log
    assert log.startswith("Traceback (most recent call last):\n")
    assert re.search(r"    outfile.flush\(\)\n(BrokenPipe|ConnectionReset)Error: .*\n\Z", log)


@pytest.mark.parametrize(
    ("requests", "expected"),
    [("---", ["False"] * 3), ("+--", ["False", "True", "True"]), ("-+-", ["False", "False", "True"])],
)
def test_processes_have_the_modules_that_an_earlier_task_used(
    tmp_path: pathlib.Path, requests: str, expected: list[str]
) -> None:
    given = ended_daemon(PENSTOCK_PYTHON, tmp_path, USING_WORKER, requests=[one.encode() for one in requests])
    assert [one.decode().strip() for one in given.answers] == expected
    assert given.log == ""


def test_failed_import_of_the_daemon_leaves_its_processes_as_they_are(tmp_path: pathlib.Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('broken')")
    given = ended_daemon(PENSTOCK_PYTHON, tmp_path, USING_WORKER, requests=[b"!", b"-", b"-"])
    assert [one.decode().strip() for one in given.answers] == ["False"] * 3
    assert given.log.count("ImportError: broken") == 1


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is imported by name, without its effect. A task of this process has used the modules."""
    names: list[str] = []
    monkeypatch.setitem(sys.modules, daemon.TASK, sys)
    monkeypatch.setattr(importlib, "import_module", names.append)
    return names


def test_daemon_imports_the_modules_once_after_their_use(imports: list[str], freezes: list[int]) -> None:
    modules = daemon.TaskModules()
    modules.import_used()
    assert (imports, freezes) == ([], [])
    modules.note_use()
    for _ in range(3):
        modules.import_used()
    assert (imports, freezes) == ([*daemon.TASK_MODULES], [0])


def test_task_without_the_modules_has_not_used_them(monkeypatch: pytest.MonkeyPatch, imports: list[str]) -> None:
    monkeypatch.delitem(sys.modules, daemon.TASK)
    modules = daemon.TaskModules()
    modules.note_use()
    modules.import_used()
    assert imports == []


@pytest.mark.parametrize("package", [*daemon.PACKAGES, "other"])
def test_modules_of_an_application_are_not_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, imports: list[str], package: str
) -> None:
    """The daemon would import another package of that name than the next task."""
    modules = daemon.TaskModules()
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [sys.path[0], str(tmp_path), *sys.path[1:]])
    modules.note_use()
    modules.import_used()
    assert imports == ([] if package in daemon.PACKAGES else [*daemon.TASK_MODULES])


def test_packages_are_those_of_the_modules() -> None:
    """No module with a state that processes must not share, as NumPy's random numbers, and no Numba."""
    code = f"""
import importlib, json, sys
import pyspark.daemon
for name in {daemon.TASK_MODULES}:
    importlib.import_module(name)
packages = [name for name, module in sys.modules.items() if "." not in name and hasattr(module, "__path__")]
print(json.dumps([packages, [*sys.modules]]))
"""
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, timeout=60, check=True)
    packages, modules = (set(names) for names in json.loads(run.stdout))
    of_setuptools_and_pyspark = {"_distutils_hack", "cloudpickle"}
    assert packages - sys.stdlib_module_names - of_setuptools_and_pyspark == set(daemon.PACKAGES)
    assert not {"numpy.random", "numba"} & modules


def test_process_that_a_task_forks_imports_nothing(monkeypatch: pytest.MonkeyPatch, imports: list[str]) -> None:
    modules = daemon.TaskModules()
    modules.note_use()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    modules.import_used()
    assert imports == []


@pytest.mark.parametrize(("size", "is_limited"), [("2000", True), ("-1", False)])
def test_processes_of_a_limited_size_import_the_modules_themselves(
    monkeypatch: pytest.MonkeyPatch, imports: list[str], size: str, is_limited: bool
) -> None:
    monkeypatch.setenv("PYSPARK_EXECUTOR_MEMORY_MB", size)
    modules = daemon.TaskModules()
    modules.note_use()
    modules.import_used()
    assert bool(imports) is not is_limited


def test_termination_during_the_imports_ends_the_daemon(monkeypatch: pytest.MonkeyPatch, imports: list[str]) -> None:
    """PySpark's handler of SIGTERM raises SystemExit."""
    modules = daemon.TaskModules()
    modules.note_use()
    monkeypatch.setattr(importlib, "import_module", lambda name: sys.exit(1))
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    modules.import_used()
    assert codes == [1]
