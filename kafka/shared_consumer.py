"""`SharedConsumer`: one consumer for many topics, each of which is read at its own pace from its own position.

Whoever asks for records of a topic polls, and keeps the records of other topics for their readers. The partitions of a
topic with much unread data are not assigned until its reader continues; if the topics have too much together, those of
all topics but the one that is asked for. Nothing is lost by that: a reader always gives the offsets at which it
continues, and partitions are assigned again at exact offsets. (A pause of librdkafka drops its queue too.)
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from penstock.kafka.client import ErrorLog, NewClient, library, new_consumer
from penstock.kafka.config import checked_settings, consumer_config
from penstock.kafka.errors import (
    DAMAGED,
    END_OF_PARTITION,
    OUT_OF_RANGE,
    TRANSIENT,
    TRUNCATED,
    ReportedError,
    permanent_error,
    unavailable_error,
)
from penstock.kafka.partition_buffer import PartitionBuffer
from penstock.kafka.protocols import RecordChunk, TopicDescription
from penstock.kafka.topic_metadata import KafkaTopics, TopicPartitions, topics_of
from penstock.proto.errors import DataInvalidated, KafkaUnavailable, PositionExpired, UndecodableRecord
from penstock.proto.model.hybrid import ClientConfig

TOPIC_BYTES: Final = 16 << 20
"""The memory of a topic's records with which its partitions are no longer assigned."""
TOTAL_BYTES: Final = 128 << 20
"""The memory of all records with which only the topic that is asked for is assigned."""
TIMEOUT_S: Final = 10.0
"""How long a reader waits for records or the end of its partitions before KafkaUnavailable, if no topic has any."""
LONGEST_WAIT_S: Final = 60.0
"""The same if other topics have records."""
IDLE_S: Final = 150.0
"""How long the records of a topic that nobody reads are kept: longer than a reader waits between two attempts."""
_WAIT_S: Final = 0.1
_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records of a topic."""

    chunks: Mapping[int, RecordChunk]
    """The records of each partition, from its offset on; some have none."""
    at_end: bool
    """Whether no partition has further records."""


@dataclass(slots=True, eq=False)
class _Topic:
    """The topic as it is read now."""

    buffers: dict[int, PartitionBuffer] = field(default_factory=dict)
    """The partitions."""
    assigned: set[int] = field(default_factory=set)
    """The partitions of which records arrive."""
    size_bytes: int = 0
    """The memory of the records."""
    read_s: float = 0.0
    """When a reader asked last."""
    waits_since_s: float | None = None
    """Since when a reader has asked without an answer."""
    failure: tuple[int, ReportedError] | None = None
    """A partition and its error; the next read raises it."""

    @property
    def at_end(self) -> bool:
        return all(one.is_at_end for one in self.buffers.values())

    @property
    def is_ready(self) -> bool:
        return any(map(len, self.buffers.values())) or self.at_end


class SharedConsumer:
    """One consumer for many topics. Any thread; a topic has one reader at a time."""

    def __init__(
        self,
        client: ClientConfig,
        *,
        topics: KafkaTopics | None = None,
        connect: NewClient = new_consumer,
        clock: Callable[[], float] = time.monotonic,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._settings = checked_settings(client)
        self._client, self._clock, self._timeout_s, self._connect = client, clock, timeout_s, connect
        self._topics = topics_of(client) if topics is None else topics
        self._lock = threading.Lock()
        self._error_log = ErrorLog(self._settings)
        self._consumer: Any = None
        self._read: dict[str, _Topic] = {}
        self._size_bytes = 0
        self._arrived_s = self._swept_s = clock()

    def partitions_of(self, topic: str) -> TopicPartitions:
        """The topic's id and partitions. TopicGone if the topic does not exist."""
        return self._topics.partitions_of(topic)

    def describe(self, topic: str) -> TopicDescription:
        """The topic with the offsets of each partition's log. TopicGone if the topic does not exist."""
        return self._topics.describe(topic)

    def fetch(self, topic: str, offsets: Mapping[int, int]) -> Fetched | None:
        """The records of the topic from these offsets on, or the news that there are none; the same offsets give the
        same records again. None: neither is known yet; call again. The first call for a topic does not wait, so that
        all topics of a job are assigned before one of them waits; others wait up to 0.1 s.

        PositionExpired for offsets that retention removed, DataInvalidated for a log that was cut back,
        KafkaUnavailable after `timeout_s` without an answer, and the other errors of `penstock.kafka.protocols`; other
        topics are not affected.
        """
        with self._lock:
            one, is_new = self._continued(topic, offsets)
            self._poll(one, 0 if is_new or one.is_ready else _WAIT_S)
            if one.failure is None and one.is_ready:
                one.waits_since_s = None
                chunks = {number: buffer.chunk() for number, buffer in one.buffers.items()}
                return Fetched(chunks, one.at_end)
            if one.failure is None and not self._is_late(one):
                return None
            self._release(topic)
        if one.failure is not None:
            self._raise(topic, offsets, *one.failure)
        self._raise_timeout(topic)

    def close(self) -> None:
        """Closes the connection. No other call may run or follow."""
        if self._consumer is not None:
            self._consumer.close()

    def _continued(self, topic: str, offsets: Mapping[int, int]) -> tuple[_Topic, bool]:
        """The topic with buffers that begin at `offsets`, and whether partitions were assigned."""
        now_s = self._clock()
        self._release_idle(now_s)  # may release this topic too: its end is old
        one = self._read.setdefault(topic, _Topic())
        one.read_s = now_s
        one.waits_since_s = now_s if one.waits_since_s is None else one.waits_since_s
        gone = [number for number in one.buffers if number not in offsets]
        self._unassign(topic, one, gone)
        for number in gone:
            del one.buffers[number]
        for number, offset in offsets.items():
            buffer = one.buffers.get(number)
            if buffer is None or not buffer.continues_at(offset):
                self._unassign(topic, one, [number])
                one.buffers[number] = PartitionBuffer(offset)
        self._measure(one)
        if self._size_bytes >= TOTAL_BYTES:
            self._forget_returned(one)
        is_full = one.size_bytes >= TOPIC_BYTES or (one.size_bytes > 0 and self._size_bytes >= TOTAL_BYTES)
        return one, not is_full and self._assign(topic, one)

    def _forget_returned(self, asking: _Topic) -> None:
        """Drops what the readers of other topics have. One that asks for it again, after an error, gets it from the
        brokers."""
        for one in self._read.values():
            if one is not asking:
                for buffer in one.buffers.values():
                    buffer.continues_at(buffer.returned)
                self._measure(one)

    def _measure(self, one: _Topic) -> None:
        self._grow(one, sum(buffer.size_bytes for buffer in one.buffers.values()) - one.size_bytes)

    def _grow(self, one: _Topic, size_bytes: int) -> None:
        one.size_bytes += size_bytes
        self._size_bytes += size_bytes

    def _is_late(self, one: _Topic) -> bool:
        now_s, since_s = self._clock(), one.waits_since_s
        waited_s = 0.0 if since_s is None else now_s - since_s
        return waited_s >= LONGEST_WAIT_S or min(waited_s, now_s - self._arrived_s) >= self._timeout_s

    def _assign(self, topic: str, one: _Topic) -> bool:
        """Assigns the partitions that are not; whether there were any."""
        kafka = library()
        added = [number for number in one.buffers if number not in one.assigned]
        if added:
            self._connected().incremental_assign(
                [kafka.TopicPartition(topic, number, one.buffers[number].next) for number in added]
            )
            one.assigned.update(added)
        return bool(added)

    def _unassign(self, topic: str, one: _Topic, numbers: Iterable[int]) -> None:
        kafka = library()
        removed = [number for number in numbers if number in one.assigned]
        if removed:
            self._connected().incremental_unassign([kafka.TopicPartition(topic, number) for number in removed])
            one.assigned.difference_update(removed)

    def _release(self, topic: str) -> None:
        one = self._read.pop(topic)
        self._unassign(topic, one, list(one.assigned))
        self._grow(one, -one.size_bytes)

    def _poll(self, one: _Topic, wait_s: float) -> None:
        """Distributes the messages that are there; waits for the first one."""
        kafka = library()
        while True:
            try:
                messages = self._connected().consume(1, wait_s)
                if messages:  # the client waits for all that it is asked for
                    messages += self._connected().consume(_AT_ONCE - 1, 0)
            except kafka.KafkaException as error:
                self._error_log(error.args[0])
                return
            if messages:
                self._arrived_s = self._clock()
            for message in messages:
                self._put(message)
            if self._size_bytes >= TOTAL_BYTES:
                for topic, other in self._read.items():
                    if other is not one:
                        self._unassign(topic, other, list(other.assigned))
            if len(messages) < _AT_ONCE or one.size_bytes >= TOPIC_BYTES or self._size_bytes >= TOTAL_BYTES:
                return
            wait_s = 0

    def _put(self, message: Any) -> None:
        error, topic, number = message.error(), message.topic(), message.partition()
        one = self._read.get(topic) if topic is not None else None
        if one is None or number not in one.assigned:
            if error is not None and topic is None:
                self._error_log(error)
            return
        if error is None:
            buffer = one.buffers[number]
            before = buffer.size_bytes
            buffer.put(message)
            self._grow(one, buffer.size_bytes - before)
            if one.size_bytes >= TOPIC_BYTES:
                self._unassign(topic, one, list(one.assigned))
        elif error.name() == END_OF_PARTITION:
            one.buffers[number].end(int(message.offset()))
        else:
            reported = self._error_log.reported(error)
            if reported.name not in TRANSIENT:
                one.failure = (number, reported)
            return
        self._error_log.clear()

    def _release_idle(self, now_s: float) -> None:
        """Drops the records of topics that nobody reads any more: their tables have stopped."""
        if now_s - self._swept_s < IDLE_S:
            return
        self._swept_s = now_s
        for topic in [topic for topic, one in self._read.items() if now_s - one.read_s >= IDLE_S]:
            self._release(topic)

    def _raise(self, topic: str, offsets: Mapping[int, int], number: int, reported: ReportedError) -> NoReturn:
        what = f"reading topic {topic}, partition {number}, after offset {offsets[number]}"
        if reported.name in OUT_OF_RANGE:
            log = self._topics.log_offsets(topic, number)
            if offsets[number] < log.log_start:
                raise PositionExpired(
                    f"{what}: the log starts at offset {log.log_start}: retention removed {offsets[number]} to "
                    f"{log.log_start - 1} before they were copied; load the table again (--restart)"
                )
            if offsets[number] > log.written:
                raise DataInvalidated(
                    f"{what}: the log ends at offset {log.written}: it was cut back, or the topic was created again; "
                    "load the table again (--restart)"
                )
        elif reported.name in TRUNCATED:
            raise DataInvalidated(f"{what}: the log was cut back; load the table again (--restart)")
        elif reported.name in DAMAGED:
            raise UndecodableRecord(f"{what}: the client cannot take the records apart: {reported.text}")
        raise permanent_error(reported, what) or KafkaUnavailable(f"{what}: {reported.text} ({reported.name})")

    def _raise_timeout(self, topic: str) -> NoReturn:
        denial = self._error_log.denial
        what = f"reading topic {topic}"
        error = permanent_error(denial, what) if denial else None
        raise error or unavailable_error(self._error_log.last, what, self._timeout_s)

    def _connected(self) -> Any:
        if self._consumer is None:
            config = consumer_config(self._client, f"penstock-{uuid.uuid4().hex}")
            self._consumer = self._connect(config, self._error_log)
        return self._consumer
