"""A hybrid stream from the lake to the topic, on golden tables that real writers filled from a topic."""

from __future__ import annotations

import itertools
import pathlib
from dataclasses import replace
from typing import Any

import pytest

from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import ConfigurationError, DataInvalidated, KafkaUnavailable, PositionExpired
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.hybrid import HandOverRules, Hybrid, HybridMode, KafkaAccess, Phase
from penstock.proto.model.positions import EARLIEST, InstantTime
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, RoundLimits
from penstock.proto.model.splits import EventTimeBounds, KafkaRange
from penstock.proto.model.streams import (
    EventTimeRule,
    NextBatch,
    NoBatch,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamPoint,
    StreamScope,
    TopicBatch,
    batch_request,
)
from penstock.table.hudi_table import open_table
from tests.scripted_topic import ScriptedTopic

pytestmark = pytest.mark.golden

GOLDEN = pathlib.Path(__file__).parents[3] / "golden"
ACCESS = KafkaAccess(client=(("bootstrap.servers", "scripted"),))


class Lake:
    """A golden table of family C beside its topic."""

    def __init__(self, golden: Any, name: str, folder: pathlib.Path | None = None) -> None:

        self.case = golden.case(name)
        self.path = str(golden.table(name) if folder is None else golden.copy(name, folder))
        self.topic = ScriptedTopic.of_golden(GOLDEN, self.case)
        self.reads = OpenTables(open_topic=self.topic.open)

    def scope(self, mode: HybridMode = HybridMode.APPEND, **more: Any) -> StreamScope:
        query = Changes(ChangeFormat.ROWS) if mode is HybridMode.CHANGELOG else Incremental()
        hybrid = Hybrid(mode=mode, topic=self.topic.topic, access=ACCESS, **more)
        return StreamScope(request=PlanRequest(table="t", query=query, hybrid=hybrid))

    def next(self, scope: StreamScope, point: StreamPoint) -> NextBatch:
        return self.reads.next_batch(self.path, "t", scope, point)

    def until_topic(self, scope: StreamScope, start: Any = None) -> list[StreamPoint]:
        """The stream's points up to the first one in the topic."""
        points = [self.reads.start_stream(self.path, "t", scope, start or StartAfter(EARLIEST))]
        while points[-1].progress.kafka is None:
            result = self.next(scope, points[-1]).point
            assert result != points[-1], "the stream stands still in the lake"
            points.append(result)
        return points


@pytest.fixture
def streamer(golden: Any) -> Lake:
    return Lake(golden, "C_v6_streamer")


def test_hybrid_stream_reads_the_lake_then_fixes_offsets_then_reads_the_topic(streamer: Lake) -> None:
    scope = streamer.scope()
    points = streamer.until_topic(scope)
    switching = points[-1]
    handover = streamer.case["handover"]
    assert switching.progress.kafka is not None
    assert switching.progress.kafka.phase is Phase.SWITCHING
    assert switching.progress.kafka.instant == handover["found_in"]
    assert {str(p): offset for p, offset in switching.progress.kafka.starts} == handover["offsets"]
    assert switching.content == NoBatch()
    first = streamer.next(scope, switching).point
    assert first.progress.kafka is not None and first.progress.kafka.phase is Phase.KAFKA
    assert isinstance(first.content, TopicBatch)
    ends = {int(p): place["high_watermark"] for p, place in streamer.case["kafka"]["partitions"].items()}
    expected = [
        (p, handover["offsets"][str(p)], end) for p, end in sorted(ends.items()) if end > handover["offsets"][str(p)]
    ]
    assert [(item.partition, item.first, item.end) for item in first.content.ranges] == expected
    assert streamer.next(scope, first).point == first


def test_batch_of_the_topic_is_planned_from_its_point_alone(streamer: Lake) -> None:
    scope = streamer.scope()
    point = streamer.next(scope, streamer.until_topic(scope)[-1]).point
    request = batch_request(scope, point)
    assert request is not None
    again = OpenTables(open_topic=streamer.topic.open).plan(streamer.path, "t", request)
    remaining = streamer.reads.plan(streamer.path, "t", request)
    assert again.splits == remaining.splits
    assert all(isinstance(split.part, KafkaRange) for split in again.splits)
    assert again.scan.topic is not None and again.scan.topic.key_fields == ("id",)


