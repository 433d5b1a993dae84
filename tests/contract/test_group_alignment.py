"""Alignment of consumer groups on golden tables, embedded and served: who is ahead of the slowest group waits."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest

from penstock.engine.arrow import read
from penstock.engine.event_time_scan import scan_event_time
from penstock.enumerator.core import split_assignment
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.model.groups import Assignments, GroupScope, GroupSpec, Member, SplitProgress
from penstock.proto.model.queries import Incremental, PlanRequest, RoundLimits
from penstock.proto.model.streams import Alignment, EventTimeCeiling, EventTimeRule
from penstock.reader.read_split import read_split
from tests.unit.enumerator.scripted_service import Clock

pytestmark = pytest.mark.golden

CASE = "B_v9_colstats_cow"
IDLE_US = 60_000_000
ONE_FILE = RoundLimits(max_commits=1, max_files=1)


@dataclass
class Group:
    """A member of a group, and what it received."""

    calls: Any
    member: Member
    sequence: int = 0
    rows: list[str] = field(default_factory=list)

    @property
    def watermark_us(self) -> int | None:
        """The group's watermark now."""
        return self.calls.describe_group(self.member.table, self.member.group).watermark_us  # type: ignore[no-any-return]

    def request(self) -> list[int]:
        """Reads and finishes the splits of one request; their event times, UTC microseconds."""
        self.sequence += 1
        answer = self.calls.request_splits(self.member, 1, self.sequence)
        times: list[int] = []
        for assigned in answer.splits if isinstance(answer, Assignments) else ():
            owner = self.member
            if assigned.table:
                owner = Member(assigned.table, owner.group, owner.reader_id, assigned.epoch)
            scan = self.calls.describe_plan(assigned.ref.plan_id)
            for part in read_split(scan, assigned.split, start=assigned.start):
                times += [at * 1000 for at in part.batch.column("ts").to_pylist()]
                self.rows += map(str, part.batch.to_pylist())
            done = SplitProgress(ref=assigned.ref, ordinal=10**9, finished=True)
            self.calls.commit_splits(owner, (done,))
        return times


@dataclass
class Deployed:
    """A service without threads, and the calls of a client to it."""

    service: EnumeratorService
    calls: Any
    clock: Clock

    def join(self, group: str, table: str = "t", limits: RoundLimits = ONE_FILE, **alignment: Any) -> Group:
        """Joins an aligned group."""
        aligned = Alignment(**{"set": "s", "idle_timeout_us": IDLE_US, **alignment})
        request = PlanRequest(table=table, query=Incremental(), event_time="ts", event_time_unit="ms")
        rule = EventTimeRule(max_out_of_orderness_us=1_000)
        over = {"over_tables": True} if "*" in table else {}
        scope = GroupScope(request=request, rule=rule, alignment=aligned, **over)
        spec = GroupSpec(scope=scope, limits=limits)
        return Group(self.calls, self.calls.join_group(group, "r", spec, f"{group}{id(self)}").member)

    def discover(self) -> None:
        """Discovers until nothing is new."""
        while self.service.split_discovery.discover():
            pass


@contextmanager
def deployed(path: pathlib.Path, how: str = "embedded") -> Iterator[Deployed]:
    """A service on two names of the table."""
    clock, reads = Clock(), OpenTables(scan_event_time=scan_event_time)
    tables = {"t": str(path), "u": str(path)}
    service = EnumeratorService(tables, reads=reads, clock_ms=clock, poll_ms=None)
    if how == "embedded":
        yield Deployed(service, service, clock)
        return
    with serve_enumerator(service, "127.0.0.1:0", service) as server:
        client = EnumeratorClient(server.address)
        yield Deployed(service, client, clock)
        client.close()


def drift_of(path: pathlib.Path) -> int:
    """A quarter of the span of the event times of the table."""
    times = [at * 1000 for at in read(str(path), query="snapshot").read_all().column("ts").to_pylist()]
    return (max(times) - min(times)) // 4


