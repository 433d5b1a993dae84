"""The stream reader without Spark: Spark's calls in Spark's order, with a scripted enumerator."""

from __future__ import annotations

import json
import logging
import pickle
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pyspark.sql import types as st
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.engine.spark.load import Loaded
from penstock.engine.spark.stream.offsets import Offset, ScopeId, offset_of, point_of, scope_id
from penstock.engine.spark.stream.reader import PenstockStreamReader
from penstock.engine.spark.task.input_partitions import MarkerSlot, PulledSlot
from penstock.engine.spark.task.reader import SlotReader
from penstock.engine.spark.watermark.columns import with_columns
from penstock.proto.errors import (
    ConfigurationError,
    Overloaded,
    PenstockError,
    SchemaMismatch,
    ServerUnavailable,
    StateVersionError,
    StorageError,
    TableNotFound,
)
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, RoundLimits, SnapshotPart
from penstock.proto.model.reports import OpenedPlan, SplitAnswer, SplitReport, TableDescription
from penstock.proto.model.splits import CommitTimeOrdering, Scan, VisibleInstants
from penstock.proto.model.streams import (
    END_OF_TIME_US,
    CommitsBatch,
    NextBatch,
    NoBatch,
    Progress,
    SnapshotBatch,
    SnapshotPlace,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamPoint,
    StreamScope,
    StreamStart,
    Watermark,
)
from penstock.proto.options.registry import EntryPoint, parse_options

SCHEMA = st.StructType([st.StructField("id", st.LongType())])
TIMED = with_columns(st.StructType([st.StructField("id", st.LongType()), st.StructField("ts", st.TimestampType())]))
EVENT_TIME = {"eventTime": "TS", "maxOutOfOrderness": "1s"}


def avro(**columns: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in columns.items()]})


AVRO = avro(id="long", ts={"type": "long", "logicalType": "timestamp-micros"})


@dataclass
class Script:
    """An enumerator with numbered commits; it records its requests. `schemas`: the schema of a commit, by number."""

    commits: int = 3
    snapshot_splits: int = 0
    requests: list[PlanRequest] = field(default_factory=list)
    scopes: list[StreamScope] = field(default_factory=list)
    starts: list[StreamStart] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    schemas: dict[int, str] = field(default_factory=dict)
    lost: str = ""
    description: TableDescription | None = None

    def describe_table(self, table: str) -> TableDescription:
        assert self.description is not None, "a stream with a known schema does not request it"
        return self.description

    def newest_position(self, table: str, after: Position | None = None, max_commits: int = 0) -> Position:
        self._fail()
        return at(self.commits).progress.position

    def start_stream(self, scope: StreamScope, start: StreamStart) -> StreamPoint:
        self._fail()
        self.scopes.append(scope)
        self.starts.append(start)
        match start:
            case StartAfter(position):
                return StreamPoint(progress=Progress(position, layout=2))
            case StartLatest():
                return at(self.commits)
            case StartSnapshot():
                place = SnapshotPlace(done=0, total=self.snapshot_splits, digest="d")
                return replace(at(self.commits), snapshot=place if self.snapshot_splits else None)

    def next_batch(self, scope: StreamScope, point: StreamPoint) -> NextBatch:
        self._fail()
        self.scopes.append(scope)
        place, limits = point.snapshot, scope.limits
        if place is not None and place.done < place.total:
            done = min(place.total, place.done + (limits.max_files or place.total))
            reached = replace(point, snapshot=replace(place, done=done), content=SnapshotBatch(place.done))
            return NextBatch(point=replace(reached, watermark=Watermark(done, 9)), schema_json=AVRO)
        done = number(point)
        top = min([self.commits, *(int(p.order_key[-2:]) for p in (scope.target, scope.upto) if p is not None)])
        end = min(top, done + limits.max_commits) if limits.max_commits else top
        if end <= done:
            return NextBatch(point=point)
        reached = replace(
            at(end),
            content=CommitsBatch(point.progress.position),
            watermark=Watermark(end * 1_000_000, end * 2_000_000),
        )
        if scope.upto is not None and reached.progress.position >= scope.upto:
            reached = replace(reached, ended=True, watermark=Watermark(END_OF_TIME_US, reached.watermark.high_us))
        return NextBatch(point=reached, schema_json=self.schemas.get(end, AVRO), lost=self.lost)

    def open_plan(self, request: PlanRequest, request_id: str = "") -> OpenedPlan:
        self._fail()
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

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


