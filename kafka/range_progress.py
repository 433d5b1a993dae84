"""`RangeProgress`: the progress of reading a range of a partition, and the current chunk of records. Pure.

Messages arrive in offset order, with events between them. The read has passed the range when a record at or after its
end arrives, when the next offset is its end, or when the partition's end is reported at or after it. Offsets of control
records, aborted transactions and compacted records never arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np

from penstock.kafka.errors import END_OF_PARTITION
from penstock.kafka.protocols import RecordChunk
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.hybrid import KafkaRange

CHUNK_BYTES: Final = 16 << 20
"""A chunk with this many bytes of keys and values is complete, whatever its number of records."""


class Message(Protocol):
    """A record or an event of confluent-kafka's consumer."""

    def error(self) -> Any:
        """None for a record."""

    def offset(self) -> Any:
        """The record's offset; for the end-of-partition event, the partition's end."""

    def key(self) -> Any:
        """Bytes, or None."""

    def value(self) -> Any:
        """Bytes, or None."""

    def timestamp(self) -> Any:
        """(kind, milliseconds since 1970 UTC); -1: none."""


class RangeProgress:
    """The state of one read: `next` is the next offset to read, `ended_at` the last reported end of the partition."""

    def __init__(self, kafka_range: KafkaRange, first: int, chunk_rows: int) -> None:
        self.kafka_range, self.next = kafka_range, first
        self.ended_at = -1
        self._chunk_rows = chunk_rows
        self._passed = first >= kafka_range.end
        self._clear()

    @property
    def is_passed(self) -> bool:
        """Whether all records of the range have arrived."""
        return self._passed

    @property
    def room(self) -> int:
        """The maximum number of records to request: what fits into the chunk and the range."""
        return max(min(self._chunk_rows - len(self._offsets), self.kafka_range.end - self.next), 1)

    @property
    def has_rows(self) -> bool:
        """Whether the chunk contains records."""
        return bool(self._offsets)

    @property
    def has_news(self) -> bool:
        """Whether the chunk contains records or lost offsets."""
        return self.has_rows or self._lost > 0

    @property
    def is_full(self) -> bool:
        """Whether the chunk must be taken before further records are put into it."""
        return len(self._offsets) >= self._chunk_rows or self._bytes >= CHUNK_BYTES

    def put(self, messages: Sequence[Message]) -> Any:
        """Adds records up to the range's end, and ends of the partition.

        Returns the error of the first other event, after which nothing is added; None if there is none.
        """
        failure = None
        errors = [message.error() for message in messages]
        if any(error is not None for error in errors):
            for place, error in enumerate(errors):
                if error is None:
                    continue
                if error.name() != END_OF_PARTITION:
                    failure, messages, errors = error, messages[:place], errors[:place]
                    break
                self.ended_at = int(messages[place].offset())
                self._passed = self._passed or self.ended_at >= self.kafka_range.end
            messages = [message for message, error in zip(messages, errors, strict=True) if error is None]
        if messages:
            self._put_records(messages)
        return failure

    def skip_to(self, log_start: int) -> None:
        """Skips the offsets of the range below `log_start` and counts them as lost."""
        reached = min(max(log_start, self.next), self.kafka_range.end)
        self._lost += reached - self.next
        self.next = reached
        self._passed = self._passed or self.next >= self.kafka_range.end

    def take(self) -> RecordChunk:
        """Returns the current chunk and starts an empty one."""
        chunk = RecordChunk(
            offsets=np.array(self._offsets, dtype=np.int64),
            timestamps_ms=np.array(self._timestamps, dtype=np.int64),
            keys=self._keys,
            values=self._values,
            next_offset=self.kafka_range.end if self._passed else self.next,
            lost=self._lost,
        )
        self._clear()
        return chunk

    def _put_records(self, messages: Sequence[Message]) -> None:
        kind = type(messages[0])  # looks up the methods once: this is the hot path
        offsets = list(map(kind.offset, messages))
        if offsets[0] < self.next or any(right <= left for left, right in pairwise(offsets)):
            raise InvariantViolation(
                f"topic {self.kafka_range.topic}, partition {self.kafka_range.partition}: records come in offset "
                f"order, from offset {self.next} on: got {offsets[:3]} … {offsets[-3:]}"
            )
        if offsets[-1] >= self.kafka_range.end:
            self._passed = True
            inside = int(np.searchsorted(np.array(offsets, dtype=np.int64), self.kafka_range.end))
            messages, offsets = messages[:inside], offsets[:inside]
            if not messages:
                return
        keys, values = list(map(kind.key, messages)), list(map(kind.value, messages))
        self._offsets += offsets
        self._timestamps += [stamp[1] for stamp in map(kind.timestamp, messages)]
        self._keys += keys
        self._values += values
        self._bytes += _size(keys) + _size(values)
        self.next = offsets[-1] + 1
        self._passed = self._passed or self.next >= self.kafka_range.end

    def _clear(self) -> None:
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._bytes = self._lost = 0


def _size(texts: Iterable[bytes | None]) -> int:
    return sum(map(len, filter(None, texts)))
