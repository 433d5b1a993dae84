"""The rounds of one topic: its events by key, from the offsets that the target stores.

A round has the records that have arrived. Its end is stored in the target in the same transaction as its rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import pyarrow as pa

from penstock.engine.sync.feed import NotReady, Round
from penstock.engine.sync.job import SyncEntry
from penstock.engine.sync.layout import TargetLayout, layout_of
from penstock.engine.sync.topics.decoding import EventDecoder
from penstock.engine.sync.topics.position import TopicPosition, parse_position
from penstock.engine.sync.topics.values import columns_of
from penstock.kafka.protocols import RecordChunk, TopicDescription
from penstock.kafka.shared_consumer import Fetched
from penstock.kafka.topic_metadata import TopicPartitions
from penstock.proto.errors import (
    ConfigurationError,
    DataInvalidated,
    InvariantViolation,
    PositionExpired,
    SchemaMismatch,
)
from penstock.proto.logging import log_event_to

log = logging.getLogger("penstock.engine.sync")

CHECK_S: Final = 10.0
"""The time between two looks at the partitions of a topic without new records."""


class TopicConsumer(Protocol):
    """`penstock.kafka.shared_consumer.SharedConsumer`."""

    def partitions_of(self, topic: str) -> TopicPartitions:
        """The topic's id and partitions."""
        ...

    def describe(self, topic: str) -> TopicDescription:
        """The topic with the offsets of each partition's log."""
        ...

    def fetch(self, topic: str, offsets: Mapping[int, int]) -> Fetched | None:
        """The records from these offsets on; None: nothing is known yet."""
        ...


@dataclass(slots=True)
class TopicFeed:
    """The rounds of a topic. One thread at a time; `consumer` serves other topics at the same time.

    `layout` and `next_round` raise NotReady until records, or the end of the topic, have arrived.
    """

    topic: str
    """The topic's name."""
    consumer: TopicConsumer
    """Reads the records."""
    decoder: EventDecoder
    """Decodes them."""
    clock: Callable[[], float] = time.monotonic
    """The time, in seconds."""
    _begin: TopicPosition | None = field(default=None, init=False)
    _known: TopicPosition | None = field(default=None, init=False)
    _checked_s: float | None = field(default=None, init=False)

    def layout(self, entry: SyncEntry) -> TargetLayout | None:
        """The layout for the events now; None: the topic has no event of a row yet.

        SchemaMismatch for events without a key. ConfigurationError for a given key that is not the one of the events:
        only events of one key are in order.
        """
        begin = self._begin or self._log_start()
        while True:
            self._begin = begin
            try:
                fetched = self._fetched(begin)
            except PositionExpired:
                moved = self._after_retention(begin)
                if moved.offsets == begin.offsets:
                    raise
                begin = moved
                continue
            known = self.decoder.decoded(begin, fetched.chunks).position
            if known.schema_json:
                break
            if not any(len(one.offsets) for one in fetched.chunks.values()):
                return None
            begin = replace(begin, offsets=_ends(begin, fetched.chunks))  # deletes before the first row
        self._known = known
        return self._layout(entry, known)

    def start(self) -> str:
        """The position before the first event."""
        if self._known is None:
            raise InvariantViolation(f"topic {self.topic}: start without a layout")
        return self._known.text()

    def next_round(self, position: str) -> Round | None:
        """The events after a position; None: the topic had none at the last look.

        DataInvalidated for a topic that was created again or has further partitions; the errors of the consumer and of
        undecodable events.
        """
        known = parse_position(position, self.topic)
        if self._checked_s is None:
            self._check(known)
        fetched = self._fetched(known)
        ends = _ends(known, fetched.chunks)
        if ends == known.offsets:
            if self._checked_s is None or self.clock() - self._checked_s >= CHECK_S:
                self._check(known)
            return None
        self._check(known)  # after the fetch: the records are of this topic
        decoded = self.decoder.decoded(known, fetched.chunks)
        reached = replace(decoded.position, offsets=ends)
        return Round(
            position=reached.text(),
            columns=columns_of(reached.schema_json, f"topic {self.topic}"),
            in_snapshot=False,
            done=0,
            total=0,
            order_key=reached.order_key,
            _rows=decoded.rows,
        )

    def batches(self, of: Round) -> Generator[pa.RecordBatch, None, None]:
        """The rows of a round: `_change_type`, `_change_seq` and the columns."""
        yield from of._rows

    def _log_start(self) -> TopicPosition:
        now = self.consumer.describe(self.topic)
        starts = {number: one.log_start for number, one in now.partitions.items()}
        begin = TopicPosition(topic=self.topic, topic_id=now.topic_id, offsets=starts)
        if any(starts.values()):
            log_event_to(
                log,
                "topic has lost records",
                level=logging.WARNING,
                topic=self.topic,
                starts=begin.order_key,
                reason="retention: rows whose last events were removed are not copied",
            )
        return begin

    def _after_retention(self, begin: TopicPosition) -> TopicPosition:
        """The position at the start of the log now, if retention has moved it since the last look."""
        now = self._log_start()
        return replace(
            now, offsets={number: max(start, begin.offsets.get(number, 0)) for number, start in now.offsets.items()}
        )

    def _fetched(self, at: TopicPosition) -> Fetched:
        fetched = self.consumer.fetch(self.topic, at.offsets)
        if fetched is None:
            raise NotReady
        return fetched

    def _layout(self, entry: SyncEntry, known: TopicPosition) -> TargetLayout:
        columns, key = columns_of(known.schema_json, f"topic {self.topic}"), known.key
        names = () if key is None else key.names
        missing = [name for name in names if name not in columns.names]
        if missing or not names:
            raise SchemaMismatch(f"topic {self.topic}: the events have no column {', '.join(missing)}, part of the key")
        if entry.key and set(entry.key) != set(names):
            raise ConfigurationError(
                f"topic {self.topic}: key {', '.join(entry.key)}: expected that of the events, {', '.join(names)}"
            )
        return layout_of(columns, names, entry.source_column)

    def _check(self, known: TopicPosition) -> None:
        """The topic must be the one of the position, with the same partitions."""
        now = self.consumer.partitions_of(self.topic)
        self._checked_s = self.clock()
        if known.topic_id and now.topic_id and now.topic_id != known.topic_id:
            raise DataInvalidated(
                f"topic {self.topic} was created again: its id is {now.topic_id}, and the copy is of {known.topic_id}: "
                "load the table again (--restart)"
            )
        if set(known.offsets) != set(now.partitions):
            raise DataInvalidated(
                f"topic {self.topic} has {len(now.partitions)} partitions and had {len(known.offsets)}: keys may have "
                "moved to another partition, so that the order of their events is not known: load the table again from "
                "a topic whose events were all written with these partitions (--restart)"
            )


def _ends(known: TopicPosition, chunks: Mapping[int, RecordChunk]) -> dict[int, int]:
    return {**known.offsets, **{number: one.next_offset for number, one in chunks.items()}}
