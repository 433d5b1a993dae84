"""`penstock serve`: one line on stdout, the log on stderr, a clean end."""

from __future__ import annotations

import pathlib
import re
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.engine.cli.serve import named_tables
from penstock.proto.client import EnumeratorClient
from penstock.proto.errors import ConfigurationError

if TYPE_CHECKING:
    from conftest import Cli

    from tests.conftest import GoldenTables

V9 = "A_merge_event_long_v9_h120"


def test_named_tables() -> None:
    assert named_tables(["a=/x", "b=s3://y/z=1"]) == {"a": "/x", "b": "s3://y/z=1"}


@pytest.mark.parametrize("pairs", [["a"], ["=x"], ["a="], ["a=x", "a=y"]])
def test_bad_tables(pairs: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="--table"):
        named_tables(pairs)


@pytest.mark.parametrize(
    "pairs", [["s3://k:secret@b"], ["=s3://k:secret@b"], ["a=s3://k:secret@b", "a=s3://k:secret@c"]]
)
def test_bad_tables_are_told_without_credentials(pairs: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="--table") as caught:
        named_tables(pairs)
    assert "secret" not in str(caught.value)


def test_a_wrong_table_fails_at_once(cli: Cli, tmp_path: pathlib.Path) -> None:
    ended = cli("serve", "--table", f"a={tmp_path}")
    assert (ended.code, ended.stdout) == (1, b"")
    assert ended.stderr.startswith("error [TABLE_NOT_FOUND]: ")


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "nowhere", "127.0.0.1:99999"])
def test_a_wrong_address_is_refused(cli: Cli, tmp_path: pathlib.Path, listen: str) -> None:
    ended = cli("serve", "--table", f"a={tmp_path}", "--listen", listen)
    assert (ended.code, ended.stdout) == (2, b"")


@pytest.mark.golden
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_process(golden: GoldenTables, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "penstock", "serve", "--table", f"orders={golden.table(V9)}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert re.fullmatch(r"127\.0\.0\.1:\d+", address)
            assert EnumeratorClient(address).describe_table("orders").table_version == 9
            process.send_signal(number)
            rest, log = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, rest) == (0, "")
    assert "Traceback" not in log


@pytest.mark.golden
def test_a_port_that_is_taken_is_told_in_one_line(golden: GoldenTables) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "penstock", "serve", "--table", f"a={golden.table(V9)}", "--listen", address]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error [CONFIGURATION]: cannot listen at {address}")
