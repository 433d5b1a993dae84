"""Plans of tables without meta columns, and of those whose files leave the partition columns out."""

from __future__ import annotations

import pathlib
from typing import Protocol

import pytest

from penstock.enumerator.planning import plan_request
from penstock.proto.errors import UnsupportedFeature
from penstock.proto.queries import Incremental, PlanRequest, Query, ReadOptimized, Snapshot
from penstock.proto.splits import Plan
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
    def test_the_scan_names_the_key_columns_where_logs_are(self, golden: Golden, case: str) -> None:
        assert plan(golden.table(case), Snapshot()).scan.key_fields == ("id", "k2")
        assert plan(golden.table(case), ReadOptimized()).scan.key_fields == ()

    def test_no_meta_columns_come_out(self, golden: Golden, case: str) -> None:
        assert plan(golden.table(case), Snapshot()).scan.columns == ("id", "k2", "ts", "v")

    def test_a_range_is_refused_as_hudi_does(self, golden: Golden, case: str) -> None:
        with pytest.raises(UnsupportedFeature, match="range of a table without meta fields"):
            plan(golden.table(case), Incremental())


@pytest.mark.parametrize("case", ["A_drop_part_cols_v6_h0150", "A_drop_part_cols_v9_h120"])
class TestDroppedPartitionColumns:
    def test_they_come_last_and_from_the_path(self, golden: Golden, case: str) -> None:
        found = plan(golden.table(case), Snapshot())
        assert found.scan.columns[-5:] == ("id", "ts", "v", "p", "d")
        assert found.scan.partition_fields == ("p", "d")
        assert {split.partition_values[1] for split in found.splits} == {"2024-01-01", "2024-01-02"}

    def test_paths_that_do_not_tell_them_are_refused(self, golden: Golden, tmp_path: pathlib.Path, case: str) -> None:
        path = altered(
            golden, tmp_path, case, "hoodie.table.partition.fields=p,d", "hoodie.table.partition.fields=p,d,e"
        )
        with pytest.raises(UnsupportedFeature, match="do not tell their values"):
            plan(path, Snapshot())

    def test_merging_by_one_is_refused(self, golden: Golden, tmp_path: pathlib.Path, case: str) -> None:
        key = "ordering.fields" if "v9" in case else "precombine.field"
        path = altered(golden, tmp_path, case, f"hoodie.table.{key}=ts", f"hoodie.table.{key}=d")
        with pytest.raises(UnsupportedFeature, match="merges by d"):
            plan(path, Snapshot())
