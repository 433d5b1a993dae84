"""Brokers that librdkafka simulates in the process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.engine.sync.topics.debezium_events import Events


@pytest.fixture
def events() -> Iterator[Events]:
    """Topics of Debezium's events on simulated brokers."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "partitioner": "murmur2", "log_level": 2}
    producer: Any = Producer(settings)
    brokers = producer.list_topics(timeout=60).brokers.values()
    yield Events(producer, ",".join(f"{one.host}:{one.port}" for one in brokers))
    producer.flush(10)