def test_batches_repeat_equally_from_any_point(streamer: Lake) -> None:
    """After a crash, a new process plans the same offsets from the same point."""
    scope = streamer.scope()
    points = streamer.until_topic(scope)
    for before, after in itertools.pairwise(points):
        fresh = OpenTables(open_topic=streamer.topic.open)
        assert fresh.next_batch(streamer.path, "t", scope, before).point == after


def test_changelog_starts_with_the_state_as_inserts_then_leaves_the_lake(streamer: Lake) -> None:
    scope = streamer.scope(HybridMode.CHANGELOG)
    points = streamer.until_topic(scope, StartSnapshot())
    assert points[-1].progress.kafka is not None
    plan = streamer.reads.plan(streamer.path, "t", batch_request(scope, points[1]) or pytest.fail("no plan"))
    assert "_change_type" in plan.scan.columns


def test_stream_stays_in_the_lake_while_brokers_are_down(streamer: Lake) -> None:
    scope = streamer.scope()
    before = streamer.until_topic(scope)[-2]
    streamer.topic.down = True
    with pytest.raises(KafkaUnavailable):
        streamer.next(scope, before)
    streamer.topic.down = False
    assert streamer.next(scope, before).point.progress.kafka is not None


def test_offsets_that_expired_before_the_hand_over_stop_it(streamer: Lake) -> None:
    scope = streamer.scope()
    switching = streamer.until_topic(scope)[-1]
    streamer.topic.starts[0] = 18
    with pytest.raises(PositionExpired, match="partition 0 at offset 17"):
        streamer.next(scope, switching)
    lossy = streamer.scope(fail_on_data_loss=False)
    result = streamer.next(lossy, switching)
    assert "1 records of topic orders had expired" in result.lost
    point = result.point
    assert point.progress.kafka is not None
    assert {item.partition: item.next for item in point.progress.kafka.places}[0] == 18


def test_topic_created_again_stops_the_stream(streamer: Lake) -> None:
    scope = streamer.scope()
    switching = streamer.until_topic(scope)[-1]
    streamer.topic.topic_id = "second"
    with pytest.raises(DataInvalidated, match="created again"):
        streamer.next(scope, switching)


def test_data_commit_of_another_writer_refuses_the_hand_over(golden: Any) -> None:
    lake = Lake(golden, "C_v9_streamer_keys")
    scope = lake.scope()
    with pytest.raises(ConfigurationError):
        lake.until_topic(scope)
    stated = lake.scope(rules=HandOverRules(others_elsewhere=True))
    assert lake.until_topic(stated)[-1].progress.kafka is not None


def test_limits_make_batches_of_the_topic_smaller(streamer: Lake) -> None:
    for _ in range(20):
        streamer.topic.append(2, "k", {"id": "k"})
    scope = replace(streamer.scope(), limits=RoundLimits(max_rows=5))
    point = streamer.until_topic(scope)[-1]
    remaining = []
    for _ in range(50):
        result = streamer.next(scope, point).point
        if result == point:
            break
        point = result
        assert point.progress.kafka is not None
        remaining.append(point.progress.kafka.behind)
    assert len(remaining) > 3
    assert remaining == sorted(remaining, reverse=True) and remaining[-1] == 0


def test_row_19_watermark_advances_and_never_decreases(streamer: Lake) -> None:
    """Partitions with lag limit the watermark, others do not; it starts at the watermark of the lake."""
    highs = {0: 5_000_000, 1: 9_000_000, 2: 7_000_000}

    def scan(scan: Any, split: Any, column: str, unit: str, access: Any = None) -> EventTimeBounds:
        if isinstance(split.part, KafkaRange):
            high = highs[split.part.partition]
            return EventTimeBounds(high - 1_000_000, high)
        return EventTimeBounds(1_000_000, 2_000_000)

    streamer.reads = OpenTables(open_topic=streamer.topic.open, scan_event_time=scan)
    plain = streamer.scope()
    scope = replace(
        plain,
        request=replace(plain.request, event_time="ts", event_time_unit="us", scan_event_time=True),
        rule=EventTimeRule(max_out_of_orderness_us=500_000),
    )
    points = streamer.until_topic(scope)
    assert points[-1].watermark.at_us == points[-2].watermark.at_us
    lake_us = points[-1].watermark.at_us
    assert lake_us is not None
    for _ in range(6):
        streamer.topic.append(0, "k", {"id": "k"})
    capped = replace(scope, limits=RoundLimits(max_rows=2))
    held = streamer.next(capped, points[-1]).point
    assert held.watermark.at_us == max(
        lake_us, 5_000_000 - 500_000
    )  # partition 0 has lag: the watermark stays below its highest event time
    free = streamer.next(scope, held).point
    assert free.watermark.at_us == 9_000_000 - 500_000
    streamer.topic.append(1, "k", {"id": "k"})
    highs[1] = 3_000_000
    assert streamer.next(scope, free).point.watermark.at_us == 9_000_000 - 500_000


