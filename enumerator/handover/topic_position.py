"""A hybrid read's position in its topic: its start, its validation against the topic, and the next ranges.

Pure: answers of brokers come in as values. The position is a `KafkaPlace`, named as in the protocol.
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
"""Most offsets in one range; more become several ranges."""

_NAMED: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedPlace:
    """A position from which the topic can be read on."""

    place: KafkaPlace
    """The position."""
    lost: Mapping[int, int]
    """Partition -> expired offsets that are skipped."""


def initial_place(
    offsets: OffsetMap, description: TopicDescription, instant: InstantTime, lake: Position
) -> KafkaPlace:
    """The position at the hand-over, with places for the partitions that `offsets` lists. Another one was added after
    the commit that holds them, or had no record: it starts at its log start. TopicGone for a partition that the topic
    does not have."""
    known = offsets.by_partition()
    _refuse_missing(description, known)
    starts = {number: known.get(number, partition.log_start) for number, partition in description.partitions.items()}
    return KafkaPlace(
        phase=Phase.SWITCHING,
        topic=description.topic,
        topic_id=description.topic_id,
        instant=instant,
        lake=lake,
        starts=tuple(sorted(starts.items())),
        epochs=_epochs(description),
        places=tuple(PartitionPlace(number, start) for number, start in sorted(known.items())),
    )


def validated_place(place: KafkaPlace, description: TopicDescription, *, fail_on_data_loss: bool) -> ValidatedPlace:
    """The position, validated against the current topic, with a place for each partition. Partitions added since begin
    at their log start.

    Raises TopicGone for a partition that no longer exists; DataInvalidated if the topic was created again or ends
    before the position; PositionExpired for offsets that retention removed, unless loss is allowed.
    """
    if place.topic_id and description.topic_id and place.topic_id != description.topic_id:
        raise DataInvalidated(
            f"topic {place.topic} was deleted and created again: the hand-over at instant {place.instant} was to "
            f"topic id {place.topic_id}, now it is {description.topic_id}: offsets mean other records; start a new read"
        )
    place = replace(place, places=place.progress)
    _refuse_missing(description, {item.partition: item.next for item in place.places})
    _refuse_cut_back(place, description)
    lost = {
        item.partition: description.partitions[item.partition].log_start - item.next
        for item in place.places
        if description.partitions[item.partition].log_start > item.next
    }
    if lost and fail_on_data_loss:
        raise PositionExpired(
            f"topic {place.topic}: retention removed records that were not read: "
            + _named(
                f"partition {item.partition} at offset {item.next}, the log starts at "
                f"{description.partitions[item.partition].log_start}"
                for item in place.places
                if item.partition in lost
            )
            + "; start a new read, or continue without them (failOnDataLoss=false)"
        )
    known = {item.partition: replace(item, next=item.next + lost.get(item.partition, 0)) for item in place.places}
    starts = dict(place.starts)
    for number, partition in description.partitions.items():
        if number not in known:
            known[number] = PartitionPlace(number, partition.log_start)
            starts[number] = partition.log_start
    return ValidatedPlace(
        place=replace(
            place,
            starts=tuple(sorted(starts.items())),
            epochs=_epochs(description),
            places=tuple(known[number] for number in sorted(known)),
        ),
        lost=lost,
    )


def next_ranges(place: KafkaPlace, description: TopicDescription, limits: RoundLimits) -> tuple[KafkaRange, ...]:
    """The ranges after the position, by partition, ascending; () without any.

    With `limits.max_rows` at most so many offsets: each partition contributes in proportion to its backlog, at least
    one offset.
    """
    backlog = {item.partition: _backlog(item, description) for item in place.places}
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


def advanced_place(place: KafkaPlace, ranges: Iterable[KafkaRange], description: TopicDescription) -> KafkaPlace:
    """The position after these ranges."""
    ends = {item.partition: item.next for item in place.places}
    for item in ranges:
        ends[item.partition] = max(ends[item.partition], item.end)
    reached = (replace(item, next=ends[item.partition]) for item in place.places)
    places = tuple(replace(item, behind=_backlog(item, description)) for item in reached)
    return replace(place, phase=Phase.KAFKA, places=places)


def _backlog(item: PartitionPlace, description: TopicDescription) -> int:
    return max(0, description.partitions[item.partition].end - item.next)


def _epochs(description: TopicDescription) -> tuple[tuple[int, int], ...]:
    return tuple(
        (number, partition.leader_epoch)
        for number, partition in description.partitions.items()
        if partition.leader_epoch >= 0
    )


def _refuse_missing(description: TopicDescription, needed: Mapping[int, int]) -> None:
    missing = [number for number in sorted(needed) if number not in description.partitions]
    if missing:
        raise TopicGone(
            f"topic {description.topic} has no partition {_named(map(str, missing))} to continue in (it has "
            f"{len(description.partitions)}): is it the topic that fills the table, on these brokers?"
        )


def _refuse_cut_back(place: KafkaPlace, description: TopicDescription) -> None:
    """DataInvalidated if the log of a partition ends before the position, or its leader epoch fell: records were
    lost or replaced."""
    short = [item for item in place.places if _last(description.partitions[item.partition]) < item.next]
    if short:
        raise DataInvalidated(
            f"topic {place.topic} ends before the position: "
            + _named(
                f"partition {item.partition} at offset {item.next}, the log ends at "
                f"{_last(description.partitions[item.partition])}"
                for item in short
            )
            + "; it was truncated or created again, or it is not the topic that fills the table: start a new read"
        )
    epochs = dict(_epochs(description))
    fallen = [(number, epoch) for number, epoch in place.epochs if epochs.get(number, epoch) < epoch]
    if fallen:
        raise DataInvalidated(
            f"topic {place.topic}: the leader epoch fell: "
            + _named(f"partition {number} from {epoch} to {epochs[number]}" for number, epoch in fallen)
            + "; the topic was created again, or its log was lost: start a new read"
        )


def _last(partition: PartitionOffsets) -> int:
    return max(partition.end, partition.high_watermark)


def _named(items: Iterable[str]) -> str:
    texts = list(items)
    return ", ".join(texts[:_NAMED]) + (f", and {len(texts) - _NAMED} more" if len(texts) > _NAMED else "")
