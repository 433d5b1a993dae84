"""Calls of streams that wait at a server for the next look at a table: they hold no turn, and end with their caller."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import grpc
import pytest

from penstock.enumerator.continuous.change_probe import TableFingerprint
from penstock.enumerator.server.rpc import turns
from penstock.enumerator.server.rpc.limits import PLANNING_WORKERS
from penstock.enumerator.server.run import RunningServer, serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables import table_watch
from penstock.enumerator.tables.followed_tables import FollowedTables
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.enumerator.tables.registry import TableRegistry
from penstock.proto.codec import streams
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.streams import StartLatest, StreamScope
from penstock.proto.v1 import penstock_pb2_grpc as pb_grpc
from tests.simulated_lake import SimulatedLake

OLD_MS = 1_700_000_000_000


@dataclass
class Served:
    """A server of two simulated tables, whose clock stands still: each look is due long after the last one."""

    server: RunningServer
    service: EnumeratorService
    hanging: threading.Event
    stub: pb_grpc.EnumeratorServiceStub

    def call(self, table: str) -> grpc.Future:
        """A call of an idle stream."""
        scope = StreamScope(request=PlanRequest(table=table, query=Incremental()))
        point = self.service.start_stream(scope, StartLatest())
        return self.stub.NextBatch.future(streams.asked_to_message(scope, point), timeout=600)

    def parked(self, calls: int) -> bool:
        """Waits until so many calls wait without a turn."""
        turns = self.server._pools.planning.turns
        with turns._changed:
            return turns._changed.wait_for(lambda: turns._parked.total() == calls, 60)


@pytest.fixture
def served(tmp_path: pathlib.Path) -> Iterator[Served]:
    lake, hangs, let_go = SimulatedLake.create(tmp_path / "lake", 2, 3, OLD_MS), threading.Event(), threading.Event()

    class Follows(FollowedTables):
        def probe(self, path: str) -> TableFingerprint:
            if hangs.is_set() and path == lake.paths["t0000"]:
                assert let_go.wait(600)
            return super().probe(path)

    reads = OpenTables(wall_ms=lambda: lake.newest_write_ms() + 3_600_000)
    registry = TableRegistry(lake.paths, default_interval_ms=600_000)
    service = EnumeratorService(registry, reads=reads, follows=Follows(reads), clock_ms=lambda: 0, poll_ms=None)
    with serve_enumerator(service, "127.0.0.1:0") as server, grpc.insecure_channel(server.address) as channel:
        yield Served(server, service, hangs, pb_grpc.EnumeratorServiceStub(channel))
        let_go.set()


def test_table_that_hangs_delays_no_other(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_watch, "LOOK_S", 600.0)
    for table in ("t0000", "t0001"):
        served.call(table).result(60)  # reads the table
    served.hanging.set()
    calls = [served.call("t0000") for _ in range(PLANNING_WORKERS + 20)]
    assert [served.call("t0001").result(60).point.progress.position for _ in range(2)]
    assert not any(call.done() for call in calls)


def test_cancelled_call_frees_its_place(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_watch, "MAX_WAIT_MS", 600_000)
    served.call("t0000").result(60)
    calls = [served.call("t0000") for _ in range(8)]
    assert served.parked(8)
    for call in calls:
        call.cancel()
    assert served.parked(0)
    assert served.service.watch.begun(served.service.tables.path("t0000")) == 1, "none of them looked at the table"


def test_call_without_room_looks_at_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_watch, "MAX_WAIT_MS", 600_000)
    monkeypatch.setattr(turns, "MAX_PARKED", 4)
    served.call("t0000").result(60)
    waiting = [served.call("t0000") for _ in range(2)]
    assert served.parked(2)
    assert served.call("t0000").result(60) is not None
    assert not any(call.done() for call in waiting)
    for call in waiting:
        call.cancel()
