"""`penstock flight`: the address on stdout, the log on stderr, usage errors, a clean shutdown."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import penstock
from penstock.enumerator.server.auth.tokens import new_token
from tests.certificates import Authority
from tests.loopback_ports import free_port
from tests.progress import PROGRESS_S
from tests.unit.engine.flight.served import Client

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.cli.command_line import Cli

COW = "B_v9_inc_cow"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "no table to serve: name at least one, as --table NAME=PATH"),
        (("--table", "orders"), "expected NAME=PATH"),
        (("--table", "a=/x", "--listen", "0.0.0.0:0"), "is not on the loopback interface: TLS is required"),
        (("--table", "a=/x", "--listen", "nowhere"), "expected HOST:PORT"),
        (("--table", "a=/x", "--tls-cert", "server.pem"), "tls.cert is given without tls.key"),
        (("--table", "a=/x", "--tokens", "/none/tokens"), "tokens: file '/none/tokens' cannot be read"),
        (("--table", "a=/x", "--config", "c.toml", "--tokens", "t"), "are for a server without --config"),
        (("--table", "a=/x", "--ticket-key", "/none/key"), "ticket key: file '/none/key' cannot be read"),
        (("--table", "a=/x", "--ticket-lifetime", "0s"), "--ticket-lifetime: got 0, expected 1000"),
        (("--table", "a=/x", "--ticket-lifetime", "soon"), "--ticket-lifetime 'soon': expected a time"),
        (("--table", "a=/x", "--streams", "0"), "--streams: got 0, expected 1"),
        (("--table", "a=/x", "--idle", "1ms"), "--idle: got 1, expected 1000"),
        (("--table", "a=/x", "--location", "data-1"), "--location: address 'data-1': expected HOST:PORT"),
        (("--table", "a=/x", "--location", "d:1", "--location", "d:2"), "only with the same key: give --ticket-key"),
        (("--table", "a=/x", "--server", "10.0.0.5:7070"), "TLS is required there"),
        (("--table", "a=/x", "--server", "nowhere"), "option server: address"),
    ],
)
def test_usage_errors(cli: Cli, arguments: tuple[str, ...], text: str) -> None:
    result = cli("flight", *arguments)
    assert (result.code, result.stdout) == (2, b"")
    assert result.stderr.startswith("error [CONFIGURATION]: ") and text in result.stderr


def started(*arguments: object) -> subprocess.Popen[str]:
    """A server process."""
    command = [sys.executable, "-P", "-m", "penstock", "flight", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy())


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert re.fullmatch(r"127\.0\.0\.1:\d+", address), address
    return address


@pytest.mark.golden
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_server_process(golden: GoldenTables, number: signal.Signals) -> None:
    path, metrics = golden.table(COW), free_port()
    with started("--table", f"orders={path}", "--listen", "127.0.0.1:0", "--metrics-listen", f":{metrics}") as process:
        try:
            client = Client(address_of(process))
            rows = client.rows("orders")
            assert rows.equals(penstock.read(str(path)).read_all())
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=30) as response:
                assert f'penstock_flight_rows_total{{table="orders"}} {rows.num_rows:.1f}\n' in response.read().decode()
            process.send_signal(number)
            rest, log = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, rest) == (0, "")
    assert "Traceback" not in log
    assert "flight sent principal=" in log and " table=orders " in log


class StallingProxy:
    """Forwards one connection to a server, until it has received `stops_after` bytes from it: then it reads no more."""

    def __init__(self, address: str, stops_after: int) -> None:
        host, _, port = address.rpartition(":")
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.stalled = threading.Event()
        self._server = socket.create_connection((host, int(port)))
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # it does not grow to hold the batch
        self._client: socket.socket | None = None
        self._threads = [threading.Thread(target=self._serve, args=(stops_after,))]
        self._threads[0].start()

    def _serve(self, stops_after: int) -> None:
        with contextlib.suppress(OSError):
            self._client, _ = self._listening.accept()
            requests = threading.Thread(target=self._forward, args=(self._client, self._server))
            self._threads.append(requests)
            requests.start()
            while stops_after > 0 and (data := self._server.recv(1 << 16)):
                self._client.sendall(data)
                stops_after -= len(data)
            self.stalled.set()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)

    def close(self) -> None:
        """Ends both connections."""
        for each in (self._listening, self._server, self._client):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        for thread in self._threads:
            thread.join()


@pytest.mark.golden
def test_process_ends_although_a_client_neither_reads_nor_goes(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    """The server is in the middle of a batch that no buffer can hold, and whose rest is not read. One signal ends it
    after the grace, with exit code 0."""
    table = big_table(golden, tmp_path)
    settings = tmp_path / "server.toml"
    settings.write_text("graceMs = 100\n")
    with started("--table", f"big={table}", "--config", settings) as server:
        proxy = StallingProxy(address_of(server), stops_after=1 << 20)
        reader = threading.Thread(target=read_one_batch, args=(proxy.address,))
        reader.start()
        try:
            assert proxy.stalled.wait(PROGRESS_S)
            server.send_signal(signal.SIGTERM)
            _, log = server.communicate(timeout=PROGRESS_S)
        finally:
            server.kill()
            server.wait()
            proxy.close()
            reader.join()
    assert server.returncode == 0
    assert "Traceback" not in log
    assert "flight not sent to its end" in log and "the server is stopping" in log
    assert "their clients read nothing" in log


def read_one_batch(address: str) -> None:
    """Reads a batch of as many rows as possible; the connection ends before."""
    client = fl.connect(f"grpc://{address}")
    command = fl.FlightDescriptor.for_command(json.dumps({"table": "big", "batchRows": 400_000}))
    with contextlib.suppress(pa.ArrowException, OSError):
        reader = client.do_get(client.get_flight_info(command).endpoints[0].ticket)
        raise AssertionError(f"a batch of {reader.read_chunk().data.nbytes} bytes fits into the buffers")


def big_table(golden: GoldenTables, folder: pathlib.Path) -> pathlib.Path:
    """A table whose base files have more rows than the buffers of gRPC hold."""
    import numpy as np
    import pyarrow.parquet as pq

    table = golden.copy(COW, folder)
    for file in table.glob("*/*.parquet"):
        rows = pq.read_table(file)
        pq.write_table(rows.take(np.arange(400_000) % rows.num_rows), file)
    return table


@pytest.mark.golden
def test_tls_and_tokens_by_flags(golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    token, line = new_token("etl")
    (tmp_path / "tokens").write_text(line + "\n")
    authority = Authority(tmp_path / "ca")
    pair = authority.signed("server", "127.0.0.1")
    security = ("--tls-cert", pair.cert, "--tls-key", pair.key, "--tokens", tmp_path / "tokens")
    root = pathlib.Path(authority.ca).read_bytes()
    with started("--table", f"orders={golden.table(COW)}", *security) as process:
        try:
            address = address_of(process)
            assert Client(address, token, scheme="grpc+tls", tls_root_certs=root).rows("orders").num_rows
            for wrong in ("", "pst_wrong"):
                with pytest.raises(fl.FlightUnauthenticatedError):
                    Client(address, wrong, scheme="grpc+tls", tls_root_certs=root).rows("orders")
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "principal=token:etl" in log and token not in log
