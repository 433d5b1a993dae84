"""Watermarks and snapshots of consumer groups on golden tables, embedded and served: every row once, none at or below a
watermark that was returned before."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from penstock.engine.arrow import read
from penstock.engine.event_time_scan import scan_event_time
from penstock.enumerator.coordinator.coordinator import durable_coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.rounds import Round
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.server.run import serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.snapshots import group_start
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import ConfigurationError, PositionExpired
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import (
    Assignments,
    EndOfGroup,
    GroupScope,
    GroupSpec,
    GroupStart,
    Member,
    OnLostRange,
    SplitProgress,
    StartAt,
    StartSnapshot,
)
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Query, RoundLimits
from penstock.proto.model.splits import EventTimeBounds
from penstock.proto.model.streams import EventTimeRule, StartAfter, StreamScope, WatermarkFallback
from penstock.proto.model.streams import StartSnapshot as StreamSnapshot
from penstock.reader.read_split import read_split
from tests.memory_store import DirectJournal, MemoryStore
from tests.scripted_timeline import ScriptedTimeline

pytestmark = pytest.mark.golden

LOGS = "A_positions_v9_h120"
IN_BASE_FILES = "B_v9_colstats_cow"
"""All of its event times have bounds in footers."""
RULE = EventTimeRule(max_out_of_orderness_us=1_000, fallback=WatermarkFallback.SCAN)
FEW = RoundLimits(max_commits=1, max_files=1)
ROWS = Incremental()
EARLY = StartAt()


class Clock:
    """A manual clock."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


