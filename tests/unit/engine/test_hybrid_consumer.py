"""A consumer group across the hand-over, in one process: a golden table that a Hudi streamer wrote, and its topic."""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import penstock
from penstock.engine.consumer import Consumer
from penstock.engine.event_time_scan import scan_event_time
from penstock.engine.group.lease import Runtime
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import ConfigurationError, UndecodableRecord
from penstock.proto.model.hybrid import Hybrid, HybridMode, KafkaAccess, KafkaRange
from penstock.proto.model.queries import PlanRequest, TopicRanges
from penstock.proto.model.splits import EventTimeBounds
from tests.scripted_topic import ScriptedTopic

pytestmark = pytest.mark.golden

CASE = "C_v6_streamer"
GOLDEN = pathlib.Path(__file__).parents[2] / "golden"
BROKERS = {"bootstrap.servers": "scripted"}
ACCESS = KafkaAccess(client=tuple(BROKERS.items()))


class StoppedHeartbeat:
    """A heartbeat without a thread, because the clock of the test does not advance."""

    def stop(self) -> None:
        """Does nothing."""


class Served:
    """A service in this process; a waiting reader lets it discover splits."""

    def __init__(self, path: str, topic: ScriptedTopic, topics: Mapping[str, KafkaAccess] | None = None) -> None:
        self.now_ms = 1_000
        reads = OpenTables(
            open_topic=topic.open, topics={"t": ACCESS} if topics is None else topics, scan_event_time=scan_event_time
        )
        self.service = EnumeratorService({"t": path}, reads=reads, clock_ms=lambda: self.now_ms, poll_ms=None)
        self.waits = 0

    def wait(self, woken: threading.Event, seconds: float) -> None:
        self.waits += 1
        self.now_ms += 5_000
        self.service.split_discovery.discover()

    def consumer(self, **more: Any) -> Consumer:
        runtime = Runtime(
            now_ms=lambda: self.now_ms, wait=self.wait, start_heartbeat=lambda beat, first: StoppedHeartbeat()
        )
        options = {"hybrid": "changelog", "kafka_topic": "orders", "kafka": BROKERS} | more
        return Consumer(None, "t", group="g", reader_id="r", enumerator=self.service, runtime=runtime, **options)

    def consumed(self, consumer: Consumer, *, waits: int = 12) -> list[dict[str, Any]]:
        """Polls and commits all available batches."""
        rows: list[dict[str, Any]] = []
        self.waits = 0
        while self.waits < waits:
            batch = consumer.poll(0)
            if batch is None:
                self.wait(threading.Event(), 0)
                continue
            rows += batch.batch.to_pylist()
            consumer.commit(batch)
        return rows


@pytest.fixture
def path(golden: Any) -> str:
    return str(golden.table(CASE))


@pytest.fixture
def offsets(golden: Any) -> Mapping[int, int]:
    """The offsets of the topic at which the table ends."""
    return {int(number): offset for number, offset in golden.case(CASE)["handover"]["offsets"].items()}


@pytest.fixture
def topic(golden: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedTopic]:
    """The topic for all record readers of this process."""
    scripted = ScriptedTopic.of_golden(GOLDEN, golden.case(CASE))
    monkeypatch.setattr("penstock.kafka.factory.open_records", scripted.open_records)
    yield scripted


def records_after(topic: ScriptedTopic, offsets: Mapping[int, int]) -> list[tuple[str, Any]]:
    """(id, amount) of the records that the table lacks."""
    late = [item for item in topic.records if item.offset >= offsets[item.partition]]
    values = [json.loads(item.value) for item in late if item.value is not None]
    return sorted((value["id"], value["amount"]) for value in values)


