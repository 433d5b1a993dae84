"""Plans of real tables: files of a query, refused requests, and the content of split ids."""

from __future__ import annotations

import itertools
import pathlib
from dataclasses import replace
from typing import Any, Protocol

import pytest

from penstock.enumerator.planning.discovery import discover
from penstock.enumerator.planning.plan import describe, newest, plan_request
from penstock.enumerator.planning.slice_planner import plan_splits
from penstock.enumerator.planning.split_ids import in_commit_order
from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, Query, ReadOptimized, Snapshot, SnapshotAsOf
from penstock.proto.model.splits import (
    AllRows,
    CommitTimeOrdering,
    DeleteMarker,
    EventTimeOrdering,
    FillNulls,
    Plan,
    RowsOf,
    Split,
)
from penstock.table.hudi_table import HudiTable, open_table


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...
    def case(self, name: str) -> dict[str, Any]: ...


def plan(golden: Golden, case: str, query: Query, **more: Any) -> Plan:
    table = open_table(str(golden.table(case)))
    return plan_request(table, case, PlanRequest(table=case, query=query, **more))


def at(order_key: str) -> Position:
    return Position(InstantTime(order_key))


def instants(split: Split) -> list[str]:
    return [log.path.rpartition("/")[2].partition("_")[2].partition(".log.")[0] for log in split.logs]