@dataclass
class Delivered:
    """The splits of a group, in the order received."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    lows_us: list[int] = field(default_factory=list)
    bounds: list[Any] = field(default_factory=list)
    watermarks: list[int | None] = field(default_factory=list)
    late: list[int] = field(default_factory=list)

    def texts(self) -> list[str]:
        """The rows as text, sorted."""
        return sorted(str(row) for batch in self.batches for row in batch.to_pylist())


@dataclass
class Deployed:
    """A service without threads on one table named `t`, and the calls of a client to it."""

    service: EnumeratorService
    calls: Any
    clock: Clock
    member: Member | None = None
    sequence: int = 0

    def join(self, spec: GroupSpec, reader_id: str = "r") -> None:
        """Joins group g."""
        self.member, self.sequence = self.calls.join_group("g", reader_id, spec, f"{reader_id}{id(self)}").member, 0

    def read(self, result: Delivered, most: int = 1, requests: int = 1_000) -> Delivered:
        """Reads and finishes splits until the group is caught up, or until `requests` requests were answered."""
        assert self.member is not None
        for _ in range(requests):
            self.service.split_discovery.discover()
            self.sequence += 1
            answer = self.calls.request_splits(self.member, most, self.sequence)
            result.watermarks.append(answer.watermark_us)
            if not isinstance(answer, Assignments):
                if answer == EndOfGroup(answer.watermark_us) or answer.caught_up:
                    return result
                continue
            done = []
            for assigned in answer.splits:
                scan = self.calls.describe_plan(assigned.ref.plan_id)
                batches = [part.batch for part in read_split(scan, assigned.split, start=assigned.start)]
                result.batches += batches
                times = [at * 1000 for batch in batches for at in _event_times(batch) if at is not None]
                result.lows_us += [min(times)] if times else []
                result.bounds.append(assigned.split.event_time)
                if answer.watermark_us is not None:
                    result.late += [at for at in times if at <= answer.watermark_us]
                done.append(SplitProgress(ref=assigned.ref, ordinal=10**9, finished=True))
            self.calls.commit_splits(self.member, tuple(done))
        return result


def _event_times(batch: pa.RecordBatch) -> list[int | None]:
    return batch.column("ts").to_pylist() if "ts" in batch.schema.names else []


@contextmanager
def deployed(path: pathlib.Path, how: str = "embedded", store: MemoryStore | None = None) -> Iterator[Deployed]:
    """A service on the table, on a store if there is one."""
    clock, coordinator = Clock(), None
    if store is not None:
        journal = DirectJournal(store)
        coordinator = durable_coordinator(store, journal, clock_ms=clock, settings=CoordinatorSettings())
    service = EnumeratorService(
        {"t": str(path)},
        reads=OpenTables(scan_event_time=scan_event_time),
        clock_ms=clock,
        coordinator=coordinator,
        poll_ms=None,
    )
    if how == "embedded":
        yield Deployed(service, service, clock)
        return
    with serve_enumerator(service, "127.0.0.1:0", service) as server:
        client = EnumeratorClient(server.address)
        yield Deployed(service, client, clock)
        client.close()


def spec_of(query: Query = ROWS, start: GroupStart = EARLY, limits: RoundLimits = FEW, **scope: Any) -> GroupSpec:
    """A group with a watermark, one file per round."""
    request = PlanRequest(table="t", query=query, event_time="ts", event_time_unit="ms")
    return GroupSpec(scope=GroupScope(request=request, **{"rule": RULE, **scope}), start=start, limits=limits)


def stream_watermark(service: EnumeratorService, spec: GroupSpec) -> int | None:
    """The watermark of a stream with the same options after its last batch."""
    scope = StreamScope(request=spec.scope.request, limits=spec.limits, rule=spec.scope.rule)
    start = spec.start
    point = service.start_stream(scope, StartAfter(start.position) if isinstance(start, StartAt) else StreamSnapshot())
    while (following := service.next_batch(scope, point).point) != point:
        point = following
    return point.watermark.at_us


@pytest.mark.parametrize(
    ("how", "case", "query", "start", "fallback"),
    [
        ("embedded", LOGS, Incremental(), StartAt(), WatermarkFallback.SCAN),
        ("served", LOGS, Incremental(), StartSnapshot(), WatermarkFallback.SCAN),
        ("embedded", LOGS, Changes(ChangeFormat.ROWS), StartSnapshot(), WatermarkFallback.HOLD),
        ("served", IN_BASE_FILES, Incremental(), StartAt(), WatermarkFallback.HOLD),
        ("embedded", IN_BASE_FILES, Incremental(), StartSnapshot(), WatermarkFallback.COMMIT_TIME),
        ("embedded", "A_compaction_pending_v6_h0150", Changes(ChangeFormat.ROWS), StartAt(), WatermarkFallback.SCAN),
    ],
)
def test_no_row_is_at_or_below_a_watermark_and_the_last_one_is_that_of_a_stream(
    golden: Any, how: str, case: str, query: Query, start: GroupStart, fallback: WatermarkFallback
) -> None:
    rule = replace(RULE, fallback=fallback, timezone="Asia/Kolkata")
    spec = spec_of(query, start, rule=rule)
    with deployed(golden.table(case), how) as one:
        one.join(spec)
        delivered = one.read(Delivered())
        known = [at for at in delivered.watermarks if at is not None]
        assert known == sorted(known)
        assert not delivered.late
        if case == IN_BASE_FILES:
            assert len(set(known)) > 1, "it advances while rows are still to come"
        last = one.calls.describe_group("t", "g").watermark_us
        assert last == known[-1] == stream_watermark(one.service, spec)
        [status] = one.calls.describe_server().groups
        assert status.watermark_us == last


def test_watermark_that_forgets_unfinished_splits_is_above_rows_to_come(golden: Any) -> None:
    """The negative control of the test above."""
    with (
        patch.object(Round, "remaining_span", lambda self: EventTimeSpan()),
        deployed(golden.table(IN_BASE_FILES)) as one,
    ):
        one.join(spec_of(limits=RoundLimits()))
        assert one.read(Delivered()).late


def test_rule_that_does_not_fit_the_table_is_refused_when_the_group_is_created(golden: Any) -> None:
    with deployed(golden.table(LOGS), "served") as one:
        with pytest.raises(ConfigurationError, match="eventTimeUnit"):
            spec = spec_of()
            request = replace(spec.scope.request, event_time_unit="")
            one.join(replace(spec, scope=replace(spec.scope, request=request)))
        with pytest.raises(ConfigurationError, match="nothing"):
            spec = spec_of()
            one.join(
                replace(spec, scope=replace(spec.scope, request=replace(spec.scope.request, event_time="nothing")))
            )
        assert one.calls.list_groups() == ()


@pytest.mark.parametrize("how", ["embedded", "served"])
def test_snapshot_comes_in_event_time_order_and_then_commit_after_commit(
    golden: Any, tmp_path: pathlib.Path, how: str
) -> None:
    path = golden.copy(IN_BASE_FILES, tmp_path)
    script = ScriptedTimeline(path, tmp_path / "aside")
    later = script.data[-2:]
    script.remove_after(script.data[-3])
    state = read(str(path), query="snapshot", metadata="off").read_all()
    spec = spec_of(start=StartSnapshot())
    spec = replace(spec, scope=replace(spec.scope, request=replace(spec.scope.request, metadata=False)))
    with deployed(path, how) as one:
        one.join(spec)
        delivered = one.read(Delivered())
        assert delivered.texts() == sorted(str(row) for row in state.to_pylist())
        bounds = [(one.min_us, one.max_us) for one in delivered.bounds if isinstance(one, EventTimeBounds)]
        assert len(bounds) == len(delivered.bounds) > 1 and bounds == sorted(bounds)
        described = one.calls.describe_group("t", "g")
        at = Position(InstantTime(script.keys[script.data[-3]]))
        assert described.snapshot is None and described.summary.committed == described.summary.planned == at
        count = 0
        for instant in later:
            script.give(instant)
            delivered = one.read(Delivered())
            after = script.keys[script.data[script.data.index(instant) - 1]]
            rows = read(str(path), query="incremental", after=after, metadata="off").read_all()
            assert delivered.texts() == sorted(str(row) for row in rows.to_pylist())
            count += rows.num_rows
        assert count


def test_snapshot_continues_after_a_restart_in_the_middle(golden: Any) -> None:
    path, store, delivered = golden.table(IN_BASE_FILES), MemoryStore(), Delivered()
    state = read(str(path), query="snapshot").read_all()
    spec, dones = spec_of(start=StartSnapshot()), set[int]()
    for life in range(100):
        with deployed(path, store=store) as one:
            one.join(spec, f"r{life}")
            described = one.calls.describe_group("t", "g")
            if described.snapshot is None and described.rounds == 0:
                break
            dones.add(-1 if described.snapshot is None else described.snapshot.done)
            assert described.summary.planned.is_earliest or described.snapshot is None
            one.read(delivered, requests=1)
            one.calls.leave_group(one.member)
        store = store.reopened()
    assert len(dones) > 2, "it was restarted at several places"
    assert delivered.texts() == sorted(str(row) for row in state.to_pylist())


@pytest.mark.parametrize("policy", [OnLostRange.FAIL, OnLostRange.SNAPSHOT])
def test_changed_snapshot_stops_the_group_or_is_planned_again(
    golden: Any, policy: OnLostRange, caplog: pytest.LogCaptureFixture
) -> None:
    """The list of its splits is another one after the first round: files were cleaned."""
    path, real = golden.table(IN_BASE_FILES), group_start.digest_of
    state = sorted(str(row) for row in read(str(path), query="snapshot").read_all().to_pylist())
    with deployed(path) as one:
        one.join(spec_of(start=StartSnapshot(), on_lost_range=policy))
        first = one.read(Delivered(), requests=1)
        digests = iter(["f" * 32])
        with patch.object(group_start, "digest_of", lambda splits: next(digests, "") or real(splits)):
            one.service.split_discovery.discover()
        described = one.calls.describe_group("t", "g")
        if policy is OnLostRange.FAIL:
            assert (described.summary.state, described.error_code) == ("stopped", "POSITION_EXPIRED")
            with pytest.raises(PositionExpired, match="has changed: the digest"):
                one.read(Delivered())
            one.calls.reset_group("t", "g", StartSnapshot(), dry_run=False)
        else:
            assert "range lost" in caplog.text
        one.join(spec_of(start=StartSnapshot(), on_lost_range=policy), "again")
        second = one.read(Delivered())
        assert 0 < len(first.texts()) < len(state)
        assert second.texts() == state, "no row is lost: all are read again"


def test_idle_group_advances_its_watermark_while_its_table_is_unchanged(golden: Any) -> None:
    with deployed(golden.table(IN_BASE_FILES)) as one:
        one.join(spec_of(idle_timeout_us=60_000_000))
        one.read(Delivered(), most=100)
        before = one.calls.describe_group("t", "g").watermark_us
        one.service.split_discovery.discover()
        one.clock.now_ms += 150_000
        assert one.calls.describe_group("t", "g").watermark_us == before, "the table was not looked at"
        one.service.split_discovery.discover()
        assert one.calls.describe_group("t", "g").watermark_us == before + 2 * 60_000_000
