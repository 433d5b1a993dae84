"""Fault 19: a listing temporarily lacks files that completed instants name, on copies of real tables.

A file that exists under its name is read although no listing has it. A file that does not exist is checked again for a
bounded time of the injected clock before it counts as damage. No row is lost meanwhile, even with `onCorrupt=skip`. A
listing of the timeline that lacks consumed instants is repeated before they count as gone.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.enumerator.continuous.advance import advance, check_progress, start_progress
from penstock.enumerator.continuous.types import Following, Progress
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.streams.plan_cache import MISSING_MS
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import CorruptFile, DataInvalidated, StorageError
from penstock.proto.model.groups import Assignments, GroupScope, GroupSpec, Member, StartAt
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import NO_LIMITS, Incremental, PlanRequest
from penstock.proto.model.streams import StartAfter, StreamScope
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.filesystem import ArrowStorage, FileInfo
from tests.scripted_timeline import ScriptedTimeline

BOTH = pytest.mark.parametrize("case", ["A_merge_event_long_v9_h120", "A_merge_event_long_v6_h0150"])
HALF_A_MINUTE_MS = 32_000


def newest_log(table: pathlib.Path) -> pathlib.Path:
    """The log file of the newest instant."""
    logs = [path for path in table.rglob(".*.log.*") if ".hoodie" not in path.parts and path.suffix != ".crc"]
    return max(logs, key=lambda path: (path.stat().st_mtime_ns, path.name))


def following_advance(table: HudiTable, progress: Progress) -> object:
    """The next round after the progress."""
    request = PlanRequest(table="t", query=Incremental())
    return advance(table, "t", Following(request=request, progress=progress, limits=NO_LIMITS))


def rows(table: pathlib.Path, **options: Any) -> list[str]:
    """The rows, sorted."""
    table_rows: pa.Table = penstock.read(table, **options).read_all()
    return sorted(map(repr, table_rows.to_pylist()))


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Removes a name from every listing."""
    real = ArrowStorage.list_dir

    def give(name: str) -> None:
        def list_dir(storage: ArrowStorage, path: str) -> list[FileInfo]:
            return [info for info in real(storage, path) if info.name != name]

        monkeypatch.setattr(ArrowStorage, "list_dir", list_dir)
        monkeypatch.setattr(ArrowStorage, "local_folder", lambda storage, path: None)  # every listing is by list_dir

    return give


@BOTH
@pytest.mark.parametrize(
    "options",
    [{}, {"query": "incremental", "after": "earliest"}, {"query": "cdc", "after": "earliest"}, {"onCorrupt": "skip"}],
    ids=lambda options: "-".join(options.values()) or "snapshot",
)
def test_fault_19_unlisted_file_is_read_by_its_name(
    golden: Any, tmp_path: pathlib.Path, case: str, options: dict[str, str], hide: Callable[[str], None]
) -> None:
    table = golden.copy(case, tmp_path)
    expected = rows(table, metadata="off", **options)
    hide(newest_log(table).name)
    assert rows(table, metadata="off", **options) == expected


@BOTH
def test_fault_19_missing_file_is_corrupt(golden: Any, tmp_path: pathlib.Path, case: str) -> None:
    """Negative control: a file that does not exist under its name is not skipped."""
    table = golden.copy(case, tmp_path)
    newest_log(table).unlink()
    with pytest.raises(CorruptFile, match="is missing"):
        rows(table)


STALE_TIMELINES = pytest.mark.parametrize("case", ["B_v9_inc_cow", "B_v6_inc_cow"])


@pytest.fixture
def stale(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, frozenset[str]], None]:
    """The next listings of the timeline are older: they lack the files of these instants."""
    real = ArrowStorage.list_dir

    def give(count: int, instants: frozenset[str]) -> None:
        left = [count]

        def list_dir(storage: ArrowStorage, path: str) -> list[FileInfo]:
            listing = real(storage, path)
            older = [info for info in listing if not info.name.startswith(tuple(instants))]
            if older == listing or not left[0]:
                return listing
            left[0] -= 1
            return older

        monkeypatch.setattr(ArrowStorage, "list_dir", list_dir)
        monkeypatch.setattr(ArrowStorage, "local_folder", lambda storage, path: None)  # every listing is by list_dir

    return give


