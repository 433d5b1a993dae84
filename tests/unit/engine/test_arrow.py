"""`penstock.read`: splits in plan order, `limit`, reports; then real tables compared with Hudi's rows."""

from __future__ import annotations

import gc
import itertools
import os
import pathlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
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
from penstock.proto.errors import (
    ConfigurationError,
    CorruptBlock,
    CorruptFile,
    InvariantViolation,
    TableNotFound,
)
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Snapshot
from penstock.proto.model.reports import EndOfSlot, NextSplit, OpenedPlan, SplitAnswer, SplitReport, TableDescription
from penstock.proto.model.splits import CommitTimeOrdering, Scan, Split, VisibleInstants
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options
from penstock.table.schema.avro import META_COLUMNS

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

SCHEMA = pa.schema([("id", pa.int64())])
SCAN = Scan(
    table="t",
    base_path="/t",
    table_version=9,
    schema_json="{}",
    columns=("id",),
    merge=CommitTimeOrdering(),
    visible=VisibleInstants(frozenset()),
)
NEWEST = Position(InstantTime("20260131000000000"))


def split(name: str) -> Split:
    return Split(
        split_id=name, partition="", partition_values=(), file_group=name, order_key=InstantTime("1"), base=None
    )


@dataclass
class ScriptedEnumerator:
    """Slots of splits; records requests and reports."""

    slots: list[list[str]]
    requests: list[PlanRequest] = field(default_factory=list)
    reports: dict[tuple[int, int], SplitReport] = field(default_factory=dict)
    described: int = 0

    def describe_table(self, table: str) -> TableDescription:
        self.described += 1
        return TableDescription(
            table=table,
            base_path="/t",
            hudi_name="t",
            table_type="COPY_ON_WRITE",
            table_version=9,
            timeline_layout=2,
            timeline_timezone="UTC",
            merge_mode="",
            record_key_fields=(),
            partition_fields=(),
            ordering_fields=(),
            schema_json="{}",
            newest=NEWEST,
        )

    def newest_position(self, table: str, after: Position | None = None, max_commits: int = 0) -> Position:
        return NEWEST

    def open_plan(self, request: PlanRequest) -> OpenedPlan:
        self.requests.append(request)
        splits = sum(map(len, self.slots))
        return OpenedPlan(plan_id="p", slots=len(self.slots), splits=splits, size_bytes=0, scan=SCAN)

    def describe_plan(self, plan_id: str) -> Scan:
        return SCAN

    def next_split(self, plan_id: str, slot: int, index: int) -> SplitAnswer:
        return NextSplit(split(self.slots[slot][index])) if index < len(self.slots[slot]) else EndOfSlot()

    def finish_split(self, plan_id: str, slot: int, index: int, report: SplitReport) -> None:
        self.reports[slot, index] = report


@dataclass
class Piece:
    """The result of a split reader, reduced to the fields that these tests use."""

    batch: pa.RecordBatch
    next_ordinal: int = 0


