"""What groups of many tables cost in file operations, on simulated and on real tables: each table is looked at once per
interval however many groups follow it, and a new commit is planned once for groups of equal scopes."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock.enumerator.groups import split_discovery
from penstock.enumerator.groups.lag_monitor import MEASURE_MS, LagMonitor
from penstock.enumerator.groups.split_discovery import SplitDiscovery
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.followed_tables import FollowedTables
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.enumerator.tables.registry import TableRegistry
from penstock.proto.model.groups import Assignments, GroupScope, GroupSpec, Member, SplitProgress, StartAt, StartLatest
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import Incremental, PlanRequest, RoundLimits
from penstock.proto.model.splits import Split
from penstock.table import hudi_table
from penstock.table.storage.filesystem import FileInfo, Storage
from tests.simulated_lake import SimulatedLake

TABLES, COMMITS, INTERVAL_MS = 30, 5, 5_000
OLD_MS = 1_700_000_000_000
"""The simulated commits are older than this: the file times of the tables are those of the test, in its past."""


@dataclass
class CountingStorage:
    """Counts file operations by kind."""

    inner: Storage
    counts: Counter[str]

    @property
    def base_path(self) -> str:
        return self.inner.base_path

    def list_dir(self, path: str) -> list[FileInfo]:
        self.counts["list"] += 1
        return self.inner.list_dir(path)

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        self.counts["read"] += 1
        return self.inner.read_bytes(path, limit_bytes)

    def open_input(self, path: str) -> pa.NativeFile:
        self.counts["open"] += 1
        return self.inner.open_input(path)

    def file_info(self, path: str) -> FileInfo | None:
        self.counts["info"] += 1
        return self.inner.file_info(path)


@dataclass
class Lake:
    """A service without threads over simulated tables, a clock, and the file operations of all tables."""

    lake: SimulatedLake
    counts: Counter[str]
    now_ms: int = 0
    service: EnumeratorService = field(init=False)
    members: list[Member] = field(default_factory=list)

    def __post_init__(self) -> None:
        registry = TableRegistry(self.lake.paths, default_interval_ms=INTERVAL_MS)
        # an hour later than the files: their times are settled
        reads = OpenTables(wall_ms=lambda: self.lake.newest_write_ms() + 3_600_000 + self.now_ms)
        self.service = EnumeratorService(
            registry, reads=reads, follows=FollowedTables(reads), clock_ms=lambda: self.now_ms, poll_ms=None
        )

    def join(self, groups: int, requests: Callable[[int], dict[str, Any]] = lambda number: {}) -> None:
        """Members of new groups at the end of every table; `requests` has what differs by group."""
        for table in self.lake.tables:
            for number in range(groups):
                scope = GroupScope(request=PlanRequest(table=table, query=Incremental(), **requests(number)))
                spec = GroupSpec(scope=scope, start=StartLatest())
                self.members.append(self.service.join_group(f"g{number}", "r", spec, "once").member)
        self.discover()

    def discover(self) -> int:
        """Runs discovery until nothing is due now."""
        planned = 0
        while self.service.split_discovery.due():
            planned += self.service.split_discovery.discover()
        return planned

    def passing(self, intervals: int, step_ms: int = 500) -> Counter[str]:
        """The file operations of all discoveries while the time passes."""
        self.counts.clear()
        for _ in range(intervals * INTERVAL_MS // step_ms):
            self.now_ms += step_ms
            self.discover()
        return Counter(self.counts)

    def splits(self) -> dict[tuple[str, str], list[str]]:
        """The split ids that each group's member receives, by table and group; they are committed."""
        received: dict[tuple[str, str], list[str]] = {}
        for number, member in enumerate(self.members):
            answer = self.service.request_splits(member, 100, 1)
            ids = received[member.table, member.group] = []
            if isinstance(answer, Assignments):
                ids += [assigned.split.split_id for assigned in answer.splits]
            assert number < 10_000
        return received


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the operations of all storage that is opened from now on."""
    counted: Counter[str] = Counter()
    opened = hudi_table.open_storage
    monkeypatch.setattr(hudi_table, "open_storage", lambda path: CountingStorage(opened(path), counted))
    return counted


@pytest.fixture
def lake(tmp_path: pathlib.Path, counts: Counter[str]) -> Lake:
    return Lake(SimulatedLake.create(tmp_path / "lake", TABLES, COMMITS, OLD_MS), counts)


@pytest.mark.parametrize("groups", [1, 6])
def test_idle_table_is_looked_at_once_per_interval_however_many_groups_follow(lake: Lake, groups: int) -> None:
    lake.join(groups)
    assert lake.passing(intervals=3) == {"info": 3 * 2 * TABLES}, "two file times a look"


def test_groups_that_join_at_any_time_share_the_looks(lake: Lake) -> None:
    lake.join(1)
    lake.now_ms += INTERVAL_MS // 2
    lake.join(3)
    assert lake.passing(intervals=3) == {"info": 3 * 2 * TABLES}


def test_two_names_of_one_table_share_its_looks(lake: Lake) -> None:
    path = lake.lake.paths["t0000"]
    registry = lake.service.tables
    registry.put_source("others", [*registry.source("others"), *_aliases(path)])
    for name in ("t0000", "alias"):
        scope = GroupScope(request=PlanRequest(table=name, query=Incremental()))
        lake.service.join_group("g", "r", GroupSpec(scope=scope, start=StartLatest()), "once")
    lake.discover()
    assert lake.passing(intervals=3) == {"info": 3 * 2}


def _aliases(path: str) -> list[Any]:
    from penstock.enumerator.tables.registry import TableEntry

    return [TableEntry("alias", path, poll_interval_ms=INTERVAL_MS)]


def test_lags_of_idle_tables_need_no_other_file_operations(lake: Lake) -> None:
    lake.join(3)
    monitor = LagMonitor(lake.service.split_discovery)
    monitor.measure()
    lake.passing(intervals=0)
    for _ in range(3):
        lake.now_ms += MEASURE_MS
        monitor.measure()
    assert lake.counts == {"info": 3 * 2 * TABLES}, "the looks that were due"


def test_looks_of_each_group_would_be_detected(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: every group looks for itself."""

    def for_itself(discovery: SplitDiscovery, visit: Any) -> Any:
        path = discovery.path_of(visit.table)
        look = discovery._looks[visit.table] = discovery.look(visit.table)
        return path, discovery.follows.probe(path) if look else None

    monkeypatch.setattr(SplitDiscovery, "_seen", for_itself)
    lake.join(3)
    assert lake.passing(intervals=3) != {"info": 3 * 2 * TABLES}


