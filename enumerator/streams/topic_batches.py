"""Batches of a hybrid stream after the lake: the hand-over, then ranges of the topic, with their watermark."""

from __future__ import annotations

from dataclasses import replace

from penstock.enumerator.continuous.types import Following, NothingNew
from penstock.enumerator.handover.phases import switch_to_topic, topic_round
from penstock.enumerator.handover.topic_access import TopicSource
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.streams.round_times import coming_of_topic
from penstock.enumerator.streams.watermark import next_watermark
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


def batch_after_lake(
    table: HudiTable, name: str, scope: StreamScope, hybrid: Hybrid, point: StreamPoint, side: TopicSource
) -> tuple[NextBatch, Plan | None]:
    """The batch after a point at the end of the lake, and its plan; the plan is None for an empty batch.

    The point stays the same if the topic has nothing new. Errors as for `handover.phases`.
    """
    following = Following(request=commits_request(scope), progress=point.progress, limits=scope.limits)
    if point.progress.kafka is None:
        at_switch = switch_to_topic(table, name, following, hybrid, side)
        handed_over = replace(point, snapshot=None, progress=at_switch.progress, content=NoBatch())
        return NextBatch(point=handed_over), None
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
    """The watermark of a batch of the topic; see `coming_of_topic`."""
    if rule is None:
        return before
    planned = EventTimeSpan()
    for split in plan.splits:
        if isinstance(split.event_time, EventTimeBounds):
            planned |= EventTimeSpan(split.event_time.min_us, split.event_time.max_us)
    return next_watermark(before, planned, coming_of_topic(place, rule), rule)
