"""Discovery on real tables: its reads, the errors for missing or damaged files, archived timelines."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

import pytest

from penstock.enumerator.planning.discovery import _instants_of_rows as instants_of_rows
from penstock.enumerator.planning.discovery import discover, read_timeline
from penstock.enumerator.planning.plan import describe, newest, plan_request
from penstock.enumerator.planning.selection import Selection
from penstock.proto.errors import (
    CorruptFile,
    PositionExpired,
    SchemaMismatch,
    StorageError,
    TableError,
)
from penstock.proto.model.changes import ChangeFormat, ChangesOf
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, Query, ReadOptimized, Snapshot, SnapshotAsOf
from penstock.proto.model.splits import AllRows, Plan, RowsOf
from penstock.table.config.properties import load_properties
from penstock.table.files.slices import Everything
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.storage.filesystem import open_storage


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...


def at(order_key: str) -> Position:
    return Position(InstantTime(order_key))


def plan(path: pathlib.Path, query: Query) -> Plan:
    return plan_request(open_table(str(path)), "t", PlanRequest(table="t", query=query))


def ends(path: pathlib.Path) -> list[str]:
    """Order keys of all completed writes, in order."""
    line = open_table(str(path)).timeline()
    return sorted(line.order_key(i) for i in line.completed_writes)


class Watched:
    """A storage that records listings and reads."""

    def __init__(self, path: pathlib.Path) -> None:
        self.inner = open_storage(str(path))
        self.listed: list[str] = []
        self.read: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def list_dir(self, path: str) -> Any:
        self.listed.append(path)
        return self.inner.list_dir(path)

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        self.read.append(path)
        return self.inner.read_bytes(path, limit_bytes)


class TestReads:
    CASE = "B_v9_inc_cow"

    def watched(self, golden: Golden) -> tuple[HudiTable, Watched]:
        storage = Watched(golden.table(self.CASE))
        return HudiTable(storage, load_properties(storage.inner)), storage

    def test_range_lists_only_the_partitions_it_wrote_to(self, golden: Golden) -> None:
        table, storage = self.watched(golden)
        facts = read_timeline(table)
        everything = plan_request(table, "t", PlanRequest(table="t", query=Snapshot()))
        partitions = {s.partition for s in everything.splits}
        narrow = next(
            (before, after)
            for before, after in zip(ends(golden.table(self.CASE)), ends(golden.table(self.CASE))[1:], strict=False)
            if len(self.written(facts.commits.values(), table, after)) == 1
        )
        storage.listed.clear()
        result = plan_request(table, "t", PlanRequest(table="t", query=Incremental(at(narrow[0]), at(narrow[1]))))
        listed = {path for path in storage.listed if not path.startswith(".hoodie")}
        assert listed == {s.partition for s in result.splits} and len(listed) == 1 < len(partitions)

    @staticmethod
    def written(commits: Iterable[Any], table: HudiTable, order_key: str) -> set[str]:
        line = table.timeline()
        return {
            stat.partition
            for commit in commits
            if not commit.is_service and not commit.replaced
            for i in line.completed_writes
            if i.requested_time == commit.requested_time and line.order_key(i) == order_key
            for stat in commit.stats
        }

    def test_empty_range_lists_no_partition(self, golden: Golden) -> None:
        table, storage = self.watched(golden)
        last = ends(golden.table(self.CASE))[-1]
        assert plan_request(table, "t", PlanRequest(table="t", query=Incremental(at(last), at(last)))).splits == ()
        assert all(path.startswith(".hoodie") for path in storage.listed)

    def test_commit_metadata_is_read_once(self, golden: Golden) -> None:
        table, storage = self.watched(golden)
        for _ in range(3):
            plan_request(table, "t", PlanRequest(table="t", query=Snapshot()))
        completed = [path for path in storage.read if path.endswith(("commit", "replacecommit"))]
        assert completed and len(completed) == len(set(completed))


def data_file(folder: pathlib.Path, *, log: bool, oldest: bool = False) -> pathlib.Path:
    """The newest (or oldest) base or log file of a table, by the instant in its name."""
    result = [p for p in folder.rglob("*") if p.is_file() and ".hoodie" not in p.parts and p.name[0] != "_"]
    kind = [p for p in result if (".log." in p.name) == log and (log or p.suffix == ".parquet")]
    kind = [p for p in kind if not p.name.endswith((".crc", ".cdc"))]
    return sorted(kind, key=lambda p: p.name.rpartition("_")[2] if not log else p.name.partition("_")[2])[
        0 if oldest else -1
    ]


class TestMissingFiles:
    @pytest.mark.parametrize("case", ["A_merge_event_long_v9_h120", "A_merge_event_long_v6_h0150"])
    @pytest.mark.parametrize("log", [False, True])
    def test_file_that_a_commit_names_is_missing(
        self, golden: Golden, tmp_path: pathlib.Path, case: str, log: bool
    ) -> None:
        folder = golden.copy(case, tmp_path)
        removed = data_file(folder, log=log)
        removed.unlink()
        for query in (Snapshot(), Incremental()):
            with pytest.raises(CorruptFile, match=removed.name.replace(".", r"\.")) as caught:
                plan(folder, query)
            assert "missing" in str(caught.value) and "instant 2026" in str(caught.value)

    def test_range_of_later_instants_needs_the_older_base_too(self, golden: Golden, tmp_path: pathlib.Path) -> None:
        """The range's own metadata does not name the base file on version 9; without it late rows would be returned."""
        folder = golden.copy("A_merge_event_long_v9_h120", tmp_path)
        keys = ends(folder)
        data_file(folder, log=False, oldest=True).unlink()
        with pytest.raises(CorruptFile, match="missing"):
            plan(folder, Incremental(at(keys[0]), at(keys[-1])))

    def test_read_optimized_does_not_need_logs(self, golden: Golden, tmp_path: pathlib.Path) -> None:
        folder = golden.copy("A_merge_event_long_v9_h120", tmp_path)
        data_file(folder, log=True).unlink()
        assert plan(folder, ReadOptimized()).splits

    @pytest.mark.parametrize("case", ["B_v9_timeline_mor", "B_v6_timeline_mor"])
    def test_range_whose_files_were_cleaned_names_file_and_clean(self, golden: Golden, case: str) -> None:
        table = open_table(str(golden.table(case)))
        facts = read_timeline(table)
        line = facts.timeline
        (clean, *_) = line.completed_cleans
        removed = {name for part in table.clean(clean).partitions for name in part.file_names}
        wrote = [
            line.order_key(i)
            for i in line.completed_writes
            if facts.is_data(i) and any(s.file_name in removed for s in facts.commits[i.requested_time].stats)
        ]
        keys = ends(golden.table(case))
        failures = 0
        for key in wrote:
            before = keys[keys.index(key) - 1] if keys.index(key) else "0"
            try:
                plan(golden.table(case), Incremental(at(before), at(key)))
            except PositionExpired as error:
                failures += 1
                assert any(name in str(error) for name in removed) and clean.requested_time in str(error)
        assert failures
        assert plan(golden.table(case), Snapshot()).splits

    def test_planning_is_retried_once_for_a_file_that_disappears(
        self, golden: Golden, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = open_table(str(golden.table("B_v9_inc_cow")))
        real, calls = HudiTable.list_files, []

        def once(self: HudiTable, *folders: Any, **asked: bool) -> Any:
            calls.append(folders)
            if len(calls) == 1:
                raise StorageError("a timeline file is gone")
            return real(self, *folders, **asked)

        monkeypatch.setattr(HudiTable, "list_files", once)
        assert plan_request(table, "t", PlanRequest(table="t", query=Snapshot())).splits
        calls.clear()
        monkeypatch.setattr(HudiTable, "list_files", lambda *_, **__: once_and_for_all())
        with pytest.raises(StorageError):
            plan_request(table, "t", PlanRequest(table="t", query=Snapshot()))


def once_and_for_all() -> None:
    raise StorageError("storage is down")


class TestDamage:
    def test_truncated_commit_file_is_an_error_with_its_name(self, golden: Golden, tmp_path: pathlib.Path) -> None:
        folder = golden.copy("A_merge_event_long_v9_h120", tmp_path)
        commit = sorted((folder / ".hoodie" / "timeline").glob("*_*.deltacommit"))[1]
        commit.write_bytes(commit.read_bytes()[:100])
        for query in (Snapshot(), Incremental(), ReadOptimized()):
            with pytest.raises(CorruptFile, match=commit.name):
                plan(folder, query)

    def test_pending_compaction_without_its_plan_is_an_error(self, golden: Golden, tmp_path: pathlib.Path) -> None:
        folder = golden.copy("A_compaction_pending_v9_h120", tmp_path)
        requested = folder / ".hoodie" / "timeline" / "20261120213539386.compaction.requested"
        requested.write_bytes(b"")
        with pytest.raises(CorruptFile, match=requested.name):
            plan(folder, Snapshot())

    def test_base_file_of_another_format_is_refused_by_name(self, golden: Golden, tmp_path: pathlib.Path) -> None:
        """Its name is that of the newest committed slice of a group, by a committed instant."""
        folder = golden.copy("A_merge_event_long_v9_h120", tmp_path)
        base = data_file(folder, log=False)
        last = open_table(str(folder)).timeline().completed_writes[-1].requested_time
        file_id, token, _ = base.name.split("_")
        base.with_name(f"{file_id}_{token}_{last}.hfile").write_bytes(b"")
        with pytest.raises(TableError, match=r"is an HFile, a format for metadata tables"):
            plan(folder, Snapshot())


class TestEmptyTable:
    SCHEMA = '{"type":"record","name":"r","fields":[{"name":"id","type":"string"}]}'

    def create(self, folder: pathlib.Path, *, schema: str = SCHEMA) -> pathlib.Path:
        (folder / ".hoodie" / "timeline").mkdir(parents=True)
        text = "hoodie.table.name=empty\nhoodie.table.version=9\nhoodie.table.type=MERGE_ON_READ\n"
        text += "hoodie.record.merge.mode=COMMIT_TIME_ORDERING\n" + (
            f"hoodie.table.create.schema={schema}\n" if schema else ""
        )
        (folder / ".hoodie" / "hoodie.properties").write_text(text)
        return folder

    def test_empty_table_has_a_schema_a_position_and_no_splits(self, tmp_path: pathlib.Path) -> None:
        folder = self.create(tmp_path)
        for query in (Snapshot(), ReadOptimized(), Incremental(), SnapshotAsOf(InstantTime("20260101000000000"))):
            result = plan(folder, query)
            assert result.splits == () and result.commit_range.upto == EARLIEST
            assert result.scan.columns[-1] == "id"
        description = describe(open_table(str(folder)), "t")
        assert description.newest == EARLIEST and '"id"' in description.schema_json
        assert newest(open_table(str(folder)), at("20260101000000000"), 0) == at("20260101000000000")

    def test_table_without_schema_can_be_described_but_not_read(self, tmp_path: pathlib.Path) -> None:
        folder = self.create(tmp_path, schema="")
        assert describe(open_table(str(folder)), "t").schema_json == ""
        with pytest.raises(SchemaMismatch, match="no schema: table"):
            plan(folder, Snapshot())


class TestArchivedTimeline:
    CASES = ("B_v6_arch_mor", "B_v8_arch_mor", "B_v9_arch_mor", "B_v9_arch_cow")

    @pytest.mark.parametrize("case", CASES)
    def test_snapshot_needs_no_archived_instants(self, golden: Golden, case: str) -> None:
        assert plan(golden.table(case), Snapshot()).splits
        whole = plan(golden.table(case), Incremental())
        assert [s.file_group for s in whole.splits]

    @pytest.mark.parametrize("case", CASES)
    def test_range_from_before_all_instants_holds_all(self, golden: Golden, case: str) -> None:
        table = open_table(str(golden.table(case)))
        state = discover(table, "t", PlanRequest(table="t", query=Incremental(at("20200101000000000"))))
        known = {item.requested_time for item in (*table.timeline().completed_writes, *table.archive().instants)}
        assert state.selections[0].instants < known and len(state.selections[0].instants) >= 9
        assert plan(golden.table(case), Incremental(at("20200101000000000"))).splits

    @pytest.mark.parametrize("case", CASES)
    def test_cleaned_state_is_an_error_that_names_clean_and_file(self, golden: Golden, case: str) -> None:
        table = open_table(str(golden.table(case)))
        archive = table.archive()
        with pytest.raises(PositionExpired, match=r"file p=[ab]/.*clean (\d+) removed it") as caught:
            plan(golden.table(case), SnapshotAsOf(archive.instants[2].requested_time))
        cleans = {requested for requested, _ in archive.cleans}
        assert any(f"clean {requested} removed it" in str(caught.value) for requested in cleans), "an archived clean"

    @pytest.mark.parametrize("case", CASES)
    def test_archive_is_read_once_and_only_if_needed(self, golden: Golden, case: str) -> None:
        storage = Watched(golden.table(case))
        opened: list[str] = []
        storage.open_input = lambda path: opened.append(path) or storage.inner.open_input(path)  # type: ignore[attr-defined]
        table = HudiTable(storage, load_properties(storage))  # type: ignore[arg-type]

        def read_of_archive(query: Query) -> int:
            storage.read.clear()
            opened.clear()
            plan_request(table, "t", PlanRequest(table="t", query=query))
            own = [path for path in (*storage.read, *opened) if not path.startswith(".hoodie/metadata/")]
            return sum("/archived/" in path or "/history/" in path for path in own) - manifests(own)

        def manifests(paths: list[str]) -> int:
            return sum("/manifest_" in path or path.endswith("/_version_") for path in paths)

        keys = ends(golden.table(case))
        read_of_archive(Snapshot())
        assert read_of_archive(Incremental(at(keys[-2]), at(keys[-1]))) == read_of_archive(Snapshot()) == 0
        assert read_of_archive(Incremental(at("20200101000000000"))) > 0
        assert read_of_archive(Incremental(at("20200101000000000"))) == 0, "held by file name and size"

    @pytest.mark.parametrize("case", CASES)
    def test_archived_commits_are_counted_in_order(self, golden: Golden, case: str) -> None:
        """A stream that resumes from an old position reads one data commit after another, up to the newest."""
        table = open_table(str(golden.table(case)))
        archive = table.archive()
        key = {item.requested_time: item.completion_time or item.requested_time for item in archive.instants}
        data = sorted(key[time] for time, commit in archive.commits.items() if not commit.is_service)
        place, order_keys = at(data[0]), []
        while (following := newest(table, place, 1)) != place:
            order_keys.append(following.order_key)
            place = following
        assert order_keys[: len(data) - 1] == data[1:] and order_keys == sorted(set(order_keys))
        assert place == newest(table, None, 0) == newest(table, at(data[0]), 0)
        assert newest(table, at(data[0]), 2) == at(data[2])

    def test_cut_archive_is_detected(self, golden: Golden, tmp_path: pathlib.Path) -> None:
        """Old archive files were deleted by hand: later instants were built on unknown ones."""
        folder = golden.copy("B_v6_arch_mor", tmp_path)
        whole = plan(folder, Incremental(at("20200101000000000")))
        assert whole.splits
        for number in (1, 2):
            (folder / f".hoodie/archived/.commits_.archive.{number}_1-0-1").unlink()
        with pytest.raises(PositionExpired, match=r"archived instants that are gone.*complete from 20261120215037788"):
            plan(folder, Incremental(at("20200101000000000")))
        with pytest.raises(PositionExpired, match="archived instants that are gone"):
            newest(open_table(str(folder)), at("20200101000000000"), 1)
        assert plan(folder, Incremental(at("20261120215037788"))).splits

    @pytest.mark.parametrize("case", CASES)
    def test_range_of_active_instants_is_planned(self, golden: Golden, case: str) -> None:
        table = open_table(str(golden.table(case)))
        facts = read_timeline(table)
        assert facts.complete_from
        keys = ends(golden.table(case))
        after = next(key for key in keys if key >= facts.complete_from)
        assert plan(golden.table(case), Incremental(at(after))).commit_range.after == at(after)

    @pytest.mark.parametrize("case", ["A_archive_v6_h0150", "A_savepoint_kept_v9_h120"])
    def test_files_of_archived_instants_are_committed(self, golden: Golden, case: str) -> None:
        table = open_table(str(golden.table(case)))
        state = discover(table, "t", PlanRequest(table="t", query=Snapshot()))
        first = state.facts.timeline.first_active
        old = [f for f in state.files if f.name.instant < first]
        assert old and all(state.committed.holds(f.name.instant) for f in old)

    def test_archived_logs_are_sliced_by_the_completion_time_in_the_history(self, golden: Golden) -> None:
        table = open_table(str(golden.table("A_savepoint_kept_v9_h120")))
        state = discover(table, "t", PlanRequest(table="t", query=Snapshot()))
        history = table.archived_completions()
        logs = {f.name.instant for f in state.files if ".log." in f.ref.path} & set(history)
        assert logs and all(state.committed.order_key(log) == history[log] > log for log in logs)


def test_rows_of_a_range_may_carry_the_instants_of_its_services() -> None:
    """The completion times of a scan include those: a log compaction or a rescale stamps the rows that it moves."""
    first, second, service = (InstantTime(f"2026010100000000{number}") for number in range(3))
    whole = Selection(
        view=Everything(), commit_range=CommitRange(EARLIEST, Position(second)), instants=frozenset({first})
    )
    rows = replace(whole, rows=RowsOf(frozenset({first}), frozenset({service})))
    changes = replace(whole, rows=ChangesOf(ChangeFormat.ROWS, (first, second)))
    assert whole.rows == AllRows()
    assert instants_of_rows([whole, rows]) is None
    assert instants_of_rows([rows]) == {first, service}
    assert instants_of_rows([changes]) == {first}
    assert instants_of_rows([rows, replace(rows, rows=RowsOf(frozenset({second})))]) == {first, second, service}
