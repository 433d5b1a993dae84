"""Event-time bounds of whole plans: their sources, when splits are read, and what is cached."""

from __future__ import annotations

import datetime as dt
import logging
import pathlib
import re
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.enumerator.continuous.retention import earliest_position
from penstock.enumerator.planning.annotate import TimeSources, max_rows_of_split, with_event_times
from penstock.enumerator.planning.discovery import discover
from penstock.enumerator.planning.event_time import file_bounds, metadata_bounds
from penstock.enumerator.planning.event_time.bounds import EventTimeColumn, path_bounds
from penstock.enumerator.planning.event_time.file_bounds import FooterCache
from penstock.enumerator.planning.plan import plan_request
from penstock.enumerator.planning.scan import check_event_time
from penstock.enumerator.planning.slice_planner import plan_splits
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat, GroupChanges, LoggedImages
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Snapshot
from penstock.proto.model.splits import EventTimeBounds, NoEventTimes, RowGroupRun, Scan, Split, UnknownBounds
from penstock.reader.read_split import read_split
from penstock.table.hudi_table import open_table
from penstock.table.schema.avro import Primitive

PARQUET_LOGS = "A_block_parquet_v9_h120"
AVRO_LOGS = "B_v9_colstats_mor"
DAY_US = 86_400_000_000


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...


@dataclass
class Scans:
    """An `EventTimeScan` that records its calls."""

    asked: list[tuple[str, str, str]] = field(default_factory=list)
    answer: EventTimeBounds | NoEventTimes = field(default_factory=lambda: EventTimeBounds(1, 2))

    def __call__(self, scan: Scan, split: Split, column: str, unit: str) -> EventTimeBounds | NoEventTimes:
        self.asked.append((split.split_id, column, unit))
        return self.answer


def request(**more: Any) -> PlanRequest:
    return PlanRequest(**{"table": "t", "query": Snapshot(), **more})


class TestEventTimeScan:
    def test_only_splits_without_bounds_from_files_are_read(self, golden: Golden) -> None:
        scans = Scans()
        tables = OpenTables(scan_event_time=scans)
        path = str(golden.table(AVRO_LOGS))
        requested = request(event_time="ET", metadata=False)
        files = tables.plan(path, "t", requested).splits
        assert not scans.asked
        result = tables.plan(path, "t", replace(requested, scan_event_time=True)).splits
        unknown = {split.split_id for split in files if isinstance(split.event_time, UnknownBounds)}
        assert 0 < len(unknown) < len(files)
        assert {split_id for split_id, *_ in scans.asked} == unknown
        assert {(column, unit) for _, column, unit in scans.asked} == {("et", "")}
        for before, after in zip(files, result, strict=True):
            assert after.event_time == (scans.answer if before.split_id in unknown else before.event_time)

    def test_split_is_read_once_for_each_column_and_unit(
        self, golden: Golden, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "penstock.enumerator")
        scans = Scans(answer=NoEventTimes())
        tables = OpenTables(scan_event_time=scans)
        path = str(golden.table(AVRO_LOGS))
        requested = request(event_time="et_ms", event_time_unit="ms", scan_event_time=True, metadata=False)
        first = tables.plan(path, "t", requested)
        assert tables.plan(path, "t", requested) == first
        once = len(scans.asked)
        assert once == 2
        assert [record.getMessage() for record in caplog.records] == [
            "event times read table=t column=et_ms splits=2 of=3"
        ]
        tables.plan(path, "t", replace(requested, event_time_unit="s"))
        tables.plan(path, "t", replace(requested, event_time="et", event_time_unit=""))
        assert len(scans.asked) == 3 * once

    def test_missing_event_time_scan_is_named_in_the_error(self, golden: Golden) -> None:
        requested = request(event_time="et", scan_event_time=True, metadata=False)
        with pytest.raises(ConfigurationError, match=r"2 of 3 splits of table t .* without a way to read them"):
            OpenTables().plan(str(golden.table(AVRO_LOGS)), "t", requested)
        bound = OpenTables().plan(str(golden.table(AVRO_LOGS)), "t", replace(requested, metadata=True)).splits
        assert not any(isinstance(split.event_time, UnknownBounds) for split in bound), "nothing is left to be read"

    def test_logs_of_avro_blocks_without_statistics_are_read(self, golden: Golden) -> None:
        scans = Scans()
        sources = TimeSources(FooterCache(), scans)
        requested = request(event_time="l", event_time_unit="s", scan_event_time=True)
        table = open_table(str(golden.table("A_types_v9_h120")))
        plan = plan_request(table, "t", requested, sources=sources)
        assert len(scans.asked) == len(plan.splits) > 0

    def test_earliest_position_is_searched_without_event_times(self, golden: Golden) -> None:
        requested = request(query=Incremental(), event_time="et", scan_event_time=True, metadata=False)
        table = open_table(str(golden.table(AVRO_LOGS)))
        assert earliest_position(table, requested) == earliest_position(table, request(query=Incremental()))


