"""Fault 26: abuse of the service. Each bad call gets the right status and code, and changes nothing.

Real sockets on loopback, TLS with certificates of the test, a table that counts its reads.
"""

from __future__ import annotations

import contextlib
import pathlib
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import grpc
import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule, Settings, TableSettings, TlsSettings
from penstock.enumerator.server.run import RunningServer, serve_enumerator
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.codec.errors import received
from penstock.proto.errors import (
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