def at(commit: int) -> StreamPoint:
    position = EARLIEST if commit == 0 else Position(InstantTime(f"202601010000000{commit:02}"))
    return StreamPoint(progress=Progress(position, layout=2))


def number(point: StreamPoint) -> int:
    position = point.progress.position
    return 0 if position == EARLIEST else int(position.order_key[-2:])


class Clock:
    """A clock that advances only in pauses or by assignment."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.now_s += seconds


def reader(
    script: Script | None = None,
    *,
    schema: st.StructType = SCHEMA,
    whole_schema: bool = False,
    clock: Clock | None = None,
    **options: str,
) -> PenstockStreamReader:
    options_parsed = parse_options({"server": "127.0.0.1:1", **options}, entry_point=EntryPoint.STREAM)
    clock = clock or Clock()
    return PenstockStreamReader(
        Loaded("t", options_parsed),
        schema,
        whole_schema=whole_schema,
        enumerator=script or Script(),
        clock=clock,
        pause=clock.pause,
    )


def scope_of(stream: PenstockStreamReader) -> ScopeId:
    return ScopeId.parse(str(stream.initialOffset()["scope"]))


def offset_for(stream: PenstockStreamReader, point: StreamPoint) -> Offset:
    return offset_of(point, scope_of(stream))


def through(stream: PenstockStreamReader, limit: Any = None) -> list[StreamPoint]:
    """The ends of micro-batches until no commit is new, as Spark requests them, with offsets through JSON."""
    limit = stream.getDefaultReadLimit() if limit is None else limit
    start, ends = stream.initialOffset(), []
    while (end := stream.latestOffset(start, limit)) != start:
        start = json.loads(json.dumps(end))
        ends.append(point_of(start, scope_of(stream)))
    return ends


def test_first_start_one_commit_at_a_time() -> None:
    stream = reader(after="earliest", maxCommitsPerTrigger="1")
    ends = through(stream)
    assert [number(end) for end in ends] == [1, 2, 3]
    assert [end.content for end in ends] == [CommitsBatch(at(n).progress.position) for n in (0, 1, 2)]


def test_no_new_commits_return_the_same_offset() -> None:
    stream = reader()
    start = dict(reversed(offset_for(stream, at(3)).items()))  # another JSON text of the same offset
    assert stream.latestOffset(start, ReadAllAvailable()) is start


@pytest.mark.parametrize(
    ("options", "limit", "limits"),
    [
        ({}, ReadAllAvailable(), RoundLimits()),
        ({"maxCommitsPerTrigger": "2"}, ReadMaxFiles(2), RoundLimits(max_commits=2)),
        ({"maxFilesPerTrigger": "3"}, ReadMaxFiles(3), RoundLimits(max_files=3)),
        ({"maxBytesPerTrigger": "4"}, ReadMaxBytes(4), RoundLimits(max_bytes=4)),
        (
            {"maxRowsPerTrigger": "5", "maxFilesPerTrigger": "3", "maxCommitsPerTrigger": "2"},
            ReadMaxRows(5),
            RoundLimits(max_rows=5, max_files=3, max_commits=2),
        ),
    ],
)
def test_limits_hold_unless_spark_requests_all_available(
    options: dict[str, str], limit: Any, limits: RoundLimits
) -> None:
    script = Script()
    stream = reader(script, after="earliest", **options)
    assert stream.getDefaultReadLimit() == limit
    stream.latestOffset(stream.initialOffset(), limit)
    assert script.scopes[-1].limits == limits
    stream.latestOffset(stream.initialOffset(), ReadAllAvailable())  # Trigger.Once
    assert script.scopes[-1].limits == RoundLimits()


def test_missing_start_is_the_initial_offset() -> None:
    assert number(point_of(reader(after="20260101000000002").latestOffset(), scope_of(reader()))) == 3
    stream = reader(after="20260101000000003")
    assert stream.latestOffset() == stream.initialOffset()


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (None, StartSnapshot()),
        ("snapshot", StartSnapshot()),
        ("earliest", StartAfter(EARLIEST)),
        ("20260101000000002", StartAfter(at(2).progress.position)),
        ("latest", StartLatest()),
    ],
)
def test_after_is_the_initial_offset(after: str | None, expected: StreamStart) -> None:
    script = Script()
    stream = reader(script, **({} if after is None else {"after": after}))
    first = stream.initialOffset()
    assert script.starts == [expected]
    script.commits = 9
    assert stream.initialOffset() == first, "Spark calls twice and uses the second result"
    assert len(script.starts) == 1


def test_stream_reads_the_snapshot_and_then_commits() -> None:
    script = Script(snapshot_splits=5)
    stream = reader(script, maxFilesPerTrigger="2", query="cdc")
    stream.initialOffset()
    script.commits = 4
    ends = through(stream)
    assert [end.content for end in ends[:3]] == [SnapshotBatch(0), SnapshotBatch(2), SnapshotBatch(4)]
    assert isinstance(ends[3].content, CommitsBatch)
    start = offset_for(stream, ends[0])
    stream.partitions(start, offset_for(stream, ends[1]))
    part = SnapshotPart(at=at(3).progress.position, first=2, end=4, digest="d", changes=ChangeFormat.ROWS)
    assert script.requests[-1].query == part


def test_available_now_ends_at_the_newest_commit_at_its_start() -> None:
    script = Script()
    stream = reader(script, after="earliest", maxCommitsPerTrigger="2")
    assert isinstance(stream, SupportsTriggerAvailableNow)
    stream.prepareForTriggerAvailableNow()
    script.commits = 8
    assert [number(end) for end in through(stream)] == [2, 3]


def test_available_now_reads_a_snapshot_created_after_it_was_prepared() -> None:
    script = Script()
    stream = reader(script)
    stream.prepareForTriggerAvailableNow()
    script.commits, script.snapshot_splits = 5, 2
    stream.initialOffset()
    script.commits = 9
    assert [number(end) for end in through(stream)] == [5]
    assert script.scopes[-1].target == at(5).progress.position


def test_available_now_without_a_table_ends_at_once() -> None:
    script = Script(failures=[TableNotFound("not yet")], commits=0)
    stream = reader(script, after="earliest")
    stream.prepareForTriggerAvailableNow()
    assert through(stream) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("incremental", Incremental(at(1).progress.position, at(3).progress.position, frozenset({InstantTime("7")}))),
        (
            "cdc",
            Changes(ChangeFormat.ROWS, at(1).progress.position, at(3).progress.position, frozenset({InstantTime("7")})),
        ),
    ],
)
def test_micro_batch_is_planned_from_its_end_offset(query: str, expected: object) -> None:
    script = Script()
    stream = reader(script, where="id > 1", slots="2", query=query)
    end = replace(at(3), content=CommitsBatch(at(1).progress.position, frozenset({InstantTime("7")})))
    for start in (at(1), at(0)):
        slots = [partition.value for partition in stream.partitions(offset_for(stream, start), offset_for(stream, end))]
        assert all(isinstance(slot, PulledSlot) for slot in slots)
    assert [(slot.server, slot.plan_id, slot.slot, slot.watermark_us) for slot in slots] == [
        ("127.0.0.1:1", "plan2", 0, None),
        ("127.0.0.1:1", "plan2", 1, None),
    ]
    first, second = script.requests
    assert first == second, "the start is not used"
    assert first.query == expected
    assert (first.columns, first.where, first.slots, first.event_time) == (("id",), "id > 1", 2, "")


def test_empty_micro_batch_has_no_tasks_and_no_plan() -> None:
    script = Script()
    stream = reader(script)
    same = offset_for(stream, replace(at(2), content=CommitsBatch(at(1).progress.position)))
    assert stream.partitions(same, same) == []
    assert stream.partitions(offset_for(stream, at(2)), offset_for(stream, replace(at(2), ended=True))) == []
    assert script.requests == []


@pytest.mark.parametrize("error", [StorageError, ServerUnavailable, Overloaded])
def test_unreachable_server_is_retried(error: type[PenstockError]) -> None:
    script = Script(failures=[error("away")] * 3)
    stream = reader(script, after="earliest")
    start = stream.initialOffset()
    script.failures = [error("away")] * 3
    end = stream.latestOffset(start, None)
    script.failures = [error("away")] * 3
    assert len(stream.partitions(start, end)) == 2
    script.failures = [error("away")] * 3
    stream.prepareForTriggerAvailableNow()


@pytest.mark.parametrize(("options", "waited_s"), [({}, 60.0), ({"retryTimeout": "2 minutes"}, 120.0)])
def test_retries_of_an_unreachable_server_end(options: dict[str, str], waited_s: float) -> None:
    clock = Clock()
    script = Script()
    stream = reader(script, clock=clock, after="earliest", **options)
    start = stream.initialOffset()
    script.failures = [ServerUnavailable("away")] * 1000
    with pytest.raises(ServerUnavailable):
        stream.latestOffset(start, None)
    assert clock.now_s == pytest.approx(waited_s)


def test_permanent_error_is_raised_at_once() -> None:
    clock = Clock()
    script = Script()
    stream = reader(script, clock=clock, after="earliest")
    start = stream.initialOffset()
    script.failures = [TableNotFound("gone")]
    with pytest.raises(TableNotFound):
        stream.latestOffset(start, None)
    assert clock.now_s == 0


class TestVersions:
    """Checkpoints of other releases and of other streams."""

    one = json.loads('{"version": 1, "order_key": "20260101000000001", "index": 2147483647}')
    two = json.loads('{"version": 1, "order_key": "20260101000000002", "index": 2147483647}')

    def test_micro_batch_that_version_1_planned_is_planned_again(self) -> None:
        script = Script()
        assert len(reader(script).partitions(self.one, self.two)) == 2
        assert script.requests[0].query == Incremental(at(1).progress.position, at(2).progress.position)
        assert reader(script).partitions(self.two, self.two) == []

    def test_stream_of_version_1_goes_on(self) -> None:
        stream = reader()
        assert number(point_of(stream.latestOffset(self.two, ReadAllAvailable()), scope_of(stream))) == 3
        idle = json.loads('{"version": 1, "order_key": "20260101000000003", "index": 2147483647}')
        assert stream.latestOffset(idle, ReadAllAvailable()) is idle
        end = replace(at(3), content=CommitsBatch(at(2).progress.position))
        assert len(stream.partitions(self.two, offset_for(stream, end))) == 2

    def test_foreign_checkpoint(self) -> None:
        with pytest.raises(ConfigurationError, match="not an offset of Penstock"):
            reader().partitions({"i": 3}, {"i": 4})
        with pytest.raises(StateVersionError, match="version 9"):
            reader().latestOffset({"version": 9}, ReadAllAvailable())

    def test_another_scope(self) -> None:
        start = reader().initialOffset()
        for other in (reader(where="id > 1"), reader(query="cdc"), reader(upto="20260101000000009")):
            with pytest.raises(ConfigurationError, match="may not change"):
                other.latestOffset(start, ReadAllAvailable())
        assert reader(maxRowsPerTrigger="7", slots="4").latestOffset(start, ReadAllAvailable()) is start


class TestEventTime:
    """Watermarks in slots, and rows that contain only a watermark."""

    def test_slots_carry_the_watermark_of_their_batch(self) -> None:
        script = Script()
        stream = reader(script, schema=TIMED, after="earliest", maxCommitsPerTrigger="2", **EVENT_TIME)
        (first, second) = through(stream)
        slots = [p.value for p in stream.partitions(offset_for(stream, first), offset_for(stream, second))]
        assert [slot.watermark_us for slot in slots] == [3_000_000, 3_000_000]
        request = script.requests[0]
        assert (request.columns, request.event_time, request.scan_event_time) == (("id", "ts"), "ts", True)

    def test_elapsed_idle_timeout_is_one_marker(self) -> None:
        script, clock = Script(), Clock()
        stream = reader(script, schema=TIMED, clock=clock, idleTimeout="10s", after="earliest", **EVENT_TIME)
        (end,) = through(stream)
        clock.now_s += 25
        start = offset_for(stream, end)
        moved = point_of(stream.latestOffset(start, ReadAllAvailable()), scope_of(stream))
        assert moved == replace(end, watermark=Watermark(23_000_000, 6_000_000), content=NoBatch())
        (slot,) = [p.value for p in stream.partitions(start, offset_for(stream, moved))]
        assert slot == MarkerSlot(Watermark(23_000_000, 6_000_000))
        assert script.requests == []

    def test_last_batch_has_the_last_rows_and_a_marker(self) -> None:
        stream = reader(schema=TIMED, upto="20260101000000002", after="earliest", **EVENT_TIME)
        (end,) = through(stream)
        assert end.ended
        slots = [p.value for p in stream.partitions(stream.initialOffset(), offset_for(stream, end))]
        assert [type(slot) for slot in slots] == [PulledSlot, PulledSlot, MarkerSlot]
        assert {slot.watermark_us for slot in slots[:2]} == {END_OF_TIME_US}
        assert slots[2].watermark == Watermark(END_OF_TIME_US, 4_000_000)

    def test_last_batch_without_rows_is_a_marker(self) -> None:
        stream = reader(schema=TIMED, upto="20260101000000009", **EVENT_TIME)
        end = replace(at(3), ended=True, watermark=Watermark(END_OF_TIME_US))
        (slot,) = [p.value for p in stream.partitions(offset_for(stream, at(3)), offset_for(stream, end))]
        assert slot == MarkerSlot(Watermark(END_OF_TIME_US))

    def test_stream_without_event_time_has_no_marker(self) -> None:
        stream = reader(upto="20260101000000002", after="earliest")
        (end,) = through(stream)
        slots = [p.value for p in stream.partitions(stream.initialOffset(), offset_for(stream, end))]
        assert [(type(slot), slot.watermark_us) for slot in slots] == [(PulledSlot, None)] * 2

    @pytest.mark.parametrize(
        ("options", "schema", "text"),
        [
            ({"eventTime": "ts"}, TIMED, "needs maxOutOfOrderness"),
            ({**EVENT_TIME, "eventTime": "when"}, TIMED, "when .*not among the columns"),
            ({**EVENT_TIME, "eventTime": "id"}, TIMED, "give eventTimeUnit"),
            (EVENT_TIME, SCHEMA, "_penstock_watermark"),
            ({**EVENT_TIME, "query": "cdc", "cdcFormat": "hudi"}, TIMED, "use cdcFormat=rows"),
            ({**EVENT_TIME, "watermarkFallback": "commitTime", "timelineTimezone": "Moon"}, TIMED, "timelineTimezone"),
        ],
    )
    def test_bad_options_are_refused_before_any_request(
        self, options: dict[str, str], schema: st.StructType, text: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=text):
            reader(schema=schema, **options)


@pytest.mark.parametrize(
    "options",
    [{"after": "20260101000000003"}, {"after": "latest"}],
    ids=["known from the option", "known from the table"],
)
def test_upto_before_after_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="ends before it starts"):
        reader(upto="20260101000000002", **options).initialOffset()


class TestSchema:
    """Schema changes while a stream runs."""

    def test_compatible_schema_change_does_not_end_the_stream(self, caplog: pytest.LogCaptureFixture) -> None:
        changed = avro(id="long", more="string")
        stream = reader(Script(schemas={3: changed}), after="earliest")
        assert [number(end) for end in through(stream)] == [3]
        assert caplog.records == []

    def test_widened_column_does_not_end_the_stream_and_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        wide = avro(id="double")
        script = Script(schemas={2: wide, 3: wide})
        with caplog.at_level(logging.WARNING, "penstock.engine.spark"):
            assert len(through(reader(script, after="earliest", maxCommitsPerTrigger="1"))) == 3
        (record,) = caplog.records
        assert "column id was widened from bigint to double" in record.getMessage()

    def test_stream_ends_at_the_last_compatible_commit_and_names_the_reason(self) -> None:
        gone = avro(name="string")
        script = Script(commits=5, schemas={3: gone, 4: gone, 5: gone})
        stream = reader(script, after="earliest")
        start, ends = stream.initialOffset(), []
        with pytest.raises(SchemaMismatch) as error:
            while True:
                start = stream.latestOffset(start, ReadAllAvailable())
                ends.append(number(point_of(start, scope_of(stream))))
        assert ends == [1, 2]
        for text in ("column id is gone", "from commit 20260101000000003 on", "up to 20260101000000002", "checkpoint"):
            assert text in str(error.value)

    def test_restart_with_the_new_schema_continues(self) -> None:
        script = Script(commits=5, schemas=dict.fromkeys((3, 4, 5), avro(name="string")))
        start = offset_for(reader(script), at(2))
        loaded = reader(script, schema=st.StructType([st.StructField("name", st.StringType())]))
        assert number(point_of(loaded.latestOffset(start, ReadAllAvailable()), scope_of(loaded))) == 5

    def test_limits_hold_before_an_incompatible_commit(self) -> None:
        script = Script(commits=5, schemas=dict.fromkeys((3, 4, 5), avro(name="string")))
        stream = reader(script, after="earliest", maxRowsPerTrigger="7")
        stream.latestOffset(stream.initialOffset(), ReadMaxRows(7))
        assert script.scopes[-1].limits == RoundLimits(max_commits=1, max_rows=7)


class TestNewColumns:
    """A column that appears in mid-stream: `onNewColumns`."""

    more = avro(id="long", ts={"type": "long", "logicalType": "timestamp-micros"}, email="string")
    now = st.StructType([*TIMED.fields[:2], st.StructField("email", st.StringType())])
    was = st.StructType(TIMED.fields[:2])

    def script(self) -> Script:
        return Script(commits=5, schemas=dict.fromkeys((3, 4, 5), self.more))

    def test_it_stops_before_the_batch_and_a_new_load_continues_from_the_checkpoint(self) -> None:
        options = {"after": "earliest", "maxCommitsPerTrigger": "1", "onNewColumns": "fail"}
        stream = reader(self.script(), schema=self.was, whole_schema=True, **options)
        offset = stream.initialOffset()
        with pytest.raises(
            SchemaMismatch, match=r"onNewColumns=fail\): email string\. Everything up to 20260101000000002"
        ):
            while True:
                offset = stream.latestOffset(offset, None)
        assert number(point_of(offset, scope_of(stream))) == 2
        again = reader(self.script(), schema=self.now, whole_schema=True, **options)
        assert number(point_of(again.latestOffset(offset, None), scope_of(again))) == 3
        onwards = reader(self.script(), schema=self.was, whole_schema=True, maxCommitsPerTrigger="1")
        assert onwards.latestOffset(offset, None) == again.latestOffset(offset, None)

    def test_it_continues_and_logs_the_column_once(self, caplog: pytest.LogCaptureFixture) -> None:
        for options in ({}, {"onNewColumns": "ignore"}):
            caplog.clear()
            with caplog.at_level(logging.WARNING, "penstock.engine.spark"):
                stream = reader(self.script(), schema=self.was, whole_schema=True, after="earliest", **options)
                through(stream, ReadMaxFiles(1))
            assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
                "table t: column email string is new"
            ]

    def test_schema_of_the_caller_has_no_new_columns(self) -> None:
        with pytest.raises(
            ConfigurationError, match=r"onNewColumns=fail needs the schema of load\(\).*got \.schema\(\)"
        ):
            reader(self.script(), schema=self.was, onNewColumns="fail")


def test_allowed_loss_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock.engine.spark"):
        through(reader(Script(lost="files of 20260101 were cleaned"), after="earliest", failOnDataLoss="false"))
    assert "rows were lost: files of 20260101 were cleaned" in caplog.text


def test_pickled_state_of_a_task() -> None:
    stream = reader(schema=TIMED, maxCommitsPerTrigger="1", **EVENT_TIME)
    stream.latestOffset(stream.initialOffset(), None)
    data = pickle.dumps(stream)
    assert len(data) < 4000
    copy = pickle.loads(data)
    assert isinstance(copy, SlotReader)
    assert copy.reading.watermarked == TIMED
    assert (copy.reading.event_time, copy.reading.narrows) == ("ts", True)


def test_commit_and_stop_do_nothing() -> None:
    stream = reader()
    stream.commit(offset_for(stream, at(1)))
    stream.stop()
    stream.stop()


def test_digest_is_of_the_scope() -> None:
    script = Script()
    stream = reader(script)
    assert scope_of(stream) == scope_id(script.scopes[0])


class TestRenamedColumn:
    """A real table: its third instant renamed column b to b2, its sixth dropped c."""

    case = "A_evo_on_read_v9_h120"
    fixed = st.StructType([st.StructField(name, st.StringType()) for name in ("id", "b")])
    before = "20261120214441471"

    def stream(self, golden: Any, schema: st.StructType, **options: str) -> PenstockStreamReader:
        options_parsed = parse_options({"after": "earliest", **options}, entry_point=EntryPoint.STREAM)
        clock = Clock()
        return PenstockStreamReader(
            Loaded(str(golden.table(self.case)), options_parsed), schema, clock=clock, pause=clock.pause
        )

    def rows(self, stream: PenstockStreamReader, start: Offset, end: Offset) -> list[dict[str, Any]]:
        slots = stream.partitions(start, end)
        return [row for slot in slots for batch in stream.read(slot) for row in batch.to_pylist()]

    @pytest.mark.golden
    @pytest.mark.parametrize("options", [{}, {"query": "cdc"}, {"maxCommitsPerTrigger": "1"}], ids=str)
    def test_stream_ends_before_the_renamed_column_and_a_new_load_continues(
        self, golden: Any, options: dict[str, str]
    ) -> None:
        stream = self.stream(golden, self.fixed, **options)
        start, rows = stream.initialOffset(), []
        with pytest.raises(SchemaMismatch) as error:
            while True:
                end = stream.latestOffset(start, stream.getDefaultReadLimit())
                assert end != start
                rows += self.rows(stream, start, end)
                start = end
        for text in (
            "column b is gone",
            f"up to {self.before} was delivered",
            "continues after that from the checkpoint",
        ):
            assert text in str(error.value)
        assert start["order_key"] == self.before
        assert len({row["id"] for row in rows}) == 12
        assert all(row["b"] is not None for row in rows)
        new = st.StructType([st.StructField(name, st.StringType()) for name in ("id", "b2")])
        again = self.stream(golden, new, **options)
        more, at_commit = [], start
        while (end := again.latestOffset(at_commit, again.getDefaultReadLimit())) != at_commit:
            more += self.rows(again, at_commit, end)
            at_commit = end
        assert len(more) >= 5
        assert all(row["b2"] is not None for row in more)