class TestFilesOfGoldenTables:
    def test_logs_after_a_pending_compaction_belong_to_the_earlier_slice_v6(self, golden: Golden) -> None:
        result = plan(golden, "A_compaction_pending_v6_h0150", Snapshot())
        compacted = [s for s in result.splits if s.order_key == "20261120215029195"]
        assert len(compacted) == 2
        for split in compacted:
            named = instants(split)
            assert named == sorted(named)
            assert named.count("20261120215029195") == 3
            assert named.count(split.base_instant) == len(named) - 3

    def test_logs_after_a_pending_compaction_belong_to_the_earlier_slice_v9(self, golden: Golden) -> None:
        result = plan(golden, "A_compaction_pending_v9_h120", Snapshot())
        last = {s.base_instant: instants(s)[-1:] for s in result.splits}
        assert last["20261120213529721"] == ["20261120213543007"]
        read_optimized = plan(golden, "A_compaction_pending_v9_h120", ReadOptimized())
        assert sorted(s.base_instant for s in read_optimized.splits) == sorted(last)
        assert not any(s.logs for s in read_optimized.splits)

    @pytest.mark.parametrize("case", ["A_failed_leftover_v6_h0150", "A_failed_leftover_v9_h120"])
    def test_files_of_a_pending_writer_are_ignored(self, golden: Golden, case: str) -> None:
        """Hudi hides the committed logs after the pending writer's base file on version 9."""
        table = open_table(str(golden.table(case)))
        (pending,) = table.timeline().pending
        result = plan(golden, case, Snapshot())
        assert {s.base_instant for s in result.splits} == {table.timeline().completed_writes[0].requested_time}
        assert InstantTime(pending.requested_time) not in result.scan.visible.members
        if case.endswith("v9_h120"):
            assert all(pending.requested_time not in instants(s) for s in result.splits)
            assert all(instants(s)[-1] == "20261120213500648" for s in result.splits)

    def test_log_that_completed_after_a_compaction_is_merged_over_it(self, golden: Golden) -> None:
        case = "A_nbcc_commit_v9_h120"
        (split,) = plan(golden, case, Snapshot()).splits
        assert split.base_instant == "20261120221204044"
        assert instants(split) == ["20261120221202168", "20261120221218099", "20261120221225985"]
        as_of = golden.case(case)["queries"][2]
        assert as_of["id"] == "time_travel_1"
        (split,) = plan(golden, case, SnapshotAsOf(InstantTime(as_of["as_of"]))).splits
        assert split.base is None
        assert instants(split) == ["20261120221156100", "20261120221201228", "20261120221202589"]

    def test_range_ends_before_instants_that_completed_later(self, golden: Golden) -> None:
        """At 20261120221218685 the slow delta and the compaction are pending: three slices have only logs."""
        result = plan(golden, "A_nbcc_commit_v9_h120", Incremental(EARLIEST, at("20261120221218685")))
        (split,) = result.splits
        assert split.base is None
        assert instants(split) == [
            "20261120221156100", "20261120221201228", "20261120221202589", "20261120221203326", "20261120221202168",
            "20261120221218099",
        ]  # fmt: skip

    @pytest.mark.parametrize("case", ["A_replace_ops_v6_h0150", "A_replace_ops_v9_h120"])
    def test_replaced_groups_are_visible_only_as_of_earlier_instants(self, golden: Golden, case: str) -> None:
        writes = open_table(str(golden.table(case))).timeline().completed_writes
        overwrite, drop, table_wide = (i.requested_time for i in writes if i.action == "replacecommit")
        assert {s.base_instant for s in plan(golden, case, Snapshot()).splits} == {table_wide}
        before = plan(golden, case, SnapshotAsOf(writes[0].requested_time))
        assert {s.base_instant for s in before.splits} == {writes[0].requested_time}
        dropped = {s.partition for s in plan(golden, case, SnapshotAsOf(overwrite)).splits} - {
            s.partition for s in plan(golden, case, SnapshotAsOf(drop)).splits
        }
        assert len(dropped) == 1

    @pytest.mark.parametrize("case", ["A_log_only_v6_h0150", "A_log_only_v9_h120"])
    def test_file_groups_of_logs_alone(self, golden: Golden, case: str) -> None:
        result = plan(golden, case, Snapshot())
        assert [(s.base, len(s.logs)) for s in result.splits] == [(None, 6), (None, 6)]
        assert plan(golden, case, ReadOptimized()).splits == ()

    def test_clustering_and_its_inputs_are_never_visible_together(self, golden: Golden) -> None:
        case = "A_clustering_done_v9_h120"
        writes = open_table(str(golden.table(case))).timeline().completed_writes
        (clustering,) = (i for i in writes if i.action == "replacecommit")
        after = plan(golden, case, Snapshot())
        assert clustering.requested_time in {s.base_instant for s in after.splits}
        before = plan(golden, case, SnapshotAsOf(InstantTime(str(int(clustering.requested_time) - 1))))
        assert not {s.file_group for s in before.splits} & {
            s.file_group for s in after.splits if s.base_instant == clustering.requested_time
        }
        assert len(before.splits) > len(after.splits)

    def test_range_of_a_clustering_is_empty_and_earlier_data_is_in_its_output(self, golden: Golden) -> None:
        case = "B_v9_inc_cow"
        table = open_table(str(golden.table(case)))
        line = table.timeline()
        (clustering,) = (i for i in line.completed_writes if table.commit(i).operation == "CLUSTER")
        keys = sorted(line.order_key(i) for i in line.completed_writes)
        place = keys.index(line.order_key(clustering))
        alone = plan(golden, case, Incremental(at(keys[place - 1]), at(keys[place])))
        assert alone.splits == () and alone.scan.rows == RowsOf(frozenset())
        both = plan(golden, case, Incremental(at(keys[place - 2]), at(keys[place])))
        assert clustering.requested_time in {s.base_instant for s in both.splits}
        assert both.scan.rows == RowsOf(
            frozenset(i.requested_time for i in line.completed_writes if line.order_key(i) == keys[place - 1])
        )

    @pytest.mark.parametrize("case", ["B_v9_ooo_mor", "B_v9_ooo_cow_cdc", "B_v8_ooo_cow_cdc"])
    def test_late_instant_is_in_the_range_of_its_completion(self, golden: Golden, case: str) -> None:
        line = open_table(str(golden.table(case))).timeline()
        by_completion = sorted(line.completed_writes, key=line.order_key)
        late = next(i for before, i in itertools.pairwise(by_completion) if i.requested_time < before.requested_time)
        before = by_completion[by_completion.index(late) - 1]
        result = plan(golden, case, Incremental(at(line.order_key(before)), at(line.order_key(late))))
        assert result.scan.rows == RowsOf(frozenset({late.requested_time}))
        assert result.splits and {s.order_key for s in result.splits} == {line.order_key(late)}


