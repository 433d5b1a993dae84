"""librdkafka's mock brokers: fast, in this process, and correct for what these tests request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.kafka.record_reader import KafkaRecords
from penstock.kafka.topic_metadata import KafkaTopics
from penstock.proto.model.hybrid import ClientConfig, KafkaRange


@dataclass(frozen=True)
class MockBroker:
    """A mock cluster, and the operations of the tests on it. It ends with its producer."""

    producer: Any
    bootstrap: str

    @property
    def client(self) -> ClientConfig:
        return (("bootstrap.servers", self.bootstrap),)

    def produce(self, topic: str, values: Sequence[bytes | None], partition: int = 0) -> None:
        for number, value in enumerate(values):
            self.producer.produce(topic, key=b"%d" % number, value=value, partition=partition)
        assert self.producer.flush(20) == 0

    def topics(self, **settings: Any) -> KafkaTopics:
        return KafkaTopics(self.client, **settings)

    def records(self, **settings: Any) -> KafkaRecords:
        return KafkaRecords(self.client, **settings)


@pytest.fixture(scope="session")
def mock() -> Iterator[MockBroker]:
    """One mock broker for the run; topics have four partitions, and are a test's own."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 2})
    brokers = producer.list_topics(timeout=10).brokers.values()
    yield MockBroker(producer, ",".join(f"{broker.host}:{broker.port}" for broker in brokers))


@pytest.fixture
def kafka_range() -> Any:
    """A range by (topic, first, end); partition 0, and no topic id, as on mock brokers."""

    def new_range(topic: str, first: int, end: int, partition: int = 0, topic_id: str = "") -> KafkaRange:
        return KafkaRange(topic=topic, topic_id=topic_id, partition=partition, first=first, end=end)

    return new_range
