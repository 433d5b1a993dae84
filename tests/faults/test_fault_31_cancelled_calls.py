"""Fault 31: slow readers and cancelled calls: threads do not accumulate, and assigned splits are not lost."""

from __future__ import annotations

import threading

import grpc
import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.rpc.limits import WORKERS
from penstock.enumerator.server.run import serve_enumerator
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.errors import Fenced
from penstock.proto.model.groups import NothingYet
from penstock.proto.v1 import penstock_pb2 as pb
from penstock.proto.v1 import penstock_pb2_grpc as pb_grpc
from tests.faults.scripted import NEWEST, CountedReads
from tests.faults.served import until
from tests.unit.enumerator.scripted_service import World, names

CALLS, ROUNDS = 40, 20


def test_fault_31_cancelled_calls_leave_no_threads() -> None:
    reads = CountedReads()
    enumerator = EmbeddedEnumerator({"orders": "/lake/orders"}, reads=reads, cpus=2)
    with (
        serve_enumerator(enumerator, "127.0.0.1:0") as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        stub = pb_grpc.EnumeratorServiceStub(channel)
        before = threading.active_count()
        for _ in range(ROUNDS):
            reads.gate = threading.Event()
            request = pb.NewestPositionRequest(table="orders")
            calls = [stub.NewestPosition.future(request, timeout=60) for _ in range(CALLS)]
            until(lambda: reads.calls > 0, "a call is under way")
            for call in calls:
                call.cancel()
            reads.gate.set()
            client = EnumeratorClient(server.address, CallLimits(deadline_ms=60_000))
            assert client.newest_position("orders") == NEWEST
        assert threading.active_count() - before <= 2 * WORKERS + 8 < ROUNDS * CALLS, "no more than the two pools have"
        server.stop(0)


def test_fault_31_splits_of_a_stalled_reader_are_read_by_others() -> None:
    """Splits are released at once when their reader leaves, or after its lease when it is slow; then its late commit is
    refused."""
    for leaves in (True, False):
        world = World()
        world.service.split_discovery.discover()
        assignments = world.request_splits()
        other = world.service.join_group("g", "other", world.spec, "o").member
        assert world.service.request_splits(other, 5, 1) == NothingYet(500)
        if leaves:
            world.service.leave_group(world.member)
        else:
            for _ in range(5):
                world.clock.now_ms += 10_000
                world.service.heartbeat(other)
                world.service.coordinator.tick()
        assert names(world.service.request_splits(other, 5, 2)) == names(assignments)
        with pytest.raises(Fenced):
            world.finish(assignments)  # type: ignore[arg-type]
