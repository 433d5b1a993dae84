"""The PostgreSQL server of the tests."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys

import pytest

SCRIPT = """
import os, signal
from tests.postgres_server import postgres_server
with postgres_server() as server:
    print(server.port, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_server_ends_with_a_killed_process() -> None:
    """The output ends when the last process that holds it has ended."""
    root = str(pathlib.Path(__file__).parents[5])
    command = [sys.executable, "-P", "-c", SCRIPT]
    killed = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": root}, stdout=subprocess.PIPE, text=True, check=False
    )
    assert killed.returncode == -9
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", int(killed.stdout))):
        pass
