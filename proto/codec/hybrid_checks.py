"""Bounds on what hybrid reads carry, wherever it comes from: a message, a checkpoint, a store.

Pure; standard library and values only. Belongs here: what must hold within one value and between values that travel
together. Every violation is a ConfigurationError (`penstock.proto.codec.checks.breach`).
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
"""An offset map as text."""

_TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")


def topic_name(what: str, field: str, value: str) -> str:
    """A name that Kafka gives a topic (`org.apache.kafka.common.internals.Topic`)."""
    if not _TOPIC.fullmatch(value):
        raise check.breach(what, field, repr(value[:40]), "1 to 249 of A-Z, a-z, 0-9, `.`, `_`, `-`")
    return value


def checked_range(what: str, field: str, item: KafkaRange) -> KafkaRange:
    """At least one offset of a partition."""
    _topic(what, field, item.topic, item.topic_id)
    check.number(what, f"{field}.partition", item.partition, check.MAX_INDEX)
    check.number(what, f"{field}.first", item.first)
    check.number(what, f"{field}.end", item.end)
    if item.first >= item.end:
        raise check.breach(what, field, f"{item.first} to {item.end}", "a first offset below the end")
    return item


def checked_ranges(what: str, field: str, items: Sequence[KafkaRange]) -> tuple[KafkaRange, ...]:
    """Of one topic, and of each partition in ascending pieces that do not overlap."""
    passed: dict[int, int] = {}
    for item in check.counted(what, field, items, check.MAX_SPLITS):
        checked_range(what, field, item)
        if (item.topic, item.topic_id) != (items[0].topic, items[0].topic_id):
            raise check.breach(what, field, f"topics {items[0].topic} and {item.topic}", "one topic, with one id")
        if item.first < passed.get(item.partition, 0):
            raise check.breach(
                what, field, f"partition {item.partition} from {item.first}", f"{passed[item.partition]} or more"
            )
        passed[item.partition] = item.end
    return tuple(items)


def checked_place(what: str, field: str, place: KafkaPlace) -> KafkaPlace:
    """No partition twice, each by its number, none before its start."""
    _topic(what, field, place.topic, place.topic_id)
    if is_after_hand_over(place.lake):
        raise check.breach(what, f"{field}.lake", str(place.lake), "a position of the lake")
    _by_partition(what, f"{field}.starts", place.starts, MAX_OFFSET)
    _by_partition(what, f"{field}.epochs", place.epochs, check.MAX_INDEX)
    _by_partition(what, f"{field}.places", [(item.partition, item.next) for item in place.places], MAX_OFFSET)
    begin = dict(place.starts)
    for item in place.places:
        check.number(what, f"{field}.places", item.behind)
        if item.high_us is not None and not -(2**63) <= item.high_us < 2**63:
            raise check.breach(what, f"{field}.places", item.high_us, "microseconds of 64 bits")
        if item.next < begin.get(item.partition, 0):
            raise check.breach(
                what,
                f"{field}.places",
                f"partition {item.partition} at offset {item.next}",
                f"its start {begin[item.partition]}, or more",
            )
    read = sum(item.next - begin.get(item.partition, 0) for item in place.places)
    check.number(what, f"{field}.places", read, MAX_OFFSET)
    return place


def checked_position(what: str, field: str, position: Position, place: KafkaPlace | None) -> KafkaPlace | None:
    """The progress in the topic of a progress at `position`; None: it is in the lake, or not known yet."""
    if place is not None and place.position != position:
        raise check.breach(
            what, f"{field}.position", str(position), f"that of its place in the topic, {place.position}"
        )
    return place


def checked_batch(
    what: str, field: str, items: Sequence[KafkaRange], place: KafkaPlace | None
) -> tuple[KafkaRange, ...]:
    """The ranges of a batch that ends at `place`."""
    if place is None or place.phase is not Phase.KAFKA:
        raise check.breach(what, field, "ranges of a topic", "none unless the point is in one")
    ends = {item.partition: item.next for item in place.places}
    for item in checked_ranges(what, field, items):
        if (item.topic, item.topic_id) != (place.topic, place.topic_id):
            raise check.breach(what, field, f"topic {item.topic}", f"the point's, {place.topic}, with its id")
        if item.end > ends.get(item.partition, 0):
            raise check.breach(
                what, field, f"partition {item.partition} to {item.end}", "no offset that the point has not passed"
            )
    return tuple(items)


def _topic(what: str, field: str, topic: str, topic_id: str) -> None:
    topic_name(what, f"{field}.topic", topic)
    check.text(what, f"{field}.topic_id", topic_id, MAX_TOPIC_ID_CHARS)


def _by_partition(what: str, field: str, pairs: Sequence[tuple[int, int]], limit: int) -> None:
    for partition, number in check.counted(what, field, pairs, MAX_PARTITIONS):
        check.number(what, field, partition, check.MAX_INDEX)
        check.number(what, field, number, limit)
    if any(one >= other for (one, _), (other, _) in pairwise(pairs)):
        raise check.breach(what, field, "partitions out of order", "each once, ascending")
