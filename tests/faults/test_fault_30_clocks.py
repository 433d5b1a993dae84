"""Fault 30: clocks that jump, and a server that stands still: no lease ends by it."""

from __future__ import annotations

import pathlib
import signal
import time
from typing import Any

import pytest
from served import CASE, OFTEN, Served, until
from test_service import World

from penstock.enumerator.embedded import monotonic_ms
from penstock.proto.changes import ChangeFormat
from penstock.proto.groups import Assignments, GroupScope, GroupSpec
from penstock.proto.queries import Changes, PlanRequest

DAY_S = 86_400.0


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S])
def test_fault_30_a_wall_clock_that_jumps_a_day_ends_no_lease(jump_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases run on a clock that nobody sets, in the service and in a reader."""
    before_ms = monotonic_ms()
    real_time, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real_time() + jump_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(jump_s * 1e9))
    assert 0 <= monotonic_ms() - before_ms < 60_000
    world = World()
    world.service.looker.look()
    given = world.asked()
    world.service.keeper.tick()
    assert world.service.request_splits(world.member, 10, world.sequence) == given


@pytest.mark.golden
def test_fault_30_a_server_that_stood_still_longer_than_a_lease_gives_its_readers_another(
    golden: Any, tmp_path: pathlib.Path
) -> None:
    spec = GroupSpec(scope=GroupScope(request=PlanRequest(table="t", query=Changes(ChangeFormat.HUDI))))
    with Served(tmp_path, golden.table(CASE), lease="2s") as server:
        client = server.client(OFTEN)
        member = client.join_group("g", "r", spec, "x").member
        until(lambda: client.describe_group("t", "g").pending_splits, "splits")
        given = client.request_splits(member, 2, 1)
        assert isinstance(given, Assignments)
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        stopped_s = time.monotonic()
        until(lambda: time.monotonic() - stopped_s > 2.6, "longer than the lease")
        server.process.send_signal(signal.SIGCONT)
        assert client.request_splits(member, 2, 1) == given
        assert client.heartbeat(member) == 2000
