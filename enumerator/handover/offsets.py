"""Offsets of one topic: partition -> next offset to read, the exclusive end of what the table holds. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

MAX_OFFSET: Final = 2**63 - 1
MAX_PARTITION: Final = 2**31 - 1
MAX_PARTITIONS: Final = 100_000
"""Most partitions of a topic in one text."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


class MalformedOffsets(ValueError):
    """A text or a number that is not an offset map. Callers add where it was found."""


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """The next offset of each partition of a topic.

    MalformedOffsets for an empty map, for a topic name that Kafka does not allow and for numbers out of bounds.
    """

    topic: str
    """The topic's name."""
    offsets: tuple[tuple[int, int], ...]
    """(partition, next offset), by partition; at least one, each partition once."""

    def __post_init__(self) -> None:
        check_topic(self.topic)
        ordered = tuple(sorted(self.offsets))
        if not ordered:
            raise MalformedOffsets(f"topic {self.topic}: got no partition, expected at least one")
        if len(ordered) > MAX_PARTITIONS:
            raise MalformedOffsets(f"topic {self.topic}: got {len(ordered)} partitions, at most {MAX_PARTITIONS}")
        for (partition, _), (following, _) in pairwise(ordered):
            if partition == following:
                raise MalformedOffsets(f"topic {self.topic}: partition {partition} is listed twice")
        for partition, offset in ordered:
            if not 0 <= partition <= MAX_PARTITION:
                raise MalformedOffsets(f"topic {self.topic}: got partition {partition}, expected 0 to {MAX_PARTITION}")
            if not 0 <= offset <= MAX_OFFSET:
                raise MalformedOffsets(
                    f"topic {self.topic}, partition {partition}: got offset {offset}, expected 0 to {MAX_OFFSET}"
                )
        object.__setattr__(self, "offsets", ordered)

    def by_partition(self) -> dict[int, int]:
        """Partition -> next offset, by partition."""
        return dict(self.offsets)

    def beyond(self, other: OffsetMap) -> tuple[int, ...]:
        """The partitions in which this map is ahead of `other`, or which `other` does not list."""
        known = other.by_partition()
        return tuple(partition for partition, offset in self.offsets if offset > known.get(partition, -1))


def check_topic(topic: str) -> str:
    """The name, if Kafka allows it: 1 to 249 of letters, digits, `.`, `_`, `-`, and neither `.` nor `..`."""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise MalformedOffsets(f"got {topic[:80]!r}, expected the name of a topic")
    return topic


def number(text: str, what: str) -> int:
    """A number without sign and leading zeros, of at most 19 digits; spaces around it are ignored."""
    trimmed = text.strip(" ")
    if not _NUMBER.fullmatch(trimmed):
        raise MalformedOffsets(f"got {what} {trimmed[:40]!r}, expected a whole number of at least 0")
    return int(trimmed)


def merged(maps: Iterable[OffsetMap]) -> OffsetMap:
    """The highest offset of each partition. Correct only if the writers own disjoint partitions of the same topic."""
    highest: dict[int, int] = {}
    topics = set()
    for item in maps:
        topics.add(item.topic)
        for partition, offset in item.offsets:
            highest[partition] = max(offset, highest.get(partition, 0))
    if len(topics) != 1:
        raise MalformedOffsets(f"got topics {', '.join(sorted(topics)) or 'none'}, expected one")
    return OffsetMap(topics.pop(), tuple(highest.items()))