@pytest.mark.parametrize("how", ["embedded", "served"])
@pytest.mark.sampled(1)
def test_fast_group_waits_for_the_slow_one_until_that_is_idle(golden: Any, how: str) -> None:
    path = golden.table(CASE)
    drift_us = drift_of(path)
    with deployed(path, how) as one:
        fast, slow = one.join("fast", max_drift_us=drift_us), one.join("slow", max_drift_us=drift_us)
        one.discover()
        assert slow.request(), "the first split of the slow group"
        for _ in range(60):
            bound = slow.watermark_us
            is_slowest = fast.watermark_us is None or bound is None or fast.watermark_us <= bound
            times = fast.request()
            assert is_slowest or bound is None or max(times, default=0) <= bound + drift_us
            one.discover()
        aligned = one.calls.describe_group("t", "fast").alignment
        assert fast.rows and aligned is not None and aligned.held and aligned.set == "s"
        assert aligned.ceiling_us == slow.watermark_us + drift_us
        [status] = [each for each in one.calls.describe_server().groups if each.summary.group == "fast"]
        assert status.alignment == aligned
        before = len(fast.rows)
        one.clock.now_ms += IDLE_US // 1000
        for _ in range(20):
            fast.request()
            one.discover()
        assert len(fast.rows) > before, "the slow group dropped out"
        assert not one.calls.describe_group("t", "fast").alignment.held
        for _ in range(60):
            slow.request()
            one.discover()
        assert sorted(slow.rows) == sorted(fast.rows), "every row of both"
        assert one.calls.describe_group("t", "slow").pending_splits == 0


def test_group_that_ignores_its_ceiling_runs_ahead(golden: Any) -> None:
    """The negative control of the test above."""
    path = golden.table(CASE)
    drift_us = drift_of(path)
    with (
        patch.object(
            split_assignment, "choose", lambda group, reader, most, ceiling=None: choose(group, reader, most, UNLIMITED)
        ),
        deployed(path) as one,
    ):
        fast, slow = one.join("fast", max_drift_us=drift_us), one.join("slow", max_drift_us=drift_us)
        one.discover()
        assert slow.request()
        times: list[int] = []
        for _ in range(60):
            times += fast.request()
            one.discover()
        assert max(times) > slow.watermark_us + drift_us


choose = split_assignment.choose
UNLIMITED = EventTimeCeiling(2**63 - 1, 0, is_lowest=True)


def test_tables_of_one_group_are_aligned_with_each_other(golden: Any) -> None:
    """A table of which the member wants nothing holds back the other one, until its idle timeout."""
    path = golden.table(CASE)
    drift_us = drift_of(path)
    with deployed(path, "served") as one:
        group = one.join("g", "*", max_drift_us=drift_us)
        for _ in range(6):
            group.request()
            one.discover()
        count = 0
        for _ in range(40):
            group.sequence += 1
            answer = one.calls.request_splits(group.member, 1, group.sequence, ("u",))
            if isinstance(answer, Assignments):
                count += 1
                for each in answer.splits:
                    assert each.table == "t"
                    done = SplitProgress(ref=each.ref, ordinal=10**9, finished=True)
                    one.calls.commit_splits(Member("t", "g", "r", each.epoch), (done,))
            one.discover()
        described = one.calls.describe_group("*", "g")
        held = {each.summary.table: each.alignment.held for each in described.tables}
        assert held == {"t": True, "u": False} and described.alignment.held
        by_table = {each.summary.table: each.watermark_us for each in described.tables}
        assert by_table["t"] <= by_table["u"] + drift_us + 1
        one.clock.now_ms += IDLE_US // 1000
        for _ in range(40):
            group.request()
            one.discover()
        assert one.calls.describe_group("*", "g").pending_splits == 0


def test_rounds_of_an_aligned_group_are_cut_by_their_drift(golden: Any) -> None:
    path = golden.table(CASE)
    drift_us = drift_of(path)
    with deployed(path) as one:
        for name, max_drift_us in (("wide", 10**18), ("narrow", drift_us)):
            one.join(name, max_drift_us=max_drift_us, limits=RoundLimits())
        one.discover()
        wide, narrow = (
            one.service.coordinator.peek(lambda state, key=key: tuple(state.groups[key].rounds.values()))
            for key in (GroupKey("t", "wide"), GroupKey("t", "narrow"))
        )
        assert len(wide) == 1 < len(narrow)
        spans = [(each.facts.span(), each.commits) for each in narrow]
        assert all(commits == 1 or span.high_us - span.low_us <= drift_us for span, commits in spans)
