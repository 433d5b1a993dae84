"""Reading ranges: on the mock broker, and from a scripted client for what a broker says once in a while."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.kafka.record_reader import KafkaRecords, open_records
from penstock.kafka.topic_metadata import LogOffsets, TopicPartitions
from penstock.proto.errors import (
    ConfigurationError,
    DataInvalidated,
    KafkaUnavailable,
    PositionExpired,
    TopicGone,
    UndecodableRecord,
)
from penstock.proto.model.hybrid import KafkaAccess, KafkaRange

CLIENT = (("bootstrap.servers", "scripted:1"),)


def offsets(chunks: Any) -> list[int]:
    return [at for chunk in chunks for at in chunk.offsets.tolist()]


# On the mock broker


def test_chunks_have_the_written_records(mock: Any, kafka_range: Any) -> None:
    mock.produce("chunks", [b"a", None, b"", *[b"x"] * 7])
    chunks = list(mock.records().read(kafka_range("chunks", 0, 9), 0, 4))
    assert [chunk.offsets.tolist() for chunk in chunks] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert [chunk.next_offset for chunk in chunks] == [4, 8, 9]
    assert chunks[0].keys == [b"0", b"1", b"2", b"3"]
    assert chunks[0].values == [b"a", None, b"", b"x"]
    assert all(stamp > 1_500_000_000_000 for stamp in chunks[0].timestamps_ms.tolist())


def test_read_may_start_inside_the_range(mock: Any, kafka_range: Any) -> None:
    mock.produce("resumed", [b"x"] * 10)
    assert offsets(mock.records().read(kafka_range("resumed", 2, 9), 6, 100)) == [6, 7, 8]
    assert list(mock.records().read(kafka_range("resumed", 2, 9), 9, 100)) == []


def test_two_reads_run_concurrently(mock: Any, kafka_range: Any) -> None:
    mock.produce("twice", [b"x"] * 6)
    service = open_records(KafkaAccess(client=mock.client))
    one, other = service.read(kafka_range("twice", 0, 6), 0, 2), service.read(kafka_range("twice", 0, 6), 0, 2)
    pairs = [(next(one).offsets.tolist(), next(other).offsets.tolist()) for _ in range(3)]
    assert pairs == [([0, 1], [0, 1]), ([2, 3], [2, 3]), ([4, 5], [4, 5])]
    assert list(one) == list(other) == []


def test_row_05_expired_offset_is_an_error(mock: Any, kafka_range: Any) -> None:
    """The mock broker keeps 5 MB a partition: the first offsets are gone."""
    mock.produce("expired", [b"x" * 50_000] * 150)
    start = mock.topics().describe("expired").partitions[0].log_start
    assert start > 10
    with pytest.raises(PositionExpired, match=rf"partition 0, offset 10: .* starts at offset {start} now"):
        list(mock.records().read(kafka_range("expired", 0, 150), 10, 100))
    assert offsets(mock.records().read(kafka_range("expired", 0, 150), start, 100)) == list(range(start, 150))


def test_row_05_read_with_loss_allowed_continues_at_the_log_start(mock: Any, kafka_range: Any) -> None:
    mock.produce("given-up", [b"x" * 50_000] * 150)
    start = mock.topics().describe("given-up").partitions[0].log_start
    service = open_records(KafkaAccess(client=mock.client), fail_on_data_loss=False)
    chunks = list(service.read(kafka_range("given-up", 0, 150), 10, 100))
    assert offsets(chunks) == list(range(start, 150))
    assert sum(chunk.lost for chunk in chunks) == start - 10
    (nothing,) = service.read(kafka_range("given-up", 0, 9), 3, 100)
    assert (nothing.offsets.tolist(), nothing.lost, nothing.next_offset) == ([], 6, 9)


def test_row_06_offset_above_the_end_is_an_error(mock: Any, kafka_range: Any) -> None:
    mock.produce("cut", [b"x"] * 5)
    with pytest.raises(DataInvalidated, match="the log ends at offset 5"):
        list(mock.records().read(kafka_range("cut", 0, 100), 50, 100))


def test_row_11_missing_partition_is_detected_before_the_read(mock: Any, kafka_range: Any) -> None:
    mock.produce("small", [b"x"])
    with pytest.raises(TopicGone, match="topic small has no partition 7"):
        next(mock.records().read(kafka_range("small", 0, 1, partition=7), 0, 10))
    with pytest.raises(TopicGone, match="topic never-created"):
        next(mock.records().read(kafka_range("never-created", 0, 1), 0, 10))


def test_settings_are_checked_when_the_reader_opens() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.auto\.offset\.reset"):
        open_records(KafkaAccess(client=(*CLIENT, ("auto.offset.reset", "earliest"))))


# From a scripted client

WAIT: list[Any] = []
"""In a script: nothing comes for as long as is waited."""


class Clock:
    """Time that passes by waiting alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Sent:
    """A record, or an event where `code` is given."""

    def __init__(self, at: int, code: int | None = None, text: str = "said") -> None:
        self._at, self._error = at, None if code is None else KafkaError(code, text)

    def error(self) -> Any:
        return self._error

    def offset(self) -> int:
        return self._at

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"x"

    def timestamp(self) -> tuple[int, int]:
        return 0, -1


