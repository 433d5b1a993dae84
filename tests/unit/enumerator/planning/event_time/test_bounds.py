"""Event-time bounds from Parquet footers, and the cutting of big log-free files; bounds checked against the rows."""

from __future__ import annotations

import datetime as dt
import io
import json
import pathlib
import shutil
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.planning.annotate import row_group_runs
from penstock.enumerator.planning.event_time import file_bounds
from penstock.enumerator.planning.event_time.bounds import (
    EventTimeColumn,
    row_group_bounds,
    row_group_sizes,
    union_of_bounds,
)
from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import CorruptFile
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.splits import (
    EventTimeBounds,
    FileRef,
    NoEventTimes,
    Plan,
    RowGroupRun,
    UnknownBounds,
    WholeFile,
)
from penstock.table.hudi_table import open_table
from penstock.table.parquet.footer import read_base_footer
from penstock.table.schema.avro import AvroType, Decimal, Primitive
from penstock.table.storage.filesystem import open_storage


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...


GOLDEN = pathlib.Path(__file__).parents[4] / "golden"
MICROS = Primitive("long", "timestamp-micros")
MILLIS = Primitive("long", "timestamp-millis")
UTC_US = pa.timestamp("us", "UTC")
DAY_US = 86_400_000_000


def footer(values: list[Any], column_type: pa.DataType, *, group_rows: int = 100, **options: Any) -> pq.FileMetaData:
    """The footer of a file with a text column and the column `t`."""
    sink = io.BytesIO()
    columns = {"id": pa.array([str(i) for i in range(len(values))]), "t": pa.array(values, column_type)}
    pq.write_table(pa.table(columns), sink, row_group_size=group_rows, **options)
    return pq.read_metadata(io.BytesIO(sink.getvalue()))


def bounds(
    metadata: pq.FileMetaData,
    column_type: AvroType = MICROS,
    column: str = "t",
    *,
    unit: str = "",
    row_groups: slice = slice(None),
) -> object:
    """The common bounds of some row groups, all by default."""
    return union_of_bounds(row_group_bounds(metadata, EventTimeColumn(column, column_type, unit))[row_groups])


