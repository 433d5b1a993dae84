"""Checks the values of hybrid reads that were decoded from a message, a checkpoint or a store.

The checks cover each value and values that belong together. Pure. Every violation is a ConfigurationError
(`penstock.proto.codec.checks.breach`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from penstock.proto.codec import checks as check
from penstock.proto.model.hybrid import MAX_OFFSET, MAX_PARTITIONS, KafkaPlace, KafkaRange, Phase, is_after_hand_over
from penstock.proto.model.positions import Position

MAX_TOPIC_ID_CHARS: Final = 128
MAX_CHECKPOINTS: Final = 1_000
MAX_OFFSETS_CHARS: Final = 4 << 20
"""The longest offset map as text."""

_TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")


def topic_name(what: str, field: str, value: str) -> str:
    """`value`, if it is a valid topic name of Kafka (`org.apache.kafka.common.internals.Topic`)."""
    if not _TOPIC.fullmatch(value):
        raise check.breach(what, field, repr(value[:40]), "1 to 249 of A-Z, a-z, 0-9, `.`, `_`, `-`")
    return value


def checked_range(what: str, field: str, offsets: KafkaRange) -> KafkaRange:
    """`offsets`, if it is a valid range with at least one offset."""
    _check_topic(what, field, offsets.topic, offsets.topic_id)
    check.number(what, f"{field}.partition", offsets.partition, check.MAX_INDEX)
    check.number(what, f"{field}.first", offsets.first)
    check.number(what, f"{field}.end", offsets.end)
    if offsets.first >= offsets.end:
        raise check.breach(what, field, f"{offsets.first} to {offsets.end}", "a first offset below the end")
    return offsets


def checked_ranges(what: str, field: str, ranges: Sequence[KafkaRange]) -> tuple[KafkaRange, ...]:
    """`ranges`, if they are of one topic, and those of a partition are ascending and do not overlap."""
    ends: dict[int, int] = {}
    for offsets in check.counted(what, field, ranges, check.MAX_SPLITS):
        checked_range(what, field, offsets)
        partition, topic = offsets.partition, offsets.topic
        if (topic, offsets.topic_id) != (ranges[0].topic, ranges[0].topic_id):
            raise check.breach(what, field, f"topics {ranges[0].topic} and {topic}", "one topic, with one id")
        if offsets.first < ends.get(partition, 0):
            raise check.breach(what, field, f"partition {partition} from {offsets.first}", f"{ends[partition]} or more")
        ends[partition] = offsets.end
    return tuple(ranges)


def checked_place(what: str, field: str, place: KafkaPlace) -> KafkaPlace:
    """`place`, if its partitions are ascending and none of them is before its start."""
    _check_topic(what, field, place.topic, place.topic_id)
    if is_after_hand_over(place.lake):
        raise check.breach(what, f"{field}.lake", str(place.lake), "a position of the lake")
    _check_by_partition(what, f"{field}.starts", place.starts, MAX_OFFSET)
    _check_by_partition(what, f"{field}.epochs", place.epochs, check.MAX_INDEX)
    _check_by_partition(what, f"{field}.places", [(at.partition, at.next) for at in place.places], MAX_OFFSET)
    starts = dict(place.starts)
    for at in place.places:
        check.number(what, f"{field}.places", at.behind)
        if at.high_us is not None and not -(2**63) <= at.high_us < 2**63:
            raise check.breach(what, f"{field}.places", at.high_us, "microseconds of 64 bits")
        if at.next < starts.get(at.partition, 0):
            raise check.breach(
                what,
                f"{field}.places",
                f"partition {at.partition} at offset {at.next}",
                f"its start {starts[at.partition]}, or more",
            )
    read_offsets = sum(at.next - starts.get(at.partition, 0) for at in place.places)
    check.number(what, f"{field}.places", read_offsets, MAX_OFFSET)
    return place


def checked_position(what: str, field: str, position: Position, place: KafkaPlace | None) -> KafkaPlace | None:
    """`place`, if it is the place of `position`. None: the progress is in the lake, or not known yet."""
    if place is not None and place.position != position:
        raise check.breach(
            what, f"{field}.position", str(position), f"that of its place in the topic, {place.position}"
        )
    return place


def checked_batch(
    what: str, field: str, ranges: Sequence[KafkaRange], place: KafkaPlace | None
) -> tuple[KafkaRange, ...]:
    """`ranges`, if they can be those of a batch that ends at `place`."""
    if place is None or place.phase is not Phase.KAFKA:
        raise check.breach(what, field, "ranges of a topic", "none unless the point is in one")
    ends = {at.partition: at.next for at in place.places}
    for offsets in checked_ranges(what, field, ranges):
        if (offsets.topic, offsets.topic_id) != (place.topic, place.topic_id):
            raise check.breach(what, field, f"topic {offsets.topic}", f"the point's, {place.topic}, with its id")
        if offsets.end > ends.get(offsets.partition, 0):
            raise check.breach(
                what, field, f"partition {offsets.partition} to {offsets.end}", "only offsets before the point's"
            )
    return tuple(ranges)


def _check_topic(what: str, field: str, topic: str, topic_id: str) -> None:
    topic_name(what, f"{field}.topic", topic)
    check.text(what, f"{field}.topic_id", topic_id, MAX_TOPIC_ID_CHARS)


def _check_by_partition(what: str, field: str, pairs: Sequence[tuple[int, int]], limit: int) -> None:
    for partition, number in check.counted(what, field, pairs, MAX_PARTITIONS):
        check.number(what, field, partition, check.MAX_INDEX)
        check.number(what, field, number, limit)
    if any(lower >= upper for (lower, _), (upper, _) in pairwise(pairs)):
        raise check.breach(what, field, "partitions out of order", "each once, ascending")
