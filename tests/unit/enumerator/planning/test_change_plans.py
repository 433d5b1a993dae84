"""Kinds of stored changes by the commit, and plans of changes: bounds, filters and refusals."""

from __future__ import annotations

import pathlib
from dataclasses import replace

import pytest

from penstock.proto.errors import ConfigurationError, PositionExpired
from penstock.proto.model.changes import (
    ChangeFormat,
)
from tests.unit.enumerator.planning.test_change_planner import Orders, layouts, summary_of, written_twice, wrote


class TestStoredKinds:
    """Tables whose writer stored a changelog."""

    def orders(self, folder: pathlib.Path, layout: int) -> Orders:
        return Orders(folder, layout, more_fields={"_hoodie_operation": "string"})

    @layouts
    def test_changes_as_rows_read_the_files_of_the_commit(self, tmp_path: pathlib.Path, layout: int) -> None:
        orders = self.orders(tmp_path, layout)
        one = orders.base(1)
        logs = [orders.log(2 if layout == 2 else 1, version) for version in (10, 9)]
        orders.commit(1, wrote(one))
        orders.commit(2, *(wrote(log, prev=1) for log in logs))
        assert [summary_of(step) for step in orders.steps()] == [("stored", [one]), ("stored", [logs[1], logs[0]])]
        assert [summary_of(step)[0] for step in orders.steps(ChangeFormat.HUDI)] == ["compared", "compared"]

    @layouts
    def test_rewritten_base_file_is_compared(self, tmp_path: pathlib.Path, layout: int) -> None:
        """Its rows have no kinds, and deleted rows are missing."""
        orders = self.orders(tmp_path, layout)
        one, two = orders.base(1), orders.base(2)
        orders.commit(1, wrote(one))
        orders.commit(2, wrote(two, prev=1))
        assert [summary_of(step) for step in orders.steps()] == [("stored", [one]), ("compared", [one], [two])]

    @layouts
    def test_commit_whose_files_lack_the_column_is_compared(self, tmp_path: pathlib.Path, layout: int) -> None:
        orders = self.orders(tmp_path, layout)
        one = orders.base(1)
        orders.commit(1, wrote(one))
        orders.more_fields = {"w": "string"}
        two = orders.log(2 if layout == 2 else 1, 1)
        orders.commit(2, wrote(two, prev=1))
        orders.more_fields = {"_hoodie_operation": "string"}
        three = orders.log(3 if layout == 2 else 1, 2)
        orders.commit(3, wrote(three, prev=1))
        assert [summary_of(step)[0] for step in orders.steps()] == ["stored", "compared", "stored"]

    @layouts
    def test_replaced_group_is_compared(self, tmp_path: pathlib.Path, layout: int) -> None:
        orders = self.orders(tmp_path, layout)
        one = orders.base(1)
        orders.commit(1, wrote(one))
        orders.commit(2, action="replacecommit", operation="DELETE_PARTITION", replaced=[("a", "f")])
        assert [summary_of(step) for step in orders.steps()] == [("stored", [one]), ("compared", [one], None)]

    @layouts
    def test_missing_file_is_an_error_with_its_name(self, tmp_path: pathlib.Path, layout: int) -> None:
        orders = self.orders(tmp_path, layout)
        one, two = orders.base(1), orders.log(2 if layout == 2 else 1)
        orders.commit(1, wrote(one))
        orders.commit(2, wrote(two, prev=1))
        orders.lose(one)
        with pytest.raises(PositionExpired, match=rf"file {one} "):
            orders.steps()
        assert [summary_of(step) for step in orders.steps(after=1 + (layout - 1) * 500)] == [("stored", [two])]


class TestPlans:
    """The scan, ids and sizes of a plan of changes."""

    def test_columns_and_filters_are_those_of_the_format(self, tmp_path: pathlib.Path) -> None:
        orders = Orders(tmp_path)
        written_twice(orders)
        result = orders.plan().scan
        assert result.columns[-3:] == ("_change_type", "_change_instant", "_change_seq")
        assert "_hoodie_record_key" in result.columns
        assert orders.plan(ChangeFormat.HUDI).scan.columns == ("op", "ts_ms", "before", "after")
        assert orders.plan(columns=("V", "_CHANGE_type")).scan.columns == ("v", "_change_type")
        with pytest.raises(ConfigurationError, match="before"):
            orders.plan(columns=("before",))
        with pytest.raises(ConfigurationError, match="v"):
            orders.plan(ChangeFormat.HUDI, where="v > 1")
        with pytest.raises(ConfigurationError, match="nosuch"):
            orders.plan(where="nosuch = 1")

    def test_column_named_like_a_change_column_allows_hudis_format_only(self, tmp_path: pathlib.Path) -> None:
        orders = Orders(tmp_path, more_fields={"_Change_Type": "string"})
        written_twice(orders)
        with pytest.raises(
            ConfigurationError, match=r"column _change_type, which is also a change column.*cdcFormat=hudi"
        ):
            orders.plan()
        assert orders.plan(ChangeFormat.HUDI).splits

    def test_table_without_meta_columns_is_refused(self, tmp_path: pathlib.Path) -> None:
        orders = Orders(tmp_path)
        written_twice(orders)
        orders.properties(meta="false")
        with pytest.raises(ConfigurationError, match="without meta columns"):
            orders.plan()

    def test_split_ids_depend_on_content_and_range_only(self, tmp_path: pathlib.Path) -> None:
        orders = Orders(tmp_path)
        written_twice(orders)
        orders.commit(3, wrote(orders.base(3, "g", "b")))
        plan = orders.plan()
        assert [split.file_group for split in plan.splits] == ["f", "g"]
        assert orders.plan() == plan
        ids = [split.split_id for split in plan.splits]
        assert [split.split_id for split in orders.plan(where="v > 1", columns=("v",)).splits] == ids
        assert {s.split_id for s in orders.plan(ChangeFormat.HUDI).splits}.isdisjoint(ids)
        assert {s.split_id for s in orders.plan(after=501).splits}.isdisjoint(ids[:1])
        assert len(set(ids)) == 2

    def test_empty_range_has_no_splits(self, tmp_path: pathlib.Path) -> None:
        orders = Orders(tmp_path)
        written_twice(orders)
        assert orders.plan(after=502).splits == ()
        assert orders.plan(after=502, upto=502).splits == ()

    def test_sizes_count_each_file_once_at_least(self, tmp_path: pathlib.Path) -> None:
        orders = Orders(tmp_path, mode="op_key_only")
        written_twice(orders)
        (split,) = orders.plan().splits
        assert split.size_bytes >= 3
        assert replace(split, split_id="x").size_bytes == split.size_bytes