class TestBounds:
    @pytest.mark.parametrize(
        ("values", "stored", "column_type", "expected"),
        [
            ([5, 1, 9], UTC_US, MICROS, (1, 9)),
            ([5, None, 9], UTC_US, MICROS, (5, 9)),
            ([-5, 7], UTC_US, MICROS, (-5, 7)),
            ([5, 1, 9], pa.timestamp("us"), Primitive("long", "local-timestamp-micros"), (1, 9)),
            ([5, 1, 9], pa.timestamp("ms", "UTC"), MILLIS, (1000, 9000)),
            ([dt.date(1970, 1, 2), dt.date(1969, 12, 31)], pa.date32(), Primitive("int", "date"), (-DAY_US, DAY_US)),
        ],
    )
    def test_units_become_utc_microseconds(
        self, values: list[Any], stored: pa.DataType, column_type: AvroType, expected: tuple[int, int]
    ) -> None:
        assert bounds(footer(values, stored), column_type) == EventTimeBounds(*expected)

    @pytest.mark.parametrize(
        ("values", "stored", "column_type"),
        [
            ([5, 1], pa.int64(), Primitive("long")),
            ([5, 1], pa.int64(), MICROS),
            ([5, 1], UTC_US, Primitive("long")),
            ([5, 1], UTC_US, MILLIS),
            ([5, 1], pa.timestamp("ms", "UTC"), MICROS),
            ([5, 1], pa.int32(), Primitive("int", "date")),
            ([dt.date(1970, 1, 2)], pa.date32(), MICROS),
            ([5, 1], UTC_US, Decimal(10, 2)),
            (["a", "b"], pa.string(), Primitive("string")),
            ([[5], [1]], pa.list_(UTC_US), MICROS),
        ],
    )
    def test_bounds_are_unknown_if_file_and_table_differ_in_the_unit(
        self, values: list[Any], stored: pa.DataType, column_type: AvroType
    ) -> None:
        assert bounds(footer(values, stored), column_type) == UnknownBounds()

    @pytest.mark.parametrize(
        ("values", "stored", "column_type", "expected"),
        [
            ([-171595, -171590], pa.date32(), Primitive("int", "date"), (-171607 * DAY_US, -25565 * DAY_US)),
            ([-171595, 7], pa.date32(), Primitive("int", "date"), (-171607 * DAY_US, 7 * DAY_US)),
            ([-25568 * DAY_US, 7], UTC_US, MICROS, (-25580 * DAY_US, 7)),
            ([-25567 * DAY_US, 7], UTC_US, MICROS, (-25567 * DAY_US, 7)),
            ([-25568 * DAY_US, 7], pa.timestamp("us"), Primitive("long", "local-timestamp-micros"), None),
        ],
    )
    def test_bounds_of_the_legacy_calendar_are_wide_before_1900(
        self, values: list[int], stored: pa.DataType, column_type: AvroType, expected: tuple[int, int] | None
    ) -> None:
        sink = io.BytesIO()
        numbers = pa.array(values, pa.int32() if stored == pa.date32() else pa.int64()).view(stored)
        marks = {"org.apache.spark.version": "3.5.8", "org.apache.spark.legacyDateTime": ""}
        pq.write_table(pa.table({"t": numbers}).replace_schema_metadata(marks), sink)
        result = bounds(pq.read_metadata(io.BytesIO(sink.getvalue())), column_type)
        assert result == EventTimeBounds(*(expected or (values[0], values[1])))

    def test_bounds_of_int96_are_unknown(self) -> None:
        assert bounds(footer([5, 1], UTC_US, use_deprecated_int96_timestamps=True)) == UnknownBounds()

    def test_bounds_without_statistics_are_unknown(self) -> None:
        assert bounds(footer([5, 1], UTC_US, write_statistics=False)) == UnknownBounds()

    def test_nulls_have_no_event_time_and_do_not_affect_bounds(self) -> None:
        assert bounds(footer([None, None], UTC_US)) == NoEventTimes()
        assert bounds(footer([1, 2, None, None], UTC_US, group_rows=2)) == EventTimeBounds(1, 2)
        assert bounds(footer([None, None], UTC_US, write_statistics=False)) == UnknownBounds()

    def test_no_rows_and_no_column_have_no_event_time(self) -> None:
        assert bounds(footer([], UTC_US)) == NoEventTimes()
        assert bounds(footer([1], UTC_US), MICROS, "T") == NoEventTimes()
        assert bounds(footer([{"x": 1}], pa.struct({"x": UTC_US}))) == UnknownBounds()

    @pytest.mark.parametrize(("unit", "factor"), [("s", 1_000_000), ("ms", 1000), ("us", 1)])
    @pytest.mark.parametrize("stored", [pa.int64(), pa.int32(), pa.int16()])
    def test_plain_numbers_have_the_unit_of_the_request(self, unit: str, factor: int, stored: pa.DataType) -> None:
        metadata = footer([5, None, -9], stored)
        result = bounds(metadata, Primitive("long"), unit=unit)
        assert result == EventTimeBounds(-9 * factor, 5 * factor)

    @pytest.mark.parametrize("stored", [pa.uint64(), pa.uint32(), UTC_US, pa.timestamp("ms")])
    def test_unit_applies_only_to_signed_plain_numbers(self, stored: pa.DataType) -> None:
        assert bounds(footer([5, 9], stored), Primitive("long"), unit="ms") == UnknownBounds()

    def test_run_of_row_groups_has_its_own_bounds(self) -> None:
        metadata = footer([1, 2, 30, 40, 5, 6], UTC_US, group_rows=2)
        assert bounds(metadata, row_groups=slice(0, 2)) == EventTimeBounds(1, 40)
        assert bounds(metadata, row_groups=slice(2, 3)) == EventTimeBounds(5, 6)

    def test_bounds_beyond_64_bits_are_unknown(self) -> None:
        metadata = footer([2**62], pa.timestamp("ms", "UTC"))
        assert bounds(metadata, MILLIS) == UnknownBounds()

    @given(st.lists(st.one_of(st.none(), st.integers(-(2**60), 2**60)), max_size=30), st.integers(1, 7))
    def test_bounds_contain_every_row(self, values: list[int | None], group_rows: int) -> None:
        result = bounds(footer(values, UTC_US, group_rows=group_rows))
        known = [value for value in values if value is not None]
        assert result == (EventTimeBounds(min(known), max(known)) if known else NoEventTimes())

    @given(
        st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62)), max_size=30),
        st.sampled_from([("s", 1_000_000), ("ms", 1000), ("us", 1)]),
        st.integers(1, 7),
    )
    def test_bounds_contain_every_plain_number(
        self, values: list[int | None], unit: tuple[str, int], group_rows: int
    ) -> None:
        metadata = footer(values, pa.int64(), group_rows=group_rows)
        result = bounds(metadata, Primitive("long"), unit=unit[0])
        times = [value * unit[1] for value in values if value is not None]
        if isinstance(result, UnknownBounds):
            assert max(map(abs, times)) > 2**63 - 1
        else:
            assert result == (EventTimeBounds(min(times), max(times)) if times else NoEventTimes())


