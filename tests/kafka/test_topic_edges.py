"""Edge cases of topics on a real broker: retention, recreated topics, gaps, partitions, timestamps, consumer groups."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewPartitions

from penstock.proto.errors import DataInvalidated, PositionExpired, TopicGone
from tests.kafka_broker import wait_for

pytestmark = pytest.mark.kafka


def delete_records(topic: Any, before: int) -> None:
    place = TopicPartition(topic.name, 0, before)
    topic.broker.admin().delete_records([place])[place].result(30)


def test_offset_below_the_log_start_is_an_error_that_names_both(new_topic: Any) -> None:
    topic = new_topic()
    topic.write(["x"] * 100)
    delete_records(topic, 40)
    assert topic.log_offsets() == (40, 100)
    with pytest.raises(PositionExpired, match=r"partition 0, offset 10: .* the log starts at offset 40 now"):
        topic.offsets(10, 100)
    assert topic.offsets(40, 100) == list(range(40, 100))


def test_retention_by_time_moves_the_log_start(new_topic: Any) -> None:
    topic = new_topic(segment_ms="200", retention_ms="500")
    topic.write(["old"] * 100)
    time.sleep(0.3)  # the broker closes a segment by age at the next record
    topic.write(["new"])
    wait_for(lambda: topic.log_offsets()[0] >= 100, "retention by time")
    with pytest.raises(PositionExpired, match="offset 0: retention took it"):
        topic.offsets(0, 101)


def test_records_that_expire_during_a_read_end_it(new_topic: Any) -> None:
    """Chunks that were returned stay valid; the read fails where the log has a gap."""
    topic = new_topic().with_settings(queued_max_messages_kbytes="1", fetch_max_bytes="1000000")
    topic.write(["x" * 10_000] * 2000)
    chunks = topic.chunks(0, 2000, chunk_rows=10)
    seen = next(chunks).offsets.tolist()
    delete_records(topic, 1990)
    with pytest.raises(PositionExpired, match="the log starts at offset 1990 now"):
        for chunk in chunks:
            seen += chunk.offsets.tolist()
    assert seen == list(range(len(seen))) and len(seen) < 1990


def test_reader_never_jumps_to_another_offset(new_topic: Any) -> None:
    """librdkafka would jump to the log start or end (`auto.offset.reset`)."""
    topic = new_topic()
    topic.write(["x"] * 20)
    delete_records(topic, 20)
    topic.write(["y"] * 20)
    for first in (0, 19, 41):
        with pytest.raises((PositionExpired, DataInvalidated), match=f"offset {first}"):
            topic.offsets(first, 50)


def test_offset_above_the_end_is_refused(new_topic: Any) -> None:
    topic = new_topic()
    topic.write(["x"] * 5)
    with pytest.raises(DataInvalidated, match="the log ends at offset 5"):
        topic.offsets(6, 20)


def test_range_whose_end_is_above_the_log_is_refused(new_topic: Any) -> None:
    topic = new_topic()
    topic.write(["x"] * 5)
    with pytest.raises(DataInvalidated, match="the log ends at 5, and offsets up to 20 were there"):
        topic.offsets(0, 20)


@pytest.mark.parametrize("grown", [5, 60])
def test_topic_recreated_after_planning_is_refused(new_topic: Any, grown: int) -> None:
    """After the new topic grew past the offset, only the topic id shows that its records are different ones."""
    topic = new_topic()
    topic.write(["first"] * 50)
    planned = topic.range(20, 50, topic_id=topic.facts.topic_id)
    topic.broker.delete_topic(topic.name)
    topic.broker.create_topic(topic.name)
    topic.write(["second"] * grown)
    assert topic.facts.topic_id != planned.topic_id
    with pytest.raises(DataInvalidated, match="was created again"):
        next(topic.read(planned))


def test_topic_recreated_during_a_read_is_refused(new_topic: Any) -> None:
    topic = new_topic()
    topic.write(["first"] * 20)
    planned = topic.range(0, 40, topic_id=topic.facts.topic_id)
    chunks = topic.read(planned)
    assert next(chunks).offsets.tolist() == list(range(20))
    topic.broker.delete_topic(topic.name)
    topic.broker.create_topic(topic.name)
    topic.write(["second"] * 60)
    with pytest.raises((DataInvalidated, TopicGone)):
        list(chunks)


def test_compacted_topic_has_gaps(new_topic: Any) -> None:
    topic = new_topic(
        cleanup_policy="compact", min_cleanable_dirty_ratio="0.001", segment_ms="100", delete_retention_ms="100"
    )
    for _ in range(10):
        topic.write([f"v{number}" for number in range(50)])

    def compacted() -> list[int]:
        topic.broker.produce(topic.name, [("tick", "x")])  # the newest segment is never cleaned
        offsets = topic.offsets(0, 500)
        return offsets if len(offsets) < 100 else []

    left = wait_for(compacted, "compaction", step=0.3)
    assert left[-1] < 500 and topic.log_offsets()[0] == 0
    assert topic.offsets(1, left[-1] + 1) == [at for at in left if at >= 1]
    assert topic.offsets(1, 3) == [at for at in left if 1 <= at < 3]
    end = topic.log_offsets()[1]
    assert topic.offsets(end - 1, end) == [end - 1]


def test_partitions_added_later_are_listed_and_read(new_topic: Any) -> None:
    topic = new_topic(2)
    assert list(topic.facts.partitions) == [0, 1]
    topic.broker.admin().create_partitions([NewPartitions(topic.name, 4)])[topic.name].result(30)
    wait_for(lambda: len(topic.facts.partitions) == 4, "four partitions")
    topic.write(["x"] * 3, partition=3)
    assert topic.log_offsets(3) == (0, 3)
    (chunk,) = topic.read(topic.range(0, 3, partition=3))
    assert chunk.offsets.tolist() == [0, 1, 2]


def test_partition_or_topic_that_does_not_exist_is_refused(new_topic: Any) -> None:
    topic = new_topic(2)
    with pytest.raises(TopicGone, match="has no partition 7: got 2 partitions"):
        next(topic.read(topic.range(0, 5, partition=7)))
    topic.broker.delete_topic(topic.name)
    with pytest.raises(TopicGone, match=f"topic {topic.name}"):
        next(topic.read(topic.range(0, 5)))
    with pytest.raises(TopicGone, match=f"topic {topic.name}"):
        topic.topics.describe(topic.name)


def test_topic_deleted_during_a_read_ends_it(new_topic: Any) -> None:
    topic = new_topic()
    topic.write(["x"] * 5)
    chunks = topic.chunks(0, 10)
    assert next(chunks).offsets.tolist() == list(range(5))
    topic.broker.delete_topic(topic.name)
    with pytest.raises(TopicGone, match=f"topic {topic.name}"):
        next(chunks)


def test_offsets_at_a_timestamp(new_topic: Any) -> None:
    from confluent_kafka import Producer

    topic = new_topic(3)
    base = int(time.time() * 1000) - 3_600_000  # young enough for retention
    producer = Producer({"bootstrap.servers": topic.broker.bootstrap})
    for number in range(10):
        producer.produce(topic.name, value="x", partition=0, timestamp=base + number * 1000)
    for _ in range(4):
        producer.produce(topic.name, value="x", partition=1, timestamp=base)
    assert producer.flush(30) == 0
    assert topic.topics.offsets_at(topic.name, base + 3500) == {0: 4, 1: 4, 2: 0}
    assert topic.topics.offsets_at(topic.name, base) == {0: 0, 1: 0, 2: 0}
    assert topic.topics.offsets_at(topic.name, base + 99_000) == {0: 10, 1: 4, 2: 0}
    (chunk,) = topic.chunks(0, 10)
    assert chunk.timestamps_ms.tolist() == [base + number * 1000 for number in range(10)]


def test_offsets_committed_by_a_consumer_group(new_topic: Any) -> None:
    topic = new_topic(3)
    topic.write(["x"] * 5)
    group = f"writer-{topic.name}"
    consumer = Consumer({"bootstrap.servers": topic.broker.bootstrap, "group.id": group})
    places = [TopicPartition(topic.name, 0, 3), TopicPartition(topic.name, 2, 0)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    assert topic.topics.group_offsets(topic.name, group) == {0: 3, 2: 0}
    assert topic.topics.group_offsets(topic.name, "nobody-of-that-name") == {}
