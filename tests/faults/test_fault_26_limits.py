"""Fault 26: callers beyond the limits of a server, silent connections, and what is off by default."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import threading
import time
from collections.abc import Iterator

import grpc
import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.config.settings import LimitSettings, TlsSettings
from penstock.enumerator.server.run import serve_enumerator
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.codec.errors import received
from penstock.proto.errors import (
    ConfigurationError,
    Overloaded,
    StorageError,
    UnknownPlan,
)
from tests.faults.scripted import CountedReads
from tests.faults.test_fault_26_grpc_abuse import ONCE, SERVICE, served


def test_calls_beyond_the_rate_are_refused_and_a_retrying_client_is_served() -> None:
    with served(limits=LimitSettings(rate_per_second=2.0, rate_burst=3)) as service:
        hasty = service.client()
        with pytest.raises(Overloaded, match=r"too many calls from ipv4:127\.0\.0\.1: at most 2 a second, 3 at once"):
            for _ in range(20):
                hasty.describe_table("orders")
        reads_before = service.reads.calls
        patient = service.client(limits=CallLimits(attempts=5, first_pause_ms=10, longest_pause_ms=10))
        for _ in range(2):
            assert patient.describe_table("orders")
        assert service.reads.calls == reads_before + 2


def test_retry_delay_of_the_server_is_respected() -> None:
    """The client waits for the RetryInfo of the server, although its own delays are shorter (real clock)."""
    with served(limits=LimitSettings(rate_per_second=1.0, rate_burst=1)) as service:
        patient = service.client(limits=CallLimits(attempts=2, first_pause_ms=10, longest_pause_ms=10))
        begin_s = time.monotonic()
        patient.describe_table("orders")
        patient.describe_table("orders")
        assert time.monotonic() - begin_s >= 0.99
        assert service.reads.calls == 2


def test_streams_beyond_the_limit_are_refused() -> None:
    with served(limits=LimitSettings(calls=20)) as service:
        service.reads.gate = threading.Event()
        with grpc.insecure_channel(service.server.address) as channel:
            ask = channel.unary_unary(SERVICE + "DescribeTable")
            under_way = [ask.future(b"\x0a\x06orders", timeout=60) for _ in range(60)]
            result = threading.Semaphore(0)
            for call in under_way:
                call.add_done_callback(lambda _: result.release())
            for _ in range(40):
                assert result.acquire(timeout=10), "40 of 60 are refused while 20 wait"
            codes = [call.code() for call in under_way if call.done()]
            assert codes == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 40
            service.reads.gate.set()
            assert len([call for call in under_way if call.exception(timeout=10) is None]) == 20
        assert service.client().describe_table("orders")


def test_silent_and_partial_connections_block_no_other_caller() -> None:
    limits = LimitSettings(handshake_ms=300)
    with served(limits=limits) as service, contextlib.ExitStack() as open_ones:
        host, _, port = service.server.address.rpartition(":")
        slow = [open_ones.enter_context(socket.create_connection((host, int(port)), timeout=10)) for _ in range(50)]
        for n, connection in enumerate(slow):
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[: n % 24])
        assert service.client().describe_table("orders")
        for connection in slow:
            while connection.recv(
                4096
            ):  # the server's settings, then the end of the stream: the server closed the silent connection
                pass


def test_too_many_pings_end_the_connection_and_no_other() -> None:
    settings, ping = b"\0\0\0\4\0\0\0\0\0", b"\0\0\x08\6\0\0\0\0\0" + b"8 bytes."
    with served() as service:
        host, _, port = service.server.address.rpartition(":")
        client = service.client()
        assert client.describe_table("orders")
        with socket.create_connection((host, int(port)), timeout=10) as noisy:
            noisy.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + ping * 10)
            heard = b""
            while data := noisy.recv(4096):
                heard += data
        assert b"too_many_pings" in heard
        assert client.describe_table("orders")


@pytest.mark.parametrize("call", ["NextSplit", "OpenPlan"])
def test_requests_that_never_arrive_block_no_other_caller(call: str) -> None:
    """gRPC uses a thread for each: more of them than one connection may have, for either kind of call."""
    with served() as service:
        release = threading.Event()

        def nothing() -> Iterator[bytes]:
            release.wait(30)
            yield from ()

        with grpc.insecure_channel(service.server.address) as channel:
            ask = channel.stream_unary(SERVICE + call)
            stuck = [ask.future(nothing(), timeout=60) for _ in range(40)]
            assert service.client().describe_table("orders")
            with pytest.raises(UnknownPlan):
                service.client().next_split("none", 0, 0)
            release.set()
            for stalled in stuck:
                assert stalled.exception(timeout=10) is not None


def test_server_that_is_not_ready_refuses_every_call() -> None:
    reads = CountedReads()
    enumerator = EmbeddedEnumerator({"orders": "/lake/orders"}, reads=reads, cpus=2)
    with serve_enumerator(enumerator, "127.0.0.1:0", ready=False) as server:
        client = EnumeratorClient(server.address, ONCE)
        with pytest.raises(StorageError, match="its state is not replayed yet"):
            client.describe_table("orders")
        assert reads.calls == 0
        server.set_ready()
        assert client.describe_table("orders")


def test_server_off_loopback_needs_tls_or_an_explicit_setting() -> None:
    with pytest.raises(ConfigurationError, match=r"TLS is required there; set tls\.cert and tls\.key"):
        serve_enumerator(EmbeddedEnumerator({"orders": "/lake/orders"}, reads=CountedReads()), "0.0.0.0:0")
    words = TlsSettings(insecure="I know that tokens and rows travel unencrypted")
    with served(listen="0.0.0.0:0", tls=words) as service:
        port = service.server.address.rpartition(":")[2]
        assert EnumeratorClient(f"127.0.0.1:{port}", ONCE).describe_table("orders")


def test_reflection_is_off_by_default(tmp_path: pathlib.Path) -> None:
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    def listed(address: str) -> list[str]:
        with grpc.insecure_channel(address) as channel:
            ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
            answers = ask(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=5)
            return [service.name for answer in answers for service in answer.list_services_response.service]

    with served() as service, pytest.raises(grpc.RpcError) as caught:
        listed(service.server.address)
    assert received(caught.value).status is grpc.StatusCode.UNIMPLEMENTED
    with served(reflection=True) as service:
        assert "penstock.v1.EnumeratorService" in listed(service.server.address)
