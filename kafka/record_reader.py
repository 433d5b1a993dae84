"""The records of a range of a partition, exactly once and up to its end: `RangeReader` with confluent-kafka's consumer.

The client is told where to read (assign) and never asks a group. What it keeps silent about is asked of the brokers:
whether topic and partition are there, and are the same as when the range was planned, before anything is read, while
nothing arrives, and when the range is passed.
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

PATIENCE_S: Final = 60.0
"""How long a read waits for brokers, without a record, before it gives up."""

WAIT_S: Final = 0.25
"""The longest wait for the next record before the state of things is looked at."""

LINGER_S: Final = 0.02
"""How long a chunk that has records waits for more."""

CHECK_S: Final = 2.0
"""Of silence, between questions to the brokers."""

SURE_AFTER: Final = 3
"""A log is cut back when it is seen so in so many checks: a new leader's end may lag for a moment."""


_AGAIN: Final = "start again from the lake"


@dataclass(slots=True)
class _Silence:
    """How long nothing has come, when the brokers were asked last, how often in a row the log was too short then, and
    the last error in the place of a record."""

    waited_s: float = 0.0
    asked_at_s: float = 0.0
    short: int = 0
    heard: ReportedError | None = field(default=None)

    def is_due(self) -> bool:
        """Whether the brokers are to be asked."""
        return self.waited_s - self.asked_at_s >= CHECK_S


