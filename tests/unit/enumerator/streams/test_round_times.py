"""Event times of the rounds of groups: topics, and what comes after a round."""

from __future__ import annotations

import pytest

from penstock.enumerator.continuous.types import NextRound, RoundEventTimes
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.streams.round_times import coming_of_topic, with_topic_times
from penstock.proto.model.hybrid import KafkaPlace, PartitionPlace, Phase
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime
from penstock.proto.model.splits import (
    CommitTimeOrdering,
    EventTimeBounds,
    NoEventTimes,
    Plan,
    Scan,
    Split,
    UnknownBounds,
    VisibleInstants,
)
from penstock.proto.model.streams import EventTimeRule, Progress

RULE = EventTimeRule(max_out_of_orderness_us=10)


def place_of(*places: PartitionPlace) -> KafkaPlace:
    """A place in a topic of these partitions."""
    return KafkaPlace(
        phase=Phase.KAFKA,
        topic="t",
        topic_id="i",
        instant=InstantTime("1"),
        lake=EARLIEST,
        starts=tuple((item.partition, 0) for item in places),
        epochs=(),
        places=places,
    )


@pytest.mark.parametrize(
    ("places", "coming"),
    [
        ([PartitionPlace(0, 5, 100, 0)], EventTimeSpan()),
        ([PartitionPlace(0, 5, 100, 3)], EventTimeSpan(low_us=91)),
        ([PartitionPlace(0, 5, 100, 3), PartitionPlace(1, 5, 50, 1)], EventTimeSpan(low_us=41)),
        ([PartitionPlace(0, 5, None, 3)], EventTimeSpan(is_unbounded=True)),
    ],
)
def test_partitions_with_more_records_limit_the_watermark(places: list[PartitionPlace], coming: EventTimeSpan) -> None:
    assert coming_of_topic(place_of(*places), RULE) == coming


def test_ranges_of_a_topic_without_bounds_hold_the_watermark_until_they_are_read() -> None:
    scan = Scan(
        table="t",
        base_path="/t",
        table_version=9,
        schema_json="{}",
        columns=("id",),
        merge=CommitTimeOrdering(),
        visible=VisibleInstants(frozenset()),
    )
    splits = tuple(
        Split(
            split_id=str(bounds),
            partition="",
            partition_values=(),
            file_group="t/0",
            order_key=InstantTime("1"),
            base=None,
            event_time=bounds,
        )
        for bounds in (EventTimeBounds(3, 9), NoEventTimes(), UnknownBounds())
    )
    ranges = CommitRange(EARLIEST, EARLIEST)
    plan = Plan(scan=scan, commit_range=ranges, splits=splits)
    place = place_of(PartitionPlace(0, 5, 9, 0))
    timed = with_topic_times(NextRound(commit_range=ranges, plan=plan, progress=Progress(EARLIEST)), place, RULE)
    of_splits = (EventTimeSpan(3, 9), EventTimeSpan(), EventTimeSpan(is_unbounded=True))
    assert timed.event_times == RoundEventTimes(of_splits, EventTimeSpan())