class ScriptedConsumer:
    """Returns messages from a list, one batch a call, then none. `says` is passed to the error callback."""

    def __init__(self, clock: Clock, script: list[Any]) -> None:
        self.clock, self.script, self.error_log = clock, script, None
        self.assigned: list[int] = []
        self.is_closed = False
        self.says: list[KafkaError] = []

    def assign(self, places: list[Any]) -> None:
        self.assigned.append(places[0].offset)

    def consume(self, count: int, timeout: float) -> list[Any]:
        for error in self.says:
            self.error_log(error)
        if self.script and callable(self.script[0]):
            self.script.pop(0)()
        batch = self.script.pop(0) if self.script and timeout else WAIT
        if batch is WAIT:
            self.clock.sleep(timeout)
        if isinstance(batch, KafkaException):
            raise batch
        return batch

    def close(self) -> None:
        self.is_closed = True


class ScriptedTopics:
    """What the brokers say of the topic; None: nothing."""

    def __init__(self) -> None:
        self.is_silent = False
        self.description = TopicPartitions("id-1", (0, 1))
        self.bounds = LogOffsets(log_start=0, end=100, written=100)
        self.looks = 0

    def partitions_of(self, topic: str, timeout_s: float) -> TopicPartitions:
        self.looks += 1
        if self.is_silent:
            raise KafkaUnavailable("silent")
        return self.description

    def log_offsets(self, topic: str, partition: int, timeout_s: float) -> LogOffsets:
        if self.is_silent:
            raise KafkaUnavailable("silent")
        return self.bounds


class Reading:
    """A read of offsets 0..9 of partition 1, by scripts."""

    def __init__(self, script: list[Any], *, fail_on_data_loss: bool = True) -> None:
        clock = Clock()
        self.topics = ScriptedTopics()
        self.consumer = ScriptedConsumer(clock, script)
        self.reader = KafkaRecords(
            CLIENT,
            topics=self.topics,  # type: ignore[arg-type]
            timeout_s=30,
            clock=clock,
            sleep=clock.sleep,
            connect=self.connect,
            fail_on_data_loss=fail_on_data_loss,
        )

    def connect(self, config: Any, error_log: Any) -> ScriptedConsumer:
        self.config = config
        self.consumer.error_log = error_log
        return self.consumer

    def chunks(self, chunk_rows: int = 100) -> Any:
        kafka_range = KafkaRange(topic="orders", topic_id="id-1", partition=1, first=0, end=10)
        return self.reader.read(kafka_range, 0, chunk_rows)

    def fails(self, error: type[Exception], match: str) -> None:
        with pytest.raises(error, match=match):
            list(self.chunks())
        assert self.consumer.is_closed or not self.consumer.assigned


def test_client_is_assigned_the_start_and_closed_after_the_range() -> None:
    reading = Reading([[Sent(0), Sent(4)], [Sent(9)]])
    assert offsets(reading.chunks()) == [0, 4, 9]
    assert reading.consumer.assigned == [0] and reading.consumer.is_closed
    assert reading.config["auto.offset.reset"] == "error"
    assert reading.config["group.id"].startswith("penstock-")
    assert reading.topics.looks == 2  # before and after it


def test_client_is_closed_when_the_reader_stops() -> None:
    reading = Reading([[Sent(at) for at in range(5)]])
    chunks = reading.chunks(chunk_rows=2)
    next(chunks)
    assert not reading.consumer.is_closed
    chunks.close()
    assert reading.consumer.is_closed


def test_records_are_returned_before_the_chunk_is_full() -> None:
    reading = Reading([[Sent(0), Sent(1)], WAIT, [Sent(9)]])
    assert [chunk.offsets.tolist() for chunk in reading.chunks()] == [[0, 1], [9]]


def test_row_07_compacted_range_ends_at_the_partitions_end() -> None:
    assert offsets(Reading([[Sent(3)], [Sent(12, KafkaError._PARTITION_EOF)]]).chunks()) == [3]
    assert offsets(Reading([[Sent(10, KafkaError._PARTITION_EOF)]]).chunks()) == []


def test_row_08_control_records_at_the_end_are_passed() -> None:
    """The read ends at the event. There are fewer records, and the position after the last one is below the end."""
    assert offsets(Reading([[*map(Sent, range(5))], [Sent(10, KafkaError._PARTITION_EOF)]]).chunks()) == [*range(5)]


def test_row_04_retention_during_a_read_is_an_error() -> None:
    reading = Reading([[Sent(0), Sent(1)], [Sent(0, KafkaError._AUTO_OFFSET_RESET)]])
    reading.topics.bounds = LogOffsets(log_start=7, end=100, written=100)
    reading.fails(PositionExpired, r"offset 2: retention took it, the log starts at offset 7 now")


def test_row_04_read_with_loss_allowed_returns_the_rest_and_counts_the_loss() -> None:
    script: list[Any] = [[Sent(0), Sent(1)], [Sent(0, KafkaError._AUTO_OFFSET_RESET)], [Sent(8), Sent(9)]]
    reading = Reading(script, fail_on_data_loss=False)
    reading.topics.bounds = LogOffsets(log_start=7, end=100, written=100)
    chunks = list(reading.chunks())
    assert offsets(chunks) == [0, 1, 8, 9]
    assert sum(chunk.lost for chunk in chunks) == 5
    assert reading.consumer.assigned == [0, 7]


@pytest.mark.parametrize("log_start", [10, 50])
def test_row_04_read_with_loss_allowed_accepts_a_fully_expired_range(log_start: int) -> None:
    reading = Reading([[Sent(0), Sent(1)], [Sent(0, KafkaError._AUTO_OFFSET_RESET)]], fail_on_data_loss=False)
    reading.topics.bounds = LogOffsets(log_start=log_start, end=100, written=100)
    chunks = list(reading.chunks())
    assert [(chunk.offsets.tolist(), chunk.next_offset) for chunk in chunks] == [([0, 1], 10)]
    assert chunks[0].lost == 8


def test_row_04_read_with_loss_allowed_skips_offsets_below_the_log_start() -> None:
    """A client that says nothing of it: what the brokers say of the log is enough."""
    reading = Reading([*[WAIT] * 20, [Sent(9)]], fail_on_data_loss=False)
    reading.topics.bounds = LogOffsets(log_start=4, end=100, written=100)
    chunks = list(reading.chunks())
    assert (offsets(chunks), chunks[0].lost) == ([9], 4)
    assert reading.consumer.assigned == [0, 4]


def test_row_04_truncated_log_is_an_error_even_with_loss_allowed() -> None:
    reading = Reading([[Sent(0), Sent(1)], [Sent(0, KafkaError._AUTO_OFFSET_RESET)]], fail_on_data_loss=False)
    reading.topics.bounds = LogOffsets(log_start=0, end=1, written=1)
    reading.fails(DataInvalidated, "the log ends at offset 1")


def test_row_06_truncated_log_is_an_error() -> None:
    reading = Reading([[Sent(0), Sent(1)], [Sent(0, KafkaError._AUTO_OFFSET_RESET)]])
    reading.topics.bounds = LogOffsets(log_start=0, end=1, written=1)
    reading.fails(DataInvalidated, "the log ends at offset 1")
    Reading([[Sent(0, KafkaError._LOG_TRUNCATION)]]).fails(DataInvalidated, "cut back")


def test_row_06_log_that_ends_below_the_range_is_an_error() -> None:
    """To its end it reads without an error; that offsets were there above it is known from the plan."""
    reading = Reading([[Sent(0), Sent(4, KafkaError._PARTITION_EOF)]])
    reading.topics.bounds = LogOffsets(log_start=0, end=4, written=4)
    reading.fails(DataInvalidated, "the log ends at 4, and offsets up to 10 were there")


