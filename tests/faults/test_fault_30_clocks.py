"""Fault 30: clocks that jump, and a suspended server: neither ends a lease."""

from __future__ import annotations

import pathlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from penstock.engine.group import lease
from penstock.enumerator.clocks import monotonic_ms
from penstock.enumerator.core import members
from penstock.enumerator.server import assembly
from penstock.enumerator.server.config.settings import Settings, TableSettings
from penstock.enumerator.service import EnumeratorService
from penstock.proto.errors import Fenced
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import Assignments, GroupScope, GroupSpec, Member
from penstock.proto.model.queries import Changes, PlanRequest
from tests.faults.served import CASE, RETRY_DELAYS, Served, until

DAY_MS: Final = 86_400_000
LEASE_MS: Final = 3_600_000
"""Longer than any test."""
SPEC: Final = GroupSpec(scope=GroupScope(request=PlanRequest(table="t", query=Changes(ChangeFormat.HUDI))))


@dataclass
class Clocks:
    """This process's clocks with offsets in milliseconds: the wall clock and the monotonic clock."""

    wall_ms: int = 0
    monotonic_ms: int = 0

    def put_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        wall, wall_ns, monotonic, monotonic_ns = time.time, time.time_ns, time.monotonic, time.monotonic_ns
        monkeypatch.setattr(time, "time", lambda: wall() + self.wall_ms / 1000)
        monkeypatch.setattr(time, "time_ns", lambda: wall_ns() + self.wall_ms * 1_000_000)
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + self.monotonic_ms / 1000)
        monkeypatch.setattr(time, "monotonic_ns", lambda: monotonic_ns() + self.monotonic_ms * 1_000_000)

    def go_on(self, by_ms: int) -> None:
        """Advances the clock."""
        self.wall_ms += by_ms
        self.monotonic_ms += by_ms


def leases(service: EnumeratorService) -> dict[str, int]:
    """Remaining milliseconds of each reader's lease."""
    return {reader.reader_id: reader.lease_left_ms for reader in service.describe_group("t", "g").readers}


