"""How far a read of a range is, and what has been gathered of it, or lost. Pure.

Messages arrive in offset order, with events between them. A range is passed when a record at or behind its end has
come, when the next offset is its end, or when the partition's end was told at or behind it: offsets of control records,
of aborted transactions and of what compaction took never come.
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
"""A chunk is closed at so many bytes of keys and values, whatever its records."""


class Message(Protocol):
    """A record or an event, as the client gives it."""

    def error(self) -> Any:
        """None for a record."""

    def offset(self) -> Any:
        """A record's own; of the event that the partition ends, its end."""

    def key(self) -> Any:
        """Bytes, or None."""

    def value(self) -> Any:
        """Bytes, or None."""

    def timestamp(self) -> Any:
        """(kind, milliseconds since 1970 UTC); -1 where there is none."""


class RangeProgress:
    """The state of one read: `next` is the next offset wanted, `ended_at` the partition's end as last told."""

    def __init__(self, wanted: KafkaRange, first: int, chunk_rows: int) -> None:
        self.wanted, self.next = wanted, first
        self.ended_at = -1
        self._chunk_rows = chunk_rows
        self._passed = first >= wanted.end
        self._clear()

    @property
    def is_passed(self) -> bool:
        """Whether no record of the range is to come any more."""
        return self._passed

    @property
    def room(self) -> int:
        """How many records are wanted at most: what the chunk can take, and the range can hold."""
        return max(min(self._chunk_rows - len(self._offsets), self.wanted.end - self.next), 1)

    @property
    def has_rows(self) -> bool:
        """Whether records wait in the chunk."""
        return bool(self._offsets)

    @property
    def has_news(self) -> bool:
        """Whether the chunk has records, or offsets given up to tell of."""
        return self.has_rows or self._lost > 0

    @property
    def is_full(self) -> bool:
        """Whether the chunk must be taken before more is put in."""
        return len(self._offsets) >= self._chunk_rows or self._bytes >= CHUNK_BYTES

    def put(self, messages: Sequence[Message]) -> Any:
        """Takes records up to the range's end, and ends of the partition; returns the first other event's error, and
        takes nothing behind it; None if there is none."""
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
                self._passed = self._passed or self.ended_at >= self.wanted.end
            messages = [message for message, error in zip(messages, errors, strict=True) if error is None]
        if messages:
            self._put_records(messages)
        return failure

    def pass_over(self, log_start: int) -> None:
        """Gives up the offsets below `log_start`, as far as the range has them."""
        reached = min(max(log_start, self.next), self.wanted.end)
        self._lost += reached - self.next
        self.next = reached
        self._passed = self._passed or self.next >= self.wanted.end

    def take(self) -> RecordChunk:
        """The records gathered; the next chunk is empty."""
        chunk = RecordChunk(
            offsets=np.array(self._offsets, dtype=np.int64),
            timestamps_ms=np.array(self._timestamps, dtype=np.int64),
            keys=self._keys,
            values=self._values,
            next_offset=self.wanted.end if self._passed else self.next,
            lost=self._lost,
        )
        self._clear()
        return chunk

    def _put_records(self, messages: Sequence[Message]) -> None:
        kind = type(messages[0])  # methods looked up once: this is the hot path
        offsets = list(map(kind.offset, messages))
        if offsets[0] < self.next or any(right <= left for left, right in pairwise(offsets)):
            raise InvariantViolation(
                f"topic {self.wanted.topic}, partition {self.wanted.partition}: records come in offset order, from "
                f"offset {self.next} on: got {offsets[:3]} … {offsets[-3:]}"
            )
        if offsets[-1] >= self.wanted.end:
            self._passed = True
            inside = int(np.searchsorted(np.array(offsets, dtype=np.int64), self.wanted.end))
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
        self._passed = self._passed or self.next >= self.wanted.end

    def _clear(self) -> None:
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._bytes = self._lost = 0


def _size(texts: Iterable[bytes | None]) -> int:
    return sum(map(len, filter(None, texts)))
