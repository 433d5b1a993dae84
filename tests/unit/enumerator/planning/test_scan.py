"""Plans of tables without meta columns, with dropped partition columns, and with altered schemas."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Protocol

import pytest

from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import ConfigurationError, CorruptFile, TableError
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.queries import Incremental, PlanRequest, Query, ReadOptimized, Snapshot, SnapshotAsOf
from penstock.proto.model.splits import DeleteMarker, Plan, UnknownBounds
from penstock.table.hudi_table import open_table

pytestmark = pytest.mark.golden


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...


def plan(path: pathlib.Path, query: Query) -> Plan:
    return plan_request(open_table(str(path)), "t", PlanRequest(table="t", query=query))


def altered(golden: Golden, tmp_path: pathlib.Path, case: str, old: str, new: str) -> pathlib.Path:
    path = golden.copy(case, tmp_path)
    file = path / ".hoodie" / "hoodie.properties"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize("case", ["A_nonpart_nometa_v6_h0150", "A_nonpart_nometa_v9_h120"])
class TestVirtualKeys:
    def test_scan_names_the_key_columns_if_there_are_logs(self, golden: Golden, case: str) -> None:
        assert plan(golden.table(case), Snapshot()).scan.key_fields == ("id", "k2")
        assert plan(golden.table(case), ReadOptimized()).scan.key_fields == ()

    def test_meta_columns_are_not_returned(self, golden: Golden, case: str) -> None:
        assert plan(golden.table(case), Snapshot()).scan.columns == ("id", "k2", "ts", "v")

    def test_range_is_refused_as_hudi_does(self, golden: Golden, case: str) -> None:
        with pytest.raises(ConfigurationError, match="range of a table without meta columns"):
            plan(golden.table(case), Incremental())


@pytest.mark.parametrize("case", ["A_drop_part_cols_v6_h0150", "A_drop_part_cols_v9_h120"])
class TestDroppedPartitionColumns:
    def test_dropped_columns_come_from_the_path_as_in_hudi(self, golden: Golden, case: str) -> None:
        result = plan(golden.table(case), Snapshot())
        names = ("id", "ts", "v", "p", "d") if "v9" in case else ("id", "p", "d", "ts", "v")
        assert result.scan.columns[5:] == names
        assert result.scan.partition_fields == ("p", "d")
        assert {split.partition_values[1] for split in result.splits} == {"2024-01-01", "2024-01-02"}

    def test_paths_without_the_dropped_values_are_refused(
        self, golden: Golden, tmp_path: pathlib.Path, case: str
    ) -> None:
        path = altered(
            golden, tmp_path, case, "hoodie.table.partition.fields=p,d", "hoodie.table.partition.fields=p,d,e"
        )
        with pytest.raises(TableError, match="so their values are unknown"):
            plan(path, Snapshot())

    def test_merging_by_a_dropped_column_is_refused(self, golden: Golden, tmp_path: pathlib.Path, case: str) -> None:
        key = "ordering.fields" if "v9" in case else "precombine.field"
        path = altered(golden, tmp_path, case, f"hoodie.table.{key}=ts", f"hoodie.table.{key}=d")
        with pytest.raises(TableError, match="merges by d"):
            plan(path, Snapshot())

    def test_without_logs_nothing_is_merged(self, golden: Golden, tmp_path: pathlib.Path, case: str) -> None:
        key = "ordering.fields" if "v9" in case else "precombine.field"
        path = altered(golden, tmp_path, case, f"hoodie.table.{key}=ts", f"hoodie.table.{key}=d")
        assert plan(path, ReadOptimized()).scan.partition_fields == ("p", "d")

    def test_deletes_marked_by_a_dropped_column_are_refused(self, golden: Golden, case: str) -> None:
        request = PlanRequest(table="t", query=Snapshot(), delete_marker=DeleteMarker("d", "2024-01-01"))
        with pytest.raises(TableError, match="merges by d"):
            plan_request(open_table(str(golden.table(case))), "t", request)


HISTORIES = ["A_evo_on_read_v6_h0150", "A_evo_on_read_v8_h102", "A_evo_on_read_v9_h120"]


def versions(plan: Plan) -> list[int]:
    return [result["version_id"] for result in json.loads(plan.scan.schema_history)["schemas"]]


@pytest.mark.parametrize("case", HISTORIES)
class TestSchemaHistories:
    def altered_at(self, golden: Golden, case: str) -> list[str]:
        timeline = open_table(str(golden.table(case))).timeline()
        return [item.requested_time for item in timeline.completed_writes]

    def test_scan_holds_all_versions_newest_first(self, golden: Golden, case: str) -> None:
        result = versions(plan(golden.table(case), Snapshot()))
        assert result == sorted(result, reverse=True)
        assert result[-1] == 0
        assert len(result) >= 7

    def test_time_travel_has_the_versions_of_its_time(self, golden: Golden, case: str) -> None:
        instants = self.altered_at(golden, case)
        as_of = versions(plan(golden.table(case), SnapshotAsOf(InstantTime(instants[3]))))
        assert as_of == [int(instants[2]), 0]

    def test_schema_change_applies_from_its_own_instant(self, golden: Golden, case: str) -> None:
        """Also without a later write: the ALTER TABLE is then the newest instant."""
        table = open_table(str(golden.table(case)))
        altered = [
            item.requested_time
            for item in table.timeline().completed_writes
            if table.commit(item).operation == "ALTER_SCHEMA"
        ]
        assert len(altered) == 6
        for instant in altered:
            assert versions(plan(golden.table(case), SnapshotAsOf(instant)))[0] == int(instant)

    def test_there_is_no_history_before_the_first_change(self, golden: Golden, case: str) -> None:
        instants = self.altered_at(golden, case)
        assert plan(golden.table(case), SnapshotAsOf(InstantTime(instants[1]))).scan.schema_history == ""

    def test_columns_by_name_use_no_history(self, golden: Golden, case: str) -> None:
        request = PlanRequest(table="t", query=Snapshot(), columns_by_name=True)
        assert plan_request(open_table(str(golden.table(case))), "t", request).scan.schema_history == ""

    def test_range_resolves_columns_by_id_too(self, golden: Golden, case: str) -> None:
        assert versions(plan(golden.table(case), Incremental()))[-1] == 0

    def test_bounds_are_unknown_since_footers_have_other_names(self, golden: Golden, case: str) -> None:
        request = PlanRequest(table="t", query=ReadOptimized(), event_time="ts")
        result = plan_request(open_table(str(golden.table(case))), "t", request)
        assert [split.event_time for split in result.splits] == [UnknownBounds()] * len(result.splits)


def test_columns_resolve_by_name_after_a_commit_without_a_version_as_in_hudi(
    golden: Golden, tmp_path: pathlib.Path
) -> None:
    path = golden.copy("A_evo_on_read_v6_h0150", tmp_path)
    newest = max((path / ".hoodie").glob("*.deltacommit"))
    commit = json.loads(newest.read_text())
    del commit["extraMetadata"]["latest_schema"]
    newest.write_text(json.dumps(commit))
    assert plan(path, Snapshot()).scan.schema_history == ""


def test_service_does_not_restore_an_older_schema(golden: Golden, tmp_path: pathlib.Path) -> None:
    """A service may begin before a column is added and end after it: its recorded schema is the old one."""
    path = golden.copy("A_log_compaction_v6_h0150", tmp_path)
    before = plan(path, Snapshot()).scan.schema_json
    service = max((path / ".hoodie").glob("*.deltacommit"))
    commit = json.loads(service.read_text())
    assert commit["operationType"] == "LOG_COMPACT"
    older = json.loads(commit["extraMetadata"]["schema"])
    assert older["fields"].pop()["name"] in before
    commit["extraMetadata"]["schema"] = json.dumps(older)
    service.write_text(json.dumps(commit))
    assert plan(path, Snapshot()).scan.schema_json == before


def test_missing_stored_history_is_corruption(golden: Golden, tmp_path: pathlib.Path) -> None:
    path = golden.copy("A_evo_on_read_v6_h0150", tmp_path)
    shutil.rmtree(path / ".hoodie" / ".schema")
    with pytest.raises(CorruptFile, match=r"\.hoodie/\.schema holds none"):
        plan(path, Snapshot())
