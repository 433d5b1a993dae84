"""The stream reader without Spark: Spark's calls in Spark's order, with a scripted enumerator."""

from __future__ import annotations

import json
import logging
import pickle
from dataclasses import replace
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

from penstock.engine.spark.task.input_partitions import MarkerSlot, PulledSlot
from penstock.engine.spark.task.reader import SlotReader
from penstock.engine.stream_offsets import point_of, scope_id
from penstock.proto.errors import (
    ConfigurationError,
    Overloaded,
    PenstockError,
    ServerUnavailable,
    StateVersionError,
    StorageError,
    TableNotFound,
)
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, InstantTime
from penstock.proto.model.queries import Changes, Incremental, RoundLimits, SnapshotPart
from penstock.proto.model.streams import (
    END_OF_TIME_US,
    Alignment,
    CommitsBatch,
    NoBatch,
    SnapshotBatch,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamStart,
    Watermark,
)
from tests.unit.engine.spark.stream.scripted_stream import (
    EVENT_TIME,
    SCHEMA,
    TIMED,
    Clock,
    Script,
    at,
    number,
    offset_for,
    reader,
    scope_of,
    through,
)


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


def test_alignment_applies_unless_spark_requests_all_available() -> None:
    script = Script()
    aligned = {"eventTime": "ts", "maxOutOfOrderness": "1s", "alignWith": "s", "maxDrift": "1m"}
    stream = reader(script, schema=TIMED, after="earliest", streamName="nightly", **aligned)
    limit = stream.getDefaultReadLimit()
    assert limit != ReadAllAvailable()
    stream.latestOffset(stream.initialOffset(), limit)
    assert script.scopes[-1].alignment == Alignment(set="s", max_drift_us=60_000_000)
    assert (script.scopes[-1].name, script.scopes[-1].limits) == ("nightly", RoundLimits())
    stream.latestOffset(stream.initialOffset(), ReadAllAvailable())  # Trigger.Once
    assert script.scopes[-1].alignment is None


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
