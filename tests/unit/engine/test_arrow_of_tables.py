"""Reads of golden tables to Arrow: rows, times, changes and what is reported."""

from __future__ import annotations

import gc
import itertools
import pathlib
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.engine import arrow, read_tasks
from penstock.engine.parallel import threads as parallel_threads
from penstock.engine.requests.times import Time
from penstock.proto.errors import CorruptFile, TableNotFound
from penstock.proto.model.reports import SplitReport
from penstock.table.schema.avro import META_COLUMNS
from tests.unit.engine.test_arrow import options, reader_threads

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables


@pytest.mark.golden
class TestRealTables:
    """Tables that Hudi wrote, read with the embedded enumerator."""

    @pytest.mark.parametrize("name", ["A_merge_event_long_v9_h120", "A_merge_event_long_v6_h0150"])
    def test_snapshot(self, golden: GoldenTables, name: str) -> None:
        expected = golden.expected(name, "snapshot").sort_by("id")
        actual = penstock.read(golden.table(name)).read_all().sort_by("id")
        assert actual.select(expected.column_names).to_pylist() == expected.to_pylist()

    def test_ranges_meet(self, golden: GoldenTables) -> None:
        name = "B_v9_inc_mor"
        keys = sorted(completed for _, completed, _ in golden.case(name)["instants"])
        whole = penstock.read(golden.table(name), query="incremental", after="earliest").read_all()
        last = penstock.read(golden.table(name), query="incremental", after=keys[-1]).read_all()
        assert (whole.num_rows > 0, last.num_rows) == (True, 0)
        middle = keys[len(keys) // 2]
        early = penstock.read(
            golden.table(name), query="incremental", after="earliest", upto=middle, columns="_hoodie_commit_time"
        )
        late = penstock.read(golden.table(name), query="incremental", after=middle, columns=["_hoodie_commit_time"])
        assert not set(early.read_all()[0].to_pylist()) & set(late.read_all()[0].to_pylist())

    @pytest.mark.parametrize("query", ["incremental", "cdc"])
    def test_ranges_cut_at_datetimes_and_days_meet(self, golden: GoldenTables, query: str) -> None:
        name = "B_v9_inc_mor"
        keys = sorted(completed for _, completed, _ in golden.case(name)["instants"])
        moments = [datetime.strptime(key, "%Y%m%d%H%M%S%f").replace(tzinfo=UTC) for key in keys]

        def rows(after: Time, upto: Time) -> int:
            range_of_table = {"query": query, "after": after, "upto": upto, "timeline_timezone": "UTC"}
            return penstock.read(golden.table(name), **range_of_table).read_all().num_rows  # type: ignore[arg-type]

        digits = [rows(*cut) for cut in itertools.pairwise(["earliest", *keys])]
        aware = [rows(*cut) for cut in itertools.pairwise(["earliest", *moments])]
        naive = [rows(*cut) for cut in itertools.pairwise(["earliest", *(at.replace(tzinfo=None) for at in moments)])]
        assert digits == aware == naive
        assert sum(count > 0 for count in digits) > 1, "else the cuts divide nothing"
        first, last = moments[0].date(), moments[-1].date()
        days = [first - timedelta(1), *(first + timedelta(n) for n in range((last - first).days + 1))]
        whole = rows("earliest", "latest")
        assert whole > 0
        if query == "cdc" or first == last:
            assert sum(rows(*cut) for cut in itertools.pairwise(days)) == whole
        assert rows(last, "latest") == 0

    def test_day_of_as_of_is_the_whole_day(self, golden: GoldenTables) -> None:
        table, zone = golden.table("A_merge_event_long_v9_h120"), "UTC"
        at_end = penstock.read(table, as_of=date(2026, 11, 20), timeline_timezone=zone).read_all()
        at_midnight = penstock.read(table, as_of=datetime(2026, 11, 20, tzinfo=UTC), timeline_timezone=zone).read_all()
        assert at_end.num_rows == penstock.read(table).read_all().num_rows > 0
        assert at_midnight.num_rows == 0

    @pytest.mark.parametrize(
        "query", [{}, {"query": "incremental", "after": "earliest"}, {"query": "cdc", "after": "earliest"}], ids=str
    )
    def test_meta_columns_are_left_out(self, golden: GoldenTables, query: dict[str, Any]) -> None:
        table = golden.table("A_merge_event_long_v9_h120")
        whole = penstock.read(table, **query).read_all()
        own = [name for name in whole.column_names if name not in META_COLUMNS]
        assert "_hoodie_is_deleted" in own, "a column of the writer"
        assert penstock.read(table, meta=False, **query).read_all() == whole.select(own)
        assert len(own) < len(whole.column_names)
        newest = max(filter(None, whole["_hoodie_commit_time"].to_pylist()))
        filtered = penstock.read(table, meta=False, where=[("_hoodie_commit_time", "=", newest)], **query).read_all()
        assert filtered == whole.filter(pc.field("_hoodie_commit_time") == newest).select(own)
        named = penstock.read(table, meta=False, columns=["_hoodie_record_key"], **query)
        assert named.schema.names == ["_hoodie_record_key"]

    def test_limit_and_columns_and_where(self, golden: GoldenTables) -> None:
        table = golden.table("A_merge_event_long_v9_h120")
        reader = penstock.read(table, columns=["ID", "v"], where="v is not null", limit=5, batch_rows=2)
        assert reader.schema.names == ["id", "v"]
        batches = list(reader)
        assert sum(batch.num_rows for batch in batches) == 5
        assert max(batch.num_rows for batch in batches) <= 2

    @pytest.mark.parametrize("threads", [2, 4])
    @pytest.mark.parametrize(
        ("name", "given"),
        [
            ("B_v9_inc_cow", {}),
            ("B_v9_inc_mor", {"batch_rows": 3}),
            ("B_v9_inc_mor", {"query": "incremental", "after": "earliest"}),
            ("B_v8_cdc_cow_data_before_after", {"query": "cdc", "after": "earliest"}),
            ("B_v9_inc_mor", {"limit": 7}),
        ],
    )
    def test_threads_have_rows_of_one_thread(
        self, golden: GoldenTables, name: str, given: dict[str, Any], threads: int
    ) -> None:
        table = golden.table(name)
        expected = penstock.read(table, threads=1, **given).read_all()
        assert expected.num_rows and arrow.open_reading(str(table), options(threads=threads, **given)).threads > 1
        assert penstock.read(table, threads=threads, **given).read_all() == expected
        unordered = penstock.read(table, threads=threads, ordered=False, **given).read_all()
        assert unordered.num_rows == expected.num_rows
        if "limit" not in given:
            assert sorted(map(str, unordered.to_pylist())) == sorted(map(str, expected.to_pylist()))

    @pytest.mark.parametrize("ordered", [True, False])
    def test_bad_split_ends_read_with_threads(
        self, golden: GoldenTables, tmp_path: pathlib.Path, ordered: bool
    ) -> None:
        table = golden.copy("B_v9_inc_cow", tmp_path)
        planned = {
            task.split.base.path for task in read_tasks.plan_read(str(table), options()).tasks if task.split.base
        }
        file = next(table / path for path in sorted(planned))
        file.write_bytes(file.read_bytes()[:-50])
        with pytest.raises(CorruptFile, match=file.name):
            penstock.read(table, threads=3, ordered=ordered).read_all()
        assert not reader_threads()

    def test_event_times_are_reported(self, golden: GoldenTables) -> None:
        reports: list[SplitReport] = []
        table = str(golden.table("A_merge_event_timestamp_v9_h120"))
        reading = arrow.open_reading(table, options(event_time="TS", columns=["id"]))
        rows = sum(batch.num_rows for batch in reading.batches(on_report=reports.append))
        highest = pc.max(
            golden.expected("A_merge_event_timestamp_v9_h120", "snapshot")["ts"].cast(pa.timestamp("us", "UTC"))
        )
        assert [report.max_event_time_us for report in reports] == [highest.value]
        assert sum(report.rows for report in reports) == rows

    @pytest.mark.parametrize(("name", "threads"), [("A_merge_event_long_v9_h120", 1), ("B_v9_inc_mor", 3)])
    def test_dropped_reader_holds_no_file_and_no_thread(
        self, golden: GoldenTables, monkeypatch: pytest.MonkeyPatch, name: str, threads: int
    ) -> None:
        monkeypatch.setattr(parallel_threads, "WAITING_BYTES", 1)  # threads wait for the consumer
        table = golden.table(name)
        reader = penstock.read(table, batch_rows=1, threads=threads)
        reader.read_next_batch()
        assert bool(reader_threads()) == (threads > 1)
        del reader
        gc.collect()
        assert not reader_threads()
        held = [file.path for file in psutil.Process().open_files() if str(table) in file.path]
        held += [region.path for region in psutil.Process().memory_maps() if str(table) in region.path]
        assert held == []

    def test_no_table(self, tmp_path: pathlib.Path) -> None:
        with pytest.raises(TableNotFound):
            penstock.read(tmp_path)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("as_of", "warned"), [("2026-11-20", True), ("20261120000000000", True), ("2026-11-20 00:00:01", True),
                          ("2026-11-20T23:59:59", False)]
)  # fmt: skip
def test_day_whose_first_commit_is_later_gives_no_rows_and_a_warning(
    golden: GoldenTables, as_of: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    table = str(golden.table("A_merge_event_long_v9_h120"))
    rows = penstock.read(table, as_of=as_of, timeline_timezone="UTC").read_all().num_rows
    assert (rows == 0, "0 rows: no commit requested at or before 20261120" in caplog.text) == (warned, warned)
    at_midnight = warned and "00:00:01" not in as_of
    assert ("a date without a time of day is its first moment" in caplog.text) == at_midnight
