"""Brokers that librdkafka simulates in the process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.engine.sync.topics.debezium_events import Events, simulated_events


@pytest.fixture
def events() -> Iterator[Events]:
    """Topics of Debezium's events on simulated brokers."""
    with simulated_events() as simulated:
        yield simulated
