"""Fakes of a consumer group, its clock and its readers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock.proto.errors import ConfigurationError, Fenced, UnknownGroup, UnknownPlan, UnknownSplit
from penstock.proto.model.groups import (
    AssignedSplit,
    Assignments,
    EndOfGroup,
    GroupAnswer,
    GroupDescription,
    GroupLag,
    GroupSpec,
    GroupStart,
    GroupSummary,
    Joined,
    Member,
    NothingYet,
    ReaderState,
    ResetOutcome,
    SplitProgress,
    SplitRef,
    StartAt,
)
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import RoundLimits
from penstock.proto.model.reports import OpenedPlan, SplitAnswer, SplitReport, TableDescription
from penstock.proto.model.splits import AllRows, CommitTimeOrdering, FileRef, Scan, Split, VisibleInstants
from penstock.reader.read_split import SplitBatch

SCHEMA = '{"type":"record","name":"t","fields":[{"name":"id","type":"long"},{"name":"at","type":"long"}]}'


LEASE_MS = 9000


@dataclass
class FakeClock:
    """A clock that advances only in `wait` or by assignment to `now`."""

    now: int = 1_000_000
    waits: list[float] = field(default_factory=list)
    on_wait: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        return self.now

    def wait(self, event: threading.Event, seconds: float) -> object:
        assert seconds > 0
        assert len(self.waits) < 10_000, "waits for ever"
        self.waits.append(seconds)
        if not event.is_set():
            self.now += round(seconds * 1000)
            self.on_wait()
        return event.is_set()


@dataclass
class FakeHeartbeat:
    """A heartbeat that the test triggers."""

    beat: Callable[[], float | None]
    pause_s: float
    stopped: bool = False

    def stop(self) -> None:
        self.stopped = True


def split_of(name: str, rows: int, day: int = 1) -> Split:
    """A split with this number of rows."""
    key = f"202601{day:02d}000000000"
    return Split(
        split_id=name,
        partition="",
        partition_values=(),
        file_group=f"fg-{name}",
        order_key=InstantTime(key),
        base=FileRef(f"fg_0-1-1_{key}.parquet", rows),
        base_instant=key,
        logs=(),
    )


@dataclass
class FakeGroup:
    """One group of the table `trips` with the rules of the service: epochs, leases, ordinals, rounds in order.

    Each call raises one error of `fails` before it has an effect, or one of `lost` after it: the response is lost.
    """

    clock: FakeClock
    rounds: dict[str, tuple[Split, ...]] = field(default_factory=dict)
    ends: bool = False
    fails: list[Exception] = field(default_factory=list)
    lost: list[Exception] = field(default_factory=list)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    renewed: dict[str, int] = field(default_factory=dict)
    held: dict[SplitRef, str] = field(default_factory=dict)
    ordinals: dict[SplitRef, int] = field(default_factory=dict)
    reports: dict[SplitRef, SplitReport | None] = field(default_factory=dict)
    responses: dict[str, tuple[int, GroupAnswer]] = field(default_factory=dict)
    waits: list[int] = field(default_factory=list)
    received: list[int | None] = field(default_factory=list)
    granted: dict[str, set[SplitRef]] = field(default_factory=dict)
    joins: dict[str, Joined] = field(default_factory=dict)
    spec: GroupSpec | None = None
    scans: dict[str, Scan] = field(default_factory=dict)
    watermark_us: int | None = None

    # --- GroupService ---

    def join_group(self, group: str, reader_id: str, spec: GroupSpec, request_id: str) -> Joined:
        self._record_call("join", group, reader_id, request_id)
        if request_id not in self.joins:
            if self.spec is not None and self.spec.scope != spec.scope:
                raise ConfigurationError("another scope")
            self.spec = self.spec or spec
            self.epochs[reader_id] = self.epochs.get(reader_id, 0) + 1
            self.renewed[reader_id] = self.clock.now
            self.responses.pop(reader_id, None)
            self.granted[reader_id] = set()
            self.joins[request_id] = Joined(Member("trips", group, reader_id, self.epochs[reader_id]), LEASE_MS)
        self._lose_response()
        return self.joins[request_id]

    def heartbeat(self, member: Member) -> int:
        self._record_call("heartbeat", member)
        self._require(member)
        self._lose_response()
        return LEASE_MS

    def request_splits(
        self,
        member: Member,
        max_splits: int,
        sequence: int,
        without: tuple[str, ...] = (),
        received: int | None = None,
        wait_ms: int = 0,
    ) -> GroupAnswer:
        self._record_call("request", member, max_splits, sequence)
        self.waits.append(wait_ms)
        self.received.append(received)
        self._require(member)
        last, answer = self.responses.get(member.reader_id, (0, None))
        if sequence != last or answer is None:
            assert sequence > last, "an older request"
            answer = replace(self._assign(member, max_splits), watermark_us=self.watermark_us)
            if isinstance(answer, Assignments):
                timed = (replace(one, watermark_us=self.watermark_us) for one in answer.splits)
                answer = replace(answer, splits=tuple(timed))
            self.responses[member.reader_id] = (sequence, answer)
        self._lose_response()
        return answer

    def commit_splits(self, member: Member, done: tuple[SplitProgress, ...]) -> None:
        self._record_call("commit", member, done)
        self._require(member)
        for progress in done:
            if progress.ref not in self.reports and self.held.get(progress.ref) != member.reader_id:
                raise UnknownSplit(f"{progress.ref} is not held")
        for progress in done:
            self.ordinals[progress.ref] = max(progress.ordinal, self.ordinals.get(progress.ref, 0))
            if progress.finished:
                self.reports[progress.ref] = progress.report
                self.held.pop(progress.ref, None)
        self._lose_response()

    def leave_group(self, member: Member) -> None:
        self._record_call("leave", member)
        self._require(member)
        self.held = {ref: who for ref, who in self.held.items() if who != member.reader_id}
        self.epochs[member.reader_id] += 1

    def list_groups(self, table: str = "") -> tuple[GroupSummary, ...]:
        self._record_call("list", table)
        return (self._summary(),) if table in ("", "trips") else ()

    def describe_group(self, table: str, group: str) -> GroupDescription:
        self._record_call("describe", table, group)
        if group != "g":
            raise UnknownGroup(f"no group {group} on table {table}")
        assert self.spec is not None
        return GroupDescription(
            summary=self._summary(),
            scope=self.spec.scope,
            limits=RoundLimits(max_commits=5),
            rounds=len(self.rounds),
            pending_splits=3,
            held_splits=len(self.held),
            readers=(ReaderState(reader_id="r", epoch=2, held_splits=1, lease_left_ms=4000),),
            lag=GroupLag(commits=2, size_bytes=3_000_000, seconds=61.5, loss_commits=8, loss_seconds=None),
        )

    def reset_group(self, table: str, group: str, start: GroupStart, *, dry_run: bool) -> ResetOutcome:
        self._record_call("reset", table, group, start, dry_run)
        if group != "g":
            raise UnknownGroup(f"no group {group} on table {table}")
        if not dry_run:
            for reader in self.epochs:
                self.epochs[reader] += 1
            self.held, self.ordinals, self.reports = {}, {}, {}
        after = start.position if isinstance(start, StartAt) else Position(InstantTime("20260109000000000"))
        return ResetOutcome(before=EARLIEST, after=after, dropped_splits=4, dry_run=dry_run)

    def delete_group(self, table: str, group: str) -> None:
        self._record_call("delete", table, group)
        if group != "g":
            raise UnknownGroup(f"no group {group} on table {table}")

    # --- other calls of an enumerator ---

    def describe_plan(self, plan_id: str) -> Scan:
        self._record_call("describe_plan", plan_id)
        if plan_id not in self.rounds:
            raise UnknownPlan(f"no plan {plan_id}")
        if plan_id in self.scans:
            return self.scans[plan_id]
        return Scan(
            table="trips",
            base_path="/lake/trips",
            table_version=9,
            schema_json=SCHEMA,
            columns=("id",),
            where="",
            merge=CommitTimeOrdering(),
            visible=VisibleInstants(frozenset()),
            rows=AllRows(),
            partition_fields=(),
        )

    def describe_table(self, table: str) -> TableDescription:
        self._record_call("describe_table", table)
        return TableDescription(
            table=table,
            base_path="/lake/trips",
            hudi_name="trips",
            table_type="MERGE_ON_READ",
            table_version=9,
            timeline_layout=2,
            timeline_timezone="UTC",
            merge_mode="EVENT_TIME_ORDERING",
            record_key_fields=("id",),
            partition_fields=(),
            ordering_fields=("ts",),
            schema_json=SCHEMA,
            newest=Position(InstantTime("20260109000000000")),
        )

    def newest_position(self, table: str, after: Position | None = None, max_commits: int = 0) -> Position:
        raise NotImplementedError

    def open_plan(self, request: object) -> OpenedPlan:
        raise NotImplementedError

    def next_split(self, plan_id: str, slot: int, index: int) -> SplitAnswer:
        raise NotImplementedError

    def finish_split(self, plan_id: str, slot: int, index: int, report: SplitReport) -> None:
        raise NotImplementedError

    # --- helpers ---

    def calls_of(self, kind: str) -> list[tuple[Any, ...]]:
        """The recorded calls of this kind."""
        return [call for call in self.calls if call[0] == kind]

    def committed(self) -> dict[str, tuple[int, bool]]:
        """(ordinal, finished) by split id."""
        names = {SplitRef(p, i): s.split_id for p, splits in self.rounds.items() for i, s in enumerate(splits)}
        return {names[ref]: (ordinal, ref in self.reports) for ref, ordinal in self.ordinals.items()}

    def _assign(self, member: Member, limit: int) -> GroupAnswer:
        open_refs = 0
        assigned: list[AssignedSplit] = []
        for plan_id, splits in self.rounds.items():
            for index, split in enumerate(splits):
                ref = SplitRef(plan_id, index)
                holder = self.held.get(ref)
                if ref in self.reports:
                    continue
                open_refs += 1
                mine = holder == member.reader_id and ref not in self.granted[member.reader_id]
                alive = holder in self.renewed and self.renewed[holder or ""] + LEASE_MS > self.clock.now
                if len(assigned) < limit and (holder is None or mine or not alive):
                    self.held[ref] = member.reader_id
                    self.granted[member.reader_id].add(ref)
                    end = Position(split.order_key)
                    assigned.append(AssignedSplit(ref, split, self.ordinals.get(ref, 0), end))
        if assigned:
            return Assignments(tuple(assigned))
        if not open_refs and self.ends:
            return EndOfGroup()
        others = any(who != member.reader_id for who in self.held.values())
        return NothingYet(500, caught_up=not others)

    def _require(self, member: Member) -> None:
        if self.epochs.get(member.reader_id) != member.epoch:
            raise Fenced(f"epoch {member.epoch} is not current")
        if self.renewed[member.reader_id] + LEASE_MS <= self.clock.now:
            raise Fenced("the lease is over")
        self.renewed[member.reader_id] = self.clock.now

    def _summary(self) -> GroupSummary:
        return GroupSummary(
            table="trips",
            group="g",
            state="running",
            committed=EARLIEST,
            planned=Position(InstantTime("20260103000000000"), 2),
            readers=1,
        )

    def _record_call(self, *call: Any) -> None:
        self.calls.append(call)
        if self.fails:
            raise self.fails.pop(0)

    def _lose_response(self) -> None:
        if self.lost:
            raise self.lost.pop(0)


@dataclass
class FakeReading:
    """Replaces `read_split`: batches of `batch_rows` numbers; each error of `fails` is raised once."""

    batch_rows: int = 10
    fails: dict[tuple[str, int], Exception] = field(default_factory=dict)
    opened: list[tuple[str, int]] = field(default_factory=list)
    open_now: int = 0

    def read(
        self, scan: Scan, split: Split, *, start: int = 0, options: Any = None, tally: Any = None, topics: Any = None
    ) -> Generator[SplitBatch, None, None]:
        self.opened.append((split.split_id, start))
        return self._batches(split, start, tally)

    def _batches(self, split: Split, start: int, tally: Any) -> Generator[SplitBatch, None, None]:
        self.open_now += 1
        try:
            rows = split.size_bytes
            for first in range(start, rows, self.batch_rows):
                if (error := self.fails.pop((split.split_id, first), None)) is not None:
                    raise error
                end = min(first + self.batch_rows, rows)
                batch = pa.record_batch({"id": pa.array(range(first, end), pa.int64())})
                tally.count_batch(batch)
                yield SplitBatch(split.split_id, first, end, batch)
            if (error := self.fails.pop((split.split_id, rows), None)) is not None:
                raise error
        finally:
            self.open_now -= 1
