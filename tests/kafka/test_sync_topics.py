"""Debezium's topics into DuckDB through one consumer, on a real broker: kills, re-creation, retention, transactions,
compaction, partitions; and a table whose copy continues in its topic.
"""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import duckdb
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from penstock.engine.sync.feeds import Feeds
from penstock.engine.sync.job import SyncEntry, parse_job
from penstock.engine.sync.progress import TableState
from penstock.engine.sync.runner import Runner, RunSettings
from penstock.engine.sync.sources import list_sources
from penstock.engine.sync.targets.open import SharedTargets, open_target
from penstock.kafka.client import new_consumer
from penstock.kafka.topic_metadata import KafkaTopics, topics_of
from tests.golden_tables import GOLDEN, GoldenTables
from tests.kafka_broker import wait_for
from tests.unit.engine.sync.topics.debezium_events import Events
from tests.unit.engine.sync.topics.tables_then_topics import EventTopic

pytestmark = pytest.mark.kafka

KILLED = """
import itertools, os, sys
from penstock.engine.sync.targets.duckdb import DuckDBTarget
last, at, write, numbers = int(sys.argv[1]), sys.argv[2], DuckDBTarget.write, itertools.count(1)
def dying(self, one):
    is_last = next(numbers) == last
    if is_last and at == "before":
        os.kill(os.getpid(), 9)
    write(self, one)
    if is_last:
        os.kill(os.getpid(), 9)
DuckDBTarget.write = dying
from penstock.engine.cli.main import main
sys.argv = ["penstock", "sync", sys.argv[3], "--once"]
main()
"""


class CountingConsumer:
    """A consumer that counts the records that it returns, by partition and offset."""

    created = 0
    seen: ClassVar[list[tuple[str, int, int]]] = []

    def __init__(self, settings: Mapping[str, str], log: Any) -> None:
        type(self).created += 1
        self._inner = new_consumer(settings, log)

    def consume(self, *arguments: Any) -> Any:
        messages = self._inner.consume(*arguments)
        self.seen += [(one.topic(), one.partition(), one.offset()) for one in messages if one.error() is None]
        return messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@dataclass
class Shop:
    """Topics of one database, the job that copies them, and the copy."""

    broker: Any
    folder: pathlib.Path
    name: str = field(default_factory=lambda: f"s{uuid.uuid4().hex[:6]}")

    def __post_init__(self) -> None:
        settings = {
            "bootstrap.servers": self.broker.bootstrap,
            "partitioner": "murmur2",
            "linger.ms": 2,
            "log_level": 2,
        }
        self.events = Events(Producer(settings), self.broker.bootstrap)
        self.job = self.folder / "job.toml"
        source = f"kafka://{self.broker.bootstrap}/{self.name}.*"
        self.job.write_text(f'[[sync]]\nfrom = "{source}"\nto = "duckdb:///{self.folder}/copy.db"\n')

    @property
    def topics(self) -> KafkaTopics:
        return topics_of((("bootstrap.servers", self.broker.bootstrap),))

    @property
    def entries(self) -> tuple[SyncEntry, ...]:
        return parse_job(self.job.read_text(), "job")

    def topic(self, number: int = 0, partitions: int = 3, **config: str) -> str:
        name = f"{self.name}.t{number}"
        self.broker.create_topic(name, partitions, **config)
        return name

    def put(self, topic: str, *ids: int, name: str = "a") -> None:
        for number in ids:
            self.events.upsert(topic, {"id": number, "name": name, "amount": number})
        assert self.events.producer.flush(30) == 0

    def sync(
        self, *, connect: Any = new_consumer, restart: str = "", states: Any = (TableState.CURRENT, TableState.STOPPED)
    ) -> dict[str, str]:
        """Runs the job once, until each table has one of the states. The error of each table, '' for one that is
        current."""
        targets, feeds = SharedTargets(open_target), Feeds(connect=connect)
        retry_s = 0 if TableState.RETRYING in states else 300
        settings = RunSettings(once=True, retry_s=retry_s, restart=frozenset({restart} if restart else ()))
        runner = Runner(
            lambda: list_sources(self.entries), feeds.of, lambda source: targets.of(source.entry.target), settings
        )
        runner.run()
        feeds.close()
        targets.close()
        assert all(one.state in states for one in runner.tables()), runner.tables()
        return {one.source.target_table: f"{one.error_code} {one.error}".strip() for one in runner.tables()}

    def copied(self) -> dict[str, dict[int, dict[str, Any]]]:
        """The rows of the copy by topic and key; each key once."""
        with duckdb.connect(str(self.folder / "copy.db"), read_only=True) as copy:
            names = [row[0] for row in copy.sql("SELECT table_name FROM duckdb_tables()").fetchall()]
            tables = {
                name: copy.sql(f"SELECT * FROM {name}").to_arrow_table().to_pylist() for name in names if name[0] == "t"
            }
        for rows in tables.values():
            assert len({row["id"] for row in rows}) == len(rows)
        return {f"{self.name}.{name}": {row["id"]: row for row in rows} for name, rows in tables.items()}