KINDS = st.one_of(
    st.just(UnknownBounds()),
    st.just(NoEventTimes()),
    st.tuples(st.integers(-9, 9), st.integers(0, 9)).map(lambda pair: EventTimeBounds(pair[0], pair[0] + pair[1])),
)


@given(st.lists(KINDS, max_size=6))
def test_union_of_bounds_is_unknown_if_a_part_is_unknown(parts: list[Any]) -> None:
    result = union_of_bounds(parts)
    if UnknownBounds() in parts:
        assert result == UnknownBounds()
    elif known := [part for part in parts if isinstance(part, EventTimeBounds)]:
        assert result == EventTimeBounds(min(p.min_us for p in known), max(p.max_us for p in known))
    else:
        assert result == NoEventTimes()


class TestFooters:
    def test_file_without_footer_is_an_error_with_its_name(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
        storage = open_storage(str(tmp_path))
        with pytest.raises(CorruptFile, match=r"broken\.parquet.*no readable Parquet footer"):
            read_base_footer(storage, FileRef("broken.parquet", 21))
        with pytest.raises(CorruptFile, match=r"gone\.parquet.*missing"):
            read_base_footer(storage, FileRef("gone.parquet", 21))

    def test_sizes_of_row_groups(self) -> None:
        sizes = row_group_sizes(footer(list(range(100)), UTC_US, group_rows=30), 1 << 20)
        assert len(sizes) == 4 and all(size > 0 for size in sizes)


class TestRowGroupRuns:
    @pytest.mark.parametrize(
        ("sizes", "target", "expected"),
        [
            ([], 10, []),
            ([5], 1, []),
            ([5, 5], 10, []),
            ([5, 5, 5], 10, [(0, 2, 10), (2, 3, 5)]),
            ([50, 1, 1], 10, [(0, 1, 50), (1, 3, 2)]),
            ([1, 50, 1], 10, [(0, 1, 1), (1, 2, 50), (2, 3, 1)]),
            ([0, 0, 0], 10, []),
        ],
    )
    def test_runs_of_row_groups(self, sizes: list[int], target: int, expected: list[tuple[int, int, int]]) -> None:
        assert row_group_runs(sizes, target) == tuple(RowGroupRun(*run) for run in expected)

    @given(st.lists(st.integers(0, 100), max_size=40), st.integers(1, 300))
    def test_runs_cover_all_in_order_and_only_a_lone_group_exceeds_the_target(
        self, sizes: list[int], target: int
    ) -> None:
        runs = row_group_runs(sizes, target) or ((RowGroupRun(0, len(sizes)),) if sizes else ())
        assert [i for run in runs for i in range(run.first, run.end)] == list(range(len(sizes)))
        assert all(run.end > run.first for run in runs)
        assert not row_group_runs(sizes, target) or sum(run.size_bytes for run in runs) == sum(sizes)
        assert all(sum(sizes[run.first : run.end]) <= target or run.end - run.first == 1 for run in runs)


def plan(path: pathlib.Path, **more: Any) -> Plan:
    return plan_request(open_table(str(path)), "t", PlanRequest(table="t", query=Snapshot(), **more))


class TestPlannedBounds:
    """The catalogue holds the true lowest and highest event time of every data file of these tables."""

    @staticmethod
    def truth(case: str, column: str) -> dict[str, tuple[int | None, int | None]]:
        files = json.loads((GOLDEN / "expected" / case / "bounds.json").read_text())["files"]
        return {path: (f["bounds"][column]["min"], f["bounds"][column]["max"]) for path, f in files.items()}

    @pytest.mark.parametrize(("column", "factor"), [("et", 1), ("d", DAY_US)])
    def test_bounds_of_log_free_splits_are_those_of_their_file(self, golden: Golden, column: str, factor: int) -> None:
        case = "B_v9_colstats_cow"
        truth = self.truth(case, column)
        result = plan(golden.table(case), event_time=column)
        assert len(result.splits) > 1
        for split in result.splits:
            assert split.base is not None
            low, high = truth[split.base.path]
            assert low is not None and high is not None
            assert split.event_time == EventTimeBounds(low * factor, high * factor)

    @pytest.mark.parametrize("case", ["B_v6_colstats_mor", "B_v8_colstats_mor", "B_v9_colstats_mor"])
    def test_bounds_are_never_narrower_than_the_rows_of_all_files(self, golden: Golden, case: str) -> None:
        truth = self.truth(case, "et")
        result = plan(golden.table(case), event_time="et")
        known = [s for s in result.splits if isinstance(s.event_time, EventTimeBounds)]
        assert known and len(known) == len(result.splits)
        assert any(split.logs for split in known)
        for split in known:
            files = [truth[file.path] for file in (*([split.base] if split.base else []), *split.logs)]
            lows, highs = [low for low, _ in files if low is not None], [high for _, high in files if high is not None]
            assert split.event_time == EventTimeBounds(min(lows), max(highs))
        without = plan(golden.table(case), event_time="et", metadata=False)
        assert all(isinstance(split.event_time, UnknownBounds) for split in without.splits if split.logs)

    def test_plain_longs_need_a_unit(self, golden: Golden) -> None:
        case = "B_v9_colstats_cow"
        truth = self.truth(case, "et_ms")
        assert {s.event_time for s in plan(golden.table(case), event_time="et_ms").splits} == {UnknownBounds()}
        for split in plan(golden.table(case), event_time="et_ms", event_time_unit="ms").splits:
            assert split.base is not None
            low, high = truth[split.base.path]
            assert low is not None and high is not None
            assert split.event_time == EventTimeBounds(low * 1000, high * 1000)

    @pytest.mark.parametrize("case", ["B_v6_colstats_mor", "B_v8_colstats_mor", "B_v9_colstats_mor"])
    def test_plain_longs_of_slices_with_logs_take_the_unit_too(self, golden: Golden, case: str) -> None:
        truth = self.truth(case, "et_ms")
        result = plan(golden.table(case), event_time="et_ms", event_time_unit="s")
        assert any(split.logs for split in result.splits)
        for split in result.splits:
            files = [truth[file.path] for file in (*([split.base] if split.base else []), *split.logs)]
            lows, highs = [low for low, _ in files if low is not None], [high for _, high in files if high is not None]
            assert split.event_time == EventTimeBounds(min(lows) * 1_000_000, max(highs) * 1_000_000)

    @pytest.mark.parametrize(
        ("case", "metadata"), [("B_v9_colstats_cow", False), ("B_v9_colstats_mor", True), ("B_v6_colstats_mor", True)]
    )
    def test_file_of_nulls_has_no_event_times(self, golden: Golden, case: str, metadata: bool) -> None:
        result = plan(golden.table(case), event_time="nul", metadata=metadata)
        assert {s.event_time for s in result.splits} == {NoEventTimes()}

    def test_footers_are_not_read_without_the_option(self, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
        """Except the footer that shows whether the table has `_hoodie_operation`."""
        monkeypatch.setattr(file_bounds, "read_base_footer", None)
        read = pq.read_metadata
        reads: list[Any] = []
        monkeypatch.setattr(pq, "read_metadata", lambda source: reads.append(source) or read(source))
        result = plan(golden.table("B_v9_colstats_cow"))
        assert len(reads) == 1
        assert {s.event_time for s in result.splits} == {UnknownBounds()}


class TestPlannedRuns:
    def test_large_file_becomes_runs_with_their_own_bounds_and_ids(
        self, golden: Golden, tmp_path: pathlib.Path
    ) -> None:
        """A golden base file rewritten with small row groups: same rows, same name."""
        folder = tmp_path / "table"
        shutil.copytree(golden.table("B_v9_colstats_cow"), folder)
        (whole, *others) = plan(folder).splits
        assert whole.base is not None and whole.part == WholeFile()
        rows = pq.read_table(folder / whole.base.path)
        pq.write_table(rows, folder / whole.base.path, row_group_size=max(1, rows.num_rows // 3))
        groups = pq.read_metadata(folder / whole.base.path).num_row_groups
        assert groups >= 3
        cut_up = plan(folder, target_split_bytes=1, event_time="et")
        runs = [s for s in cut_up.splits if s.file_group == whole.file_group]
        assert sorted((s.part.first, s.part.end) for s in runs if isinstance(s.part, RowGroupRun)) == [
            (i, i + 1) for i in range(groups)
        ]
        assert len({s.split_id for s in cut_up.splits}) == groups + len(others)
        assert {s.order_key for s in runs} == {whole.order_key}
        places = [(s.order_key, s.split_id) for s in cut_up.splits]
        assert places == sorted(places)
        assert any(isinstance(s.event_time, EventTimeBounds) for s in runs)
        assert plan(folder, target_split_bytes=1, event_time="et") == cut_up
