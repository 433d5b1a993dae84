"""`plan_read`: tasks that other processes can read, with the rows of Hudi; limits, retries and reports of a task."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine import read_tasks
from penstock.engine.read_tasks import PlannedRead, PlanOnServer, ReadTask, SharedByTasks, plan_read
from penstock.proto.errors import ServerUnavailable, StorageError, TableNotFound
from penstock.proto.model.access import NO_ACCESS
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.reports import SplitReport
from penstock.proto.model.splits import CommitTimeOrdering, Scan, Split, VisibleInstants
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options
from penstock.proto.retry import RetryPolicy

if TYPE_CHECKING:
    import pathlib

    from tests.golden_tables import GoldenTables

MOR = "A_merge_event_long_v9_h120"
RANGES = "B_v9_inc_mor"
CDC = "B_v8_cdc_cow_data_before_after"
BASE_FILES = "B_v9_inc_cow"


def options(**given: object) -> ParsedOptions:
    return parse_options(given, entry_point=EntryPoint.ARROW, environment={})


def plan(table: pathlib.Path | str, **given: object) -> PlannedRead:
    return plan_read(str(table), options(**given))


def rows_of(planned: PlannedRead, tasks: tuple[ReadTask, ...] | None = None) -> pa.Table:
    tasks = planned.tasks if tasks is None else tasks
    return pa.Table.from_batches([batch for task in tasks for batch in task.batches()], planned.schema)


@pytest.mark.golden
class TestRealTables:
    """Tables that Hudi wrote."""

    @pytest.mark.parametrize("name", [MOR, "A_merge_event_long_v6_h0150", RANGES])
    def test_tasks_together_have_rows_of_hudi(self, golden: GoldenTables, name: str) -> None:
        expected = golden.expected(name, "snapshot").sort_by("id")
        actual = rows_of(plan(golden.table(name))).sort_by("id")
        assert actual.select(expected.column_names).to_pylist() == expected.to_pylist()

    @pytest.mark.parametrize(
        ("name", "given"),
        [
            (MOR, {}),
            (MOR, {"columns": ("id",), "where": "id > '1'"}),
            (MOR, {"query": "read_optimized"}),
            (BASE_FILES, {}),
            (RANGES, {"query": "incremental", "after": "earliest"}),
            (CDC, {"query": "cdc", "after": "earliest"}),
            ("D_changelog_mor_v9", {"query": "cdc", "after": "earliest", "cdc_format": "hudi"}),
        ],
    )
    def test_pickled_tasks_have_rows_of_read(self, golden: GoldenTables, name: str, given: dict[str, Any]) -> None:
        planned = plan(golden.table(name), **given)
        tasks: tuple[ReadTask, ...] = pickle.loads(pickle.dumps(planned.tasks))
        expected = penstock.read(golden.table(name), **given).read_all()
        assert expected.num_rows
        assert rows_of(planned, tasks) == expected
        assert rows_of(planned, tasks[:-1]) != expected
        assert [task.split_id for task in tasks] == [task.split_id for task in planned.tasks]
        assert [task.bytes for task in tasks] == [task.split.size_bytes for task in planned.tasks]

    def test_task_is_read_in_fresh_process_without_planner(self, golden: GoldenTables) -> None:
        planned = plan(golden.table(BASE_FILES))
        code = (
            "import pickle, sys\n"
            "tasks = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
            "print(sum(batch.num_rows for task in tasks for batch in task.batches()))\n"
            "assert 'penstock.enumerator' not in sys.modules and 'grpc' not in sys.modules\n"
        )
        process = subprocess.run(
            [sys.executable, "-c", code, pickle.dumps(planned.tasks).hex()],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert int(process.stdout) == rows_of(planned).num_rows > 0

    def test_limit_bounds_each_task(self, golden: GoldenTables) -> None:
        planned = plan(golden.table(MOR), limit=3)
        unlimited = plan(golden.table(MOR))
        assert planned.limit == 3 and unlimited.limit is None
        for task, whole in zip(planned.tasks, unlimited.tasks, strict=True):
            every = [batch.num_rows for batch in whole.batches()]
            assert sum(batch.num_rows for batch in task.batches()) == min(3, sum(every)) > 0
            assert sum(batch.num_rows for batch in task.batches(limit=2)) == min(2, sum(every))
            assert list(task.batches(limit=0)) == []

    def test_no_table(self, tmp_path: pathlib.Path) -> None:
        with pytest.raises(TableNotFound):
            plan(tmp_path)


SCHEMA = pa.schema([("id", pa.int64())])
SCAN = Scan(
    table="t",
    base_path="s3://user:secret@bucket/t",
    table_version=9,
    schema_json="{}",
    columns=("id",),
    merge=CommitTimeOrdering(),
    visible=VisibleInstants(frozenset()),
)


def shared(limit: int | None = None, plan: PlanOnServer | None = None, attempts: int = 1) -> SharedByTasks:
    retry = RetryPolicy(attempts=attempts, first_delay_ms=0, longest_delay_ms=0)
    return SharedByTasks(SCAN, SCHEMA, limit, 100, "", "", retry, plan)


def task(common: SharedByTasks, index: int = 0) -> ReadTask:
    split = Split(
        split_id=f"split-{index}",
        partition="",
        partition_values=(),
        file_group="g",
        order_key=InstantTime("1"),
        base=None,
    )
    return ReadTask(split, common, 0, index)


@dataclass
class Piece:
    """The result of a split reader, reduced to the fields that a task uses."""

    batch: pa.RecordBatch
    next_ordinal: int


@dataclass
class Reader:
    """Replaces `read_split`: one row in each batch, of `rows` in all; each reading fails after `reach` batches."""

    rows: int
    reach: int
    starts: list[int] = field(default_factory=list)
    closed: int = 0

    def __call__(self, scan: Scan, split: Split, *, start: int, options: Any, tally: Any) -> Generator[Piece]:
        self.starts.append(start)
        try:
            for ordinal in range(start, self.rows):
                if ordinal == start + self.reach:
                    raise StorageError("storage of t is away")
                yield Piece(pa.record_batch([[ordinal]], schema=SCHEMA), ordinal + 1)
        finally:
            self.closed += 1


@dataclass
class Server:
    """The reports of a server, or the error of its calls."""

    error: Exception | None = None
    reports: list[tuple[str, int, int, SplitReport]] = field(default_factory=list)

    def finish_split(self, plan_id: str, slot: int, index: int, report: SplitReport) -> None:
        if self.error is not None:
            raise self.error
        self.reports.append((plan_id, slot, index, report))


ReaderOf = Callable[[int, int], Reader]
SERVED = PlanOnServer("127.0.0.1:1", NO_ACCESS, "p")


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> ReaderOf:
    def use(rows: int, reach: int) -> Reader:
        state = Reader(rows, reach)
        monkeypatch.setattr(read_tasks, "read_split", state)
        return state

    return use


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    state = Server()
    monkeypatch.setattr(read_tasks, "enumerator_for", lambda address, access: state)
    return state


def values(one: ReadTask, limit: int | None = None) -> list[int]:
    return [value for batch in one.batches(limit) for value in batch.column(0).to_pylist()]


def test_task_continues_after_retryable_error(reader: ReaderOf) -> None:
    state = reader(5, 2)
    assert values(task(shared(attempts=2))) == [0, 1, 2, 3, 4]
    assert state.starts == [0, 2, 4]


def test_task_without_retries_raises(reader: ReaderOf) -> None:
    state = reader(5, 2)
    with pytest.raises(StorageError):
        values(task(shared()))
    assert (state.starts, state.closed) == ([0], 1)


def test_report_goes_to_server_that_planned(reader: ReaderOf, server: Server) -> None:
    reader(5, 9)
    one = pickle.loads(pickle.dumps(task(shared(plan=SERVED), 7)))
    assert values(one) == [0, 1, 2, 3, 4]
    assert values(one, 3) == [0, 1, 2]
    assert [(*place, report.rows) for *place, report in server.reports] == [("p", 0, 7, 5), ("p", 0, 7, 3)]


def test_left_and_failed_tasks_are_not_reported(reader: ReaderOf, server: Server) -> None:
    state = reader(5, 2)
    one = task(shared(plan=SERVED))
    with pytest.raises(StorageError):
        values(one)
    batches = one.batches()
    next(batches)
    assert state.closed == 1
    batches.close()
    assert (state.closed, server.reports) == (2, [])


def test_undelivered_report_fails_nothing(reader: ReaderOf, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    reader(2, 9)
    server.error = ServerUnavailable("away")
    seen: list[SplitReport] = []
    assert len(list(task(shared(plan=SERVED)).batches(on_report=seen.append))) == 2
    assert "report not delivered" in caplog.text and [report.rows for report in seen] == [2]


def test_pickle_has_no_credentials_of_uri(reader: ReaderOf) -> None:
    one = task(shared())
    assert b"secret" not in pickle.dumps(one) and "secret" not in repr(one)
    assert pickle.loads(pickle.dumps(one)).shared.scan.base_path == "s3://bucket/t"
    assert one.shared.scan.base_path == SCAN.base_path


def test_pickled_tasks_share_scan() -> None:
    common = shared()
    first, second = pickle.loads(pickle.dumps((task(common, 0), task(common, 1))))
    assert first.shared is second.shared


@pytest.mark.parametrize(("limit", "batch_rows", "decoded"), [(3, None, 1024), (3, 10, 10), (5000, None, 5000)])
def test_low_limit_does_not_make_tiny_batches(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, limit: int, batch_rows: int | None, decoded: int
) -> None:
    """All first rows of the base file are replaced: they were read in as many batches as `limit` goes into them."""
    path, schema = str(tmp_path / "t"), pa.schema([("id", pa.string()), ("seq", pa.int64())])
    penstock.create_table(path, schema, record_key="id", ordering="seq", buckets=1, table_type="merge_on_read")
    penstock.write(path, pa.table({"id": [str(number) for number in range(9000)], "seq": [1] * 9000}, schema))
    asked: list[int] = []
    read_split = read_tasks.read_split

    def recorded(*arguments: Any, **settings: Any) -> Any:
        asked.append(settings["options"].batch_rows)
        return read_split(*arguments, **settings)

    monkeypatch.setattr(read_tasks, "read_split", recorded)
    given = {} if batch_rows is None else {"batch_rows": batch_rows}
    assert penstock.read(path, limit=limit, threads=1, **given).read_all().num_rows == limit
    assert asked == [decoded]
