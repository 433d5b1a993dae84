"""Rounds of a topic over a consumer in memory: when a topic is checked, and what ends its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from penstock.engine.sync.feed import NotReady
from penstock.engine.sync.job import SyncEntry, TargetUrl
from penstock.engine.sync.topics.feed import CHECK_S, TopicFeed
from penstock.kafka.protocols import PartitionOffsets, TopicDescription
from penstock.kafka.shared_consumer import Fetched
from penstock.kafka.topic_metadata import TopicPartitions
from penstock.proto.errors import ConfigurationError, DataInvalidated, PositionExpired
from penstock.proto.model.hybrid import ValueFormat
from tests.unit.engine.sync.topics.typed_events import COLUMNS, Events, chunk
from tests.unit.reader.topics.fake_registry import FakeRegistry

ENTRY = SyncEntry(source="kafka://b:9092/shop.t", target=TargetUrl("duckdb", "c.db"))


@dataclass
class Topic:
    """A topic of one partition, and its consumer."""

    events: Events = field(
        default_factory=lambda: Events(ValueFormat.DEBEZIUM_JSON, {"text": COLUMNS["text"]}, FakeRegistry())
    )
    values: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    now: TopicPartitions = field(default_factory=lambda: TopicPartitions("id", (0,)))
    start: int = 0
    end: int | None = None
    pending: int = 0
    kept: int = 0
    is_stuck: bool = False
    checks: int = 0
    now_s: float = 100.0

    def put(self, *numbers: int) -> None:
        self.values += [(self.events.key(one), self.events.value("c", self.events.row(one))) for one in numbers]

    def partitions_of(self, topic: str) -> TopicPartitions:
        self.checks += 1
        return self.now

    def describe(self, topic: str) -> TopicDescription:
        self.checks += 1
        log = PartitionOffsets(log_start=self.start, end=len(self.values))
        return TopicDescription(
            topic=topic, topic_id=self.now.topic_id, partitions=dict.fromkeys(self.now.partitions, log)
        )

    def fetch(self, topic: str, offsets: Mapping[int, int]) -> Fetched | None:
        if self.pending:
            self.pending -= 1
            return None
        if offsets[0] < self.kept:
            self.start = self.start if self.is_stuck else self.kept
            raise PositionExpired(f"retention removed {offsets[0]}")
        own = self.values[offsets[0] :]
        records = chunk([key for key, _ in own], [value for _, value in own], offsets[0])
        if self.end is not None:
            records = replace(records, next_offset=max(self.end, records.next_offset))
        return Fetched({0: records}, at_end=True)

    def feed(self) -> TopicFeed:
        return TopicFeed("shop.t", self, self.events.decoder(), clock=lambda: self.now_s)


def begun(topic: Topic) -> tuple[TopicFeed, str]:
    feed = topic.feed()
    layout = feed.layout(ENTRY)
    assert layout is not None and layout.key == ("id",) and layout.columns.names == ["id", "text"]
    return feed, feed.start()


def test_rounds_continue_at_the_stored_offsets() -> None:
    topic = Topic()
    topic.put(1, 2)
    feed, position = begun(topic)
    first = feed.next_round(position)
    assert first is not None and sum(one.num_rows for one in feed.batches(first)) == 2 and first.order_key == "0:2"
    again = topic.feed().next_round(position)
    assert again is not None and again.position == first.position
    assert feed.next_round(first.position) is None
    topic.put(3)
    second = feed.next_round(first.position)
    assert second is not None and [one["id"].to_pylist() for one in feed.batches(second)] == [[3]]
    topic.end = 9  # markers of transactions only
    third = feed.next_round(second.position)
    assert third is not None and third.order_key == "0:9" and list(feed.batches(third)) == []


def test_nothing_is_known_until_the_consumer_answers() -> None:
    topic = Topic(pending=2)
    topic.put(1)
    feed = topic.feed()
    for _ in range(2):
        with pytest.raises(NotReady):
            feed.layout(ENTRY)
    assert topic.checks == 1
    assert feed.layout(ENTRY) is not None
    topic.pending = 1
    with pytest.raises(NotReady):
        feed.next_round(feed.start())


def test_topic_without_a_row_has_no_layout_yet() -> None:
    topic = Topic()
    feed = topic.feed()
    assert feed.layout(ENTRY) is None
    topic.values.append((topic.events.key(7), None))
    assert feed.layout(ENTRY) is None
    topic.put(1)
    assert feed.layout(ENTRY) is not None


def test_retention_between_two_looks_at_the_start_of_the_log_leaves_the_rest() -> None:
    topic = Topic(kept=1)
    topic.put(1, 2)
    feed, position = begun(topic)
    first = feed.next_round(position)
    assert first is not None and [one["id"].to_pylist() for one in feed.batches(first)] == [[2]]
    stuck = Topic(kept=1, is_stuck=True)
    stuck.put(1, 2)
    with pytest.raises(PositionExpired):
        stuck.feed().layout(ENTRY)


def test_given_key_must_be_that_of_the_events() -> None:
    topic = Topic()
    topic.put(1)
    assert topic.feed().layout(replace(ENTRY, key=("id",))) is not None
    with pytest.raises(ConfigurationError, match="key text: expected that of the events, id"):
        topic.feed().layout(replace(ENTRY, key=("text",)))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (TopicPartitions("other", (0,)), "was created again"),
        (TopicPartitions("id", (0, 1)), "has 2 partitions and had 1"),
        (TopicPartitions("id", ()), "has 0 partitions and had 1"),
    ],
)
def test_other_topic_is_noticed_before_its_records_are_rows(now: TopicPartitions, expected: str) -> None:
    topic = Topic()
    topic.put(1)
    feed, position = begun(topic)
    assert feed.next_round(position) is not None
    topic.now = now
    with pytest.raises(DataInvalidated, match=expected):
        feed.next_round(position)
    with pytest.raises(DataInvalidated, match=expected):
        topic.feed().next_round(position)


def test_quiet_topic_is_checked_from_time_to_time() -> None:
    topic = Topic()
    topic.put(1)
    feed, position = begun(topic)
    first = feed.next_round(position)
    assert first is not None
    checks = topic.checks
    for _ in range(5):
        assert feed.next_round(first.position) is None
    assert topic.checks == checks
    topic.now = TopicPartitions("other", (0,))
    topic.now_s += CHECK_S
    with pytest.raises(DataInvalidated):
        feed.next_round(first.position)


def test_position_of_brokers_without_topic_ids_is_followed() -> None:
    topic: Any = Topic(now=TopicPartitions("", (0,)))
    topic.put(1)
    feed, position = begun(topic)
    topic.now = TopicPartitions("id", (0,))
    assert feed.next_round(position) is not None