@STALE_TIMELINES
@pytest.mark.parametrize("check", [following_advance, check_progress], ids=["round", "progress"])
def test_fault_19_listing_from_before_the_position_is_listed_again(
    golden: Any, tmp_path: pathlib.Path, stale: Any, case: str, check: Callable[[HudiTable, Progress], object]
) -> None:
    """Once is no proof that consumed instants are gone. Negative control: two listings in a row are."""
    script = ScriptedTimeline(golden.copy(case, tmp_path), tmp_path / "aside")
    table = script.open()
    progress = start_progress(table, None)
    expected = check(table, progress)
    for pinned in (table, table.pinned()):
        stale(1, frozenset(script.data[-2:]))
        assert check(pinned.refreshed(), progress) == expected
    stale(2, frozenset(script.data[-2:]))
    with pytest.raises(DataInvalidated, match="neither active nor archived"):
        check(table, progress)


class Clock:
    """A clock that advances only by assignment."""

    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


class FollowedGroup:
    """A group of a service without threads; the test runs discovery."""

    def __init__(self, table: pathlib.Path) -> None:
        self.clock, self.sequence = Clock(), 0
        settings = CoordinatorSettings(lease_ms=3_600_000)
        self.service = EnumeratorService(
            {"t": str(table)},
            reads=OpenTables(wall_ms=self.clock),
            clock_ms=self.clock,
            coordinator=Coordinator(clock_ms=self.clock, settings=settings),
            poll_ms=None,
        )
        scope = GroupScope(request=PlanRequest(table="t", query=Incremental()))
        self.member: Member = self.service.join_group(
            "g", "r", GroupSpec(scope=scope, start=StartAt(EARLIEST)), "one"
        ).member

    def discover_for(self, spent_ms: int) -> None:
        """Runs discovery every half second."""
        for _ in range(spent_ms // 500):
            self.service.split_discovery.discover()
            self.clock.now_ms += 500

    def splits(self) -> set[str]:
        self.sequence += 1
        answer = self.service.request_splits(self.member, 1_000, self.sequence)
        return {assigned.split.split_id for assigned in answer.splits} if isinstance(answer, Assignments) else set()


@BOTH
def test_fault_19_group_waits_for_an_unlisted_file_and_continues(
    golden: Any, tmp_path: pathlib.Path, case: str
) -> None:
    table = golden.copy(case, tmp_path)
    whole = FollowedGroup(table)
    whole.discover_for(500)
    log = newest_log(table)
    log.rename(tmp_path / "hidden")
    followed = FollowedGroup(table)
    followed.discover_for(20_000)
    described = followed.service.describe_group("t", "g")
    assert (described.summary.state, described.error_code) == ("running", "CORRUPT_FILE")
    assert log.name in described.error and not followed.splits()
    (tmp_path / "hidden").rename(log)
    followed.discover_for(20_000)
    assert not followed.service.describe_group("t", "g").error
    assert followed.splits() == whole.splits() != set()


@BOTH
def test_fault_19_file_missing_for_good_stops_the_group(golden: Any, tmp_path: pathlib.Path, case: str) -> None:
    table = golden.copy(case, tmp_path)
    log = newest_log(table)
    log.unlink()
    followed = FollowedGroup(table)
    followed.discover_for(HALF_A_MINUTE_MS)
    described = followed.service.describe_group("t", "g")
    assert (described.summary.state, described.error_code) == ("stopped", "CORRUPT_FILE")
    assert log.name in described.error


@BOTH
def test_fault_19_stream_retries_until_the_file_is_listed_or_damaged(
    golden: Any, tmp_path: pathlib.Path, case: str
) -> None:
    table = golden.copy(case, tmp_path)
    clock = Clock()
    reads = OpenTables(wall_ms=clock, clock_ms=clock)
    scope = StreamScope(request=PlanRequest(table="t", query=Incremental()))
    point = reads.start_stream(str(table), "t", scope, StartAfter(EARLIEST))
    log = newest_log(table)
    log.rename(tmp_path / "hidden")
    with pytest.raises(StorageError, match="it is waited for, as a listing may be stale"):
        reads.next_batch(str(table), "t", scope, point)
    clock.now_ms += MISSING_MS - 1
    with pytest.raises(StorageError):
        reads.next_batch(str(table), "t", scope, point)
    clock.now_ms += 1
    with pytest.raises(CorruptFile, match="is missing"):
        reads.next_batch(str(table), "t", scope, point)
    (tmp_path / "hidden").rename(log)
    assert reads.next_batch(str(table), "t", scope, point).point != point
