"""A topic of a test, with the classes of Penstock that read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.kafka.protocols import RecordChunk, TopicDescription
from penstock.kafka.record_reader import KafkaRecords
from penstock.kafka.topic_metadata import KafkaTopics
from penstock.proto.model.hybrid import ClientConfig, KafkaRange


@dataclass(frozen=True)
class Topic:
    """A topic, and how Penstock reads its metadata and records."""

    broker: Any
    """The broker that holds the topic."""
    name: str
    """Name of the topic."""
    client: ClientConfig
    """Settings of the Kafka client."""

    @property
    def topics(self) -> KafkaTopics:
        return KafkaTopics(self.client)

    @property
    def facts(self) -> TopicDescription:
        return self.topics.describe(self.name)

    def log_offsets(self, partition: int = 0) -> tuple[int, int]:
        """(log start, end)"""
        facts = self.facts.partitions[partition]
        return facts.log_start, facts.end

    def write(self, values: list[Any], partition: int = 0) -> None:
        self.broker.produce(self.name, [(f"k{number}", value) for number, value in enumerate(values)], partition)

    def range(self, first: int, end: int, partition: int = 0, topic_id: str = "") -> KafkaRange:
        return KafkaRange(topic=self.name, topic_id=topic_id, partition=partition, first=first, end=end)

    def chunks(self, first: int, end: int, timeout_s: float = 30, **settings: Any) -> Iterator[RecordChunk]:
        """The chunks of a range with the current id of the topic."""
        return self.read(self.range(first, end, topic_id=self.facts.topic_id), timeout_s, **settings)

    def read(self, kafka_range: KafkaRange, timeout_s: float = 30, chunk_rows: int = 1000) -> Iterator[RecordChunk]:
        return KafkaRecords(self.client, timeout_s=timeout_s).read(kafka_range, kafka_range.first, chunk_rows)

    def offsets(self, first: int, end: int, **settings: Any) -> list[int]:
        return [at for chunk in self.chunks(first, end, **settings) for at in chunk.offsets.tolist()]

    def with_settings(self, **settings: str) -> Topic:
        """The same topic with further client settings, `_` for a dot."""
        more = tuple((name.replace("_", "."), value) for name, value in settings.items())
        return Topic(self.broker, self.name, (*self.client, *more))
