"""The contract over TLS, with a token or certificate that the server requires.

One round through every call of the plan API, with each kind of authentication; metrics and readiness beside it.
"""

from __future__ import annotations

import pathlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import generate_latest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule, Settings, TlsSettings
from penstock.enumerator.server.metrics.prometheus import Metrics
from penstock.enumerator.server.run import RunningServer, serve_enumerator
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import StorageError, TableNotFound, Unauthenticated
from penstock.proto.model.access import NO_ACCESS, ServerAccess
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Incremental, PlanRequest, Snapshot
from penstock.proto.model.reports import EndOfSlot, NextSplit, SplitReport
from penstock.proto.model.streams import StartAfter, StreamScope
from tests.certificates import Authority

if TYPE_CHECKING:
    from tests.contract.scripted_table import Deployment

ALL = PlanRequest(table="trips", query=Snapshot(), slots=1)
ONCE = CallLimits(deadline_ms=60_000, plan_deadline_ms=60_000, attempts=1)
WAYS = ("tls", "token", "plain token", "certificate", "certificate and token")


def proven(variant: str, folder: pathlib.Path) -> tuple[Settings, ServerAccess]:
    """A server that requires authentication, and a client with the credentials."""
    authority = Authority(folder)
    server, client = authority.signed("server", "127.0.0.1"), authority.signed("client", "spark.example")
    token, line = new_token("spark")
    (folder / "tokens").write_text(line)
    (folder / "token").write_text(token)
    tokens, held = str(folder / "tokens"), str(folder / "token")
    acl = (AclRule(principal="*:spark*", rights=("read", "plan"), tables=("trips",)),)
    tls = TlsSettings(cert=server.cert, key=server.key)
    mutual = TlsSettings(cert=server.cert, key=server.key, client_ca=authority.ca)
    trusting = ServerAccess(ca=authority.ca)
    return {
        "tls": (Settings(tls=tls), trusting),
        "token": (Settings(tls=tls, tokens=tokens, acl=acl), ServerAccess(ca=authority.ca, token=held)),
        "plain token": (Settings(tokens=tokens, acl=acl), ServerAccess(token=held)),
        "certificate": (
            Settings(tls=mutual, acl=acl),
            ServerAccess(ca=authority.ca, cert=client.cert, key=client.key),
        ),
        "certificate and token": (
            Settings(tls=mutual, acl=acl, tokens=tokens),
            ServerAccess(ca=authority.ca, cert=client.cert, key=client.key, token=held),
        ),
    }[variant]


def round_trip(enumerator: Enumerator) -> list[object]:
    """Every call of the plan API."""
    opened = enumerator.open_plan(ALL)
    reported: list[object] = [enumerator.describe_table("trips"), enumerator.newest_position("trips"), opened.scan]
    reported.append(enumerator.describe_plan(opened.plan_id))
    while not isinstance(answer := enumerator.next_split(opened.plan_id, 0, len(reported) - 4), EndOfSlot):
        reported.append(answer)
    enumerator.finish_split(opened.plan_id, 0, 0, SplitReport(rows=3, size_bytes=4))
    scope = StreamScope(request=PlanRequest(table="trips", query=Incremental()))
    reported.append(begun := enumerator.start_stream(scope, StartAfter(EARLIEST)))
    reported.append(enumerator.next_batch(scope, begun))
    return reported


@pytest.mark.parametrize("variant", WAYS)
def test_calls_succeed_with_the_required_credentials(served: Deployment, variant: str, tmp_path: pathlib.Path) -> None:
    settings, access = proven(variant, tmp_path)
    with serve_enumerator(served.embedded, settings=settings) as server:
        assert round_trip(EnumeratorClient(server.address, ONCE, access)) == round_trip(served.embedded)
        server.stop(0)


@pytest.mark.parametrize("variant", WAYS)
def test_errors_over_tls_keep_their_class_and_text(served: Deployment, variant: str, tmp_path: pathlib.Path) -> None:
    settings, access = proven(variant, tmp_path)
    with serve_enumerator(served.embedded, settings=settings) as server:
        served.table.fails = [TableNotFound("no table, 100 % sure: städte")]
        with pytest.raises(TableNotFound, match=r"^no table, 100 % sure: städte$"):
            EnumeratorClient(server.address, ONCE, access).describe_table("trips")
        server.stop(0)


# --- readiness ---