def test_row_20_partition_without_records_does_not_hold_the_watermark(streamer: Lake) -> None:
    """Partition 0 never has records after the hand-over; rows of the lake are older than the topic."""

    def scan(scan: Any, split: Any, column: str, unit: str, access: Any = None) -> EventTimeBounds:
        at_us = 8_000_000 if isinstance(split.part, KafkaRange) else 1_000_000
        return EventTimeBounds(at_us, at_us)

    streamer.topic.ends[0] = streamer.case["handover"]["offsets"]["0"]
    streamer.topic.records = [
        item
        for item in streamer.topic.records
        if (item.partition, item.offset) < (0, streamer.topic.ends[0]) or item.partition
    ]
    streamer.reads = OpenTables(open_topic=streamer.topic.open, scan_event_time=scan)
    plain = streamer.scope()
    scope = replace(
        plain,
        request=replace(plain.request, event_time="ts", event_time_unit="us", scan_event_time=True),
        rule=EventTimeRule(max_out_of_orderness_us=0),
    )
    points = streamer.until_topic(scope)
    first = streamer.next(scope, points[-1]).point
    assert isinstance(first.content, TopicBatch) and 0 not in {item.partition for item in first.content.ranges}
    assert first.watermark.at_us == 8_000_000


def test_row_03_consumed_instant_missing_after_the_hand_over_stops_the_stream(
    golden: Any, tmp_path: pathlib.Path
) -> None:
    lake = Lake(golden, "C_v6_streamer", tmp_path)
    scope = lake.scope()
    point = lake.next(scope, lake.until_topic(scope)[-1]).point
    handover = lake.case["handover"]["found_in"]
    for file in (pathlib.Path(lake.path) / ".hoodie").glob(f"{handover}*"):
        file.unlink()
    lake.topic.append(0, "k", {"id": "k"})
    with pytest.raises(DataInvalidated, match=handover):
        lake.next(scope, point)


@pytest.mark.parametrize("case", ["A_archive_v6_h0150", "A_archive_v9_h120"])
def test_instants_archived_after_the_hand_over_are_no_longer_tracked(golden: Any, case: str) -> None:
    """Otherwise each poll of the topic would read the archive of the lake."""
    path, topic = str(golden.table(case)), ScriptedTopic("orders", starts={0: 0}, ends={0: 1})
    reads = OpenTables(open_topic=topic.open)
    rules = HandOverRules(starting_offsets="orders,0:0", others_elsewhere=True)
    hybrid = Hybrid(mode=HybridMode.APPEND, topic="orders", rules=rules, access=ACCESS)
    scope = StreamScope(request=PlanRequest(table="t", query=Incremental(), hybrid=hybrid))
    point = reads.start_stream(path, "t", scope, StartLatest())
    table = open_table(path)
    archived = {InstantTime(time) for time in table.archive().commits if table.timeline().completed_write(time) is None}
    active = point.progress.consumed
    assert archived and active
    before = replace(point, progress=replace(point.progress, consumed=active | archived))
    switching = reads.next_batch(path, "t", scope, before).point
    assert switching.progress.kafka is not None and switching.progress.consumed == active
    again = replace(switching, progress=replace(switching.progress, consumed=active | archived))
    reached = reads.next_batch(path, "t", scope, again).point
    assert isinstance(reached.content, TopicBatch) and reached.progress.consumed == active
