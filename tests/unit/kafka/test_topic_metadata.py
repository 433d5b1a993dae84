"""Questions about a topic: on the mock broker, and on a scripted client for what brokers say once in a while."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from penstock.kafka.protocols import PartitionOffsets
from penstock.kafka.topic_metadata import KafkaTopics, open_topic, topics_of
from penstock.proto.errors import KafkaUnavailable, PermissionDenied, TopicGone, Unauthenticated
from penstock.proto.model.hybrid import KafkaAccess

CLIENT = (("bootstrap.servers", "scripted:1"), ("sasl.password", "hunter22"))


class Clock:
    """Time that passes by pauses alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class ScriptedAdmin:
    """An admin client that answers from a list; KafkaError codes are raised, 'silence' never answers."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers, self.asked = answers, []
        self.error_log: Any = None
        self.says: list[KafkaError] = []

    def poll(self, _: float) -> None:
        for error in self.says:
            self.error_log(error)

    def cluster_id(self, timeout: float) -> str:
        return "a-real-one"

    def list_topics(self, **_: Any) -> Any:
        self.asked.append("refresh")

    def describe_topics(self, _: Any, request_timeout: float) -> dict[str, Any]:
        return {"t": self._next("describe")}

    def list_offsets(self, specs: Any, **_: Any) -> dict[Any, Any]:
        return {partition: self._next("offsets") for partition in specs}

    def _next(self, what: str) -> Any:
        self.asked.append(what)
        future: Future[Any] = Future()
        script = self.answers[what]
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, int):
            future.set_exception(KafkaException(KafkaError(answer)))
        elif answer != "silence":
            future.set_result(answer)
        return future


def described(*partitions: int, topic_id: str = "ab+c/d") -> Any:
    return SimpleNamespace(topic_id=topic_id, partitions=[SimpleNamespace(id=number) for number in partitions])


def offset(at: int, epoch: int | None = None) -> Any:
    return SimpleNamespace(offset=at, leader_epoch=epoch)


@pytest.fixture
def scripted_topics() -> Callable[[ScriptedAdmin], KafkaTopics]:
    def created(admin: ScriptedAdmin) -> KafkaTopics:
        def connect(_: Any, error_log: Any) -> ScriptedAdmin:
            admin.error_log = error_log
            return admin

        clock = Clock()
        return KafkaTopics(CLIENT, timeout_s=5, clock=clock, sleep=clock.sleep, connect=connect)

    return created


def test_topic_of_the_mock_broker_is_described(mock: Any) -> None:
    mock.produce("description", [b"1", b"2", b"3"], partition=1)
    description = mock.topics().describe("description")
    assert description.topic == "description" and description.topic_id == ""
    assert list(description.partitions) == [0, 1, 2, 3]
    assert description.partitions[1] == PartitionOffsets(log_start=0, end=3, high_watermark=3)
    assert description.partitions[0] == PartitionOffsets(log_start=0, end=0, high_watermark=0)


def test_row_13_partition_without_a_record_at_the_time_is_read_from_its_end(mock: Any) -> None:
    mock.produce("times", [b"1", b"2"], partition=2)
    assert mock.topics().offsets_at("times", 10) == {0: 0, 1: 0, 2: 2, 3: 0}  # a mock broker never finds one


def test_row_14_groups_offsets_are_those_it_committed(mock: Any) -> None:
    mock.produce("grouped", [b"1", b"2", b"3"])
    mock.produce("grouped-too", [b"1"])
    group = uuid.uuid4().hex
    consumer = Consumer({"bootstrap.servers": mock.bootstrap, "group.id": group, "log_level": "2"})
    places = [TopicPartition("grouped", 0, 2), TopicPartition("grouped", 3, 0), TopicPartition("grouped-too", 0, 1)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    assert mock.topics().group_offsets("grouped", group) == {0: 2, 3: 0}
    assert mock.topics().group_offsets("grouped", "nobody") == {}


def test_missing_topic_is_topic_gone(mock: Any) -> None:
    with pytest.raises(TopicGone, match="topic absent"):
        mock.topics(sleep=lambda _: None).describe("absent")


def test_unreachable_brokers_are_kafka_unavailable() -> None:
    topics = KafkaTopics((("bootstrap.servers", "127.0.0.1:1"),), timeout_s=0.5)
    with pytest.raises(KafkaUnavailable, match=r"looking up topic orders.*Connection refused"):
        topics.describe("orders")


def test_topic_ids_and_epochs_are_those_of_kafkas_tools(scripted_topics: Any) -> None:
    starts, ends, written = [offset(2), offset(3)], [offset(9, 4), offset(8, None)], [offset(10), offset(8)]
    admin = ScriptedAdmin(describe=[described(1, 0)], offsets=[*starts, *ends, *written])
    description = scripted_topics(admin).describe("orders")
    assert description.topic_id == "ab-c_d"
    assert description.partitions == {
        0: PartitionOffsets(log_start=2, end=9, high_watermark=10, leader_epoch=4),
        1: PartitionOffsets(log_start=3, end=8, high_watermark=8, leader_epoch=-1),
    }
    assert list(description.partitions) == [0, 1]


def test_topic_id_is_empty_for_brokers_without_ids(scripted_topics: Any) -> None:
    admin = ScriptedAdmin(describe=[described(0, topic_id="AAAAAAAAAAAAAAAAAAAAAA")])
    assert scripted_topics(admin).partitions_of("orders").topic_id == ""


def test_stale_leaders_are_looked_up_again(scripted_topics: Any) -> None:
    admin = ScriptedAdmin(describe=[described(0)], offsets=[KafkaError._NOENT, offset(0), offset(5)])
    assert scripted_topics(admin).describe("orders").partitions[0].end == 5
    assert admin.asked == ["describe", "offsets", "refresh", "offsets", "offsets", "offsets"]


def test_unknown_offset_is_not_an_offset(scripted_topics: Any) -> None:
    """For a partition whose leader has just gone the client answers -1001, and no error."""
    unknown_offset = offset(-1001)
    admin = ScriptedAdmin(
        describe=[described(0)], offsets=[unknown_offset, offset(0), unknown_offset, unknown_offset, offset(5)]
    )
    assert scripted_topics(admin).describe("orders").partitions[0] == PartitionOffsets(
        log_start=0, end=5, high_watermark=5
    )
    at_time = ScriptedAdmin(describe=[described(0)], offsets=[offset(5), unknown_offset, offset(-1)])
    assert scripted_topics(at_time).offsets_at("orders", 1) == {0: 5}
    with pytest.raises(KafkaUnavailable, match="LEADER_NOT_AVAILABLE"):
        scripted_topics(ScriptedAdmin(describe=[described(0)], offsets=[unknown_offset])).describe("orders")


def test_missing_topic_is_confirmed_by_several_answers(scripted_topics: Any) -> None:
    unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
    assert scripted_topics(ScriptedAdmin(describe=[unknown, unknown, described(0)])).partitions_of(
        "orders"
    ).partitions == (0,)
    with pytest.raises(TopicGone):
        scripted_topics(ScriptedAdmin(describe=[unknown])).partitions_of("orders")


def test_wrong_credentials_are_unauthenticated_not_a_timeout(scripted_topics: Any) -> None:
    admin = ScriptedAdmin(describe=["silence"])
    admin.says = [KafkaError(KafkaError._AUTHENTICATION, "hunter22 is wrong"), KafkaError(KafkaError._ALL_BROKERS_DOWN)]
    with pytest.raises(Unauthenticated, match=r"<kafka.sasl.password> is wrong") as caught:
        scripted_topics(admin).partitions_of("orders")
    assert "hunter22" not in str(caught.value)
    assert admin.asked == ["describe"]


def test_denial_is_cleared_by_a_later_answer(scripted_topics: Any) -> None:
    admin = ScriptedAdmin(describe=[described(0), KafkaError.REQUEST_TIMED_OUT])
    topics = scripted_topics(admin)
    admin.says = [KafkaError(KafkaError._AUTHENTICATION, "no")]
    assert topics.partitions_of("orders").partitions == (0,)
    admin.says = []
    with pytest.raises(KafkaUnavailable, match="REQUEST_TIMED_OUT"):
        topics.partitions_of("orders")


def test_missing_permission_is_permission_denied(scripted_topics: Any) -> None:
    with pytest.raises(PermissionDenied, match="right to read"):
        scripted_topics(ScriptedAdmin(describe=[KafkaError.TOPIC_AUTHORIZATION_FAILED])).partitions_of("orders")


def test_request_ends_at_its_timeout(scripted_topics: Any) -> None:
    admin = ScriptedAdmin(describe=[KafkaError.LEADER_NOT_AVAILABLE])
    with pytest.raises(KafkaUnavailable, match="in 5 s"):
        scripted_topics(admin).partitions_of("orders")
    assert len(admin.asked) > 10


def test_equal_settings_share_a_client() -> None:
    one = open_topic(KafkaAccess(client=CLIENT))
    assert open_topic(KafkaAccess(client=CLIENT, registry_url="elsewhere")) is one
    assert topics_of((("bootstrap.servers", "another:1"),)) is not one
