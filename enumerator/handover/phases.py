"""The next round of a hybrid read: from the table while it has more, then the hand-over, then from the topic.

Phases: lake → switching (the offsets are fixed, nothing is read) → kafka. Each transition is a round of its own, so
that it is stored with the progress. Reads the table and the topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from penstock.enumerator.continuous.advance import check_progress, start_progress
from penstock.enumerator.continuous.types import Advance, Following, NextRound, NothingNew
from penstock.enumerator.handover.resolve import resolve_hand_over
from penstock.enumerator.handover.topic_access import TopicSource
from penstock.enumerator.handover.topic_plans import topic_plan
from penstock.enumerator.handover.topic_position import advanced_place, initial_place, next_ranges, validated_place
from penstock.enumerator.log import log_event
from penstock.enumerator.planning.plan import Planning
from penstock.enumerator.snapshots.plan import plan_snapshot
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.hybrid import Hybrid, HybridMode, KafkaPlace
from penstock.proto.model.positions import CommitRange
from penstock.proto.model.splits import EventTimeBounds, Plan
from penstock.proto.model.streams import Progress
from penstock.table.hudi_table import HudiTable


def advance_hybrid(
    table: HudiTable,
    name: str,
    following: Following,
    hybrid: Hybrid,
    topic_source: TopicSource,
    in_lake: Callable[[Following], Advance],
    planned: Planning,
) -> Advance:
    """The next round after the progress. The lake phase of a changelog is one round: the table's state, as inserts.

    The hand-over follows when the table has nothing more and `following.drained`. Raises the errors of the table's
    rounds, of the hand-over and of the topic; the progress is unchanged then.
    """
    progress = following.progress
    if progress.kafka is not None:
        return topic_round(table, name, following, hybrid, topic_source)
    if hybrid.mode is HybridMode.CHANGELOG and progress.position.is_earliest:
        return _state_as_inserts(table, name, following, planned)
    if hybrid.mode is not HybridMode.CHANGELOG:
        advance = in_lake(following)
        if isinstance(advance, NextRound) or progress.position.is_earliest:
            return advance
    if not following.drained:
        return NothingNew()
    return switch_to_topic(table, name, following, hybrid, topic_source)


def switch_to_topic(
    table: HudiTable, name: str, following: Following, hybrid: Hybrid, topic_source: TopicSource
) -> NextRound:
    """The hand-over at the progress, whose phase is lake: a round without splits."""
    table = table.refreshed()
    progress = check_progress(table, following.progress)
    metadata = topic_source.open_topic(hybrid.access)
    outcome, instant = resolve_hand_over(table, progress.position, hybrid, metadata)
    place = initial_place(outcome.offsets, metadata.describe(hybrid.topic), instant, progress.position)
    log_event(
        "hand-over resolved",
        table=name,
        topic=place.topic,
        instant=instant,
        guarantee=outcome.guarantee.value,
        offsets=",".join(f"{partition}:{offset}" for partition, offset in place.starts[:100]),
    )
    return _round(table, name, following, topic_source, progress, place)


def topic_round(
    table: HudiTable, name: str, following: Following, hybrid: Hybrid, topic_source: TopicSource
) -> Advance:
    """The next ranges of the topic after the progress. The first round enters phase kafka, even without ranges."""
    progress = following.progress
    place = progress.kafka
    if place is None:
        raise InvariantViolation(f"table {name}: the progress has no position in the topic")
    description = topic_source.open_topic(hybrid.access).describe(place.topic)
    now = validated_place(place, description, fail_on_data_loss=hybrid.fail_on_data_loss)
    ranges = next_ranges(now.place, description, following.limits)
    reached = advanced_place(now.place, ranges, description)
    if reached.position == place.position:
        return NothingNew()
    table = table.refreshed()
    lake = check_progress(table, replace(progress, position=place.lake, kafka=None))
    for partition, count in now.lost.items():
        log_event(
            "records lost",
            level=logging.WARNING,
            table=name,
            topic=place.topic,
            partition=partition,
            records=count,
            reason="retention removed them before they were read",
        )
    commit_range = CommitRange(progress.position, reached.position)
    plan = topic_plan(table, name, following.request, ranges, topic_source.scan_event_time, commit_range)
    reached = with_highs(reached, plan)
    return NextRound(
        commit_range=commit_range,
        plan=plan,
        progress=replace(lake, position=reached.position, kafka=reached),
        lost_records=sum(now.lost.values()),
    )


def with_highs(place: KafkaPlace, plan: Plan) -> KafkaPlace:
    """The position with the highest event times of the plan's ranges."""
    highs = {item.partition: item.high_us for item in place.places}
    for split in plan.splits:
        if isinstance(split.event_time, EventTimeBounds):
            number = int(split.file_group.rpartition("/")[2])
            known = highs.get(number)
            highs[number] = split.event_time.max_us if known is None else max(known, split.event_time.max_us)
    return replace(
        place,
        places=tuple(replace(item, high_us=highs[item.partition]) for item in place.places),
    )


def _round(
    table: HudiTable, name: str, following: Following, topic_source: TopicSource, progress: Progress, place: KafkaPlace
) -> NextRound:
    commit_range = CommitRange(progress.position, place.position)
    return NextRound(
        commit_range=commit_range,
        plan=topic_plan(table, name, following.request, (), topic_source.scan_event_time, commit_range),
        progress=replace(progress, position=place.position, kafka=place),
    )


def _state_as_inserts(table: HudiTable, name: str, following: Following, planned: Planning) -> Advance:
    newest = start_progress(table, None)
    if newest.position.is_earliest:
        return NothingNew()
    plan, splits = plan_snapshot(table, name, following.request, newest.position, ChangeFormat.ROWS, planned)
    commit_range = CommitRange(following.progress.position, newest.position)
    return NextRound(
        commit_range=commit_range,
        plan=replace(plan, commit_range=commit_range, splits=splits),
        progress=newest,
        commits=1,
    )