def health_of(server: RunningServer, service: str = "") -> str:
    """The health status for a probe without a token."""
    with grpc.insecure_channel(server.address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
    name: str = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return name


@pytest.mark.parametrize("service", ["", "penstock.v1.EnumeratorService"])
def test_health_is_not_serving_until_the_server_is_ready(
    served: Deployment, service: str, tmp_path: pathlib.Path
) -> None:
    settings, access = proven("plain token", tmp_path)
    with serve_enumerator(served.embedded, settings=settings, ready=False) as server:
        client = EnumeratorClient(server.address, ONCE, access)
        assert health_of(server, service) == "NOT_SERVING"
        with pytest.raises(StorageError, match="its state is not replayed yet"):
            client.describe_table("trips")
        assert served.table.calls == 0
        server.set_ready()
        assert health_of(server, service) == "SERVING"
        assert client.describe_table("trips")
        server.set_ready(False)
        assert health_of(server, service) == "NOT_SERVING"
        server.stop(0)


def test_draining_server_is_not_serving_and_still_accepts_calls(served: Deployment) -> None:
    with serve_enumerator(served.embedded, settings=Settings(drain_ms=3000)) as server:
        client = EnumeratorClient(server.address, ONCE)
        with grpc.insecure_channel(server.address) as channel:
            observed = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=""), timeout=20)
            assert next(observed).status == health_pb2.HealthCheckResponse.SERVING
            stopping = threading.Thread(target=server.stop, args=(5,))
            stopping.start()
            assert next(observed).status == health_pb2.HealthCheckResponse.NOT_SERVING
            server.set_ready()  # too late: the server is stopping
            assert client.describe_table("trips")
            assert health_of(server) == "NOT_SERVING"
            observed.cancel()
        stopping.join()
        with pytest.raises(StorageError):
            client.describe_table("trips")


# --- metrics ---


def test_calls_and_reports_are_counted_once_per_split(served: Deployment) -> None:
    metrics = Metrics()
    enumerator = EmbeddedEnumerator({"trips": "/lake/trips"}, reads=served.table, cpus=2, observer=metrics)
    with serve_enumerator(enumerator, settings=Settings(), observer=metrics) as server:
        client = EnumeratorClient(server.address, ONCE)
        plan = client.open_plan(ALL)
        for _ in range(2):  # requested again, reported again: counted once
            assert isinstance(client.next_split(plan.plan_id, 0, 0), NextSplit)
            client.finish_split(plan.plan_id, 0, 0, SplitReport(rows=3, size_bytes=4, phase_ms=(("merge", 5.0),)))
        with pytest.raises(TableNotFound):
            client.describe_table("nowhere")
        server.stop(0)
    lines = set(generate_latest(metrics.registry).decode().splitlines())
    call = 'grpc_service="penstock.v1.EnumeratorService",grpc_type="unary"'
    assert {
        'penstock_split_events_total{event="discovered",group="",kind="mor",query="snapshot",table="trips"} 9.0',
        'penstock_split_events_total{event="assigned",group="",kind="mor",query="snapshot",table="trips"} 1.0',
        'penstock_split_events_total{event="finished",group="",kind="mor",query="snapshot",table="trips"} 1.0',
        "penstock_reader_records_total 3.0",
        "penstock_plan_duration_seconds_count 1.0",
        "penstock_assign_duration_seconds_count 2.0",
        'penstock_split_read_duration_seconds_count{phase="merge"} 1.0',
        f'grpc_server_started_total{{grpc_method="NextSplit",{call}}} 2.0',
        f'grpc_server_handled_total{{grpc_code="OK",grpc_method="FinishSplit",{call}}} 2.0',
        f'grpc_server_handled_total{{grpc_code="NotFound",grpc_method="DescribeTable",{call}}} 1.0',
        f'grpc_server_handling_seconds_count{{grpc_method="OpenPlan",{call}}} 1.0',
    } <= lines


def test_plain_client_needs_no_credentials(served: Deployment) -> None:
    assert served.server is not None
    assert EnumeratorClient(served.server.address, ONCE, NO_ACCESS).describe_table("trips")


# --- revoked tokens ---


def test_missing_token_file_refuses_all_after_its_grace_and_is_reported(
    served: Deployment, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.enumerator.server.auth.tokens.REFRESH_S", 0.01)
    settings, access = proven("plain token", tmp_path)
    metrics, lines = Metrics(), (tmp_path / "tokens").read_text()

    def scraped() -> set[str]:
        return {one for one in generate_latest(metrics.registry).decode().splitlines() if "penstock_tokens" in one}

    with serve_enumerator(
        served.embedded, settings=replace(settings, tokens_grace_ms=0), observer=metrics
    ) as server, grpc.insecure_channel(server.address) as channel:  # fmt: skip
        client = EnumeratorClient(server.address, ONCE, access)
        observed = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=""), timeout=60)
        assert next(observed).status == health_pb2.HealthCheckResponse.SERVING
        assert {"penstock_tokens 1.0", "penstock_tokens_file_up 1.0"} <= scraped()
        (tmp_path / "tokens").unlink()
        assert next(observed).status == health_pb2.HealthCheckResponse.NOT_SERVING  # without any call
        assert {"penstock_tokens 0.0", "penstock_tokens_file_up 0.0"} <= scraped()
        with pytest.raises(StorageError, match="the server cannot check tokens"):
            client.describe_table("trips")
        (tmp_path / "tokens").write_text(lines)
        assert next(observed).status == health_pb2.HealthCheckResponse.SERVING
        assert client.describe_table("trips")
        (tmp_path / "tokens").write_text("# all are revoked\n")
        with pytest.raises(Unauthenticated, match="not known to this server"):
            client.describe_table("trips")
        assert health_of(server) == "SERVING"
        assert {"penstock_tokens 0.0", "penstock_tokens_file_up 1.0"} <= scraped()
        observed.cancel()
        server.stop(0)
