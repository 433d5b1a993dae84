"""The fixture that creates topics on the session's broker."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.kafka.kafka_topic import Topic


@pytest.fixture
def new_topic(kafka: Any) -> Any:
    """Creates a topic with a unique name from (partitions, settings with `_` for a dot)."""

    def create(partitions: int = 1, **config: str) -> Topic:
        name = f"orders-{uuid.uuid4().hex[:8]}"
        kafka.create_topic(name, partitions, **config)
        return Topic(kafka, name, (("bootstrap.servers", kafka.bootstrap),))

    return create
