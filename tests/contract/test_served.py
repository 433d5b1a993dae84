"""Properties of a server alone: retries, deadlines, sizes, health, stopping, forks, signals. Sockets only on
loopback."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import logging
import re
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.rpc import limits
from penstock.enumerator.server.run import serve, serve_enumerator
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.codec.serialized import encode_scan
from penstock.proto.errors import (
    ConfigurationError,
    InvariantViolation,
    PositionExpired,
    StorageError,
    TableNotFound,
    UnknownPlan,
)
from penstock.proto.model.groups import ServerStatus
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.splits import VisibleInstants
from penstock.proto.v1 import penstock_pb2 as pb
from penstock.proto.v1 import penstock_pb2_grpc as pb_grpc
from penstock.version import __version__
from tests.loopback_ports import free_port

if TYPE_CHECKING:
    from tests.contract.scripted_table import Deployment

ALL = PlanRequest(table="trips", query=Snapshot())
ONCE = CallLimits(deadline_ms=60_000, plan_deadline_ms=60_000, attempts=1)


# --- retries and deadlines ---


def test_storage_errors_are_retried(served: Deployment) -> None:
    served.table.fails = [StorageError("try again")] * 4
    assert served.enumerator.newest_position("trips") == Position(InstantTime("20260109000000000"))
    assert served.table.calls == 5


def test_storage_errors_are_raised_after_the_last_retry(served: Deployment) -> None:
    served.table.fails = [StorageError("try again")] * 100
    with pytest.raises(StorageError, match=r"^try again$"):
        served.enumerator.newest_position("trips")
    assert served.table.calls == 5


def test_other_errors_are_not_retried(served: Deployment, expired: PositionExpired) -> None:
    served.table.fails = [expired, ValueError("bug")]
    with pytest.raises(PositionExpired):
        served.enumerator.newest_position("trips")
    with pytest.raises(InvariantViolation, match=r"a bug in Penstock, .*: ValueError: bug"):
        served.enumerator.newest_position("trips")
    assert served.table.calls == 2


def test_unreachable_server_is_an_error_with_advice() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(
        StorageError,
        match=rf"NextSplit of the enumerator at {address}: the server cannot be reached .*`penstock serve`",
    ):
        EnumeratorClient(address, ONCE).next_split("p", 0, 0)


def test_call_without_a_response_ends_at_the_deadline(served: Deployment) -> None:
    assert served.server is not None
    go_on = threading.Event()
    describe = served.table.describe
    served.table.describe = lambda path, name: (go_on.wait(30), describe(path, name))[1]  # type: ignore[method-assign]
    hasty = EnumeratorClient(served.server.address, CallLimits(deadline_ms=50))
    try:
        with pytest.raises(StorageError, match=r"DescribeTable .* no answer within the deadline"):
            hasty.describe_table("trips")
    finally:
        go_on.set()


def asked_in_vain(stub: pb_grpc.EnumeratorServiceStub) -> None:
    """A call whose response does not matter."""
    with contextlib.suppress(grpc.RpcError):
        stub.DescribeTable(pb.DescribeTableRequest(table="trips"), timeout=30)


def test_splits_are_assigned_while_all_planning_threads_wait_for_storage(served: Deployment) -> None:
    assert served.server is not None
    opened = served.enumerator.open_plan(ALL)
    go_on, waiting = threading.Event(), threading.Semaphore(0)
    describe = served.table.describe

    def slow(path: str, name: str) -> object:
        waiting.release()
        go_on.wait(30)
        return describe(path, name)

    served.table.describe = slow  # type: ignore[method-assign, assignment]
    own = [("grpc.use_local_subchannel_pool", 1)]  # separate connections, because one carries fewer calls than threads
    channels = [grpc.insecure_channel(served.server.address, options=own) for _ in range(2)]
    askers = [
        threading.Thread(target=asked_in_vain, args=(pb_grpc.EnumeratorServiceStub(channel),))
        for channel in channels
        for _ in range(limits.WORKERS * 5 // 8)
    ]
    for asker in askers:
        asker.start()
    try:
        for _ in range(limits.PLANNING_WORKERS):
            assert waiting.acquire(timeout=10)
        assert served.enumerator.next_split(opened.plan_id, 0, 0)
    finally:
        go_on.set()
        for asker in askers:
            asker.join()
        for channel in channels:
            channel.close()


def test_call_without_a_deadline_is_refused_with_its_code(served: Deployment) -> None:
    assert served.server is not None
    with grpc.insecure_channel(served.server.address) as channel:
        ask = pb_grpc.EnumeratorServiceStub(channel).DescribeTable
        with pytest.raises(grpc.RpcError) as caught:
            ask(pb.DescribeTableRequest(table="trips"))
    call: object = caught.value
    assert isinstance(call, grpc.Call)
    assert call.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert ("penstock-error-code", "CONFIGURATION") in [(key, value) for key, value in call.trailing_metadata()]


def test_server_log_names_the_request_and_the_client(served: Deployment, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock.enumerator.server"), pytest.raises(UnknownPlan):
        served.enumerator.describe_plan("nowhere")
    version = importlib.metadata.version("penstock")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "penstock.enumerator.server"]
    assert re.match(rf"DescribePlan request='[0-9a-f]{{32}}' client='{version}' failed: UNKNOWN_PLAN: no plan", line)


def test_call_that_was_queued_beyond_its_deadline_is_not_run() -> None:
    with pytest.raises(StorageError, match="the deadline passed before the call was begun"):
        limits.require_deadline(0.0)


def test_restarted_server_is_reached_and_has_no_old_plan(served: Deployment) -> None:
    assert served.server is not None
    opened = served.enumerator.open_plan(ALL)
    address = served.server.address
    served.server.stop(0)
    with serve_enumerator(EmbeddedEnumerator({"trips": "/lake/trips"}, reads=served.table), address):
        assert served.enumerator.newest_position("trips")
        with pytest.raises(UnknownPlan, match="before a restart"):
            served.enumerator.next_split(opened.plan_id, 0, 0)


def test_value_that_cannot_travel_is_refused_on_the_side_that_has_it(served: Deployment) -> None:
    with pytest.raises(ConfigurationError, match=r"plan request for table .* cannot be encoded"):
        served.enumerator.open_plan(PlanRequest(table="trips", query=Snapshot(), where="\ud800"))
    assert served.table.calls == 0
    plan = served.embedded.plan(ALL)
    odd = replace(plan, scan=replace(plan.scan, base_path="/lake/\udce4"))
    served.table.plan = lambda path, name, request: odd  # type: ignore[method-assign]
    with pytest.raises(ConfigurationError, match="opened plan plan-0 cannot be encoded"):
        served.enumerator.open_plan(ALL)


def test_server_of_another_service_is_reported_as_such() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(ConfigurationError, match=r"does not know this call .* or no enumerator"):
            EnumeratorClient(f"127.0.0.1:{port}", ONCE).describe_table("trips")
    finally:
        server.stop(None).wait()


# --- sizes ---


def test_request_that_is_too_large_is_refused_by_the_server(served: Deployment) -> None:
    with pytest.raises(ConfigurationError, match=r"larger than max .*: read fewer columns"):
        served.enumerator.open_plan(
            PlanRequest(table="trips", query=Snapshot(), columns=("x" * 1000,) * (limits.MAX_REQUEST_BYTES // 1000))
        )
    assert served.table.calls == 0


def test_plan_with_a_scan_above_the_default_limit_of_grpc_is_sent(served: Deployment) -> None:
    long_history = VisibleInstants(frozenset(InstantTime(f"{n:024}") for n in range(180_000)))
    plan = served.embedded.plan(ALL)
    large = replace(plan, scan=replace(plan.scan, visible=long_history))
    assert len(encode_scan(large.scan)) > 4 << 20
    served.table.plan = lambda path, name, request: large  # type: ignore[method-assign]
    assert served.enumerator.open_plan(ALL).scan == large.scan


def test_error_text_too_long_for_a_header_is_truncated(served: Deployment) -> None:
    served.table.fails = [PositionExpired("ü" * 20_000)]
    with pytest.raises(PositionExpired) as caught:
        served.enumerator.newest_position("trips")
    assert str(caught.value).startswith("üüü")
    assert str(caught.value).endswith("üü … (cut)")


# --- addresses ---


@pytest.mark.parametrize("address", ["10.0.0.1:7070", "0.0.0.0:7070", "lake.example:7070"])
def test_addresses_off_loopback_are_refused_without_tls(served: Deployment, address: str) -> None:
    with pytest.raises(ConfigurationError, match="TLS is required there; give the option serverCa"):
        EnumeratorClient(address)
    with pytest.raises(ConfigurationError, match="TLS is required there"):
        serve({"trips": "/lake/trips"}, address)
    with pytest.raises(ConfigurationError, match="TLS is required there"):
        serve_enumerator(served.embedded, address)


def test_port_in_use_is_refused(served: Deployment) -> None:
    assert served.server is not None
    with pytest.raises(ConfigurationError, match=rf"cannot listen at {served.server.address}: .* taken by another"):
        serve_enumerator(served.embedded, served.server.address)


def test_localhost_and_ipv6_are_loopback_too(served: Deployment) -> None:
    with serve_enumerator(served.embedded, "localhost:0") as server:
        assert server.address.startswith("localhost:")
        assert EnumeratorClient(server.address, ONCE).newest_position("trips")


def test_server_without_a_table_or_with_a_wrong_path_fails_at_start(tmp_path: object) -> None:
    with pytest.raises(ConfigurationError, match="no table to serve"):
        serve({}, "127.0.0.1:0")
    with pytest.raises(TableNotFound, match="nothing"):
        serve({"trips": f"{tmp_path}/nothing"}, "127.0.0.1:0")


# --- health and the end ---


def health_of(address: str, service: str) -> str:
    """The response of grpc.health.v1."""
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
    name: str = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return name


@pytest.mark.parametrize("service", ["", "penstock.v1.EnumeratorService"])
def test_health_is_reported_for_the_server_and_the_service(served: Deployment, service: str) -> None:
    assert served.server is not None
    assert health_of(served.server.address, service) == "SERVING"


def test_health_is_watched_until_the_server_drains(served: Deployment) -> None:
    assert served.server is not None
    with grpc.insecure_channel(served.server.address) as channel:
        observed = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=""), timeout=20)
        assert next(observed).status == health_pb2.HealthCheckResponse.SERVING
        stopping = threading.Thread(target=served.server.stop, args=(5,))
        stopping.start()
        assert next(observed).status == health_pb2.HealthCheckResponse.NOT_SERVING
        observed.cancel()
        stopping.join()


def test_call_in_progress_completes_before_the_server_stops(served: Deployment) -> None:
    assert served.server is not None
    server, started, go_on = served.server, threading.Event(), threading.Event()
    newest = served.table.newest

    def slow(path: str, after: Position | None, max_commits: int) -> Position:
        started.set()
        go_on.wait(30)
        return newest(path, after, max_commits)

    served.table.newest = slow  # type: ignore[method-assign]
    answers: list[Position] = []
    asker = threading.Thread(target=lambda: answers.append(served.enumerator.newest_position("trips")))
    asker.start()
    assert started.wait(10)
    stopping = threading.Thread(target=server.stop, args=(20,))
    stopping.start()
    go_on.set()
    asker.join()
    stopping.join()
    server.wait()
    server.stop()
    assert answers == [Position(InstantTime("20260109000000000"))]
    with pytest.raises(StorageError, match="cannot be reached"):
        EnumeratorClient(server.address, ONCE).newest_position("trips")


SERVER = """
    import json, sys
    from penstock.enumerator.server.run import serve_forever
    serve_forever(json.loads(sys.argv[1]), "127.0.0.1:0", lambda address: print(address, flush=True))
    print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_a_server_process_in_order(golden: object, number: signal.Signals) -> None:
    table = golden.table("A_merge_event_long_v9_h120")  # type: ignore[attr-defined]
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SERVER), json.dumps({"trips": str(table)})],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert EnumeratorClient(address, ONCE).describe_table("trips").table_version == 9
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "ended\n", "")


def test_server_reports_its_version(served: Deployment) -> None:
    served.scripted_groups.answers.append(ServerStatus(version="", now_ms=1, uptime_ms=1))
    assert served.groups.describe_server().version == __version__
