"""A scripted table for the contract of enumerators, and the splits of its plans."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any

from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.run import RunningServer, serve_enumerator
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.enumerator import Enumerator
from penstock.proto.group_service import GroupService
from penstock.proto.model.groups import (
    Assignments,
    EndOfGroup,
    GroupAnswer,
    GroupDescription,
    GroupSpec,
    GroupStart,
    GroupSummary,
    Joined,
    Member,
    NothingYet,
    ResetOutcome,
    ServerStatus,
    SplitProgress,
)
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Incremental, Latest, PlanRequest, Snapshot, SnapshotPart
from penstock.proto.model.reports import (
    EndOfSlot,
    NextSplit,
    OpenedPlan,
    TableDescription,
    TimelineInstant,
    TimelinePage,
)
from penstock.proto.model.splits import (
    AllRows,
    CommitTimeOrdering,
    EventTimeBounds,
    EventTimeOrdering,
    FileRef,
    Plan,
    RowsOf,
    Scan,
    Split,
    VisibleInstants,
)
from penstock.proto.model.streams import (
    CommitsBatch,
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
)

SCHEMA = '{"type":"record","name":"trips","fields":[{"name":"id","type":"string"},{"name":"städte","type":"string"}]}'


@dataclass
class ScriptedTable:
    """A table of `commits`, each with one split. Each call first raises the next of `fails`."""

    commits: list[str] = field(default_factory=lambda: [f"2026010{day}000000000" for day in range(1, 10)])
    sizes: list[int] = field(default_factory=lambda: [1000, 10, 30, 20, 500, 70, 1, 0, 9])
    fails: list[Exception] = field(default_factory=list)
    calls: int = 0

    def check(self, path: str) -> None:
        self._called()

    def describe(self, path: str, name: str) -> TableDescription:
        self._called()
        return TableDescription(
            table=name,
            base_path=path,
            hudi_name="trips",
            table_type="MERGE_ON_READ",
            table_version=9,
            timeline_layout=2,
            timeline_timezone="UTC",
            merge_mode="EVENT_TIME_ORDERING",
            record_key_fields=("id",),
            partition_fields=("städte",),
            ordering_fields=("ts",),
            schema_json=SCHEMA,
            newest=self._newest(),
        )

    def newest(self, path: str, after: Position | None, max_commits: int) -> Position:
        self._called()
        return self._capped(after, max_commits)

    def instants(self, path: str, after: str, as_of: str, max_instants: int) -> TimelinePage:
        """Its commits, each completed when it was requested."""
        self._called()
        listed = [InstantTime(key) for key in self.commits if key > after and (not as_of or key <= as_of)]
        page = listed[: max_instants or None]
        return TimelinePage(
            instants=tuple(
                TimelineInstant(
                    requested_time=at, completion_time=at, action="deltacommit", state="completed", file=f"{at}.x"
                )
                for at in page
            ),
            timeline_timezone="UTC",
            more=len(page) < len(listed),
        )

    def _capped(self, after: Position | None, max_commits: int) -> Position:
        later = [Position(InstantTime(key)) for key in self.commits if after is None or Position(key) > after]
        if after is not None and max_commits:
            later = later[:max_commits]
        return later[-1] if later else after or EARLIEST

    def plan(self, path: str, name: str, request: PlanRequest) -> Plan:
        self._called()
        span = CommitRange(EARLIEST, self._newest())
        rows: AllRows | RowsOf = AllRows()
        if isinstance(request.query, Incremental):
            upto = self._newest() if isinstance(request.query.upto, Latest) else request.query.upto
            span = CommitRange(request.query.after, upto)
            rows = RowsOf(frozenset(InstantTime(key) for key in self.commits if span.holds(key)))
        members = [n for n, key in enumerate(self.commits) if span.holds(key)]
        if isinstance(request.query, SnapshotPart):
            members = members[request.query.first : request.query.end]
        return Plan(
            scan=Scan(
                table=name,
                base_path=path,
                table_version=9,
                schema_json=SCHEMA,
                columns=request.columns or ("id", "städte"),
                where=request.where,
                merge=EventTimeOrdering(("ts",)) if request.event_time else CommitTimeOrdering(),
                visible=VisibleInstants(frozenset(InstantTime(key) for key in self.commits)),
                rows=rows,
                partition_fields=("städte",),
            ),
            commit_range=span,
            splits=tuple(map(self._split, members)),
        )

    def start_stream(self, path: str, name: str, scope: StreamScope, start: StreamStart) -> StreamPoint:
        self._called()
        match start:
            case StartAfter(position):
                return StreamPoint(progress=Progress(position))
            case StartLatest():
                return StreamPoint(progress=Progress(self._newest(), 2, frozenset(map(InstantTime, self.commits))))
            case StartSnapshot():
                place = SnapshotPlace(done=0, total=len(self.commits), digest="0af1")
                return StreamPoint(progress=Progress(self._newest(), 2, table_id="städte"), snapshot=place)

    def next_batch(
        self, path: str, name: str, scope: StreamScope, point: StreamPoint, looks: object = None
    ) -> NextBatch:
        """As many commits, or splits of the snapshot, as the limits allow; the watermark counts delivered commits."""
        self._called()
        place, position, at_us = point.snapshot, point.progress.position, point.watermark.at_us or 0
        if place is not None and place.done < place.total:
            end = min(place.total, place.done + (scope.limits.max_files or place.total))
            moved = replace(point, snapshot=replace(place, done=end), content=SnapshotBatch(place.done))
            return NextBatch(point=replace(moved, watermark=Watermark(at_us + 1)), schema_json=SCHEMA)
        upto = self._capped(position, scope.limits.max_commits)
        if upto == position:
            return NextBatch(point=point)
        consumed = point.progress.consumed | {upto.order_key}
        reached = StreamPoint(
            progress=replace(point.progress, position=upto, consumed=consumed),
            watermark=Watermark(at_us + 1, -at_us),
            content=CommitsBatch(position, frozenset({InstantTime("1")})),
            ended=upto == scope.upto,
        )
        return NextBatch(point=reached, schema_json=SCHEMA, lost="städte" * (position == EARLIEST))

    def _split(self, n: int) -> Split:
        key = InstantTime(self.commits[n])
        return Split(
            split_id=f"{key}:fg-{n}",
            partition=f"städte=ü {n}",
            partition_values=(None if n % 2 else f"ü {n}",),
            file_group=f"fg-{n}",
            order_key=key,
            base=FileRef(f"städte=ü {n}/fg-{n}_0-1-1_{key}.parquet", self.sizes[n]) if n % 3 else None,
            base_instant=key if n % 3 else "",
            logs=() if n % 3 else (FileRef(f"städte=ü {n}/.fg-{n}_{key}.log.1_0-1-1", self.sizes[n]),),
            event_time=EventTimeBounds(n, n + 1),
        )

    def _newest(self) -> Position:
        return Position(InstantTime(self.commits[-1]))

    def _called(self) -> None:
        self.calls += 1
        if self.fails:
            raise self.fails.pop(0)


@dataclass
class ScriptedGroups:
    """A group service that returns scripted responses, one per call; `fails` are raised first. `calls` records the
    calls."""

    answers: list[object] = field(default_factory=list)
    fails: list[Exception] = field(default_factory=list)
    calls: list[tuple[object, ...]] = field(default_factory=list)

    def join_group(self, group: str, reader_id: str, spec: GroupSpec, request_id: str) -> Joined:
        return self._answer(Joined, "join", group, reader_id, spec, request_id)

    def heartbeat(self, member: Member) -> int:
        return self._answer(int, "heartbeat", member)

    def request_splits(
        self,
        member: Member,
        max_splits: int,
        sequence: int,
        without: tuple[str, ...] = (),
        received: int | None = None,
        wait_ms: int = 0,
    ) -> GroupAnswer:
        return self._answer(Assignments | NothingYet | EndOfGroup, "request", member, max_splits, sequence)

    def commit_splits(self, member: Member, done: tuple[SplitProgress, ...]) -> None:
        self._answer(NoneType, "commit", member, done)

    def leave_group(self, member: Member) -> None:
        self._answer(NoneType, "leave", member)

    def list_groups(self, table: str = "") -> tuple[GroupSummary, ...]:
        return self._answer(tuple, "list", table)

    def describe_server(self, table: str = "") -> ServerStatus:
        return self._answer(ServerStatus, "status", table)

    def describe_group(self, table: str, group: str) -> GroupDescription:
        return self._answer(GroupDescription, "describe", table, group)

    def reset_group(self, table: str, group: str, start: GroupStart, *, dry_run: bool) -> ResetOutcome:
        return self._answer(ResetOutcome, "reset", table, group, start, dry_run)

    def delete_group(self, table: str, group: str) -> None:
        self._answer(NoneType, "delete", table, group)

    def _answer(self, kind: Any, *call: object) -> Any:
        self.calls.append(call)
        if self.fails:
            raise self.fails.pop(0)
        answer = self.answers.pop(0)
        assert isinstance(answer, kind)
        return answer


@dataclass
class Clock:
    """A clock that stands still until a test moves it."""

    now_ms: int = 0

    def __call__(self) -> int:
        return self.now_ms


@dataclass
class Deployment:
    """An enumerator whose only table, `trips`, is scripted, in one of the two deployments."""

    enumerator: Enumerator
    table: ScriptedTable
    clock: Clock
    embedded: EmbeddedEnumerator
    server: RunningServer | None
    scripted_groups: ScriptedGroups
    groups: GroupService


FAST = CallLimits(deadline_ms=60_000, plan_deadline_ms=60_000, attempts=5, first_pause_ms=10, longest_pause_ms=10)


def embedded_over(table: ScriptedTable, clock: Clock) -> EmbeddedEnumerator:
    """Two CPUs, known ids, and the test's clock."""
    ids = itertools.count()
    return EmbeddedEnumerator(
        {"trips": "/lake/trips"},
        reads=table,
        clock_ms=clock,
        new_id=lambda: f"plan-{next(ids)}",
        cpus=2,
        settings=CoordinatorSettings(plan_ttl_ms=1000, max_plans=50),
    )


def _served(table: ScriptedTable, clock: Clock, embedded: EmbeddedEnumerator) -> Iterator[Deployment]:
    groups = ScriptedGroups()
    with serve_enumerator(embedded, "127.0.0.1:0", groups) as server:
        client = EnumeratorClient(server.address, FAST)
        yield Deployment(client, table, clock, embedded, server, groups, client)
        client.close()


ALL = PlanRequest(table="trips", query=Snapshot())


def drain(enumerator: Enumerator, plan_id: str, slot: int) -> list[Split]:
    """All splits of a slot, pulled as a reader does."""
    result = []
    for index in itertools.count():
        match enumerator.next_split(plan_id, slot, index):
            case EndOfSlot():
                return result
            case NextSplit(split):
                result.append(split)
    raise AssertionError


def all_ids(enumerator: Enumerator, opened: OpenedPlan) -> Counter[str]:
    """Ids of the splits of every slot."""
    return Counter(s.split_id for slot in range(opened.slots) for s in drain(enumerator, opened.plan_id, slot))