def check_leases_after_jump(path: pathlib.Path, clocks: Clocks, jump: Callable[[EnumeratorService], None]) -> None:
    """A server assembled like `penstock serve`, with two readers that hold splits while `jump` moves a clock: neither
    loses its lease. Then one of them is silent for a lease, and only it loses its splits."""
    settings = Settings(tables={"t": TableSettings(path=str(path))}, lease_ms=LEASE_MS, poll_interval_ms=DAY_MS)
    with assembly.running_service(settings) as service:
        live, silent = (service.join_group("g", name, SPEC, "x").member for name in ("live", "silent"))
        until(lambda: service.describe_group("t", "g").pending_splits, "splits")
        service.stop()  # the joins have woken its threads: a tick of theirs after the jump would renew the leases
        assignments = [_request_splits(service, member, 1) for member in (live, silent)]
        service.coordinator.tick()
        jump(service)
        description = service.describe_group("t", "g")
        assert description.lag is not None and description.lag.seconds >= 0
        service.coordinator.tick()
        assert leases(service).keys() == {"live", "silent"}
        assert all(LEASE_MS / 2 < left_ms <= LEASE_MS for left_ms in leases(service).values())
        assert [_request_splits(service, member, 1) for member in (live, silent)] == assignments
        for _ in range(4):
            clocks.go_on(LEASE_MS // 3)
            service.heartbeat(live)
            service.coordinator.tick()
        assert leases(service).keys() == {"live"}
        with pytest.raises(Fenced):
            service.heartbeat(silent)
        theirs = {one.ref for one in _request_splits(service, live, 2).splits}
        assert {one.ref for one in assignments[1].splits} <= theirs


def _request_splits(service: EnumeratorService, member: Member, sequence: int) -> Assignments:
    assignments = service.request_splits(member, 1 if sequence == 1 else 100, sequence)
    assert isinstance(assignments, Assignments)
    return assignments


def wall_jump(clocks: Clocks, by_ms: int) -> Callable[[EnumeratorService], None]:
    """Moves the wall clock; the remaining time of every lease is unchanged."""

    def jump(service: EnumeratorService) -> None:
        clocks.wall_ms += by_ms
        assert all(LEASE_MS / 2 < left_ms <= LEASE_MS for left_ms in leases(service).values())

    return jump


def sleep_of_a_day(clocks: Clocks) -> Callable[[EnumeratorService], None]:
    return lambda service: clocks.go_on(DAY_MS)


def lease_by_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a server whose leases use the wall clock."""

    def wall() -> int:
        return time.time_ns() // 1_000_000

    monkeypatch.setattr(assembly, "monotonic_ms", wall)
    monkeypatch.setitem(EnumeratorService.__init__.__kwdefaults__, "clock_ms", wall)


@pytest.mark.golden
@pytest.mark.parametrize("by_ms", [DAY_MS, -DAY_MS])
def test_fault_30_wall_clock_that_jumps_a_day_ends_no_lease(
    golden: Any, monkeypatch: pytest.MonkeyPatch, by_ms: int
) -> None:
    """Nor is a lease extended: the service and the readers use the monotonic clock."""
    clocks = Clocks()
    clocks.put_in(monkeypatch)
    before = monotonic_ms(), lease.monotonic_ms()
    check_leases_after_jump(golden.table(CASE), clocks, wall_jump(clocks, by_ms))
    passed = monotonic_ms() - clocks.monotonic_ms - before[0], lease.monotonic_ms() - before[1]
    assert all(0 <= spent_ms < 600_000 for spent_ms in passed)


@pytest.mark.golden
@pytest.mark.parametrize("by_ms", [DAY_MS, -DAY_MS])
def test_lease_check_detects_leases_on_the_wall_clock(golden: Any, monkeypatch: pytest.MonkeyPatch, by_ms: int) -> None:
    """Negative control of the test above."""
    clocks = Clocks()
    clocks.put_in(monkeypatch)
    lease_by_wall_clock(monkeypatch)
    check_leases_after_jump(golden.table(CASE), clocks, wall_jump(clocks, 0))
    with pytest.raises(AssertionError, match="wall_jump"):
        check_leases_after_jump(golden.table(CASE), clocks, wall_jump(clocks, by_ms))


@pytest.mark.golden
def test_fault_30_monotonic_clock_that_jumps_over_a_lease_ends_none(
    golden: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suspended machine: the readers could not renew their leases meanwhile."""
    clocks = Clocks()
    clocks.put_in(monkeypatch)
    check_leases_after_jump(golden.table(CASE), clocks, sleep_of_a_day(clocks))


@pytest.mark.golden
def test_lease_check_detects_leases_that_end_during_a_suspension(golden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control of the test above."""
    clocks, real = Clocks(), members.overdue
    clocks.put_in(monkeypatch)
    monkeypatch.setattr(members, "overdue", lambda state, before, now, settings: real(state, now, now, settings))
    check_leases_after_jump(golden.table(CASE), clocks, wall_jump(clocks, 0))
    with pytest.raises(AssertionError, match="live"):
        check_leases_after_jump(golden.table(CASE), clocks, sleep_of_a_day(clocks))


@pytest.mark.golden
def test_fault_30_server_suspended_longer_than_a_lease_renews_all_leases(golden: Any, tmp_path: pathlib.Path) -> None:
    with Served(tmp_path, golden.table(CASE), lease="2s") as server:
        client = server.client(RETRY_DELAYS)
        member = client.join_group("g", "r", SPEC, "x").member
        until(lambda: client.describe_group("t", "g").pending_splits, "splits")
        assignments = client.request_splits(member, 2, 1)
        assert isinstance(assignments, Assignments)
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        stopped_s = time.monotonic()
        until(lambda: time.monotonic() - stopped_s > 2.6, "longer than the lease")
        server.process.send_signal(signal.SIGCONT)
        assert client.request_splits(member, 2, 1) == assignments
        assert client.heartbeat(member) == 2000