class TestPaths:
    def test_partition_column_has_the_bounds_of_its_path(self, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
        """The bounds equal those of the rows, and no file is read."""
        table, requested = open_table(str(golden.table(AVRO_LOGS))), request(event_time="d")
        state = discover(table, "t", requested)
        plan = plan_splits(state).plan
        values = ["2026-02-03", "1969-12-31", None]
        splits = tuple(
            replace(split, partition_values=(value,)) for split, value in zip(plan.splits, values, strict=True)
        )
        plan = replace(plan, scan=replace(plan.scan, partition_fields=("d",)), splits=splits)
        monkeypatch.setattr(file_bounds, "read_base_footer", None)
        result = with_event_times(table, state, plan, TimeSources()).splits
        assert [split.split_id for split in result] == [split.split_id for split in splits]
        for split in result:
            rows = pa.concat_tables(
                pa.table(part.batch.select(["d"])) for part in read_split(replace(plan.scan, columns=("d",)), split)
            )
            days = {(day - dt.date(1970, 1, 1)).days * DAY_US for day in rows["d"].to_pylist() if day is not None}
            (expected,) = [EventTimeBounds(day, day) for day in days] or [NoEventTimes()]
            assert split.event_time == expected

    @pytest.mark.parametrize(
        ("text", "kind", "unit", "expected"),
        [
            ("1970-01-03", pa.date32(), "", EventTimeBounds(2 * DAY_US, 2 * DAY_US)),
            ("1970-01-01 00:00:01", pa.timestamp("us", "UTC"), "", EventTimeBounds(1_000_000, 1_000_000)),
            ("-7", pa.int64(), "ms", EventTimeBounds(-7000, -7000)),
            ("7", pa.int64(), "", UnknownBounds()),
            (str(2**62), pa.int64(), "s", UnknownBounds()),
            ("x", pa.int64(), "s", UnknownBounds()),
            (None, pa.date32(), "", NoEventTimes()),
        ],
    )
    def test_path_segment_becomes_utc_microseconds(
        self, golden: Golden, text: str | None, kind: pa.DataType, unit: str, expected: object
    ) -> None:
        plan = plan_request(open_table(str(golden.table("B_v9_colstats_cow"))), "t", request())
        scan = replace(plan.scan, partition_fields=("c",))
        split = replace(plan.splits[0], partition_values=(text,))
        column = EventTimeColumn("c", Primitive("long"), unit)
        assert path_bounds(scan, split, column, kind) == expected
        assert path_bounds(scan, replace(split, partition_values=()), column, kind) == UnknownBounds()


class TestCachedBounds:
    @pytest.mark.parametrize("case", [PARQUET_LOGS, AVRO_LOGS, "B_v9_colstats_cow"])
    def test_cached_files_are_not_opened_again(
        self, golden: Golden, case: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tables, column = OpenTables(), "ts" if case == PARQUET_LOGS else "et"
        unit = ""
        path = str(golden.table(case))
        first = tables.plan(path, "t", request(event_time=column, event_time_unit=unit))
        assert not any(isinstance(split.event_time, UnknownBounds) for split in first.splits)
        monkeypatch.setattr(file_bounds, "read_base_footer", None)
        monkeypatch.setattr(file_bounds, "read_blocks", None)
        monkeypatch.setattr(metadata_bounds, "column_stats_key", None)
        assert tables.plan(path, "t", request(event_time=column, event_time_unit=unit)) == first
        with pytest.raises(TypeError):
            OpenTables().plan(path, "t", request(event_time=column, event_time_unit=unit))

    def test_metadata_table_is_read_again_on_layout_1(self, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
        """A log there grows, and its statistics with it, although an instant that wrote into it is not complete."""
        tables, requested = OpenTables(), request(event_time="et")
        path = str(golden.table("B_v6_colstats_mor"))
        tables.plan(path, "t", requested)
        monkeypatch.setattr(metadata_bounds, "column_stats_key", None)
        with pytest.raises(TypeError):
            tables.plan(path, "t", requested)

    def test_runs_of_row_groups_come_from_the_same_footer(self, golden: Golden, tmp_path: pathlib.Path) -> None:
        path = golden.copy("B_v9_colstats_cow", tmp_path)
        for file in path.glob("*/*.parquet"):
            pq.write_table(pq.read_table(file), file, row_group_size=2)
        tables = OpenTables()
        whole = tables.plan(str(path), "t", request(event_time="et"))
        runs = tables.plan(str(path), "t", request(event_time="et", target_split_bytes=1))
        assert len(runs.splits) > len(whole.splits)
        for split in whole.splits:
            parts = [part.event_time for part in runs.splits if part.file_group == split.file_group]
            assert all(isinstance(part, EventTimeBounds) for part in parts)
            assert split.event_time == EventTimeBounds(
                min(part.min_us for part in parts if isinstance(part, EventTimeBounds)),
                max(part.max_us for part in parts if isinstance(part, EventTimeBounds)),
            )


class TestChanges:
    def test_compared_states_have_the_bounds_of_their_files(self, golden: Golden) -> None:
        path = golden.table("B_v9_colstats_cow")
        result = plan_request(open_table(str(path)), "t", request(query=Changes(ChangeFormat.ROWS), event_time="et"))
        assert result.splits
        assert all(isinstance(split.event_time, EventTimeBounds) for split in result.splits)

    @pytest.mark.parametrize("form", ChangeFormat)
    def test_changes_in_both_formats_use_the_tables_column(self, golden: Golden, form: ChangeFormat) -> None:
        path = golden.table("B_v9_cdc_cow_op_key_only")
        column = "ts"
        requested = request(query=Changes(form), event_time=column, event_time_unit="us")
        result = plan_request(open_table(str(path)), "t", requested)
        assert result.splits
        assert all(isinstance(split.event_time, EventTimeBounds) for split in result.splits)

    def test_images_that_the_writer_logged_are_unknown(self, golden: Golden) -> None:
        path = golden.table("B_v9_cdc_cow_data_before_after")
        requested = request(query=Changes(ChangeFormat.HUDI), event_time="ts", event_time_unit="us")
        result = plan_request(open_table(str(path)), "t", requested)
        logged = [split for split in result.splits if _has_logged_images(split)]
        assert logged
        assert {type(split.event_time) for split in logged} == {UnknownBounds}


def _has_logged_images(split: Split) -> bool:
    return isinstance(split.part, GroupChanges) and any(
        isinstance(step.source, LoggedImages) for step in split.part.steps
    )


class TestEventTimeColumn:
    @pytest.mark.parametrize(
        ("kind", "unit", "needed", "text"),
        [
            (pa.int64(), "", False, ""),
            (pa.int64(), "", True, "give eventTimeUnit (s, ms, us)"),
            (pa.int64(), "ms", True, ""),
            (pa.int64(), "minutes", False, "'minutes' of event-time column 'c': expected one of s, ms, us"),
            (pa.timestamp("us"), "", True, ""),
            (pa.timestamp("us", "UTC"), "us", False, "which has its own unit"),
            (pa.date32(), "s", True, "which has its own unit"),
            (pa.date32(), "", True, ""),
        ],
    )
    def test_unit_must_fit_the_column(self, kind: pa.DataType, unit: str, needed: bool, text: str) -> None:
        if not text:
            check_event_time("c", kind, unit, unit_needed=needed)
            return
        with pytest.raises(ConfigurationError, match=re.escape(text)):
            check_event_time("c", kind, unit, unit_needed=needed)

    @pytest.mark.parametrize(
        "more",
        [
            {"event_time": "et", "event_time_unit": "ms"},
            {"event_time": "et_ms", "event_time_unit": "m"},
            {"event_time": "et_ms", "scan_event_time": True},
            {"event_time": "name"},
            {"event_time": "et", "event_time_unit": "ms", "query": Changes(ChangeFormat.HUDI)},
        ],
    )
    def test_planning_refuses_a_column_or_unit_that_does_not_fit(self, golden: Golden, more: dict[str, Any]) -> None:
        with pytest.raises(ConfigurationError, match="event-time column"):
            plan_request(open_table(str(golden.table("B_v9_colstats_cow"))), "t", request(**more))


@pytest.mark.parametrize("case", ["B_v9_colstats_cow", AVRO_LOGS, PARQUET_LOGS, "A_delete_all_reinsert_v9_h120"])
def test_max_rows_of_a_split_is_never_below_its_rows(golden: Golden, case: str) -> None:
    table, cache = open_table(str(golden.table(case))), FooterCache()
    plan = plan_request(table, "t", request())
    for split in plan.splits:
        bound = max_rows_of_split(table, split, cache)
        rows = sum(part.batch.num_rows for part in read_split(plan.scan, split))
        assert bound is not None and bound >= rows
        assert split.logs or bound == rows
        if not split.logs:
            assert max_rows_of_split(table, replace(split, part=RowGroupRun(0, 0)), cache) == 0