def test_row_06_new_leaders_end_may_lag_for_a_moment() -> None:
    def caught_up() -> None:
        reading.topics.bounds = LogOffsets(log_start=0, end=10, written=10)

    waits: list[Any] = [WAIT] * 16
    reading = Reading([[Sent(4, KafkaError._PARTITION_EOF)], *waits, caught_up, *waits, [Sent(9)]])
    reading.topics.bounds = LogOffsets(log_start=0, end=4, written=4)
    assert offsets(reading.chunks()) == [9]


@pytest.mark.parametrize("when", ["before", "in mid-read", "at the end"])
def test_row_06_recreated_topic_is_another_topic(when: str) -> None:
    def again() -> None:
        reading.topics.description = TopicPartitions("id-2", (0, 1))

    script: dict[str, list[Any]] = {
        "before": [],
        "in mid-read": [[Sent(0)], again],
        "at the end": [[Sent(0)], again, [Sent(9)]],
    }
    reading = Reading(script[when])
    if when == "before":
        again()
    reading.fails(DataInvalidated, "topic orders was created again: its id is id-2")


def test_row_11_partition_that_disappears_is_an_error() -> None:
    def remove_topic() -> None:
        reading.topics.description = TopicPartitions("id-1", (0,))

    reading = Reading([[Sent(0)], remove_topic])
    reading.fails(TopicGone, "has no partition 1")
    again = Reading([[Sent(0)], [Sent(0, KafkaError._UNKNOWN_PARTITION)]])
    again.topics.description = TopicPartitions("id-1", (0,))
    again.fails(TopicGone, "has no partition 1")


def test_row_09_open_transaction_is_awaited_then_named() -> None:
    reading = Reading([[Sent(0), Sent(4, KafkaError._PARTITION_EOF)]])
    reading.topics.bounds = LogOffsets(log_start=0, end=4, written=12)
    reading.fails(KafkaUnavailable, r"after offset 4 .* a transaction is open, or kafka.isolation.level")
    assert reading.consumer.clock() >= 30


def test_brokers_that_are_down_are_awaited() -> None:
    waits: list[Any] = [WAIT] * 50
    reading = Reading([[Sent(0)], *waits, [Sent(0, KafkaError._TRANSPORT)], *waits, [Sent(1)], [Sent(9)]])
    assert offsets(reading.chunks()) == [0, 1, 9]


def test_brokers_that_stay_down_end_the_read() -> None:
    def down() -> None:
        reading.topics.is_silent = True

    reading = Reading([[Sent(0)], down])
    reading.consumer.says = [KafkaError(KafkaError._TRANSPORT, "Connection refused")]
    reading.fails(KafkaUnavailable, r"partition 1, offset 1: no answer .* in \d+ s: Connection refused")
    assert 30 <= reading.consumer.clock() < 40


def test_false_out_of_range_error_is_retried() -> None:
    reading = Reading([[Sent(0)], [Sent(0, KafkaError._AUTO_OFFSET_RESET)], [Sent(1), Sent(9)]])
    assert offsets(reading.chunks()) == [0, 1, 9]
    assert reading.consumer.assigned == [0, 1]


@pytest.mark.parametrize(
    ("event", "error", "text"),
    [
        (Sent(1, KafkaError._BAD_MSG, "CRC32C check failed"), UndecodableRecord, "offset 1: .* CRC32C check failed"),
        (Sent(1, KafkaError.UNKNOWN, "odd"), KafkaUnavailable, "offset 1: odd"),
        (Sent(1, KafkaError.TOPIC_AUTHORIZATION_FAILED), Exception, "right to read"),
    ],
)
def test_records_after_an_error_are_not_read(event: Sent, error: type[Exception], text: str) -> None:
    """The client would continue after records that it cannot decode."""
    Reading([[Sent(0), event, Sent(2)], [Sent(9)]]).fails(error, text)
    Reading([[Sent(0)], KafkaException(event.error()), [Sent(9)]]).fails(error, text)


def test_wrong_credentials_during_a_read_are_named() -> None:
    def down() -> None:
        reading.topics.is_silent = True

    reading = Reading([[Sent(0)], down])
    reading.consumer.says = [KafkaError(KafkaError._AUTHENTICATION, "no such user")]
    with pytest.raises(Exception, match="no such user") as caught:
        list(reading.chunks())
    assert caught.value.code == "UNAUTHENTICATED"  # type: ignore[attr-defined]