class TestScan:
    def test_range_from_the_start_is_the_snapshot_at_its_end(self, golden: Golden) -> None:
        case = "B_v9_inc_mor"
        whole = plan(golden, case, Incremental())
        snapshot = plan(golden, case, Snapshot())
        assert whole.scan.rows == AllRows()
        assert whole.commit_range == snapshot.commit_range == CommitRange(EARLIEST, newest_of(golden, case))
        assert [(s.base, s.logs) for s in whole.splits] == [(s.base, s.logs) for s in snapshot.splits]

    def test_merge_rules_are_needed_only_with_logs(self, golden: Golden) -> None:
        case = "A_payload_awsdms_v6_h0150"
        assert plan(golden, case, ReadOptimized()).scan.merge == CommitTimeOrdering()
        scan = plan(golden, case, Snapshot()).scan
        assert (scan.merge, scan.delete_marker) == (CommitTimeOrdering(), DeleteMarker("Op", "D"))
        scan = plan(golden, "A_payload_partial_update_v8_h102", Snapshot()).scan
        assert (scan.merge, scan.fill) == (EventTimeOrdering(("ts",), deletes_win=True), FillNulls())
        assert plan(golden, "A_merge_event_long_v9_h120", Snapshot()).scan.merge == EventTimeOrdering(("ts",))

    def test_as_of_bounds_blocks_too(self, golden: Golden) -> None:
        case = "A_log_only_v6_h0150"
        result = plan(golden, case, SnapshotAsOf(InstantTime("20261120215212553")))
        assert result.scan.visible.holds("20261120215212553")
        assert not result.scan.visible.holds("20261120215215037")

    def test_columns_match_by_sparks_case_rule_in_the_requested_order(self, golden: Golden) -> None:
        assert plan(golden, "B_v9_inc_cow", Snapshot(), columns=("V", "_hoodie_record_key")).scan.columns == (
            "v",
            "_hoodie_record_key",
        )

    def test_no_columns_means_all_in_the_tables_order(self, golden: Golden) -> None:
        columns = plan(golden, "B_v9_inc_cow", Snapshot()).scan.columns
        assert columns[:2] == ("_hoodie_commit_time", "_hoodie_commit_seqno")
        assert columns[5:] == ("id", "ts", "name", "v", "amt", "et", "d", "p")

    @pytest.mark.parametrize(
        ("more", "text"),
        [
            ({"columns": ("nope",)}, "nope"),
            ({"where": "nope > 3"}, "nope"),
            ({"where": "v >"}, "cannot read the filter"),
            ({"event_time": "nope"}, "nope"),
            ({"event_time": "name"}, "timestamp, date or long"),
        ],
    )
    def test_request_that_does_not_fit_the_table_is_refused_when_planning(
        self, golden: Golden, more: dict[str, Any], text: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=text):
            plan(golden, "B_v9_inc_cow", Snapshot(), **more)

    def test_partition_columns_take_the_paths_values(self, golden: Golden) -> None:
        result = plan(golden, "B_v9_inc_cow", Snapshot())
        assert result.scan.partition_fields == ("p",)
        assert {(s.partition, s.partition_values) for s in result.splits} >= {("p=a", ("a",))}
        custom = plan(golden, "A_custom_keygen_v9_h120", Snapshot())
        assert custom.scan.partition_fields == ()
        assert {s.partition_values for s in custom.splits} == {()}


def newest_of(golden: Golden, case: str) -> Position:
    return newest(open_table(str(golden.table(case))), None, 0)


