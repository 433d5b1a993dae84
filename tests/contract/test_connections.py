"""The connections of a client process: shared by address, bounded, and never inherited by a fork."""

from __future__ import annotations

import contextlib
import pathlib
import pickle
import socket
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING

import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.config.settings import Settings, TlsSettings
from penstock.enumerator.server.run import serve_enumerator
from penstock.proto.client import channel as client_channel
from penstock.proto.client.channel import MAX_CHANNELS, connections
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import ServerUnavailable

if TYPE_CHECKING:
    from tests.contract.scripted_table import Deployment

ONCE = CallLimits(deadline_ms=60_000, plan_deadline_ms=60_000, attempts=1)


def test_clients_of_one_address_share_a_connection_and_pickle_as_an_address(served: Deployment) -> None:
    assert served.server is not None
    clients = [EnumeratorClient(served.server.address, ONCE) for _ in range(3)]
    copy = pickle.loads(pickle.dumps(clients[0]))
    for client in [*clients, copy]:
        assert client.newest_position("trips")
    clients[0].close()
    assert clients[1].newest_position("trips")


def open_sockets(port: int) -> int:
    """TCP connections of this process to the port, counted at the client. Other processes may have a server at a port
    of the same number. Linux may list a socket twice, or not at all, while other sockets open and close."""
    own = set()
    for file in pathlib.Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            own.add(str(file.readlink()))
    lines = [line for name in ("tcp", "tcp6") for line in pathlib.Path("/proc/net", name).read_text().splitlines()[1:]]
    ends = [(fields[2], fields[3], fields[9]) for fields in map(str.split, lines)]
    found = {
        inode
        for remote, state, inode in ends
        if int(remote.rpartition(":")[2], 16) == port and state == "01" and f"socket:[{inode}]" in own
    }
    return len(found)


@pytest.mark.skipif(not pathlib.Path("/proc/net/tcp").exists(), reason="counts sockets as Linux lists them")
@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "negative control"])
def test_connections_are_bounded(served: Deployment, monkeypatch: pytest.MonkeyPatch, bounded: bool) -> None:
    """Counts sockets at separate addresses, because gRPC shares one socket among the channels of one address. The least
    recently used one is closed, and opened again on the next call."""
    most, requested = MAX_CHANNELS, MAX_CHANNELS + 5
    monkeypatch.setattr(client_channel, "IDLE_MS", 3_600_000)
    if not bounded:
        monkeypatch.setattr(client_channel, "MAX_CHANNELS", requested)
    words = TlsSettings(insecure="I know that tokens and rows travel unencrypted")
    connections._stubs.clear()
    enumerator = EmbeddedEnumerator({"trips": "/lake/trips"}, reads=served.table)
    with serve_enumerator(enumerator, settings=Settings(listen="0.0.0.0:0", tls=words)) as server:
        port = int(server.address.rpartition(":")[2])
        clients = [EnumeratorClient(f"127.0.1.{n + 1}:{port}", ONCE) for n in range(requested)]
        for client in clients:
            assert client.newest_position("trips")
        expected = most if bounded else requested
        found = open_sockets(port)
        for _ in range(12_000):
            if found == expected:
                break
            threading.Event().wait(0.01)
            found = open_sockets(port)
        assert found == expected == len(connections._stubs)
        assert clients[0].newest_position("trips")
    connections._stubs.clear()


@pytest.mark.parametrize(("idle_ms", "is_left_alone"), [(1_000, True), (3_600_000, False)], ids=["idle", "control"])
def test_lost_server_is_left_alone_after_an_idle_time(
    monkeypatch: pytest.MonkeyPatch, idle_ms: int, is_left_alone: bool
) -> None:
    """After a failed call gRPC connects to the address every second, and to any process that has the port by then."""
    monkeypatch.setattr(client_channel, "IDLE_MS", idle_ms)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    client = EnumeratorClient(f"127.0.0.1:{port}", CallLimits(deadline_ms=500, attempts=1))
    with pytest.raises(ServerUnavailable):
        client.newest_position("trips")
    with socket.create_server(("127.0.0.1", port)) as other:
        other.settimeout(10 if is_left_alone else 120)
        with pytest.raises(TimeoutError) if is_left_alone else contextlib.nullcontext():
            for _ in range(300 if is_left_alone else 6):
                other.accept()[0].close()
    client.close()


def test_forked_child_uses_a_separate_connection(served: Deployment) -> None:
    """As Spark's Python daemon forks its workers. Runs in a separate process, because a fork also copies pytest's
    threads."""
    assert served.server is not None
    script = """
        import os, sys
        from penstock.proto.client.client import EnumeratorClient
        client = EnumeratorClient(sys.argv[1])
        if sys.argv[2] == "before":
            client.newest_position("trips")
        pids = []
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                try:
                    client.newest_position("trips")
                    os._exit(0)
                except BaseException as error:
                    print(repr(error), file=sys.stderr)
                    os._exit(1)
            pids.append(pid)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        client.newest_position("trips")
        sys.exit(max(codes))
    """
    for called in ("before", "never"):
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), served.server.address, called],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr
