"""`KafkaRecords`: reads the records of a range of a partition, each exactly once, with confluent-kafka's consumer.

The consumer is assigned its partition and offset, and uses no consumer group. It does not report that a topic was
deleted, recreated or truncated. Therefore the brokers are asked whether topic and partition are the ones of the plan:
before the read, while nothing arrives, and after the range.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.kafka.client import ErrorLog, NewClient, library, new_consumer
from penstock.kafka.config import checked_settings, consumer_config
from penstock.kafka.errors import (
    DAMAGED,
    GONE,
    OUT_OF_RANGE,
    TRANSIENT,
    TRUNCATED,
    ReportedError,
    permanent_error,
    unavailable_error,
)
from penstock.kafka.protocols import RangeReader, RecordChunk
from penstock.kafka.range_progress import RangeProgress
from penstock.kafka.topic_metadata import KafkaTopics, topics_of
from penstock.proto.errors import (
    DataInvalidated,
    KafkaUnavailable,
    PositionExpired,
    TopicGone,
    UndecodableRecord,
)
from penstock.proto.model.hybrid import ClientConfig, KafkaAccess, KafkaRange

TIMEOUT_S: Final = 60.0
"""How long a read waits for a record before it raises KafkaUnavailable."""

WAIT_S: Final = 0.25
"""The longest wait for the next record before topic and partition are checked."""

LINGER_S: Final = 0.02
"""How long a chunk with records waits for further ones."""

CHECK_S: Final = 2.0
"""The time without records between two checks."""

CONFIRMATIONS: Final = 3
"""The number of consecutive checks that must find a log truncated, because the end at a new leader may lag briefly."""


_AGAIN: Final = "start again from the lake"


@dataclass(slots=True)
class _IdleTime:
    """The time without records."""

    waited_s: float = 0.0
    """The time since the last record."""
    asked_at_s: float = 0.0
    """`waited_s` at the last check."""
    short: int = 0
    """The number of consecutive checks in which the log was too short."""
    last_error: ReportedError | None = field(default=None)
    """The last error that the consumer returned in place of a record."""

    def is_due(self) -> bool:
        """Whether to check topic and partition."""
        return self.waited_s - self.asked_at_s >= CHECK_S


class KafkaRecords(RangeReader):
    """A `RangeReader` with confluent-kafka's consumer."""

    def __init__(
        self,
        client: ClientConfig,
        *,
        topics: KafkaTopics | None = None,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        connect: NewClient = new_consumer,
        fail_on_data_loss: bool = True,
    ) -> None:
        self._settings = checked_settings(client)
        self._client, self._fail_on_data_loss = client, fail_on_data_loss
        self._topics = topics_of(client) if topics is None else topics
        self._timeout_s, self._clock, self._sleep, self._connect = timeout_s, clock, sleep, connect

    def read(self, kafka_range: KafkaRange, first: int, chunk_rows: int) -> Generator[RecordChunk, None, None]:
        """See `RangeReader.read`."""
        progress = RangeProgress(kafka_range, first, chunk_rows)
        if progress.is_passed:
            return
        self._check_same(kafka_range, self._timeout_s)
        error_log = ErrorLog(self._settings)
        config = consumer_config(self._client, f"penstock-{uuid.uuid4().hex}")
        consumer = self._connect(config, error_log)
        try:
            yield from self._chunks(consumer, error_log, progress)
        finally:
            consumer.close()
        self._check_same(kafka_range, self._timeout_s)

    def _chunks(
        self, consumer: Any, error_log: ErrorLog, progress: RangeProgress
    ) -> Generator[RecordChunk, None, None]:
        _assign(consumer, progress)
        idle = _IdleTime()
        while not progress.is_passed:
            began, before = self._clock(), progress.next
            self._poll(consumer, error_log, progress, idle)
            waited_s = self._clock() - began
            if progress.has_rows and (progress.is_full or progress.next == before) and not progress.is_passed:
                yield progress.take()
            if progress.next > before:
                idle = _IdleTime()
                error_log.clear()
            elif not progress.is_passed:
                idle.waited_s += waited_s
                self._check_idle(consumer, error_log, progress, idle)
        if progress.has_news:
            yield progress.take()

    def _poll(self, consumer: Any, error_log: ErrorLog, progress: RangeProgress, idle: _IdleTime) -> None:
        """Adds the available records to the chunk, at most what fits; waits for the first one."""
        kafka = library()
        try:
            messages = consumer.consume(1, LINGER_S if progress.has_rows else WAIT_S)
            if messages and progress.room > 1:
                messages += consumer.consume(progress.room - 1, 0)
        except kafka.KafkaException as error:
            self._handle_error(consumer, error_log.reported(error.args[0]), progress, idle)
            return
        failure = progress.put(messages)
        if failure is not None:
            self._handle_error(consumer, error_log.reported(failure), progress, idle)

    def _handle_error(self, consumer: Any, reported: ReportedError, progress: RangeProgress, idle: _IdleTime) -> None:
        """Handles an error in place of a record: raises Penstock's error, or returns if the consumer recovers by
        itself."""
        what = _reading(progress)
        idle.last_error = reported
        if reported.name in OUT_OF_RANGE:
            with suppress(KafkaUnavailable):  # the consumer reports the error again
                self._check_bounds(progress)
            self._sleep(WAIT_S)
            _assign(consumer, progress)
        elif reported.name in TRUNCATED:
            raise DataInvalidated(f"{what}: the log was cut back ({reported.text}); {_AGAIN}")
        elif reported.name in DAMAGED:
            raise UndecodableRecord(
                f"{what}: the client cannot take the records apart: {reported.text} ({reported.name})"
            )
        elif reported.name in GONE:
            self._check_same(progress.kafka_range, self._timeout_s)
        elif reported.name not in TRANSIENT:
            raise permanent_error(reported, what) or KafkaUnavailable(f"{what}: {reported.text} ({reported.name})")

    def _check_idle(self, consumer: Any, error_log: ErrorLog, progress: RangeProgress, idle: _IdleTime) -> None:
        """After a time without records: raises if the topic is another one or has no further records of the range."""
        if idle.waited_s >= self._timeout_s:
            self._raise_timeout(error_log, progress, idle)
        if not idle.is_due():
            return
        idle.asked_at_s = idle.waited_s
        began, before = self._clock(), progress.next
        try:
            self._check_same(progress.kafka_range, CHECK_S)
            written = self._check_bounds(progress)
        except KafkaUnavailable:
            idle.short = 0
        else:
            if progress.next > before:
                _assign(consumer, progress)
            idle.short = idle.short + 1 if written < progress.kafka_range.end else 0
            if idle.short >= CONFIRMATIONS:
                raise DataInvalidated(
                    f"{_reading(progress)}: the log ends at {written}, and offsets up to {progress.kafka_range.end} "
                    f"were there when the read was planned: it was cut back; {_AGAIN}"
                )
        idle.waited_s += self._clock() - began

    def _raise_timeout(self, error_log: ErrorLog, progress: RangeProgress, idle: _IdleTime) -> None:
        what = _reading(progress)
        denial = error_log.denial
        error = permanent_error(denial, what) if denial else None
        if error is not None:
            raise error
        if 0 <= progress.ended_at < progress.kafka_range.end and (error_log.last or idle.last_error) is None:
            raise KafkaUnavailable(
                f"{what}: no record after offset {progress.ended_at} may be read for {idle.waited_s:.0f} s, and the "
                f"range ends at {progress.kafka_range.end}: a transaction is open, or kafka.isolation.level differs "
                "from that of the plan"
            )
        raise unavailable_error(error_log.last or idle.last_error, what, idle.waited_s)

    def _check_same(self, kafka_range: KafkaRange, timeout_s: float) -> None:
        """TopicGone if the partition does not exist, DataInvalidated if the topic is another one."""
        known = self._topics.partitions_of(kafka_range.topic, timeout_s)
        if kafka_range.partition not in known.partitions:
            raise TopicGone(
                f"topic {kafka_range.topic} has no partition {kafka_range.partition}: got {len(known.partitions)} "
                "partitions; check kafka.topic and kafka.bootstrap.servers"
            )
        if kafka_range.topic_id and known.topic_id and kafka_range.topic_id != known.topic_id:
            raise DataInvalidated(
                f"topic {kafka_range.topic} was created again: its id is {known.topic_id}, and the read was planned on "
                f"{kafka_range.topic_id}; {_AGAIN}"
            )

    def _check_bounds(self, progress: RangeProgress) -> int:
        """The end of the log. If the next offset is outside of the log: DataInvalidated, or PositionExpired unless data
        loss is allowed."""
        kafka_range, at = progress.kafka_range, progress.next
        log_offsets = self._topics.log_offsets(kafka_range.topic, kafka_range.partition, min(self._timeout_s, CHECK_S))
        if at < log_offsets.log_start and not self._fail_on_data_loss:
            progress.skip_to(log_offsets.log_start)
        elif at < log_offsets.log_start:
            raise PositionExpired(
                f"{_reading(progress)}: retention took it, the log starts at offset {log_offsets.log_start} now; "
                "read the lake again, or set failOnDataLoss=false"
            )
        if at > log_offsets.written:
            raise DataInvalidated(
                f"{_reading(progress)}: the log ends at offset {log_offsets.written}: it was cut back, or the topic "
                f"was created again; {_AGAIN}"
            )
        return log_offsets.written


def open_records(access: KafkaAccess, *, fail_on_data_loss: bool = True) -> RangeReader:
    """A reader of records from the brokers of `access`."""
    return KafkaRecords(access.client, fail_on_data_loss=fail_on_data_loss)


def _assign(consumer: Any, progress: RangeProgress) -> None:
    kafka = library()
    kafka_range = progress.kafka_range
    consumer.assign([kafka.TopicPartition(kafka_range.topic, kafka_range.partition, progress.next)])


def _reading(progress: RangeProgress) -> str:
    kafka_range = progress.kafka_range
    return f"reading topic {kafka_range.topic}, partition {kafka_range.partition}, offset {progress.next}"
