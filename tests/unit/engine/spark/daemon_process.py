"""Runs a daemon of Spark's Python workers, as Spark does."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

PENSTOCK_PYTHON = str(pathlib.Path(sys.executable).with_name("penstock-python"))


@dataclass(frozen=True)
class EndedDaemon:
    """A daemon that ended, after its workers."""

    answers: list[bytes]
    """The first 64 KiB that each worker wrote."""
    log: str
    """The daemon's stderr."""


def ended_daemon(
    python: str,
    folder: pathlib.Path,
    worker: str,
    environment: Mapping[str, str] | None = None,
    requests: Sequence[bytes] = (b"1",),
) -> EndedDaemon:
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
        answers = [first_answer(port, request) for request in requests]
        process.stdin.close()
        return EndedDaemon(answers, process.stderr.read().decode())


def first_answer(port: int, request: bytes) -> bytes:
    """The first 64 KiB of the answer of a new worker, which has ended."""
    with socket.create_connection(("127.0.0.1", port), 60) as connection, connection.makefile("rb") as received:
        worker_pid = int.from_bytes(received.read(4), "big")
        connection.sendall(len(b"secret").to_bytes(4, "big") + b"secret")
        assert received.read(6) == len(b"ok").to_bytes(4, "big") + b"ok"
        connection.sendall(request)
        result = received.read(1 << 16)
    psutil.wait_procs([psutil.Process(worker_pid)] if psutil.pid_exists(worker_pid) else [], timeout=60)
    return result
