"""`penstock.read` of scripted splits: in plan order, `limit`, threads, reports, arguments."""

from __future__ import annotations

import gc
import os
import pathlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine import arrow, read_tasks
from penstock.proto.errors import (
    ConfigurationError,
    CorruptBlock,
    InvariantViolation,
)
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Snapshot
from penstock.proto.model.reports import EndOfSlot, NextSplit, OpenedPlan, SplitAnswer, SplitReport, TableDescription
from penstock.proto.model.splits import CommitTimeOrdering, Scan, Split, VisibleInstants
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options

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
