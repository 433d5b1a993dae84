"""Streams through a server: requests and responses arrive complete, invalid ones are refused, calls do not block
others.

The enumerator of the server is scripted. Streams of golden tables are in `test_real_streams`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule, Settings
from penstock.enumerator.server.rpc import limits
from penstock.enumerator.server.rpc.handlers import SERVICE_NAME, EnumeratorHandlers
from penstock.enumerator.server.run import serve_enumerator
from penstock.proto.client.channel import connections
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.codec import streams as streams
from penstock.proto.codec.checks import MAX_CONSUMED
from penstock.proto.codec.errors import received
from penstock.proto.errors import (
    ConfigurationError,
    PenstockError,
    PermissionDenied,
    StorageError,
    all_error_classes,
)
from penstock.proto.model.access import ServerAccess
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, RoundLimits, Snapshot, SnapshotPart
from penstock.proto.model.streams import (
    CommitsBatch,
    EventTimeRule,
    NextBatch,
    Progress,
    SnapshotBatch,
    SnapshotPlace,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamPoint,
    StreamScope,
    StreamStart,
    Watermark,
    WatermarkFallback,
)
from penstock.proto.v1 import penstock_pb2 as pb
from penstock.proto.v1 import penstock_pb2_grpc as pb_grpc
from penstock.version import __version__

if TYPE_CHECKING:
    import pathlib

    from tests.contract.scripted_table import ScriptedTable

KEY = InstantTime("20260105000000000")
SCOPE = StreamScope(
    request=PlanRequest(
        table="trips",
        query=Changes(ChangeFormat.ROWS),
        columns=("städte", "id"),
        where="id > 'ü'",
        event_time="ts",
        event_time_unit="ms",
        scan_event_time=True,
    ),
    limits=RoundLimits(max_commits=1, max_files=2, max_bytes=3, max_rows=4),
    rule=EventTimeRule(
        max_out_of_orderness_us=5, fallback=WatermarkFallback.COMMIT_TIME, timezone="America/Argentina/Ushuaia"
    ),
    upto=Position(InstantTime("20260109000000000"), 3),
    target=Position(InstantTime("20260107000000000")),
    on_lost_range=OnLostRange.EARLIEST,
    end_watermark_us=6,
)
PLAIN = StreamScope(request=PlanRequest(table="trips", query=Incremental()))
POINT = StreamPoint(
    progress=Progress(Position(KEY, 2), 2, frozenset({KEY}), frozenset({InstantTime("20260106")}), "städte"),
    snapshot=SnapshotPlace(done=3, total=7, digest="0af1"),
    watermark=Watermark(-(2**63), 2**63 - 1),
    content=SnapshotBatch(1),
)
BATCH = NextBatch(
    point=StreamPoint(progress=Progress(Position(KEY)), content=CommitsBatch(EARLIEST, frozenset({KEY})), ended=True),
    schema_json='{"name": "städte"}',
    lost="gone 100 %",
)
FAST = CallLimits(deadline_ms=60_000, plan_deadline_ms=60_000, attempts=5, first_pause_ms=10, longest_pause_ms=10)


class ScriptedStreams(EmbeddedEnumerator):
    """An enumerator with scripted responses to calls of streams; `fails` are raised first. `calls` records the
    calls."""

    def __init__(self, table: ScriptedTable) -> None:
        super().__init__({"trips": "/lake/trips"}, reads=table, cpus=1)
        self.calls: list[tuple[object, object]] = []
        self.fails: list[Exception] = []
        self.before: Callable[[], object] = lambda: None

    def start_stream(self, scope: StreamScope, start: StreamStart) -> StreamPoint:
        self._record(scope, start)
        return POINT

    def next_batch(self, scope: StreamScope, point: StreamPoint) -> NextBatch:
        self._record(scope, point)
        return BATCH

    def _record(self, *arguments: object) -> None:
        self.before()
        self.calls.append((arguments[0], arguments[1]))
        if self.fails:
            raise self.fails.pop(0)


@dataclass
class Streamed:
    """Scripted streams and the client of their server."""

    scripted: ScriptedStreams
    client: EnumeratorClient

    def raw(self, call: str, request: Any) -> tuple[str, str]:
        """(status, details) of a raw message."""
        with grpc.insecure_channel(self.client.address) as channel:
            try:
                getattr(pb_grpc.EnumeratorServiceStub(channel), call)(request, timeout=10)
            except grpc.RpcError as error:
                failure = received(error)
                return failure.status.name, failure.details
        return "OK", ""


@pytest.fixture
def streamed(table: ScriptedTable) -> Iterator[Streamed]:
    """Served on loopback."""
    scripted = ScriptedStreams(table)
    with serve_enumerator(scripted, "127.0.0.1:0") as server:
        client = EnumeratorClient(server.address, FAST)
        yield Streamed(scripted, client)
        client.close()


@pytest.mark.parametrize("scope", [SCOPE, PLAIN])
@pytest.mark.parametrize("start", [StartSnapshot(), StartLatest(), StartAfter(EARLIEST), StartAfter(Position(KEY, 3))])
def test_stream_start_reaches_the_enumerator_completely(
    streamed: Streamed, scope: StreamScope, start: StreamStart
) -> None:
    assert streamed.client.start_stream(scope, start) == POINT
    assert streamed.scripted.calls == [(scope, start)]


@pytest.mark.parametrize("scope", [SCOPE, PLAIN])
@pytest.mark.parametrize("point", [POINT, BATCH.point])
def test_batch_request_and_response_arrive_completely(
    streamed: Streamed, scope: StreamScope, point: StreamPoint
) -> None:
    assert streamed.client.next_batch(scope, point) == BATCH
    assert streamed.scripted.calls == [(scope, point)]


@pytest.mark.parametrize("code", all_error_classes())
def test_every_class_of_the_tree_comes_through(streamed: Streamed, code: str) -> None:
    cls = all_error_classes()[code]
    for ask in (
        lambda: streamed.client.start_stream(SCOPE, StartLatest()),
        lambda: streamed.client.next_batch(SCOPE, POINT),
    ):
        streamed.scripted.fails = [cls("so it was: 100 %")] * 5
        with pytest.raises(PenstockError, match=r"^so it was: 100 %$") as caught:
            ask()
        assert type(caught.value) is cls


def test_storage_errors_are_retried(streamed: Streamed) -> None:
    streamed.scripted.fails = [StorageError("try again")] * 4
    assert streamed.client.next_batch(PLAIN, POINT) == BATCH
    assert streamed.scripted.calls == [(PLAIN, POINT)] * 5


def test_stream_calls_have_the_deadline_of_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[tuple[str, float]] = []

    class Stub:
        def StartStream(self, request: Any, timeout: float, metadata: object) -> pb.StartStreamResponse:
            options.append((request.client_version, timeout))
            return streams.started_to_message(POINT)

        def NextBatch(self, request: Any, timeout: float, metadata: object) -> pb.NextBatchResponse:
            options.append((request.request_id, timeout))
            return streams.batch_to_message(BATCH)

    monkeypatch.setattr(connections, "stub", lambda address, access: Stub())
    client = EnumeratorClient("127.0.0.1:1", CallLimits(deadline_ms=1000, plan_deadline_ms=90_000))
    client.start_stream(PLAIN, StartLatest())
    client.next_batch(PLAIN, POINT)
    assert all(80 < timeout <= 90 for _, timeout in options)
    assert options[0][0] == __version__
    assert options[1][0]


def test_splits_are_assigned_while_all_planning_threads_wait_for_a_batch(streamed: Streamed) -> None:
    opened = streamed.client.open_plan(PlanRequest(table="trips", query=Snapshot(), slots=1))
    go_on, waiting = threading.Event(), threading.Semaphore(0)
    streamed.scripted.before = lambda: (waiting.release(), go_on.wait(30))
    requested = limits.PLANNING_WORKERS * 2
    with ThreadPoolExecutor(requested) as callers:
        answers = [callers.submit(streamed.client.next_batch, PLAIN, POINT) for _ in range(requested)]
        try:
            for _ in range(limits.PLANNING_WORKERS):
                assert waiting.acquire(timeout=10)
            assert not waiting.acquire(blocking=False)  # no more than those at a time
            assert streamed.client.next_split(opened.plan_id, 0, 0)
        finally:
            go_on.set()
        assert [answer.result(10) for answer in answers] == [BATCH] * requested


# --- refused messages ---

BAD: dict[str, tuple[Callable[[pb.NextBatchRequest], object], str]] = {
    "oversized": (lambda m: m.point.progress.consumed.extend(["1"] * MAX_CONSUMED), "500001 entries, expected at most"),
    "negative": (lambda m: setattr(m.point.snapshot, "done", 2**32 - 1), "`point.snapshot.done`: got 4294967295"),
    "negative lateness": (
        lambda m: setattr(m.scope.rule, "max_out_of_orderness_us", 2**64 - 1),
        "`scope.rule.max_out_of_orderness_us`: got 18446744073709551615",
    ),
    "digest": (lambda m: setattr(m.point.snapshot, "digest", "'; --"), '`point.snapshot.digest`: got "\'; --"'),
    "enum": (lambda m: setattr(m.scope.rule, "fallback", "guess"), "`scope.rule.fallback`: got 'guess'"),
    "policy": (lambda m: setattr(m.scope, "on_lost_range", "shrug"), "`scope.on_lost_range`: got 'shrug'"),
    "content": (lambda m: m.point.ClearField("snapshot_batch"), "`point.content`: got no content"),
    "position": (lambda m: setattr(m.point.progress.position, "order_key", "../x"), "`progress.position`: got '../x'"),
    "query": (lambda m: m.scope.request.snapshot.SetInParent(), "`scope.request.query`: got Snapshot"),
}


@pytest.mark.parametrize("case", BAD)
def test_hostile_message_is_refused_by_field_before_the_enumerator(streamed: Streamed, case: str) -> None:
    damage, reported = BAD[case]
    message = streams.asked_to_message(SCOPE, POINT)
    assert streamed.raw("NextBatch", message) == ("OK", "")
    damage(message)
    status, details = streamed.raw("NextBatch", message)
    assert status == "INVALID_ARGUMENT"
    assert reported in details
    assert len(streamed.scripted.calls) == 1
    assert streamed.raw("StartStream", pb.StartStreamRequest(scope=message.scope))[0] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("call", ["StartStream", "NextBatch"])
def test_invalid_bytes_are_refused(streamed: Streamed, call: str) -> None:
    with grpc.insecure_channel(streamed.client.address) as channel:
        ask = channel.unary_unary(f"/{SERVICE_NAME}/{call}")
        with pytest.raises(grpc.RpcError) as caught:
            ask(b"\x0a\xff\xff", timeout=10)
    failure = received(caught.value)
    assert (failure.status.name, failure.code) == ("INVALID_ARGUMENT", "CONFIGURATION")
    assert streamed.scripted.calls == []


def test_point_that_is_too_large_is_refused_with_advice(streamed: Streamed) -> None:
    many = frozenset(InstantTime(f"2026{n:013}") for n in range(limits.MAX_REQUEST_BYTES // 18))
    point = replace(POINT, progress=Progress(Position(KEY), 2, many))
    with pytest.raises(ConfigurationError, match=r"larger than max .*: .*archive it, or raise limits\.requestBytes"):
        streamed.client.next_batch(PLAIN, point)
    assert streamed.scripted.calls == []


def test_value_that_cannot_travel_is_refused_on_the_side_that_has_it(streamed: Streamed) -> None:
    with pytest.raises(ConfigurationError, match="next batch of table 'trips' cannot be encoded"):
        streamed.client.next_batch(PLAIN, replace(POINT, content=SnapshotBatch(-1)))
    assert streamed.scripted.calls == []


def test_stream_requires_the_right_plan_on_its_table(table: ScriptedTable, tmp_path: pathlib.Path) -> None:
    scripted = ScriptedStreams(table)
    lines = []
    for name in ("planner", "reader", "other"):
        token, line = new_token(name)
        (tmp_path / name).write_text(token)
        lines.append(line)
    (tmp_path / "tokens").write_text("\n".join(lines))
    acl = (
        AclRule(principal="token:planner", rights=("plan",), tables=("trips",)),
        AclRule(principal="token:reader", rights=("read",), tables=("trips",)),
        AclRule(principal="token:other", rights=("read", "plan"), tables=("trucks",)),
    )
    settings = Settings(listen="127.0.0.1:0", tokens=str(tmp_path / "tokens"), acl=acl)
    with serve_enumerator(scripted, settings=settings) as server:
        clients = {
            name: EnumeratorClient(server.address, FAST, ServerAccess(token=str(tmp_path / name)))
            for name in ("planner", "reader", "other")
        }
        assert clients["planner"].start_stream(PLAIN, StartLatest()) == POINT
        assert clients["planner"].next_batch(PLAIN, POINT) == BATCH
        for name in ("reader", "other"):
            with pytest.raises(PermissionDenied, match=f"token:{name} has no right `plan` on table 'trips'"):
                clients[name].start_stream(PLAIN, StartLatest())
            with pytest.raises(PermissionDenied, match=f"token:{name} has no right `plan` on table 'trips'"):
                clients[name].next_batch(PLAIN, POINT)
    assert len(scripted.calls) == 2


def test_older_server_without_streams_is_reported(table: ScriptedTable) -> None:
    handlers = EnumeratorHandlers(ScriptedStreams(table))
    server = grpc.server(ThreadPoolExecutor(2))
    described = grpc.unary_unary_rpc_method_handler(
        handlers.DescribeTable,
        request_deserializer=pb.DescribeTableRequest.FromString,
        response_serializer=pb.DescribeTableResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE_NAME, {"DescribeTable": described}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        client = EnumeratorClient(f"127.0.0.1:{port}", FAST)
        assert client.describe_table("trips").table == "trips"
        for call, ask in (
            ("StartStream", lambda: client.start_stream(PLAIN, StartLatest())),
            ("NextBatch", lambda: client.next_batch(PLAIN, POINT)),
        ):
            with pytest.raises(
                ConfigurationError, match=rf"{call} of .*does not know this call .*older than this client"
            ):
                ask()
        client.close()
    finally:
        server.stop(None).wait()


def test_snapshot_part_reaches_the_planner(streamed: Streamed, table: ScriptedTable) -> None:
    part = SnapshotPart(at=Position(KEY), first=1, end=4, digest="0af1", changes=ChangeFormat.HUDI)
    request = PlanRequest(
        table="trips", query=part, event_time="ts", event_time_unit="us", scan_event_time=True, slots=1
    )
    observed: list[PlanRequest] = []
    plan = table.plan
    table.plan = lambda path, name, options: (observed.append(options), plan(path, name, options))[1]  # type: ignore[method-assign]
    assert streamed.client.open_plan(request).splits
    assert observed == [request]
