"""Reads from real brokers that crash, hang or refuse access."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from penstock.kafka.topic_metadata import KafkaTopics
from penstock.proto.errors import KafkaUnavailable, PermissionDenied, Unauthenticated
from tests.kafka.kafka_topic import Topic
from tests.kafka_broker import USERS, KafkaBroker, wait_for

pytestmark = pytest.mark.kafka


@pytest.fixture
def broker(kafka: Any) -> Iterator[Any]:
    """The session's broker. All nodes run again after the test."""
    yield kafka
    for node in kafka.pids:
        kafka.resume(node)
    kafka.start()


def user(topic: Any, name: str, password: str) -> Any:
    """The topic as a user of the SASL listener reads it."""
    client = (
        ("bootstrap.servers", topic.broker.sasl_bootstrap),
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", name),
        ("sasl.password", password),
    )
    return type(topic)(topic.broker, topic.name, client)


def test_read_over_a_broker_crash_has_each_record_once(broker: Any, new_topic: Any) -> None:
    topic = new_topic().with_settings(queued_max_messages_kbytes="100", fetch_max_bytes="1000000")
    values = [f"{number:06d}" + "x" * 500 for number in range(20_000)]
    topic.write(values)
    chunks = topic.chunks(0, 20_000, timeout_s=60, chunk_rows=500)
    read = [next(chunks) for _ in range(3)]
    broker.kill()
    restart = threading.Timer(2.0, broker.start)
    restart.start()
    read += list(chunks)
    restart.join()
    assert [at for chunk in read for at in chunk.offsets.tolist()] == list(range(20_000))
    assert [value for chunk in read for value in chunk.values] == [value.encode() for value in values]


def test_read_over_a_broker_that_hangs_continues_when_it_resumes(broker: Any, new_topic: Any) -> None:
    topic = new_topic().with_settings(queued_max_messages_kbytes="100", fetch_max_bytes="1000000")
    topic.write(["x" * 500] * 20_000)
    chunks = topic.chunks(0, 20_000, timeout_s=60, chunk_rows=500)
    read = [next(chunks)]
    broker.pause()
    resume = threading.Timer(2.0, broker.resume)
    resume.start()
    read += list(chunks)
    resume.join()
    assert [at for chunk in read for at in chunk.offsets.tolist()] == list(range(20_000))


def test_metadata_and_reads_fail_while_brokers_are_down_and_recover(broker: Any, new_topic: Any) -> None:
    """Right after a restart the client's list of leaders is stale. One `KafkaTopics` makes all calls."""
    topic = new_topic(3)
    topic.write(["x"] * 10)
    topics = KafkaTopics(topic.client, timeout_s=2)
    before = topics.describe(topic.name)
    chunks = topic.chunks(0, 20, timeout_s=3)
    assert len(next(chunks).offsets) == 10
    broker.kill()
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable, match=r"partition 0, offset 10: no answer .*Connection refused"):
        next(chunks)
    assert time.monotonic() - began < 15
    with pytest.raises(KafkaUnavailable, match="Connection refused"):
        topics.describe(topic.name)
    broker.start()
    after = topic.topics.describe(topic.name)
    assert topics.describe(topic.name) == after
    assert after.topic_id == before.topic_id
    assert {number: (one.log_start, one.end) for number, one in after.partitions.items()} == {
        0: (0, 10),
        1: (0, 0),
        2: (0, 0),
    }
    assert after.partitions[0].leader_epoch > before.partitions[0].leader_epoch >= 0


@pytest.mark.long
def test_read_continues_at_the_next_leader_after_a_crash(tmp_path: Any) -> None:
    """Three brokers, three replicas: the read continues at the new leader, which has a higher epoch."""
    with KafkaBroker(tmp_path, nodes=3) as broker:
        broker.create_topic("orders", partitions=3, replicas=3, min_insync_replicas="1")
        partitions = broker.admin().list_topics("orders", timeout=10).topics["orders"].partitions
        number, leader = next((one.id, one.leader) for one in partitions.values() if one.leader != 1)
        topic = Topic(broker, "orders", (("bootstrap.servers", broker.bootstrap),)).with_settings(
            queued_max_messages_kbytes="100", fetch_max_bytes="1000000"
        )
        topic.write(["x" * 500] * 20_000, partition=number)
        facts = topic.facts
        chunks = topic.read(topic.range(0, 20_000, partition=number, topic_id=facts.topic_id), 120, chunk_rows=500)
        read = [next(chunks)]
        broker.kill(leader)
        read += list(chunks)
        assert [at for chunk in read for at in chunk.offsets.tolist()] == list(range(20_000))
        assert topic.facts.partitions[number].leader_epoch > facts.partitions[number].leader_epoch
        assert topic.facts.partitions[number].end == 20_000


def test_sasl_credentials_are_accepted_or_refused(new_topic: Any) -> None:
    topic = new_topic()
    topic.write(["x"] * 3)
    known = user(topic, "reader", USERS["reader"])
    assert known.offsets(0, 3) == [0, 1, 2]
    for name, password in (("reader", "not-the-password"), ("nobody-known", "some-password")):
        began = time.monotonic()
        with pytest.raises(Unauthenticated, match=r"kafka\.sasl") as caught:
            list(user(topic, name, password).read(topic.range(0, 3)))
        assert time.monotonic() - began < 10
        assert password not in str(caught.value)


def test_user_without_the_right_to_read_is_denied(new_topic: Any) -> None:
    topic = new_topic()
    topic.write(["x"] * 3)
    admin = topic.broker.admin()
    place = (ResourceType.TOPIC, topic.name, ResourcePatternType.LITERAL, "User:stranger", "*")

    def deny(operation: Any) -> None:
        admin.create_acls([AclBinding(*place, operation, AclPermissionType.DENY)])
        wait_for(lambda: len(admin.describe_acls(rules).result(10)) > 0, "the rule")

    rules = AclBindingFilter(*place, AclOperation.ANY, AclPermissionType.ANY)
    stranger = user(topic, "stranger", USERS["stranger"])
    assert stranger.offsets(0, 3) == [0, 1, 2]
    deny(AclOperation.READ)
    with pytest.raises(PermissionDenied, match="right to read"):
        wait_for(lambda: stranger.offsets(0, 3) == [], "the rule holds", 10)
    deny(AclOperation.DESCRIBE)
    with pytest.raises(PermissionDenied, match="right to read"):
        wait_for(lambda: not stranger.facts, "the rule holds", 10)