def summary(rows: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return sorted((row["id"], row["amount"]) for row in rows)


def test_consumer_continues_in_the_topic(path: str, topic: ScriptedTopic, offsets: Mapping[int, int]) -> None:
    served = Served(path, topic)
    with served.consumer() as consumer:
        rows = served.consumed(consumer)
        assert summary([row for row in rows if row["_change_type"] == "+I"]) == summary(
            penstock.read(path).read_all().to_pylist()
        )
        assert summary([row for row in rows if row["_change_type"] == "+U"]) == records_after(topic, offsets)
        topic.append(2, "new", {"id": "new", "amount": 5, "ts": 1})
        assert [(row["_change_type"], row["id"]) for row in served.consumed(consumer)] == [("+U", "new")]


@pytest.mark.parametrize("mode", ["changelog", "append"])
def test_completion_time_of_a_record_is_null(path: str, topic: ScriptedTopic, mode: str) -> None:
    served = Served(path, topic)
    with served.consumer(hybrid=mode, completion_time="on", columns=["id", "amount", "_completion_time"]) as consumer:
        rows = served.consumed(consumer)
        topic.append(2, "new", {"id": "new", "amount": 5, "ts": 1})
        assert served.consumed(consumer) == [{"id": "new", "amount": 5, "_completion_time": None}]
    assert rows and {row["_completion_time"] for row in rows} == {None}  # the lake has timeline layout 1


def test_append_returns_each_row_once(path: str, topic: ScriptedTopic, offsets: Mapping[int, int]) -> None:
    served = Served(path, topic)
    with served.consumer(hybrid="append") as consumer:
        rows = served.consumed(consumer)
    assert summary([row for row in rows if row["_hoodie_commit_time"] is None]) == records_after(topic, offsets)


def test_uncommitted_records_are_read_again_from_their_row(path: str, topic: ScriptedTopic) -> None:
    served = Served(path, topic)
    with served.consumer() as consumer:
        served.consumed(consumer)
        for number in range(5):
            topic.append(0, "k", {"id": f"k{number}", "amount": number, "ts": 1})
        served.wait(threading.Event(), 0)
    with served.consumer(batch_rows=2) as consumer:
        first = consumer.poll(60_000)
        assert first is not None
        assert [row["id"] for row in first.batch.to_pylist()] == ["k0", "k1"]
        consumer.commit(first)
        assert consumer.poll(60_000) is not None
    with served.consumer(batch_rows=2) as consumer:
        assert [row["id"] for row in served.consumed(consumer)] == ["k2", "k3", "k4"]


def test_bad_record_stops_the_consumer_or_goes_to_the_dead_letters(
    path: str, topic: ScriptedTopic, tmp_path: pathlib.Path
) -> None:
    served = Served(path, topic)
    with served.consumer() as consumer:
        served.consumed(consumer)
        topic.append(0, "a", {"id": "a", "amount": 1, "ts": 1})
        topic.append(0, "b", b"no json")
        topic.append(0, "c", {"id": "c", "amount": 3, "ts": 1})
        with pytest.raises(UndecodableRecord, match="orders"):
            served.consumed(consumer)
    with served.consumer(dead_letter_path=str(tmp_path)) as consumer:
        assert "c" in [row["id"] for row in served.consumed(consumer)]
    dead_letters = [json.loads(line) for file in tmp_path.rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert [letter["offset"] for letter in dead_letters] == [topic.ends[0] - 2]


def test_server_without_the_topic_refuses_the_join(path: str, topic: ScriptedTopic) -> None:
    served = Served(path, topic, topics={})
    with pytest.raises(ConfigurationError, match="has no kafka settings"):
        served.consumer().join()


def test_reader_needs_its_own_broker_settings(path: str, topic: ScriptedTopic) -> None:
    with pytest.raises(ConfigurationError, match=r"give kafka\.bootstrap\.servers"):
        Served(path, topic).consumer(kafka=None)


@pytest.mark.parametrize("mode", HybridMode)
def test_event_times_of_a_range_are_read_from_its_records(path: str, topic: ScriptedTopic, mode: HybridMode) -> None:
    first = topic.append(1, "a", {"id": "a", "amount": 1, "ts": 5_000})
    topic.append(1, "b", None)
    topic.append(1, "c", {"id": "c", "amount": 1, "ts": 4_000})
    expected = KafkaRange(topic="orders", topic_id=topic.topic_id, partition=1, first=first, end=first + 3)
    request = PlanRequest(
        table=path,
        query=TopicRanges((expected,)),
        where="id = 'none'",
        hybrid=Hybrid(mode=mode, topic="orders", access=ACCESS),
    )
    reads = OpenTables(open_topic=topic.open, scan_event_time=scan_event_time)
    plan = EmbeddedEnumerator(reads=reads).plan(request)
    (split,) = plan.splits
    bounds = scan_event_time(plan.scan, split, "ts", "ms", ACCESS)
    assert bounds == EventTimeBounds(4_000_000, 5_000_000)
    with pytest.raises(ConfigurationError, match="no access to Kafka"):
        scan_event_time(plan.scan, split, "ts", "ms")
