"""Fault 26: abuse of the service. Each bad call gets the right status and code, and changes nothing.

Real sockets on loopback, TLS with certificates of the test, a table that counts its reads.
"""

from __future__ import annotations

import contextlib
import pathlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import grpc
import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule, LimitSettings, Settings, TableSettings, TlsSettings
from penstock.enumerator.server.run import RunningServer, serve_enumerator
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.codec.errors import received
from penstock.proto.errors import (
    ConfigurationError,
    Overloaded,
    PenstockError,
    PermissionDenied,
    StorageError,
    Unauthenticated,
    UnknownPlan,
    UnknownSplit,
)
from penstock.proto.model.access import NO_ACCESS, ServerAccess
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.reports import NextSplit, SplitReport
from penstock.proto.v1 import penstock_pb2 as pb
from tests.certificates import Authority
from tests.faults.scripted import CountedReads

CALLS = pb.DESCRIPTOR.services_by_name["EnumeratorService"].methods_by_name
SERVICE = "/penstock.v1.EnumeratorService/"
ONCE = CallLimits(deadline_ms=60_000, plan_deadline_ms=60_000, attempts=1)
TABLES = {"orders": TableSettings(path="/lake/orders"), "secret": TableSettings(path="/lake/secret")}


@dataclass
class Served:
    """A server over counted tables."""

    server: RunningServer
    reads: CountedReads
    enumerator: EmbeddedEnumerator

    def client(self, access: ServerAccess = NO_ACCESS, limits: CallLimits = ONCE) -> EnumeratorClient:
        return EnumeratorClient(self.server.address, limits, access)


@contextlib.contextmanager
def served(**settings: object) -> Iterator[Served]:
    """A server with these settings."""
    reads = CountedReads()
    enumerator = EmbeddedEnumerator({name: table.path for name, table in TABLES.items()}, reads=reads, cpus=2)
    server_settings = Settings(tables=TABLES, **settings)  # type: ignore[arg-type]
    with serve_enumerator(enumerator, settings=server_settings) as server:
        yield Served(server, reads, enumerator)
        server.stop(0)


def raw(address: str, call: str, data: bytes, timeout_s: float | None = 5.0) -> tuple[str, str]:
    """(status, error code) of a call with exactly these bytes."""
    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary(SERVICE + call)
        with pytest.raises(grpc.RpcError) as caught:
            ask(data, timeout=timeout_s)
    failure = received(caught.value)
    return failure.status.name, failure.code


# --- messages ---


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xfe"])
def test_undecodable_request_is_an_invalid_argument(call: str, data: bytes) -> None:
    with served() as service:
        assert raw(service.server.address, call, data) == ("INVALID_ARGUMENT", "CONFIGURATION")
        assert service.reads.calls == 0


@pytest.mark.parametrize("call", CALLS)
def test_call_without_a_deadline_or_without_a_name_is_refused(call: str) -> None:
    with served() as service:
        assert raw(service.server.address, call, b"", timeout_s=None) == ("INVALID_ARGUMENT", "CONFIGURATION")
        assert raw(service.server.address, call, b"") == ("INVALID_ARGUMENT", "CONFIGURATION")
        assert service.reads.calls == 0


def test_message_too_large_and_metadata_too_large_are_refused() -> None:
    with served() as service:
        assert raw(service.server.address, "OpenPlan", b"\x0a" * ((4 << 20) + 1))[0] == "RESOURCE_EXHAUSTED"
        with grpc.insecure_channel(service.server.address) as channel:
            ask = channel.unary_unary(SERVICE + "DescribeTable")
            with pytest.raises(grpc.RpcError) as caught:
                ask(b"\x0a\x06orders", timeout=5, metadata=(("x-long", "y" * (17 << 10)),))
        assert received(caught.value).status is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert service.reads.calls == 0
        assert service.client().describe_table("orders")


def test_unknown_call_plan_slot_and_split_change_nothing() -> None:
    with served() as service:
        client = service.client()
        plan_id = client.open_plan(PlanRequest(table="orders", query=Snapshot(), slots=1)).plan_id
        with grpc.insecure_channel(service.server.address) as channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(SERVICE + "DropTable")(b"", timeout=5)
        assert received(caught.value).status is grpc.StatusCode.UNIMPLEMENTED
        with pytest.raises(UnknownPlan):
            client.next_split("0" * 32, 0, 0)
        for slot, index in ((0, 1), (99, 0)):
            with pytest.raises(UnknownSplit):
                client.next_split(plan_id, slot, index)
        with pytest.raises(UnknownSplit):
            client.finish_split(plan_id, 0, 0, SplitReport(rows=1, size_bytes=1))
        assert service.enumerator.reports(plan_id) == {}
        assert isinstance(client.next_split(plan_id, 0, 0), NextSplit)