class KafkaRecords(RangeReader):
    """A `RangeReader` (there is what its method promises)."""

    def __init__(
        self,
        client: ClientConfig,
        *,
        topics: KafkaTopics | None = None,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        connect: NewClient = new_consumer,
        fail_on_data_loss: bool = True,
    ) -> None:
        self._settings = checked_settings(client)
        self._client, self._fail_on_data_loss = client, fail_on_data_loss
        self._topics = topics_of(client) if topics is None else topics
        self._patience_s, self._clock, self._pause, self._connect = patience_s, clock, pause, connect

    def read(self, wanted: KafkaRange, first: int, chunk_rows: int) -> Generator[RecordChunk, None, None]:
        """See `RangeReader.read`."""
        progress = RangeProgress(wanted, first, chunk_rows)
        if progress.is_passed:
            return
        self._check_same(wanted, self._patience_s)
        heard = ErrorLog(self._settings)
        config = consumer_config(self._client, f"penstock-{uuid.uuid4().hex}")
        consumer = self._connect(config, heard)
        try:
            yield from self._chunks(consumer, heard, progress)
        finally:
            consumer.close()
        self._check_same(wanted, self._patience_s)

    def _chunks(self, consumer: Any, heard: ErrorLog, progress: RangeProgress) -> Generator[RecordChunk, None, None]:
        _assign(consumer, progress)
        silence = _Silence()
        while not progress.is_passed:
            began, before = self._clock(), progress.next
            self._gather(consumer, heard, progress, silence)
            waited_s = self._clock() - began
            if progress.has_rows and (progress.is_full or progress.next == before) and not progress.is_passed:
                yield progress.take()
            if progress.next > before:
                silence = _Silence()
                heard.answered()
            elif not progress.is_passed:
                silence.waited_s += waited_s
                self._look_around(consumer, heard, progress, silence)
        if progress.has_news:
            yield progress.take()

    def _gather(self, consumer: Any, heard: ErrorLog, progress: RangeProgress, silence: _Silence) -> None:
        """What is there now, at most what the chunk takes; waits for the first of it."""
        kafka = library()
        try:
            messages = consumer.consume(1, LINGER_S if progress.has_rows else WAIT_S)
            if messages and progress.room > 1:
                messages += consumer.consume(progress.room - 1, 0)
        except kafka.KafkaException as error:
            self._judge(consumer, heard.said(error.args[0]), progress, silence)
            return
        failure = progress.put(messages)
        if failure is not None:
            self._judge(consumer, heard.said(failure), progress, silence)

    def _judge(self, consumer: Any, said: ReportedError, progress: RangeProgress, silence: _Silence) -> None:
        """An error in the place of a record: raises what it means, or returns where reading goes on by itself."""
        what = _reading(progress)
        silence.heard = said
        if said.name in OUT_OF_RANGE:
            with suppress(KafkaUnavailable):  # then this answer comes again
                self._check_bounds(progress)
            self._pause(WAIT_S)
            _assign(consumer, progress)
        elif said.name in TRUNCATED:
            raise DataInvalidated(f"{what}: the log was cut back ({said.text}); {_AGAIN}")
        elif said.name in DAMAGED:
            raise UndecodableRecord(f"{what}: the client cannot take the records apart: {said.text} ({said.name})")
        elif said.name in GONE:
            self._check_same(progress.wanted, self._patience_s)
        elif said.name not in TRANSIENT:
            raise permanent_error(said, what) or KafkaUnavailable(f"{what}: {said.text} ({said.name})")

    def _look_around(self, consumer: Any, heard: ErrorLog, progress: RangeProgress, silence: _Silence) -> None:
        """Nothing came: is the topic still the one to read, and is there anything to come? Raises if not."""
        if silence.waited_s >= self._patience_s:
            self._give_up(heard, progress, silence)
        if not silence.is_due():
            return
        silence.asked_at_s = silence.waited_s
        began, before = self._clock(), progress.next
        try:
            self._check_same(progress.wanted, CHECK_S)
            written = self._check_bounds(progress)
        except KafkaUnavailable:
            silence.short = 0
        else:
            if progress.next > before:
                _assign(consumer, progress)
            silence.short = silence.short + 1 if written < progress.wanted.end else 0
            if silence.short >= SURE_AFTER:
                wanted = progress.wanted
                raise DataInvalidated(
                    f"{_reading(progress)}: the log ends at {written}, and offsets up to {wanted.end} were there when "
                    f"the read was planned: it was cut back; {_AGAIN}"
                )
        silence.waited_s += self._clock() - began

    def _give_up(self, heard: ErrorLog, progress: RangeProgress, silence: _Silence) -> None:
        what = _reading(progress)
        denial = heard.denial
        error = permanent_error(denial, what) if denial else None
        if error is not None:
            raise error
        if 0 <= progress.ended_at < progress.wanted.end and (heard.last or silence.heard) is None:
            raise KafkaUnavailable(
                f"{what}: nothing may be read behind offset {progress.ended_at} for {silence.waited_s:.0f} s, and the "
                f"range ends at {progress.wanted.end}: a transaction is open, or kafka.isolation.level is not that of "
                "whoever planned the read"
            )
        raise unavailable_error(heard.last or silence.heard, what, silence.waited_s)

    def _check_same(self, wanted: KafkaRange, patience_s: float) -> None:
        """TopicGone, DataInvalidated: the partition is not there, or the topic is another one."""
        look = self._topics.look(wanted.topic, patience_s)
        if wanted.partition not in look.partitions:
            raise TopicGone(
                f"topic {wanted.topic} has no partition {wanted.partition}: got {len(look.partitions)} partitions; "
                "check kafka.topic and kafka.bootstrap.servers"
            )
        if wanted.topic_id and look.topic_id and wanted.topic_id != look.topic_id:
            raise DataInvalidated(
                f"topic {wanted.topic} was created again: its id is {look.topic_id}, and the read was planned on "
                f"{wanted.topic_id}; {_AGAIN}"
            )

    def _check_bounds(self, progress: RangeProgress) -> int:
        """The end of what is written. PositionExpired, unless loss is allowed, and DataInvalidated: the next offset
        lies outside of the log."""
        wanted, at = progress.wanted, progress.next
        marks = self._topics.marks(wanted.topic, wanted.partition, min(self._patience_s, CHECK_S))
        if at < marks.log_start and not self._fail_on_data_loss:
            progress.pass_over(marks.log_start)
        elif at < marks.log_start:
            raise PositionExpired(
                f"{_reading(progress)}: retention took it, the log starts at offset {marks.log_start} now; "
                "read the lake again, or set failOnDataLoss=false"
            )
        if at > marks.written:
            raise DataInvalidated(
                f"{_reading(progress)}: the log ends at offset {marks.written}: it was cut back, or the topic was "
                f"created again; {_AGAIN}"
            )
        return marks.written


def open_records(access: KafkaAccess, *, fail_on_data_loss: bool = True) -> RangeReader:
    """The door to the records of the brokers that the access names."""
    return KafkaRecords(access.client, fail_on_data_loss=fail_on_data_loss)


def _assign(consumer: Any, progress: RangeProgress) -> None:
    kafka = library()
    wanted = progress.wanted
    consumer.assign([kafka.TopicPartition(wanted.topic, wanted.partition, progress.next)])


def _reading(progress: RangeProgress) -> str:
    wanted = progress.wanted
    return f"reading topic {wanted.topic}, partition {wanted.partition}, offset {progress.next}"