class Reader:
    """Replaces `read_split`: split `a:1,2|3` has batches [1, 2] and [3]; `!` fails, `?` has another schema."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []

    def __call__(self, scan: Scan, split: Split, *, start: int, options: Any, tally: Any) -> Iterator[Piece]:
        self.opened.append(split.split_id)
        try:
            for part in split.split_id.partition(":")[2].split("|"):
                if part == "!":
                    raise CorruptBlock("block of t is damaged")
                if part == "?":
                    yield Piece(pa.record_batch({"other": [1]}))
                    continue
                yield Piece(pa.record_batch([[int(x) for x in part.split(",") if x]], schema=SCHEMA))
        finally:
            self.closed.append(split.split_id)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    state = Reader()
    monkeypatch.setattr(read_tasks, "read_split", state)
    monkeypatch.setattr(read_tasks, "output_schema", lambda scan: SCHEMA)
    return state


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> ScriptedEnumerator:
    enumerator = ScriptedEnumerator([["a:1,2|3", "b:", "c:4"], ["d:5,6"]])
    monkeypatch.setattr(read_tasks, "enumerator_for", lambda *arguments: enumerator)
    monkeypatch.setenv("PENSTOCK_SERVER", "127.0.0.1:1")
    monkeypatch.setenv("PENSTOCK_THREADS", "1")
    return enumerator


def options(**given: object) -> ParsedOptions:
    return parse_options(given, entry_point=EntryPoint.ARROW, environment=os.environ)


def reader_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("penstock-read")]


def ids(reader: pa.RecordBatchReader) -> list[int]:
    return list(reader.read_all().column("id").to_pylist())


def test_splits_come_in_plan_order(reader: Reader, plan: ScriptedEnumerator) -> None:
    assert ids(penstock.read("t")) == [1, 2, 3, 4, 5, 6]
    assert reader.closed == reader.opened == ["a:1,2|3", "b:", "c:4", "d:5,6"]
    assert set(plan.reports) == {(0, 0), (0, 1), (0, 2), (1, 0)}
    assert plan.requests == [PlanRequest(table="t", query=Snapshot(), slots=1)]
    assert plan.described == 0


def test_schema_is_known_before_a_split_is_opened(reader: Reader, plan: ScriptedEnumerator) -> None:
    rows = penstock.read("t")
    assert rows.schema == SCHEMA
    assert reader.opened == []


@pytest.mark.parametrize(
    ("limit", "rows", "opened", "reported"),
    [
        (0, [], 0, 0),
        (1, [1], 1, 1),
        (2, [1, 2], 1, 1),
        (3, [1, 2, 3], 1, 1),
        (4, [1, 2, 3, 4], 3, 3),
        (5, [1, 2, 3, 4, 5], 4, 4),
        (9, [1, 2, 3, 4, 5, 6], 4, 4),
    ],
)
def test_limit_is_exact_and_opens_no_more_than_it_needs(
    reader: Reader, plan: ScriptedEnumerator, limit: int, rows: list[int], opened: int, reported: int
) -> None:
    assert ids(penstock.read("t", limit=limit)) == rows
    assert len(reader.opened) == opened
    assert reader.closed == reader.opened
    assert len(plan.reports) == reported
    assert sum(report.rows for report in plan.reports.values()) == len(rows)


def test_split_cut_by_the_limit_is_reported_with_the_returned_rows(reader: Reader, plan: ScriptedEnumerator) -> None:
    penstock.read("t", limit=5).read_all()
    assert [(place, report.rows) for place, report in plan.reports.items()] == [
        ((0, 0), 3),
        ((0, 1), 0),
        ((0, 2), 1),
        ((1, 0), 1),
    ]


def test_split_with_an_error_before_the_limit_is_not_reported(reader: Reader, plan: ScriptedEnumerator) -> None:
    plan.slots = [["a:1", "b:2|!"]]
    with pytest.raises(CorruptBlock):
        penstock.read("t", limit=3).read_all()
    assert set(plan.reports) == {(0, 0)}


def test_no_splits_are_no_rows(reader: Reader, plan: ScriptedEnumerator) -> None:
    plan.slots = []
    rows = penstock.read("t").read_all()
    assert (rows.num_rows, rows.schema) == (0, SCHEMA)


def test_errors_keep_their_class_and_close_the_split(reader: Reader, plan: ScriptedEnumerator) -> None:
    plan.slots = [["a:1|!", "b:2"]]
    rows = penstock.read("t")
    assert rows.read_next_batch().num_rows == 1
    with pytest.raises(CorruptBlock, match="block of t is damaged"):
        rows.read_next_batch()
    assert reader.closed == ["a:1|!"]
    assert plan.reports == {}


def test_batch_of_another_schema_is_an_internal_error(reader: Reader, plan: ScriptedEnumerator) -> None:
    plan.slots = [["a:?"]]
    with pytest.raises(InvariantViolation, match="split a"):
        penstock.read("t").read_all()


def test_dropped_reader_closes_its_split(reader: Reader, plan: ScriptedEnumerator) -> None:
    rows = penstock.read("t")
    rows.read_next_batch()
    assert reader.closed == []
    del rows
    gc.collect()
    assert reader.closed == ["a:1,2|3"]
    assert plan.reports == {}


@pytest.mark.parametrize("limit", [None, 1, 3, 5, 6, 9])
@pytest.mark.parametrize("ordered", [True, False])
def test_limit_is_exact_with_threads(
    reader: Reader, plan: ScriptedEnumerator, limit: int | None, ordered: bool
) -> None:
    rows = ids(penstock.read("t", limit=limit, threads=3, ordered=ordered))
    assert len(rows) == len(set(rows)) == min(6, limit or 6)
    assert not ordered or rows == sorted(rows)
    assert sorted(reader.closed) == sorted(reader.opened)


def test_threads_report_splits(reader: Reader, plan: ScriptedEnumerator) -> None:
    progress: list[arrow.Progress] = []
    list(arrow.open_reading("t", options(threads=2)).batches(progress.append))
    assert {place: report.rows for place, report in plan.reports.items()} == {
        (0, 0): 3,
        (0, 1): 0,
        (0, 2): 1,
        (1, 0): 2,
    }
    assert progress[-1] == arrow.Progress(rows=6, splits_done=4, splits=4)


def test_threads_raise_error_of_split_after_rows_before_it(reader: Reader, plan: ScriptedEnumerator) -> None:
    plan.slots = [["a:1", "b:2|!", "c:3", "d:!"]]
    rows = penstock.read("t", threads=3)
    assert [rows.read_next_batch()["id"].to_pylist() for _ in range(2)] == [[1], [2]]
    with pytest.raises(CorruptBlock, match="block of t is damaged"):
        rows.read_next_batch()
    assert sorted(reader.closed) == sorted(reader.opened)
    with pytest.raises(StopIteration):
        rows.read_next_batch()


def test_progress(reader: Reader, plan: ScriptedEnumerator) -> None:
    progress: list[arrow.Progress] = []
    list(arrow.open_reading("t", options()).batches(progress.append))
    assert progress[-1] == arrow.Progress(rows=6, splits_done=4, splits=4)
    assert [one.rows for one in progress] == sorted(one.rows for one in progress)


def test_arguments_reach_the_plan(reader: Reader, plan: ScriptedEnumerator) -> None:
    penstock.read(
        pathlib.Path("t"),
        query="incremental",
        after="earliest",
        upto="2026-01-31",
        columns=["id"],
        where="id > 1",
        split_bytes=7,
    )
    assert plan.requests == [
        PlanRequest(
            table="t",
            query=Incremental(EARLIEST, Position(InstantTime("20260131000000000"))),
            columns=("id",),
            where="id > 1",
            slots=1,
            target_split_bytes=7,
        )
    ]


def test_explicit_arguments_win_over_the_environment(
    reader: Reader, plan: ScriptedEnumerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_LIMIT", "2")
    monkeypatch.setenv("PENSTOCK_QUERY", "incremental")
    assert ids(penstock.read("t", query="snapshot")) == [1, 2]
    assert ids(penstock.read("t", query="snapshot", limit=1)) == [1]
    with pytest.raises(ConfigurationError, match="after"):
        penstock.read("t")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"wher": "x"}, "did you mean where"),
        ({"batchrow": 1}, "did you mean batchRows"),
        ({"max_commits_per_trigger": 1}, "does not apply here"),
        ({"asOf": "1", "as_of": "2"}, "both set asOf"),
        ({"limit": -1}, "option limit"),
        ({"server": "nowhere"}, "option server"),
        ({"query": "snapshot", "after": "earliest"}, "query=incremental"),
    ],
)
def test_wrong_arguments_are_refused(plan: ScriptedEnumerator, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        penstock.read("t", **arguments)
    assert plan.requests == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": "cdc"}, "query=cdc needs the option after"),
        ({"query": "cdc", "after": "earliest", "as_of": "20260101000000000"}, "asOf goes with query=snapshot"),
        ({"query": "incremental", "after": "earliest", "cdc_format": "rows"}, "cdcFormat.*give query=cdc"),
        ({"cdc_format": "hudi"}, "cdcFormat.*give query=cdc"),
    ],
)
def test_changes_need_a_range_and_their_format_needs_changes(
    plan: ScriptedEnumerator, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        penstock.read("t", **arguments)
    assert plan.requests == []


@pytest.mark.parametrize("form", ChangeFormat)
def test_changes_are_requested(reader: Reader, plan: ScriptedEnumerator, form: ChangeFormat) -> None:
    penstock.read("t", query="cdc", after="earliest", upto="20260101000000000", cdc_format=form).read_all()
    assert plan.requests[-1].query == Changes(form, EARLIEST, Position(InstantTime("20260101000000000")))


def test_writers_names_are_one_warning(reader: Reader, plan: ScriptedEnumerator) -> None:
    with pytest.warns(UserWarning, match="hoodie.table.name") as warnings_caught:
        penstock.read("t", **{"hoodie.table.name": "t"})  # type: ignore[arg-type]
    assert warnings_caught[0].filename == __file__


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
