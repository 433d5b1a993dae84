"""Transactions on a real broker: control and aborted records take offsets but are never returned.

The mock broker returns aborted records, so these tests need a real one.
"""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.proto.errors import KafkaUnavailable

pytestmark = pytest.mark.kafka


class Transactions:
    """A transactional writer of one topic."""

    def __init__(self, topic: Any) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": topic.broker.bootstrap, "transactional.id": topic.name})
        self._producer.init_transactions(60)

    def write(self, count: int) -> None:
        self._producer.begin_transaction()
        for number in range(count):
            self._producer.produce(self._topic.name, key=f"k{number}", value="x", partition=0)
        assert self._producer.flush(30) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        self._producer.abort_transaction(30)


def test_control_records_take_offsets_and_are_skipped(new_topic: Any) -> None:
    topic = new_topic()
    writer = Transactions(topic)
    for _ in range(3):
        writer.write(5)
        writer.commit()
    assert topic.log_offsets() == (0, 18)
    records = [*range(5), *range(6, 11), *range(12, 17)]
    assert topic.offsets(0, 18) == records
    for first in range(0, 18, 3):
        for end in (first + 1, first + 3, 18):
            assert topic.offsets(first, end) == [at for at in records if first <= at < end], (first, end)


def test_aborted_records_are_hidden(new_topic: Any) -> None:
    topic = new_topic()
    writer = Transactions(topic)
    for end in (writer.commit, writer.abort, writer.commit, writer.abort):
        writer.write(5)
        end()
    assert topic.log_offsets() == (0, 24)
    assert topic.offsets(0, 24) == [*range(5), *range(12, 17)]
    assert topic.offsets(6, 12) == [] and topic.offsets(18, 24) == []
    uncommitted = topic.with_settings(isolation_level="read_uncommitted")
    assert uncommitted.offsets(0, 24) == [at for at in range(24) if at % 6 != 5]


def test_end_is_the_last_stable_offset(new_topic: Any) -> None:
    """Records of an open transaction are not readable yet; a range that includes them waits."""
    topic = new_topic()
    writer = Transactions(topic)
    writer.write(5)
    writer.commit()
    writer.write(3)
    uncommitted = topic.with_settings(isolation_level="read_uncommitted")
    assert topic.log_offsets() == (0, 6) and uncommitted.log_offsets() == (0, 9)
    assert topic.offsets(0, 6) == list(range(5))
    assert topic.topics.offsets_at(topic.name, 4_000_000_000_000) == {0: 6}
    with pytest.raises(KafkaUnavailable, match=r"no record after offset 6 may be read .* a transaction is open"):
        topic.offsets(0, 9, timeout_s=3)
    assert uncommitted.offsets(0, 9) == [*range(5), 6, 7, 8]
    chunks = topic.chunks(0, 9)
    assert next(chunks).offsets.tolist() == list(range(5))
    writer.commit()
    assert [at for chunk in chunks for at in chunk.offsets.tolist()] == [6, 7, 8]