@pytest.fixture
def shop(kafka: Any, tmp_path: pathlib.Path) -> Iterator[Shop]:
    yield Shop(kafka, tmp_path)


def test_ten_topics_through_one_consumer_each_record_once(shop: Shop) -> None:
    rng = random.Random(22)
    topics = [shop.topic(number) for number in range(10)]
    for topic in topics:
        shop.events.random_changes(topic, rng, 20)
    CountingConsumer.created, CountingConsumer.seen = 0, []
    assert set(shop.sync(connect=CountingConsumer).values()) == {""}
    assert shop.copied() == shop.events.rows
    written = sum(one.end for topic in topics for one in shop.topics.describe(topic).partitions.values())
    assert CountingConsumer.created == 1
    assert len(CountingConsumer.seen) == len(set(CountingConsumer.seen)) == written > 200


def test_each_row_once_after_kills(shop: Shop) -> None:
    rng = random.Random(23)
    topics = [shop.topic(number) for number in range(4)]
    for left, at in ((2, "before"), (3, "after"), (1, "after")):
        for topic in topics:
            shop.events.random_changes(topic, rng, 10)
        command = [sys.executable, "-P", "-c", KILLED, str(left), at, str(shop.job)]
        ended = subprocess.run(command, capture_output=True, timeout=300)
        assert ended.returncode == -9, ended
    assert set(shop.sync().values()) == {""}
    assert shop.copied() == shop.events.rows


def test_recreated_topic_stops_alone_and_loads_again(shop: Shop) -> None:
    """The new topic has grown past the stored offsets: only its id tells."""
    broken, other = shop.topic(0, 1), shop.topic(1, 1)
    shop.put(broken, 1, 2)
    shop.put(other, 1)
    assert shop.sync() == {"t0": "", "t1": ""}
    shop.broker.delete_topic(broken)
    shop.topic(0, 1)
    shop.events.rows[broken] = {}
    shop.put(broken, 3, 4, 5)
    shop.put(other, 2)
    errors = shop.sync()
    assert errors["t0"].startswith("DATA_INVALIDATED") and "was created again" in errors["t0"] and errors["t1"] == ""
    assert shop.copied()[other] == shop.events.rows[other]
    assert set(shop.copied()[broken]) == {1, 2}
    assert shop.sync(restart="t0") == {"t0": "", "t1": ""}
    assert shop.copied() == shop.events.rows


def test_retention_beyond_the_position_stops_that_table_with_the_range(shop: Shop) -> None:
    broken, other = shop.topic(0, 1), shop.topic(1, 1)
    shop.put(broken, 1, 2)
    shop.put(other, 1)
    assert shop.sync() == {"t0": "", "t1": ""}
    shop.put(broken, 3, 4, 5)
    shop.put(other, 2)
    place = TopicPartition(broken, 0, 4)
    shop.broker.admin().delete_records([place])[place].result(30)
    errors = shop.sync()
    assert errors["t0"].startswith("POSITION_EXPIRED") and "retention removed 2 to 3" in errors["t0"]
    assert errors["t1"] == "" and set(shop.copied()[other]) == {1, 2} and set(shop.copied()[broken]) == {1, 2}


def test_aborted_and_open_transactions_are_not_copied(shop: Shop) -> None:
    topic = shop.topic(0, 1)
    plain = shop.events.producer
    settings = {"bootstrap.servers": shop.broker.bootstrap, "transactional.id": shop.name, "log_level": 2}
    writer = shop.events.producer = Producer(settings)
    writer.init_transactions(60)
    for ids, commit in (((1, 2), True), ((3,), False), ((2, 4), True)):
        rows = {**shop.events.rows.get(topic, {})}
        writer.begin_transaction()
        shop.put(topic, *ids, name=f"of {ids}")
        writer.commit_transaction(30) if commit else writer.abort_transaction(30)
        if not commit:
            shop.events.rows[topic] = rows
    rows = {**shop.events.rows[topic]}
    writer.begin_transaction()
    shop.put(topic, 9)
    assert shop.sync() == {"t0": ""}
    assert shop.copied()[topic] == rows and set(rows) == {1, 2, 4}
    writer.commit_transaction(30)
    assert shop.sync() == {"t0": ""}
    assert shop.copied() == shop.events.rows
    shop.events.producer = plain


