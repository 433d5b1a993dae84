"""Many topics, one consumer: what is assigned, what is kept, and whose error it is."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.kafka import shared_consumer
from penstock.kafka.shared_consumer import IDLE_S, LONGEST_WAIT_S, TIMEOUT_S, SharedConsumer
from penstock.proto.errors import (
    DataInvalidated,
    KafkaUnavailable,
    PenstockError,
    PermissionDenied,
    PositionExpired,
    TopicGone,
    UndecodableRecord,
)
from tests.unit.kafka.scripted_consumer import ScriptedConsumer

CLIENT = (("bootstrap.servers", "b:9092"),)


class Reading:
    """Readers of topics that continue where the last answer ended."""

    def __init__(self, log_start: int = 0, written: int = 1 << 40) -> None:
        self.client, self.now_s, self.created = ScriptedConsumer(), 100.0, 0
        offsets = SimpleNamespace(log_start=log_start, written=written)
        topics: Any = SimpleNamespace(log_offsets=lambda topic, partition: offsets)
        self.consumer = SharedConsumer(CLIENT, topics=topics, connect=self._connect, clock=lambda: self.now_s)
        self.offsets: dict[str, dict[int, int]] = {}
        self.read: dict[tuple[str, int], list[int]] = {}

    def _connect(self, settings: Any, log: Any) -> ScriptedConsumer:
        self.created += 1
        return self.client

    def fetch(self, topic: str, partitions: int = 1) -> bool | None:
        """Whether the topic is at its end after what arrived; None: no answer."""
        own = self.offsets.setdefault(topic, dict.fromkeys(range(partitions), 0))
        fetched = self.consumer.fetch(topic, own)
        if fetched is None:
            return None
        for number, chunk in fetched.chunks.items():
            self.read.setdefault((topic, number), []).extend(chunk.offsets.tolist())
            own[number] = chunk.next_offset
        return fetched.at_end


@pytest.fixture
def reading() -> Iterator[Reading]:
    yield Reading()


def test_every_topic_is_assigned_before_one_waits(reading: Reading) -> None:
    topics = [f"t{number}" for number in range(10)]
    reading.client.is_silent = True
    assert [reading.fetch(topic) for topic in topics] == [None] * 10
    assert len(reading.client.assigned) == 10 and set(reading.client.waits) == {0}
    reading.client.is_silent = False
    for topic in topics:
        reading.client.write(topic, 0, 50)
    assert [reading.fetch(topic) for topic in topics] == [True] * 10
    assert reading.created == 1
    assert reading.read == {(topic, 0): list(range(50)) for topic in topics}
    assert len(reading.client.returned) == len(set(reading.client.returned)) == 500


def test_same_offsets_give_the_same_records_again(reading: Reading) -> None:
    reading.client.write("t", 0, 5)
    first, again = (reading.consumer.fetch("t", {0: 0}) for _ in range(2))
    assert first is not None and again is not None
    assert first.chunks[0].offsets.tolist() == again.chunks[0].offsets.tolist() == list(range(5))
    assert len(reading.client.returned) == 5
    behind = reading.consumer.fetch("t", {0: 3})
    assert behind is not None and behind.chunks[0].offsets.tolist() == [3, 4]
    back = reading.consumer.fetch("t", {0: 1})
    assert back is not None and back.chunks[0].offsets.tolist() == [1, 2, 3, 4]


def test_topic_with_much_unread_data_is_not_read_further(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_consumer, "TOPIC_BYTES", 30_000)
    reading.client.write("fast", 0, 5000, size=100)
    reading.client.write("slow", 0, 10)
    reading.fetch("fast")
    for _ in range(20):
        reading.fetch("slow")
    assert len(reading.client.returned) <= 1100 and ("fast", 0) not in reading.client.assigned
    assert reading.read["slow", 0] == list(range(10))
    while reading.fetch("fast") is not True:
        pass
    assert reading.read["fast", 0] == list(range(5000))


def test_full_memory_assigns_the_asking_topic_only(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_consumer, "TOTAL_BYTES", 60_000)
    topics = [f"t{number}" for number in range(20)]
    for topic in topics:
        reading.client.write(topic, 0, 300)
    ends: dict[str, bool | None] = {}
    while not all(ends.get(topic) for topic in topics):
        for topic in topics:
            ends[topic] = reading.fetch(topic)
            held = sum(one.size_bytes for one in reading.consumer._read.values())
            assert held <= 60_000 + 1000 * 210
    assert reading.read == {(topic, 0): list(range(300)) for topic in topics}


def test_records_of_a_topic_that_nobody_reads_are_dropped(reading: Reading) -> None:
    reading.client.write("stopped", 0, 10)
    reading.fetch("stopped")
    reading.now_s += IDLE_S + 1
    reading.fetch("other")
    assert set(reading.client.assigned) == {("other", 0)}
    assert reading.fetch("stopped") is True


def test_topic_that_is_read_again_after_long_pause_continues(reading: Reading) -> None:
    reading.client.write("t", 0, 5)
    assert reading.fetch("t") is True
    reading.client.write("t", 0, 3)
    reading.now_s += IDLE_S + 1
    ends = [reading.fetch("t") for _ in range(3)]
    assert ends[-1] is True and reading.read["t", 0] == list(range(8))
    reading.client.write("t", 0, 2)
    assert reading.fetch("t") is True
    assert reading.read["t", 0] == list(range(10)) and len(reading.consumer._read["t"].assigned) == 1


def test_end_after_long_pause_is_not_that_before_it(reading: Reading) -> None:
    """The pause may be longer than the client keeps its records: the old end says nothing about the log of now."""
    reading.client.write("t", 0, 5)
    assert reading.fetch("t") is True and reading.fetch("t") is True
    reading.client.write("t", 0, 3)
    reading.now_s += IDLE_S + 1
    reading.client.is_silent = True
    assert reading.fetch("t") is None
    reading.client.is_silent = False
    assert reading.fetch("t") is True and reading.read["t", 0] == list(range(8))


def test_first_topic_after_long_pause_is_kept(reading: Reading) -> None:
    reading.now_s += IDLE_S + 1
    reading.client.write("t", 0, 5)
    assert reading.fetch("t") is True and reading.fetch("t") is True
    assert set(reading.consumer._read) == {"t"} and reading.read["t", 0] == list(range(5))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("_LOG_TRUNCATION", DataInvalidated),
        ("INVALID_MSG", UndecodableRecord),
        ("UNKNOWN_TOPIC_OR_PART", TopicGone),
        ("TOPIC_AUTHORIZATION_FAILED", PermissionDenied),
        ("SOMETHING_NEW", KafkaUnavailable),
    ],
)
def test_error_is_that_of_its_topic_alone(reading: Reading, code: str, expected: type[PenstockError]) -> None:
    reading.client.write("good", 0, 3)
    reading.client.failures["bad", 0] = code
    with pytest.raises(expected, match="topic bad"):
        reading.fetch("bad")
    assert reading.fetch("good") is True and reading.read["good", 0] == [0, 1, 2]
    del reading.client.failures["bad", 0]
    assert reading.fetch("bad") is True


def test_transient_error_is_waited_out(reading: Reading) -> None:
    reading.client.failures["t", 0] = "_TRANSPORT"
    assert reading.fetch("t") is None
    del reading.client.failures["t", 0]
    assert reading.fetch("t") is True


@pytest.mark.parametrize(
    ("log_start", "written", "expected", "text"),
    [
        (7, 9, PositionExpired, "starts at offset 7: retention removed 0 to 6"),
        (0, -1, DataInvalidated, "cut back, or the topic was created again"),
        (0, 9, KafkaUnavailable, "OFFSET_OUT_OF_RANGE"),
    ],
)
def test_offset_out_of_range_says_why(log_start: int, written: int, expected: type[PenstockError], text: str) -> None:
    reading = Reading(log_start, written)
    reading.client.failures["t", 0] = "OFFSET_OUT_OF_RANGE"
    with pytest.raises(expected, match=text):
        reading.fetch("t")


def test_silent_brokers_are_an_error_after_a_time(reading: Reading) -> None:
    reading.client.is_silent = True
    assert reading.fetch("t") is None
    reading.now_s += TIMEOUT_S - 0.1
    assert reading.fetch("t") is None
    reading.now_s += 0.1
    with pytest.raises(KafkaUnavailable, match="reading topic t"):
        reading.fetch("t")
    assert reading.client.assigned == {}
    assert reading.fetch("t") is None


def test_topic_that_is_silent_beside_others_waits_longer(reading: Reading) -> None:
    reading.client.failures["t", 0] = "_TRANSPORT"
    assert reading.fetch("t") is None
    for _ in range(int(LONGEST_WAIT_S) - 1):
        reading.now_s += 1
        reading.client.write("busy", 0, 1)
        assert reading.fetch("busy") is True and reading.fetch("t") is None
    reading.now_s += 1
    with pytest.raises(KafkaUnavailable):
        reading.fetch("t")


def test_partitions_are_those_of_the_last_call(reading: Reading) -> None:
    reading.client.write("t", 0, 1)
    reading.client.write("t", 1, 1)
    assert reading.fetch("t", 2) is True
    fetched = reading.consumer.fetch("t", {1: 0})
    assert fetched is not None and list(fetched.chunks) == [1]
    assert set(reading.client.assigned) == {("t", 1)}
