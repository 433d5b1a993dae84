"""A hybrid read's place in its topic: where it begins, whether it still can go on there, how far the next round goes.

Pure: what a broker told comes in as facts. Belongs here: what each difference between a place and the facts means. Not
here: which offsets the lake ends at (`walk`, `ladder`), asking brokers (`kafka`), plans (`topic_plans`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.enumerator.handover.offsets import OffsetMap
from penstock.kafka.protocols import PartitionOffsets, TopicDescription
from penstock.proto.errors import DataInvalidated, PositionExpired, TopicGone
from penstock.proto.model.hybrid import KafkaPlace, KafkaRange, PartitionPlace, Phase
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import RoundLimits

RANGE_RECORDS: Final = 500_000
"""Offsets of a range, at most: a longer way is cut into several."""

_NAMED: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A place that can go on. `lost`: by partition the offsets that had expired and are passed over."""

    place: KafkaPlace
    lost: Mapping[int, int]


def begun(offsets: OffsetMap, facts: TopicDescription, instant: InstantTime, lake: Position) -> KafkaPlace:
    """The place at the hand-over: at `offsets`; a partition that those do not list came later than the commit that
    tells them, and is read from its log's start. TopicGone for one that the topic lacks."""
    told = offsets.by_partition()
    _refuse_missing(facts, told)
    starts = {number: told.get(number, there.log_start) for number, there in facts.partitions.items()}
    ordered = tuple(sorted(starts.items()))
    return KafkaPlace(
        phase=Phase.SWITCHING,
        topic=facts.topic,
        topic_id=facts.topic_id,
        instant=instant,
        lake=lake,
        starts=ordered,
        epochs=_epochs(facts),
        places=tuple(PartitionPlace(number, start) for number, start in ordered),
    )


def checked(place: KafkaPlace, facts: TopicDescription, *, fail_on_data_loss: bool) -> Checked:
    """The place against the topic as it is now; partitions that were added since begin at their log's start.

    TopicGone for a partition that is not there any more; DataInvalidated for a topic that is another one by now, or
    ends before the place; PositionExpired for offsets that retention took, unless loss is allowed.
    """
    if place.topic_id and facts.topic_id and place.topic_id != facts.topic_id:
        raise DataInvalidated(
            f"topic {place.topic} was deleted and created again: the hand-over at instant {place.instant} was made to "
            f"topic id {place.topic_id}, it is {facts.topic_id} now, so offsets mean other records; begin anew"
        )
    _refuse_missing(facts, {item.partition: item.next for item in place.places})
    _refuse_cut_back(place, facts)
    lost = {
        item.partition: facts.partitions[item.partition].log_start - item.next
        for item in place.places
        if facts.partitions[item.partition].log_start > item.next
    }
    if lost and fail_on_data_loss:
        raise PositionExpired(
            f"topic {place.topic}: records are gone that were to be read: "
            + _named(
                f"partition {item.partition} at offset {item.next}, the log starts at "
                f"{facts.partitions[item.partition].log_start}"
                for item in place.places
                if item.partition in lost
            )
            + "; begin anew, or go on without them (failOnDataLoss=false)"
        )
    known = {item.partition: replace(item, next=item.next + lost.get(item.partition, 0)) for item in place.places}
    starts = dict(place.starts)
    for number, there in facts.partitions.items():
        if number not in known:
            known[number] = PartitionPlace(number, there.log_start)
            starts[number] = there.log_start
    return Checked(
        place=replace(
            place,
            starts=tuple(sorted(starts.items())),
            epochs=_epochs(facts),
            places=tuple(known[number] for number in sorted(known)),
        ),
        lost=lost,
    )


def next_ranges(place: KafkaPlace, facts: TopicDescription, limits: RoundLimits) -> tuple[KafkaRange, ...]:
    """What lies behind the place, by partition, ascending; () if nothing does.

    With `limits.max_rows` so many offsets at most: each partition gives its part of what is there, at least one.
    """
    backlog = {item.partition: _backlog(item, facts) for item in place.places}
    total = sum(backlog.values())
    ranges: list[KafkaRange] = []
    for item in place.places:
        count = backlog[item.partition]
        if limits.max_rows and total > limits.max_rows:
            count = min(count, max(1, count * limits.max_rows // total)) if count else 0
        end = item.next + count
        for first in range(item.next, end, RANGE_RECORDS):
            ranges.append(
                KafkaRange(
                    topic=place.topic,
                    topic_id=place.topic_id,
                    partition=item.partition,
                    first=first,
                    end=min(first + RANGE_RECORDS, end),
                )
            )
    return tuple(ranges)


def moved(place: KafkaPlace, ranges: Iterable[KafkaRange], facts: TopicDescription) -> KafkaPlace:
    """The place once these ranges are read."""
    ends = {item.partition: item.next for item in place.places}
    for item in ranges:
        ends[item.partition] = max(ends[item.partition], item.end)
    reached = (replace(item, next=ends[item.partition]) for item in place.places)
    places = tuple(replace(item, behind=_backlog(item, facts)) for item in reached)
    return replace(place, phase=Phase.KAFKA, places=places)


def _backlog(item: PartitionPlace, facts: TopicDescription) -> int:
    return max(0, facts.partitions[item.partition].end - item.next)


def _epochs(facts: TopicDescription) -> tuple[tuple[int, int], ...]:
    return tuple((number, there.leader_epoch) for number, there in facts.partitions.items() if there.leader_epoch >= 0)


def _refuse_missing(facts: TopicDescription, wanted: Mapping[int, int]) -> None:
    missing = [number for number in sorted(wanted) if number not in facts.partitions]
    if missing:
        raise TopicGone(
            f"topic {facts.topic} has no partition {_named(map(str, missing))} to go on in (it has "
            f"{len(facts.partitions)}): is it the topic that fills the table, on these brokers?"
        )


def _refuse_cut_back(place: KafkaPlace, facts: TopicDescription) -> None:
    """The log of a partition ends before the place, or its leader epoch fell: records were lost, or are others now."""
    short = [item for item in place.places if _last(facts.partitions[item.partition]) < item.next]
    if short:
        raise DataInvalidated(
            f"topic {place.topic} ends before what was read or is in the lake: "
            + _named(
                f"partition {item.partition} at offset {item.next}, the log ends at "
                f"{_last(facts.partitions[item.partition])}"
                for item in short
            )
            + "; it was cut back or created again, or it is not the topic that fills the table: begin anew"
        )
    epochs = dict(_epochs(facts))
    fallen = [(number, epoch) for number, epoch in place.epochs if epochs.get(number, epoch) < epoch]
    if fallen:
        raise DataInvalidated(
            f"topic {place.topic}: the leader epoch fell: "
            + _named(f"partition {number} from {epoch} to {epochs[number]}" for number, epoch in fallen)
            + "; the topic was created again, or its log lost: begin anew"
        )


def _last(there: PartitionOffsets) -> int:
    return max(there.end, there.high_watermark)


def _named(items: Iterable[str]) -> str:
    told = list(items)
    return ", ".join(told[:_NAMED]) + (f", and {len(told) - _NAMED} more" if len(told) > _NAMED else "")