def new_commit_costs(lake: Lake) -> Counter[str]:
    """The file operations of the discovery of one new commit in one table."""
    lake.lake.tables["t0007"].commit(OLD_MS + 1_000)
    return lake.passing(intervals=1)


@pytest.fixture
def cost_of_one(tmp_path: pathlib.Path, counts: Counter[str]) -> Counter[str]:
    """The cost of a new commit for a single group."""
    alone = Lake(SimulatedLake.create(tmp_path / "alone", TABLES, COMMITS, OLD_MS), counts)
    alone.join(1)
    cost = new_commit_costs(alone)
    assert cost["list"] >= 3 and cost["read"] >= 1
    return Counter(cost)


def test_new_commit_is_planned_once_for_groups_of_equal_scopes(lake: Lake, cost_of_one: Counter[str]) -> None:
    lake.join(6)
    assert new_commit_costs(lake) == cost_of_one
    received = lake.splits()
    of_table = [ids for (table, _), ids in received.items() if table == "t0007"]
    assert len(of_table) == 6 and len(of_table[0]) == 1 and all(ids == of_table[0] for ids in of_table)
    assert not any(ids for (table, _), ids in received.items() if table != "t0007")


def test_other_scopes_have_plans_of_their_own(lake: Lake, cost_of_one: Counter[str]) -> None:
    lake.join(6, lambda number: {"columns": ("id",)} if number % 2 else {})
    cost = new_commit_costs(lake)
    assert cost["list"] > cost_of_one["list"]
    scans = {
        member.group: lake.service.coordinator.plan_store.scan(round_id).columns
        for member in lake.members
        if member.table == "t0007"
        for round_id in lake.service.coordinator.read(
            lambda state, member=member: list(  # type: ignore[misc]
                next(
                    group
                    for key, group in state.groups.items()
                    if (key.table, key.group) == (member.table, member.group)
                ).rounds
            )
        )
    }
    assert scans["g0"] == scans["g2"] == scans["g4"] != scans["g1"] == scans["g3"] == scans["g5"]


def test_plans_of_each_group_would_be_detected(
    lake: Lake, cost_of_one: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: no scope is equal to another one."""
    monkeypatch.setattr(split_discovery, "_scope_of", lambda group: group.key)
    lake.join(6)
    assert new_commit_costs(lake)["list"] > 2 * cost_of_one["list"]


@pytest.mark.golden
@pytest.mark.parametrize("case", ["A_positions_v9_h120", "A_compaction_pending_v6_h0150", "B_v9_inc_cow"])
def test_groups_that_share_plans_receive_what_a_group_alone_receives(golden: Any, case: str) -> None:
    """A real table from its start, commit after commit. Groups that start at other positions share plans later."""
    path = str(golden.table(case))

    def received(groups: int) -> dict[str, list[Split]]:
        service = EnumeratorService({"t": path}, poll_ms=None)
        members: dict[str, Member] = {}
        splits: dict[str, list[Split]] = {}
        for number in range(groups):
            limits = RoundLimits(max_commits=1)
            spec = GroupSpec(
                scope=GroupScope(request=PlanRequest(table="t", query=Incremental())),
                limits=limits,
                start=StartAt(EARLIEST),
            )
            members[f"g{number}"] = service.join_group(f"g{number}", "r", spec, "once").member
            service.split_discovery.discover()
        for sequence in range(1, 100):
            service.split_discovery.discover()
            for group, member in members.items():
                answer = service.request_splits(member, 100, sequence)
                if isinstance(answer, Assignments):
                    splits.setdefault(group, []).extend(assigned.split for assigned in answer.splits)
                    done = tuple(SplitProgress(ref=one.ref, ordinal=0, finished=True) for one in answer.splits)
                    service.commit_splits(member, done)
        return splits

    alone, together = received(1), received(3)
    assert len(alone["g0"]) > 1
    assert together == dict.fromkeys(("g0", "g1", "g2"), alone["g0"])