def test_compacted_topic_with_gaps_has_the_last_rows(shop: Shop) -> None:
    config = {"min_cleanable_dirty_ratio": "0.001", "segment_ms": "100", "delete_retention_ms": "100"}
    topic = shop.topic(0, 1, cleanup_policy="compact", **config)
    for _ in range(3):
        shop.put(topic, *range(20))
    shop.events.delete(topic, 3)

    def compacted() -> bool:
        shop.put(topic, 0)  # the newest segment is never cleaned
        CountingConsumer.seen = []
        shop.sync(connect=CountingConsumer, restart="" if not shop.folder.joinpath("copy.db").exists() else "t0")
        return len(CountingConsumer.seen) < 60

    wait_for(compacted, "compaction", step=0.2)
    assert shop.copied() == shop.events.rows and 3 not in shop.events.rows[topic]


def test_added_partitions_stop_the_table(shop: Shop) -> None:
    topic = shop.topic(0, 2)
    shop.put(topic, *range(10))
    assert shop.sync() == {"t0": ""}
    shop.broker.admin().create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    wait_for(lambda: len(shop.topics.partitions_of(topic).partitions) == 3, "a new partition")
    error = shop.sync()["t0"]
    assert error.startswith("DATA_INVALIDATED") and "has 3 partitions and had 2" in error
    shop.put(topic, *range(10), name="b")
    error = shop.sync(restart="t0")["t0"]
    assert error.startswith("DATA_INVALIDATED") and "the record's key selects another one of 3 partitions" in error


def test_table_and_then_its_topic_under_kills(shop: Shop, golden: GoldenTables) -> None:
    """The writer has read records of a transaction that is open at first. A process ends before the write of the
    hand-over, another one after it."""
    case = golden.case("C_v6_streamer")
    ends = {int(number): end for number, end in case["handover"]["offsets"].items()}
    topic, table = shop.topic(9), shop.folder / "t9"
    golden.copy("C_v6_streamer", shop.folder).rename(table)
    for file in table.glob(".hoodie/*.deltacommit"):
        file.write_text(file.read_text().replace('"orders,0:', f'"{topic},0:'))
    events = EventTopic(topic, columns={"id": "string", "region": "string", "amount": "int64", "ts": "int64"})
    rows = {
        row["id"]: {name: row[name] for name in events.columns}
        for row in golden.expected(case["name"], "snapshot").to_pylist()
    }
    dump = [json.loads(line) for line in (GOLDEN / case["kafka"]["topic_dump"]).read_text().splitlines()]
    below = {(one["partition"], one["offset"]): one["value"] for one in dump}
    settings = {"bootstrap.servers": shop.broker.bootstrap, "transactional.id": shop.name, "log_level": 2}
    plain, writer = shop.events.producer, Producer(settings)

    def put(producer: Any, partition: int, row: Mapping[str, Any], op: str = "u") -> None:
        key, value = events.event(row, op)
        producer.produce(topic, key=key, value=value, partition=partition)

    for number, end in ends.items():
        for offset in range(end - (number == 0)):
            put(plain, number, below.get((number, offset), {"id": "aborted"}))
    assert plain.flush(30) == 0
    writer.init_transactions(60)
    writer.begin_transaction()
    put(writer, 0, below[0, ends[0] - 1])
    assert writer.flush(30) == 0
    shop.job.write_text(
        f'[[sync]]\nfrom = "{table}"\nto = "duckdb:///{shop.folder}/copy.db"\n'
        f'then = "kafka://{shop.broker.bootstrap}/{shop.name}.{{name}}"\noptions.kafkaPartitioner = "any"\n'
    )
    error = shop.sync(states=(TableState.RETRYING,))["t9"]
    assert error.startswith("KAFKA_UNAVAILABLE") and "the log's readable records at 16: a transaction is open" in error
    assert shop.copied()[topic] == rows
    writer.commit_transaction(30)
    for at in ("before", "after"):
        command = [sys.executable, "-P", "-c", KILLED, "1", at, str(shop.job)]
        assert subprocess.run(command, capture_output=True, timeout=300).returncode == -9
        assert shop.copied()[topic] == rows
    put(plain, 0, {**rows["o2"], "amount": 5})
    put(plain, 1, rows["o3"], "d")
    assert plain.flush(30) == 0
    assert shop.sync() == {"t9": ""}
    rows["o2"]["amount"] = 5
    del rows["o3"]
    assert shop.copied()[topic] == rows