# --- authentication ---


@dataclass
class Secured:
    """A server with TLS and tokens, and the access of its callers."""

    service: Served
    authority: Authority
    tokens: pathlib.Path
    spark: ServerAccess
    other: ServerAccess
    expired: ServerAccess
    wrong: ServerAccess


@pytest.fixture
def secured(tmp_path: pathlib.Path) -> Iterator[Secured]:
    """`spark` may read and plan `orders`, `other` may read and plan `secret`."""
    authority = Authority(tmp_path / "pki")
    pair = authority.signed("server", "127.0.0.1", "localhost")
    lines = []

    def access(name: str, expiry: str = "", known: bool = True) -> ServerAccess:
        token, line = new_token(name, expiry)
        lines.extend([line] if known else [])
        (tmp_path / f"{name}.token").write_text(token + "\n")
        return ServerAccess(ca=authority.ca, token=str(tmp_path / f"{name}.token"))

    spark, other, expired = access("spark"), access("other"), access("expired", "2020-01-01")
    wrong = access("wrong", known=False)
    tokens = tmp_path / "tokens"
    tokens.write_text("\n".join(lines))
    acl = (
        AclRule(principal="token:spark", rights=("read", "plan"), tables=("orders",)),
        AclRule(principal="token:other", rights=("read", "plan"), tables=("secret",)),
        AclRule(principal="token:expired", rights=("read", "plan", "admin")),
    )
    tls = TlsSettings(cert=pair.cert, key=pair.key)
    with served(tls=tls, tokens=str(tokens), acl=acl) as service:
        yield Secured(service, authority, tokens, spark, other, expired, wrong)


def every_call(client: EnumeratorClient, plan_id: str) -> list[Callable[[], object]]:
    """Each call of the plan API, for the table `orders` or that plan."""
    return [
        lambda: client.describe_table("orders"),
        lambda: client.newest_position("orders"),
        lambda: client.open_plan(PlanRequest(table="orders", query=Snapshot())),
        lambda: client.describe_plan(plan_id),
        lambda: client.next_split(plan_id, 0, 0),
        lambda: client.finish_split(plan_id, 0, 0, SplitReport(rows=9, size_bytes=9)),
    ]


def refused(service: Served, client: EnumeratorClient, plan_id: str, error: type[PenstockError], message: str) -> None:
    """Every call is refused with this error, reads nothing and stores nothing."""
    reads_before = service.reads.calls
    for call in every_call(client, plan_id):
        with pytest.raises(error, match=message):
            call()
    assert service.reads.calls == reads_before
    assert service.enumerator.reports(plan_id) == {}


def test_known_principal_with_the_right_is_served(secured: Secured) -> None:
    client = secured.service.client(secured.spark)
    plan_id = client.open_plan(PlanRequest(table="orders", query=Snapshot())).plan_id
    for call in every_call(client, plan_id):
        call()
    assert len(secured.service.enumerator.reports(plan_id)) == 1


def test_missing_wrong_and_expired_tokens_are_refused(secured: Secured) -> None:
    service = secured.service
    plan_id = service.enumerator.open_plan(PlanRequest(table="orders", query=Snapshot())).plan_id
    nobody = service.client(ServerAccess(ca=secured.authority.ca))
    refused(service, nobody, plan_id, Unauthenticated, "no token was sent: give the option serverToken")
    refused(service, service.client(secured.wrong), plan_id, Unauthenticated, "not known to this server")
    refused(service, service.client(secured.expired), plan_id, Unauthenticated, "token of expired has expired")


def test_plan_of_another_principals_table_is_denied_by_its_id(secured: Secured) -> None:
    service = secured.service
    plan_id = service.client(secured.spark).open_plan(PlanRequest(table="orders", query=Snapshot())).plan_id
    other = service.client(secured.other)
    refused(service, other, plan_id, PermissionDenied, "token:other has no right `(read|plan)` on table 'orders'")
    assert other.describe_table("secret").table == "secret"
    theirs = other.open_plan(PlanRequest(table="secret", query=Snapshot())).plan_id
    spark = service.client(secured.spark)
    for call in every_call(spark, theirs)[3:]:
        with pytest.raises(PermissionDenied, match=r"token:spark has no right `(read|plan)` on table 'secret'"):
            call()
    assert service.enumerator.reports(theirs) == {}


