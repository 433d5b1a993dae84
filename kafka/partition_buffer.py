"""`PartitionBuffer`: records of one partition that arrived and are not stored yet. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np

from penstock.kafka.protocols import RecordChunk
from penstock.kafka.range_progress import Message

RECORD_BYTES: Final = 200
"""What a record takes beside key and value."""


class PartitionBuffer:
    """The records from offset `first` to offset `next` - 1, without gaps but those of the log itself."""

    def __init__(self, first: int) -> None:
        self.first = self.next = self.returned = first
        """The first offset, the one after the last, and the one up to which a reader has the records."""
        self.size_bytes = 0
        """The memory that the records take."""
        self.is_at_end = False
        """Whether the log had no record at or after `next` when the last message arrived."""
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, message: Message) -> None:
        """Adds a record. One before `next` is there already."""
        offset = int(message.offset())
        if offset < self.next:
            return
        key, value = message.key(), message.value()
        self._offsets.append(offset)
        self._timestamps.append(int(message.timestamp()[1]))
        self._keys.append(key)
        self._values.append(value)
        self.size_bytes += RECORD_BYTES + len(key or b"") + len(value or b"")
        self.next, self.is_at_end = offset + 1, False

    def end(self, offset: int) -> None:
        """The log ends at this offset: those below it, which never arrived, are markers and removed records."""
        if offset >= self.next:
            self.next, self.is_at_end = offset, True

    def continues_at(self, offset: int) -> bool:
        """Whether the buffer has every record from `offset` on; forgets the records before it."""
        if not self.first <= offset <= self.next:
            return False
        stored = bisect_left(self._offsets, offset)
        self.size_bytes -= stored * RECORD_BYTES + _size(self._keys[:stored]) + _size(self._values[:stored])
        for part in (self._offsets, self._timestamps, self._keys, self._values):
            del part[:stored]
        self.first, self.returned = offset, max(offset, self.returned)
        return True

    def chunk(self) -> RecordChunk:
        """All records; from now on a reader has them."""
        self.returned = self.next
        return RecordChunk(
            offsets=np.array(self._offsets, np.int64),
            timestamps_ms=np.array(self._timestamps, np.int64),
            keys=self._keys[:],
            values=self._values[:],
            next_offset=self.next,
        )


def _size(texts: Sequence[bytes | None]) -> int:
    return sum(map(len, filter(None, texts)))