class TestIdsAndOrder:
    CASE = "B_v9_inc_mor"

    def test_split_id_depends_on_the_rows_only(self, golden: Golden) -> None:
        ids = [s.split_id for s in plan(golden, self.CASE, Snapshot()).splits]
        assert [s.split_id for s in plan(golden, self.CASE, Snapshot(), columns=("v",), where="v > 3").splits] == ids
        assert all(len(i) == 32 and set(i) <= set("0123456789abcdef") for i in ids)

    def test_split_ids_differ_for_another_range_or_table(self, golden: Golden, tmp_path: pathlib.Path) -> None:
        line = open_table(str(golden.table(self.CASE))).timeline()
        keys = [line.order_key(i) for i in line.completed_writes]
        plans = [
            plan(golden, self.CASE, Snapshot()),
            plan(golden, self.CASE, SnapshotAsOf(line.completed_writes[-1].requested_time)),
            plan(golden, self.CASE, Incremental(at(keys[0]), at(keys[-1]))),
            plan(golden, self.CASE, Incremental(at(keys[1]), at(keys[-1]))),
        ]
        ids = [s.split_id for result in plans for s in result.splits]
        assert len(set(ids)) == len(ids)
        linked = tmp_path / "linked"
        linked.symlink_to(golden.table(self.CASE))
        moved = plan_request(open_table(str(linked)), "t", PlanRequest(table="t", query=Snapshot()))
        assert not {s.split_id for s in moved.splits} & set(ids)

    def test_plan_is_the_same_when_planned_again(self, golden: Golden) -> None:
        first = plan(golden, self.CASE, Snapshot())
        assert plan(golden, self.CASE, Snapshot()) == first
        assert [(s.order_key, s.split_id) for s in first.splits] == sorted(
            (s.order_key, s.split_id) for s in first.splits
        )

    def test_planner_reads_no_file(self, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
        request = PlanRequest(table="t", query=Snapshot())
        table = open_table(str(golden.table(self.CASE)))
        state = discover(table, "t", request)
        monkeypatch.setattr(type(table.storage), "_guarded", None)
        monkeypatch.setattr(HudiTable, "_read", None)
        assert plan_splits(state) == plan_splits(state)

    def test_equal_split_ids_are_an_invariant_violation(self, golden: Golden) -> None:
        (split, *_) = plan(golden, self.CASE, Snapshot()).splits
        with pytest.raises(InvariantViolation, match="same id"):
            in_commit_order([split, replace(split, partition="elsewhere")])


class TestRowGroups:
    def test_log_free_file_is_cut_and_a_slice_with_logs_is_not(self, golden: Golden, tmp_path: pathlib.Path) -> None:
        """A file with one row group stays whole however small the target is."""
        whole = plan(golden, "B_v9_inc_cow", Snapshot())
        assert plan(golden, "B_v9_inc_cow", Snapshot(), target_split_bytes=1) == whole


class TestDescription:
    def test_plan_of_a_golden_table(self, golden: Golden) -> None:
        case = "B_v9_inc_mor"
        description = describe(open_table(str(golden.table(case))), "name")
        assert (description.table, description.table_type, description.table_version, description.timeline_layout) == (
            "name",
            "MERGE_ON_READ",
            9,
            2,
        )
        fields = (description.record_key_fields, description.partition_fields, description.ordering_fields)
        assert fields == (("id",), ("p",), ("ts",))
        assert description.merge_mode == "EVENT_TIME_ORDERING"
        assert description.newest == newest_of(golden, case)
        assert '"_hoodie_commit_time"' in description.schema_json

    def test_table_with_an_unsupported_merge_mode_can_be_described(self, golden: Any, tmp_path: pathlib.Path) -> None:
        properties = golden.copy("A_payload_awsdms_v6_h0150", tmp_path / "t") / ".hoodie" / "hoodie.properties"
        properties.write_text(properties.read_text().replace("AWSDmsAvroPayload", "MyPayload"))
        description = describe(open_table(str(properties.parents[1])), "t")
        assert description.merge_mode == "CUSTOM (org.apache.hudi.common.model.MyPayload)"

    def test_delete_marker_of_a_reader_changes_the_scope(self, golden: Golden) -> None:
        case = "A_merge_custom_delete_v6_h0150"
        plain = plan(golden, case, Snapshot())
        marked = plan(golden, case, Snapshot(), delete_marker=DeleteMarker("op", "D"))
        assert marked.scan.delete_marker == DeleteMarker("op", "D") and plain.scan.delete_marker is None
        assert plain.splits[0].split_id != marked.splits[0].split_id
        of_the_table = plan(golden, "A_merge_custom_delete_v9_h120", Snapshot(), delete_marker=DeleteMarker("op", "x"))
        assert of_the_table.scan.delete_marker == DeleteMarker("op", "D")
        with pytest.raises(ConfigurationError, match="nope"):
            plan(golden, case, Snapshot(), delete_marker=DeleteMarker("nope", "D"))
