"""A topic that is not the source of the table, or that cannot be read: a named error, nothing consumed after the fault,
and an unchanged position of the group. A real broker and golden tables."""

from __future__ import annotations

import json
import pathlib
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

import penstock
from penstock.engine.group.connect import GroupEnumerator, open_group_enumerator
from penstock.kafka import topic_metadata
from penstock.proto.errors import (
    ConfigurationError,
    DataInvalidated,
    PenstockError,
    TopicGone,
    Unauthenticated,
    UndecodableRecord,
)
from tests.hybrid.topic_records import ends
from tests.kafka_broker import USERS
from tests.progress import PROGRESS_S

CASE = "C_v6_streamer"
TOPIC = "orders"
"""The source of the golden table up to the offsets 17, 12 and 6."""
EXPECTED = pathlib.Path(__file__).parents[1] / "golden" / "expected" / CASE / "topic.jsonl"


@dataclass(frozen=True, slots=True)
class Reading:
    """A group of the golden table in this process."""

    enumerator: GroupEnumerator
    table: str
    bootstrap: str
    group: str

    def until_error(self, **options: Any) -> tuple[list[dict[str, Any]], PenstockError]:
        """The rows that the consumer returned and committed before the error, and the error."""
        settings = {
            "hybrid": "changelog",
            "kafka_topic": TOPIC,
            "kafka": {"bootstrap.servers": self.bootstrap},
            **options,
        }
        rows: list[dict[str, Any]] = []
        consumer = penstock.Consumer(
            None, self.table, group=self.group, reader_id="r", enumerator=self.enumerator, **settings
        )
        with pytest.raises(PenstockError) as caught, consumer:
            for consumed in consumer:
                rows += consumed.batch.to_pylist()
                consumer.commit(consumed)
        return rows, caught.value

    def position(self) -> str:
        """The committed position of the group."""
        return str(self.enumerator.describe_group(self.table, self.group).summary.committed.order_key)


@pytest.fixture
def reading(golden: Any, kafka: Any) -> Iterator[Reading]:
    """The topic does not exist before the test, and is deleted after it."""
    with open_group_enumerator(None) as enumerator:
        yield Reading(enumerator, str(golden.table(CASE)), kafka.bootstrap, f"g{uuid.uuid4().hex[:8]}")
    if TOPIC in kafka.admin().list_topics(timeout=10).topics:
        kafka.delete_topic(TOPIC)


def fill(kafka: Any, partitions: int = 3, records: int | None = None) -> None:
    """Creates the topic with the records that the golden table's writer read and two more in each partition; `records`
    limits the number."""
    kafka.create_topic(TOPIC, partitions=partitions)
    by_partition: dict[int, list[tuple[str | None, str | None]]] = {}
    for line in EXPECTED.read_text().splitlines():
        record = json.loads(line)
        value = None if record["value"] is None else json.dumps(record["value"])
        by_partition.setdefault(record["partition"], []).append((record.get("key"), value))
    for partition, of_partition in by_partition.items():
        if partition < partitions:
            kafka.produce(TOPIC, of_partition[:records], partition)


def test_topic_that_no_commit_names_is_refused(reading: Reading, kafka: Any) -> None:
    fill(kafka)
    rows, error = reading.until_error(kafka_topic="others")
    assert isinstance(error, ConfigurationError)
    assert "others" in str(error) and TOPIC in str(error)
    assert rows and reading.position() < "99"


def test_missing_topic_is_refused(reading: Reading) -> None:
    rows, error = reading.until_error()
    assert isinstance(error, TopicGone)
    assert TOPIC in str(error)
    assert rows and reading.position() < "99"


def test_missing_partition_is_refused(reading: Reading, kafka: Any) -> None:
    fill(kafka, partitions=2)
    rows, error = reading.until_error()
    assert isinstance(error, TopicGone)
    assert f"{TOPIC} has no partition 2" in str(error)
    assert rows and reading.position() < "99"


def test_offsets_above_the_end_are_refused(reading: Reading, kafka: Any) -> None:
    fill(kafka, records=12)
    rows, error = reading.until_error()
    assert isinstance(error, DataInvalidated)
    assert "partition 0 at offset 17, the log ends at 12" in str(error)
    assert rows and not [row for row in rows if row["_change_instant"] is None]


def test_table_without_offsets_is_refused(reading: Reading, golden: Any, kafka: Any) -> None:
    fill(kafka)
    other = Reading(reading.enumerator, str(golden.table("B_v6_inc_mor")), reading.bootstrap, reading.group)
    rows, error = other.until_error()
    assert isinstance(error, ConfigurationError)
    assert "kafkaStartingOffsets" in str(error)
    assert rows and other.position() < "99"


def test_undecodable_record_is_an_error(reading: Reading, kafka: Any) -> None:
    fill(kafka)
    end = ends(kafka.bootstrap, TOPIC)[1]
    kafka.produce(TOPIC, [("o1", '{"id": "o1", "amount": 1}'), ("o2", '{"id": "o2", "amount":'), ("o3", "{}")], 1)
    rows, error = reading.until_error()
    assert isinstance(error, UndecodableRecord)
    assert f"topic {TOPIC}, partition 1, offset {end + 1}" in str(error)
    assert "o3" not in {row["id"] for row in rows if row["_change_instant"] is None}
    before = reading.position()
    again, same = reading.until_error()
    assert not again
    assert str(same) == str(error)
    assert reading.position() == before


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"sasl.username": "reader", "sasl.password": "wrong-secret"}, Unauthenticated),
        ({"sasl.username": "nobody", "sasl.password": "wrong-secret"}, Unauthenticated),
        ({"sasl.username": "reader", "sasl.password": USERS["reader"], "sasl.mechanism": "SCRAM-SHA-256"}, None),
    ],
    ids=["password", "user", "mechanism"],
)
def test_wrong_credentials_are_refused(
    reading: Reading, kafka: Any, settings: Mapping[str, str], expected: type[PenstockError] | None
) -> None:
    fill(kafka)
    plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    client = {"bootstrap.servers": kafka.sasl_bootstrap, **plain, **settings}
    rows, error = reading.until_error(kafka=client)
    assert isinstance(error, expected or (Unauthenticated, ConfigurationError))
    assert settings["sasl.password"] not in str(error)
    assert rows and reading.position() < "99"


def test_unreachable_broker_is_reported_by_the_group(
    reading: Reading, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker may come back: the group waits in the table, and the coordinator reports the reason."""
    monkeypatch.setattr(
        topic_metadata, "open_topic", lambda access: topic_metadata.KafkaTopics(access.client, timeout_s=2)
    )
    options: Any = {"hybrid": "changelog", "kafka_topic": TOPIC, "kafka": {"bootstrap.servers": "127.0.0.1:9"}}
    consumer = penstock.Consumer(
        None, reading.table, group=reading.group, reader_id="r", enumerator=reading.enumerator, **options
    )
    deadline = time.monotonic() + PROGRESS_S
    with consumer:
        while "no answer from the Kafka brokers" not in caplog.text:
            assert time.monotonic() < deadline, f"the broker was not reported: {caplog.text[-2000:]}"
            if (consumed := consumer.poll(200)) is not None:
                assert all(row["_change_instant"] is not None for row in consumed.batch.to_pylist())
                consumer.commit(consumed)
        assert consumer.poll(100) is None
    assert reading.position() < "99"
