"""The next round of a hybrid read: the lake while it has more, then the hand-over, then the topic.

Shell: the table, the topic. LAKE → SWITCHING (the offsets are fixed, nothing is read) → KAFKA; each step is a round of
its own, so that whoever keeps the progress keeps the step. Belongs here: the order of the steps. Not here: what each
difference means (`topic_rounds`), rounds of the lake (`watch`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from penstock.enumerator.continuous.advance import check_progress, start_progress
from penstock.enumerator.continuous.types import Advance, Following, NextRound, NothingNew
from penstock.enumerator.handover.resolve import resolved
from penstock.enumerator.handover.topic_plans import topic_plan
from penstock.enumerator.handover.topic_position import begun, checked, moved, next_ranges
from penstock.enumerator.handover.topic_source import TopicSide
from penstock.enumerator.log import log_event
from penstock.enumerator.planning.commit_order import is_earliest
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
    side: TopicSide,
    in_lake: Callable[[Following], Advance],
    planned: Planning,
) -> Advance:
    """The next round behind the progress. A changelog's lake phase is one round, the state as it is then, as inserts.

    The lake is left when it has nothing more and `following.drained`. Errors of the lake's rounds, of resolving the
    hand-over and of the topic; nothing moved then.
    """
    progress = following.progress
    if progress.kafka is not None:
        return topic_round(table, name, following, hybrid, side)
    if hybrid.mode is HybridMode.CHANGELOG and is_earliest(progress.position):
        return _state_as_inserts(table, name, following, planned)
    if hybrid.mode is not HybridMode.CHANGELOG:
        found = in_lake(following)
        if isinstance(found, NextRound) or is_earliest(progress.position):
            return found
    if not following.drained:
        return NothingNew()
    return switched(table, name, following, hybrid, side)


def switched(table: HudiTable, name: str, following: Following, hybrid: Hybrid, side: TopicSide) -> NextRound:
    """The hand-over at the progress, which is in the lake: a round without splits."""
    table = table.refreshed()
    progress = check_progress(table, following.progress)
    door = side.open_topic(hybrid.access)
    outcome, instant = resolved(table, progress.position, hybrid, door)
    place = begun(outcome.offsets, door.facts(hybrid.topic), instant, progress.position)
    log_event(
        "hand-over resolved",
        table=name,
        topic=place.topic,
        instant=instant,
        guarantee=outcome.guarantee.value,
        offsets=",".join(f"{partition}:{offset}" for partition, offset in place.starts[:100]),
    )
    return _round(table, name, following, side, progress, place)


def topic_round(table: HudiTable, name: str, following: Following, hybrid: Hybrid, side: TopicSide) -> Advance:
    """The next ranges of the topic behind the progress; first the phase moves on, with ranges if there are any."""
    progress = following.progress
    place = progress.kafka
    if place is None:
        raise InvariantViolation(f"table {name}: a progress outside of the topic")
    facts = side.open_topic(hybrid.access).facts(place.topic)
    now = checked(place, facts, fail_on_data_loss=hybrid.fail_on_data_loss)
    ranges = next_ranges(now.place, facts, following.limits)
    reached = moved(now.place, ranges, facts)
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
            reason="retention took them before they were read",
        )
    commit_range = CommitRange(progress.position, reached.position)
    plan = topic_plan(table, name, following.request, ranges, side.scan_event_time, commit_range)
    reached = with_highs(reached, plan)
    return NextRound(
        commit_range=commit_range,
        plan=plan,
        progress=replace(lake, position=reached.position, kafka=reached),
        lost_records=sum(now.lost.values()),
    )


def with_highs(place: KafkaPlace, plan: Plan) -> KafkaPlace:
    """The place with the event times that the plan's ranges tell of."""
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
    table: HudiTable, name: str, following: Following, side: TopicSide, progress: Progress, place: KafkaPlace
) -> NextRound:
    commit_range = CommitRange(progress.position, place.position)
    return NextRound(
        commit_range=commit_range,
        plan=topic_plan(table, name, following.request, (), side.scan_event_time, commit_range),
        progress=replace(progress, position=place.position, kafka=place),
    )


def _state_as_inserts(table: HudiTable, name: str, following: Following, planned: Planning) -> Advance:
    newest = start_progress(table, None)
    if is_earliest(newest.position):
        return NothingNew()
    plan, splits = plan_snapshot(table, name, following.request, newest.position, ChangeFormat.ROWS, planned)
    commit_range = CommitRange(following.progress.position, newest.position)
    return NextRound(
        commit_range=commit_range,
        plan=replace(plan, commit_range=commit_range, splits=splits),
        progress=newest,
        commits=1,
    )
