"""Batches of a hybrid stream behind the lake: the hand-over, then ranges of the topic, with their watermark.

Shell: asks `hybrid.following` for the round, says what the stream's point is then. Not here: when the lake has no more
(`batches`).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.enumerator.continuous.types import Following, NothingNew
from penstock.enumerator.handover.phases import switched, topic_round
from penstock.enumerator.handover.topic_source import TopicSide
from penstock.enumerator.streams.watermark import Reach, next_watermark
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.hybrid import Hybrid, KafkaPlace, KafkaRange
from penstock.proto.model.splits import EventTimeBounds, Plan
from penstock.proto.model.streams import (
    EventTimeRule,
    NextBatch,
    NoBatch,
    StreamPoint,
    StreamScope,
    TopicBatch,
    Watermark,
    commits_request,
)
from penstock.table.hudi_table import HudiTable


def behind_lake(
    table: HudiTable, name: str, scope: StreamScope, hybrid: Hybrid, point: StreamPoint, side: TopicSide
) -> tuple[NextBatch, Plan | None]:
    """The batch behind `point`, whose lake has no more, and its plan, None if it holds nothing: the very same point
    where the topic holds nothing new. Errors of `hybrid.following`."""
    following = Following(request=commits_request(scope), progress=point.progress, limits=scope.limits)
    if point.progress.kafka is None:
        found = switched(table, name, following, hybrid, side)
        handed = replace(point, snapshot=None, progress=found.progress, content=NoBatch())
        return NextBatch(point=handed), None
    round_ = topic_round(table, name, following, hybrid, side)
    if isinstance(round_, NothingNew):
        return NextBatch(point=point), None
    place = round_.progress.kafka
    if place is None:
        raise InvariantViolation(f"table {name}: a round of a topic ends outside of it")
    ranges = tuple(split.part for split in round_.plan.splits if isinstance(split.part, KafkaRange))
    reached = StreamPoint(
        progress=round_.progress,
        watermark=_watermark(point.watermark, round_.plan, place, scope.rule),
        content=TopicBatch(ranges) if ranges else NoBatch(),
    )
    lost = f"{round_.lost_records} records of topic {place.topic} had expired" if round_.lost_records else ""
    batch = NextBatch(point=reached, schema_json=round_.plan.scan.schema_json if ranges else "", lost=lost)
    return batch, round_.plan if ranges else None


def _watermark(before: Watermark, plan: Plan, place: KafkaPlace, rule: EventTimeRule | None) -> Watermark:
    """Of a batch of the topic. A partition that has more behind the batch holds it so far below the highest event time
    it has shown, one that has shown none holds it where it is; one that has no more does not hold it."""
    if rule is None:
        return before
    coming, planned = Reach(), Reach()
    for item in place.places:
        if item.behind and item.high_us is None:
            coming |= Reach(is_open=True)
        elif item.behind and item.high_us is not None:
            coming |= Reach(low_us=item.high_us - rule.max_out_of_orderness_us + 1)
    for split in plan.splits:
        if isinstance(split.event_time, EventTimeBounds):
            planned |= Reach(split.event_time.min_us, split.event_time.max_us)
    return next_watermark(before, planned, coming, rule)