def test_token_removed_from_the_file_is_refused(secured: Secured) -> None:
    client = secured.service.client(secured.spark)
    assert client.describe_table("orders")
    lines = secured.tokens.read_text().splitlines()
    secured.tokens.write_text("\n".join(line for line in lines if not line.startswith("spark")))
    with pytest.raises(Unauthenticated):
        client.describe_table("orders")


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer  ", "Basic c3Bhcms6eA==", "x" * 5000])
def test_authorization_without_a_bearer_token_is_refused(secured: Secured, value: str) -> None:
    roots = grpc.ssl_channel_credentials(pathlib.Path(secured.authority.ca).read_bytes())
    with grpc.secure_channel(secured.service.server.address, roots) as channel, pytest.raises(grpc.RpcError) as caught:
        ask = channel.unary_unary(SERVICE + "DescribeTable")
        ask(b"\x0a\x06orders", timeout=5, metadata=(("authorization", value),))
    failure = received(caught.value)
    assert (failure.status.name, failure.code) == ("UNAUTHENTICATED", "UNAUTHENTICATED")
    assert secured.service.reads.calls == 0


def test_plaintext_connection_to_a_tls_server_fails(secured: Secured) -> None:
    plain = secured.service.client(ServerAccess(token=secured.spark.token))
    with pytest.raises(StorageError, match="cannot be reached"):
        plain.describe_table("orders")
    assert secured.service.reads.calls == 0


def test_tls_client_never_falls_back_to_plaintext(tmp_path: pathlib.Path) -> None:
    (tmp_path / "token").write_text("pst_secret")
    access = ServerAccess(ca=Authority(tmp_path / "pki").ca, token=str(tmp_path / "token"))
    with served() as service:
        with pytest.raises(StorageError, match="do both sides speak TLS"):
            service.client(access).describe_table("orders")
        assert service.reads.calls == 0


def test_server_certificate_of_another_authority_or_name_is_refused(secured: Secured, tmp_path: pathlib.Path) -> None:
    stranger = Authority(tmp_path / "stranger")
    with pytest.raises(StorageError, match="cannot be reached"):
        secured.service.client(ServerAccess(ca=stranger.ca, token=secured.spark.token)).describe_table("orders")
    pair = secured.authority.signed("elsewhere", "elsewhere.example")
    with served(tls=TlsSettings(cert=pair.cert, key=pair.key)) as service:
        with pytest.raises(StorageError, match="cannot be reached"):
            service.client(ServerAccess(ca=secured.authority.ca)).describe_table("orders")
        assert service.reads.calls == 0


def test_old_versions_of_tls_are_refused(secured: Secured) -> None:
    host, _, port = secured.service.server.address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(secured.authority.ca)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection((host, int(port)), timeout=5) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname=host)


# --- client certificates ---


@pytest.fixture
def mutual(tmp_path: pathlib.Path) -> Iterator[tuple[Served, Authority]]:
    """A server that accepts `spark-*.lake.example`; only spark-1 has rights."""
    authority = Authority(tmp_path / "pki")
    pair = authority.signed("server", "127.0.0.1")
    tls = TlsSettings(cert=pair.cert, key=pair.key, client_ca=authority.ca, allowed_sans=("spark-*.lake.example",))
    acl = (AclRule(principal="cert:spark-1.lake.example", rights=("read", "plan"), tables=("orders",)),)
    with served(tls=tls, acl=acl) as service:
        yield service, authority


def client_access(authority: Authority, name: str, *sans: str) -> ServerAccess:
    """Access with a client certificate of this name."""
    pair = authority.signed(name, *sans)
    return ServerAccess(ca=authority.ca, cert=pair.cert, key=pair.key)


def test_client_certificates_are_authorized_by_their_names(mutual: tuple[Served, Authority]) -> None:
    service, authority = mutual
    good = service.client(client_access(authority, "good", "other.example", "spark-1.lake.example"))
    assert good.describe_table("orders").table == "orders"
    plan_id = good.open_plan(PlanRequest(table="orders", query=Snapshot())).plan_id
    refused(
        service,
        service.client(client_access(authority, "evil", "evil.example")),
        plan_id,
        PermissionDenied,
        "none of the client certificate's names is allowed here: got evil.example",
    )
    refused(
        service,
        service.client(client_access(authority, "nameless")),
        plan_id,
        PermissionDenied,
        "is allowed here: got none",
    )
    refused(
        service,
        service.client(client_access(authority, "second", "spark-2.lake.example")),
        plan_id,
        PermissionDenied,
        r"cert:spark-2\.lake\.example has no right",
    )


def test_missing_or_foreign_client_certificate_is_refused(
    mutual: tuple[Served, Authority], tmp_path: pathlib.Path
) -> None:
    service, authority = mutual
    stranger = Authority(tmp_path / "stranger").signed("s", "spark-1.lake.example")
    for access in (
        ServerAccess(ca=authority.ca),
        ServerAccess(ca=authority.ca, cert=stranger.cert, key=stranger.key),
    ):
        with pytest.raises(StorageError, match="cannot be reached"):
            service.client(access).describe_table("orders")
    assert service.reads.calls == 0


# --- limits ---


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
