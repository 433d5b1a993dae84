"""The stream reader without Spark: what Spark calls, in the order it calls it, against a scripted enumerator."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import pytest
from pyspark.sql import types as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, SupportsTriggerAvailableNow

from penstock.engine.spark.offsets import offset_of
from penstock.engine.spark.options import Loaded
from penstock.engine.spark.stream_reader import PenstockStreamReader
from penstock.proto.errors import ConfigurationError, StateVersionError, StorageError
from penstock.proto.options import GivenOptions
from penstock.proto.positions import EARLIEST, InstantTime, Position
from penstock.proto.queries import Incremental, PlanRequest
from penstock.proto.reports import OpenedPlan, SplitAnswer, SplitReport, TableDescription
from penstock.proto.splits import CommitTimeOrdering, Scan, VisibleInstants

SCHEMA = st.StructType([st.StructField("id", st.LongType())])
AVRO = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'


@dataclass
class Script:
    """An enumerator whose commits are numbered; it keeps what it was asked."""

    commits: int = 3
    requests: list[PlanRequest] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)

    def describe_table(self, table: str) -> TableDescription:
        raise AssertionError("a stream with a known schema does not ask for it")

    def newest_position(self, table: str, after: Position | None = None, max_commits: int = 0) -> Position:
        done = 0 if after in (None, EARLIEST) else int(after.order_key[-2:])
        top = max(done, self.commits)
        number = min(top, done + max_commits) if max_commits else top
        return EARLIEST if number == 0 else at(number)

    def open_plan(self, request: PlanRequest) -> OpenedPlan:
        if self.failures:
            raise self.failures.pop(0)
        self.requests.append(request)
        scan = Scan(
            table=request.table,
            base_path="/t",
            table_version=9,
            schema_json=AVRO,
            columns=request.columns,
            merge=CommitTimeOrdering(),
            visible=VisibleInstants(frozenset()),
        )
        return OpenedPlan(plan_id=f"plan{len(self.requests)}", slots=2, splits=5, size_bytes=9, scan=scan)

    def describe_plan(self, plan_id: str) -> Scan:
        raise AssertionError("not on the driver")

    def next_split(self, plan_id: str, slot: int, index: int) -> SplitAnswer:
        raise AssertionError("not on the driver")

    def finish_split(self, plan_id: str, slot: int, index: int, report: SplitReport) -> None:
        raise AssertionError("not on the driver")


def at(commit: int) -> Position:
    return Position(InstantTime(f"202601010000000{commit:02}"))


def reader(script: Script | None = None, **options: object) -> PenstockStreamReader:
    given = GivenOptions(server="127.0.0.1:1", **options)  # type: ignore[arg-type]
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    return PenstockStreamReader(
        Loaded("t", given), SCHEMA, enumerator=script or Script(), clock=lambda: now[0], pause=pause
    )


def test_a_first_start_one_commit_at_a_time() -> None:
    stream = reader(max_commits_per_trigger=1)
    limit = stream.getDefaultReadLimit()
    start = stream.initialOffset()
    assert start == offset_of(EARLIEST)
    ends = []
    while (end := stream.latestOffset(start, limit)) != start:
        ends.append(end)
        start = end
    assert ends == [offset_of(at(n)) for n in (1, 2, 3)]


def test_nothing_new_is_the_very_offset_spark_gave() -> None:
    start = dict(reversed(offset_of(at(3)).items()))  # a text that differs from ours
    assert reader().latestOffset(start, ReadAllAvailable()) is start


def test_the_limit_is_what_spark_hands_back() -> None:
    assert reader().getDefaultReadLimit() == ReadAllAvailable()
    capped = reader(max_commits_per_trigger=2)
    assert capped.getDefaultReadLimit() == ReadMaxFiles(2)
    assert capped.latestOffset(offset_of(at(1)), ReadMaxFiles(2)) == offset_of(at(3))
    assert capped.latestOffset(offset_of(EARLIEST), ReadAllAvailable()) == offset_of(at(3))  # Trigger.Once


def test_without_a_start_it_is_the_initial_offset() -> None:
    assert reader(after="20260101000000002").latestOffset() == offset_of(at(3))
    assert reader(after="20260101000000003").latestOffset() == offset_of(at(3))


@pytest.mark.parametrize(
    ("after", "expected"),
    [(None, EARLIEST), ("earliest", EARLIEST), ("20260101000000002", at(2)), ("latest", at(3))],
)
def test_where_a_stream_starts(after: str | None, expected: Position) -> None:
    script = Script()
    stream = reader(script, after=after)
    assert stream.initialOffset() == offset_of(expected)
    script.commits = 9
    assert stream.initialOffset() == offset_of(expected), "Spark asks twice and takes the second answer"


def test_available_now_ends_where_the_table_stood() -> None:
    script = Script()
    stream = reader(script)
    assert isinstance(stream, SupportsTriggerAvailableNow)
    stream.prepareForTriggerAvailableNow()
    script.commits = 8
    assert stream.latestOffset(stream.initialOffset(), ReadAllAvailable()) == offset_of(at(3))
    assert stream.latestOffset(offset_of(at(3)), ReadAllAvailable()) == offset_of(at(3))


def test_a_micro_batch_is_a_plan_of_its_range() -> None:
    script = Script()
    stream = reader(script, where="id > 1", slots=2)
    slots = [partition.value for partition in stream.partitions(offset_of(at(1)), offset_of(at(3)))]
    assert [(slot.server, slot.plan_id, slot.slot) for slot in slots] == [
        ("127.0.0.1:1", "plan1", 0),
        ("127.0.0.1:1", "plan1", 1),
    ]
    (request,) = script.requests
    assert request.query == Incremental(at(1), at(3))
    assert (request.columns, request.where, request.slots) == (("id",), "id > 1", 2)


def test_the_same_range_again_is_a_new_plan() -> None:
    script = Script()
    stream = reader(script)
    ranges = [offset_of(at(1)), offset_of(at(2))]
    assert [stream.partitions(*ranges)[0].value.plan_id for _ in range(2)] == ["plan1", "plan2"]
    assert script.requests[0] == script.requests[1]


def test_an_empty_range_has_no_tasks_and_no_plan() -> None:
    script = Script()
    assert reader(script).partitions(offset_of(at(2)), offset_of(at(2))) == []
    assert script.requests == []


def test_a_server_that_is_away_is_waited_for() -> None:
    script = Script(failures=[StorageError("away")] * 3)
    assert len(reader(script).partitions(offset_of(at(1)), offset_of(at(2)))) == 2


def test_a_foreign_checkpoint() -> None:
    with pytest.raises(ConfigurationError, match="not an offset of Penstock"):
        reader().partitions({"i": 3}, {"i": 4})
    with pytest.raises(StateVersionError, match="version 9"):
        reader().latestOffset({"version": 9}, ReadAllAvailable())


def test_what_travels_to_a_task() -> None:
    stream = reader(max_commits_per_trigger=1)
    stream.latestOffset(stream.initialOffset(), None)
    data = pickle.dumps(stream)
    assert len(data) < 2000
    copy = pickle.loads(data)
    assert isinstance(copy, PenstockStreamReader)
    assert copy.initialOffset() == offset_of(EARLIEST)


def test_commit_and_stop_do_nothing() -> None:
    stream = reader()
    stream.commit(offset_of(at(1)))
    stream.stop()
    stream.stop()
