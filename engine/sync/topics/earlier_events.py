"""The key and the columns of the last events below some offsets of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.engine.sync.feed import NotReady
from penstock.engine.sync.topics.connect_types import Fields
from penstock.engine.sync.topics.decoding import EventDecoder, part_of
from penstock.engine.sync.topics.event_schema import EventKey, merged
from penstock.engine.sync.topics.feed import TopicConsumer
from penstock.engine.sync.topics.position import TopicPosition
from penstock.kafka.protocols import RecordChunk
from penstock.proto.errors import PositionExpired, SchemaMismatch

OFFSETS: Final = 1_000
"""So many offsets below the end of each partition are read, ten times as many until one of them has a schema."""
_MORE: Final = 10


@dataclass(slots=True)
class _Window:
    """The offsets of one partition that are read."""

    begin: int
    next: int
    end: int
    count: int = OFFSETS
    has_columns: bool = False
    head: str = ""


@dataclass(slots=True)
class EarlierEvents:
    """Reads the events of a topic below the offsets of a position. One thread at a time."""

    consumer: TopicConsumer
    """Reads the records."""
    decoder: EventDecoder
    """Has the form of schemas."""
    known: TopicPosition
    """The position, with the key and the columns that are known so far."""
    starts: Mapping[int, int]
    """The first offset of each partition's log."""
    without: frozenset[str] = frozenset()
    """Columns that `known` does not get."""
    seen: Fields = field(default_factory=list)
    """The columns that the events have had, each once with each of its types."""
    _windows: dict[int, _Window] = field(init=False)
    _heads: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._windows = {
            number: _Window(begin, begin, end)
            for number, end in self.known.offsets.items()
            for begin in (max(end - OFFSETS, min(self.starts[number], end)),)
        }

    def read(self) -> TopicPosition:
        """The position with the key of the events and all of their columns. NotReady until they have arrived: call
        again. SchemaMismatch for events of several keys, or of types of which none holds the values of the others."""
        while left := {number: one.next for number, one in self._windows.items() if one.next < one.end}:
            try:
                fetched = self.consumer.fetch(self.known.topic, left)
            except PositionExpired:
                if not self._moved_starts():
                    raise
                continue
            if fetched is None:
                raise NotReady
            for number, chunk in fetched.chunks.items():
                self._take(number, chunk)
            now = {number: self._windows[number].next for number in left}
            if fetched.at_end:  # the rest is in open transactions
                for number in left:
                    self._windows[number].next = self._windows[number].end
            elif now == left:
                raise NotReady
            for number, one in self._windows.items():
                self._extend(number, one)
        return self.known

    def _take(self, number: int, chunk: RecordChunk) -> None:
        window = self._windows[number]
        count = int((chunk.offsets < window.end).sum())
        part = part_of(chunk, 0, count)
        keys, schemas = self.decoder.described(self.known.topic, number, part)
        for key in keys:
            self._take_key(window, key, f"topic {self.known.topic}, partition {number}")
        for fields in schemas:
            window.has_columns = True
            kept = [one for one in fields if one["name"] not in self.without]
            joined = merged(self.known.schema_json, kept, f"topic {self.known.topic}, partition {number}")
            self.known = replace(self.known, schema_json=joined)
            self.seen += [one for one in fields if one not in self.seen]
        window.next = min(max(window.next, chunk.next_offset), window.end)

    def _take_key(self, window: _Window, key: EventKey, where: str) -> None:
        """The columns of the key must be the same. Its schema may change: the table has all of these events, and is
        before all others. Those may have the schema of the last ones, or if it is not known which that is, any."""
        known = self.known.key
        if known is not None and set(known.names) != set(key.names):
            raise SchemaMismatch(
                f"{where}: the events had the key ({', '.join(known.names)}) and have ({', '.join(key.names)}), so "
                "events of one row may be in several partitions: load the table again from a new topic"
            )
        if window.head not in ("", key.head):
            self._heads[window.head] = False
        window.head = key.head
        self._heads.setdefault(key.head, True)
        last = [head for head, is_last in self._heads.items() if is_last]
        is_exact = len(last) == 1 < len(self._heads)
        self.known = replace(self.known, key=EventKey(key.names, last[0] if is_exact else ""))

    def _extend(self, number: int, one: _Window) -> None:
        """Continues with older offsets if none of those that were read has a schema."""
        if one.next < one.end or one.has_columns or one.begin <= self.starts[number]:
            return
        one.count *= _MORE
        one.end = one.begin
        one.begin = one.next = max(self.known.offsets[number] - one.count, self.starts[number])
        one.head = ""

    def _moved_starts(self) -> bool:
        """Whether retention has removed offsets that are not read yet: the rest is read then."""
        now = self.consumer.describe(self.known.topic)
        self.starts = {number: one.log_start for number, one in now.partitions.items()}
        is_moved = False
        for number, one in self._windows.items():
            start = min(self.starts.get(number, 0), one.end)
            is_moved = is_moved or one.next < start
            one.begin, one.next = max(one.begin, start), max(one.next, start)
        return is_moved
