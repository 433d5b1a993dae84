"""A service whose tables follow a script, with a fake clock, and the groups of its tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.enumerator.continuous.change_probe import TableFingerprint
from penstock.enumerator.continuous.types import Advance, Following, NextRound, NothingNew, Progress, ReaderPlace
from penstock.enumerator.coordinator.coordinator import Coordinator, durable_coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.snapshots.group_start import before_snapshot, snapshot_round
from penstock.proto.errors import (
    PenstockError,
    PositionExpired,
)
from penstock.proto.model.groups import (
    Assignments,
    EndOfGroup,
    GroupLag,
    GroupScope,
    GroupSpec,
    Member,
    NothingYet,
    OnLostRange,
    SplitProgress,
)
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.reports import TableDescription
from penstock.proto.model.splits import CommitTimeOrdering, FileRef, Plan, Scan, Split, VisibleInstants
from tests.memory_store import DirectJournal, MemoryStore

LAG = GroupLag(commits=3, size_bytes=30, seconds=1.5)


@dataclass
class Clock:
    """A manual clock."""

    now_ms: int = 1_000

    def __call__(self) -> int:
        return self.now_ms


def at(number: int) -> Position:
    """The position after a commit by number."""
    return Position(InstantTime(f"{number:03d}"))


@dataclass
class Script:
    """A table of commits 1..`newest`, each of `splits` splits in file groups of their own names. `fails` are raised,
    one per `advance`; `missing` advances miss a file. `discoveries` counts advances; a settled probe changes with
    `newest`. A clean `clean` removed the files `gone`; `checks` counts checks of files."""

    newest: int = 1
    splits: int = 2
    fails: list[PenstockError] = field(default_factory=list)
    discoveries: int = 0
    is_settled: bool = False
    first: int = 1
    missing: int = 0
    clean: str = ""
    gone: set[str] = field(default_factory=set)
    checks: int = 0

    def check(self, path: str) -> None:
        pass

    def describe(self, path: str, name: str) -> TableDescription:
        raise AssertionError("not asked here")

    def newest_position(self) -> Position:
        return at(self.newest)

    def plan(self, path: str, name: str, request: PlanRequest) -> Plan:
        return self._plan(name, self.newest)

    def _plan(self, name: str, number: int) -> Plan:
        scan = Scan(
            table=name,
            base_path="/lake",
            table_version=9,
            schema_json="{}",
            columns=("id",),
            merge=CommitTimeOrdering(),
            visible=VisibleInstants(frozenset()),
        )
        splits = tuple(
            Split(
                split_id=f"{number}/{group}",
                partition="p",
                partition_values=(),
                file_group=f"f{group}",
                order_key=InstantTime(f"{number:03d}"),
                base=FileRef(f"f{group}.parquet", 10),
            )
            for group in range(self.splits)
        )
        return Plan(scan=scan, commit_range=CommitRange(EARLIEST, at(number)), splits=splits)

    def probe(self, path: str) -> TableFingerprint:
        return TableFingerprint(self.newest, 1, 1, ".hoodie/timeline", self.is_settled)

    def advance(self, path: str, name: str, following: Following) -> Advance:
        self.discoveries += 1
        if self.fails:
            raise self.fails.pop(0)
        if self.missing:
            self.missing -= 1
            raise PositionExpired("f.parquet is missing")
        if following.progress.snapshot is not None:
            splits = self._plan(name, self.newest).splits
            return snapshot_round(name, following, self._plan(name, self.newest), splits, lambda split: 0)
        start = following.progress.position
        later = int(start.order_key) + 1
        if later > self.newest or (following.upto is not None and start >= following.upto):
            return NothingNew()
        plan = self._plan(name, later)
        return NextRound(
            commit_range=CommitRange(start, at(later)),
            plan=replace(plan, commit_range=CommitRange(start, at(later))),
            progress=Progress(at(later), layout=2),
            commits=1,
        )

    def earliest(self, path: str, name: str, request: PlanRequest) -> Position:
        return at(self.first)

    def newest_clean(self, path: str) -> str:
        return self.clean

    def missing_file(self, path: str, splits: Sequence[Split]) -> str:
        self.checks += 1
        if self.fails:
            raise self.fails.pop(0)
        paths = [split.base.path for split in splits if split.base is not None]
        return next((path for path in paths if path in self.gone), "")

    def start(self, path: str, position: Position | None) -> Progress:
        if self.fails:
            raise self.fails.pop(0)
        return Progress(at(self.newest) if position is None else position, layout=2)

    def start_snapshot(self, path: str, name: str, scope: GroupScope) -> Progress:
        if self.fails:
            raise self.fails.pop(0)
        return before_snapshot(Progress(at(self.newest), layout=2), self._plan(name, self.newest).splits)

    def lags(self, path: str, readers: Sequence[ReaderPlace]) -> list[GroupLag]:
        return [LAG for _ in readers]


@dataclass
class World:
    """A service over the script, with a member `r1` of group `g`."""

    script: Script = field(default_factory=Script)
    clock: Clock = field(default_factory=Clock)
    settings: CoordinatorSettings = field(default_factory=CoordinatorSettings)
    spec: GroupSpec = field(default_factory=lambda: spec_of())
    store: MemoryStore = field(default_factory=MemoryStore)
    service: EnumeratorService = field(init=False)
    member: Member = field(init=False)
    sequence: int = 0

    def __post_init__(self) -> None:
        self.restart()
        self.member = self.service.join_group("g", "r1", self.spec, "first").member

    def restart(self) -> None:
        """Restarts the service on the same store."""
        self.store = self.store.reopened()
        coordinator = durable_coordinator(
            self.store, DirectJournal(self.store), clock_ms=self.clock, settings=self.settings
        )
        self.service = service_of(self.script, self.clock, coordinator)

    def request_splits(self, most: int = 10) -> Assignments | NothingYet | EndOfGroup:
        """Sends the next request of the member."""
        self.sequence += 1
        return self.service.request_splits(self.member, most, self.sequence)

    def finish(self, assignments: Assignments) -> None:
        """Commits all splits as finished."""
        done = tuple(SplitProgress(ref=one.ref, ordinal=5, finished=True) for one in assignments.splits)
        self.service.commit_splits(self.member, done)

    def summary(self) -> str:
        """State, committed and planned position of the group."""
        [result] = self.service.list_groups()
        return f"{result.state} {result.committed} {result.planned}"


def service_of(script: Script, clock: Clock, coordinator: Coordinator) -> EnumeratorService:
    """A service without threads."""
    return EnumeratorService(
        {"t": "/lake"}, reads=script, follows=script, clock_ms=clock, coordinator=coordinator, poll_ms=None
    )  # type: ignore[arg-type]


def spec_of(**scope: object) -> GroupSpec:
    """A group that reads rows of table `t` from the start."""
    return GroupSpec(scope=GroupScope(request=PlanRequest(table="t", query=Incremental()), **scope))  # type: ignore[arg-type]


def names(assignments: object) -> list[str]:
    """The split ids of an answer."""
    assert isinstance(assignments, Assignments)
    return [one.split.split_id for one in assignments.splits]


def earliest_world(**script: Any) -> World:
    """A group with onLostRange=earliest and two planned rounds of the commits 1 and 2."""
    world = World(Script(newest=2, **script), spec=spec_of(on_lost_range=OnLostRange.EARLIEST))
    for _ in range(2):
        world.service.split_discovery.discover()
    assert world.summary() == "running 0 002"
    return world
