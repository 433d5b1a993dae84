"""Fault 33: connections that end under a client: server restarts, connections beyond their maximum age, cut
connections."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.config.settings import LimitSettings, Settings, TlsSettings
from penstock.enumerator.server.run import RunningServer, serve_enumerator
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import UnknownPlan
from penstock.proto.model.access import NO_ACCESS, ServerAccess
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.reports import EndOfSlot
from tests.certificates import Authority
from tests.faults.scripted import NEWEST, CountedReads
from tests.progress import PROGRESS_S

RETRYING = CallLimits(deadline_ms=60_000, plan_deadline_ms=60_000, attempts=30, first_pause_ms=20, longest_pause_ms=200)
ALL = PlanRequest(table="orders", query=Snapshot(), slots=1)


def started(enumerator: EmbeddedEnumerator, listen: str = "127.0.0.1:0", **settings: object) -> RunningServer:
    return serve_enumerator(enumerator, settings=Settings(listen=listen, **settings))  # type: ignore[arg-type]


def over(reads: CountedReads) -> EmbeddedEnumerator:
    return EmbeddedEnumerator({"orders": "/lake/orders"}, reads=reads, cpus=2)


def pull_splits(client: EnumeratorClient, plan_id: str) -> list[str]:
    """The ids of the splits of a whole slot, in order."""
    split_ids = []
    while not isinstance(answer := client.next_split(plan_id, 0, len(split_ids)), EndOfSlot):
        split_ids.append(answer.split.split_id)
    return split_ids


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
def test_client_continues_after_a_server_restart_on_the_same_port(secured: bool, tmp_path: pathlib.Path) -> None:
    """The plan's coordinator survives (as a durable one would); calls during the restart wait for the port."""
    access, tls = NO_ACCESS, TlsSettings()
    if secured:
        authority = Authority(tmp_path)
        pair = authority.signed("server", "127.0.0.1")
        access, tls = ServerAccess(ca=authority.ca), TlsSettings(cert=pair.cert, key=pair.key)
    enumerator = over(CountedReads())
    server = started(enumerator, tls=tls)
    client = EnumeratorClient(server.address, RETRYING, access)
    plan_id = client.open_plan(ALL).plan_id
    before = pull_splits(client, plan_id)
    for _ in range(3):
        server.stop(0)
        answers: list[list[str]] = []
        caller = threading.Thread(target=lambda answers=answers: answers.append(pull_splits(client, plan_id)))  # type: ignore[misc]
        caller.start()
        server = started(enumerator, server.address, tls=tls)
        caller.join(30)
        assert answers == [before]
    server.stop(0)
    with started(over(CountedReads()), server.address, tls=tls) as other:
        with pytest.raises(UnknownPlan):
            client.next_split(plan_id, 0, 0)
        assert client.newest_position("orders") == NEWEST
        other.stop(0)


def test_old_connections_are_renewed_without_a_failed_call() -> None:
    reads = CountedReads()
    limits = LimitSettings(connection_age_ms=200, connection_grace_ms=2000)
    with started(over(reads), limits=limits) as server:
        once = CallLimits(deadline_ms=60_000, attempts=3, first_pause_ms=10, longest_pause_ms=10)
        client = EnumeratorClient(server.address, once)
        end_s = time.monotonic() + 2.0
        calls = 0
        while time.monotonic() < end_s or calls <= 10:
            assert client.newest_position("orders") == NEWEST
            calls += 1
        assert reads.calls >= calls > 10
        server.stop(0)


def test_call_in_flight_when_its_connection_gets_too_old_is_answered() -> None:
    reads = CountedReads()
    reads.gate = threading.Event()
    limits = LimitSettings(connection_age_ms=100, connection_grace_ms=20_000)
    with started(over(reads), limits=limits) as server:
        client = EnumeratorClient(server.address, CallLimits(deadline_ms=60_000, attempts=1))
        answers: list[object] = []
        caller = threading.Thread(target=lambda: answers.append(client.newest_position("orders")))
        caller.start()
        caller.join(0.8)  # several times the maximum age
        assert caller.is_alive()
        reads.gate.set()
        caller.join(10)
        assert answers == [NEWEST]
        assert reads.calls == 1
        server.stop(0)


def test_calls_beyond_the_stream_limit_are_all_answered() -> None:
    """gRPC refuses the streams beyond the limit; the client repeats these calls."""
    reads = CountedReads()
    with started(over(reads), limits=LimitSettings(streams_per_connection=8)) as server:
        client = EnumeratorClient(server.address, RETRYING)
        answers: list[object] = []
        caller = [threading.Thread(target=lambda: answers.append(client.newest_position("orders"))) for _ in range(64)]
        for thread in caller:
            thread.start()
        for thread in caller:
            thread.join(30)
        assert answers == [NEWEST] * 64
        server.stop(0)


class CuttingProxy:
    """Forwards bytes to a server; `cut` ends every connection at once, like a restarted load balancer."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.connections = 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target, timeout=10)
            far.settimeout(None)
            self.connections += 1
            self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                thread = threading.Thread(target=self._pass_on, args=(source, sink), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for connection in (source, sink):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        source.close()


@pytest.fixture
def proxied() -> Iterator[tuple[CuttingProxy, CountedReads]]:
    """A server that clients reach through a proxy."""
    reads = CountedReads()
    with started(over(reads)) as server:
        proxy = CuttingProxy(server.address)
        yield proxy, reads
        proxy.close()
        server.stop(0)


def test_cut_connections_lose_and_double_no_split(proxied: tuple[CuttingProxy, CountedReads]) -> None:
    proxy, _ = proxied
    client = EnumeratorClient(proxy.address, RETRYING)
    plan_id = client.open_plan(ALL).plan_id
    before = pull_splits(client, plan_id)
    for _ in range(10):
        proxy.cut()
        assert pull_splits(client, plan_id) == before
    assert proxy.connections >= 10
    assert len(before) == len(set(before)) == 3


def test_lost_answer_is_requested_again(proxied: tuple[CuttingProxy, CountedReads]) -> None:
    proxy, reads = proxied
    reads.gate = threading.Event()
    client = EnumeratorClient(proxy.address, RETRYING)
    answers: list[object] = []
    caller = threading.Thread(target=lambda: answers.append(client.newest_position("orders")))
    caller.start()
    end_s = time.monotonic() + PROGRESS_S
    while reads.calls == 0 and time.monotonic() < end_s:
        caller.join(0.01)
    proxy.cut()
    reads.gate.set()
    caller.join(PROGRESS_S)
    assert answers == [NEWEST]
    assert reads.calls == 2
