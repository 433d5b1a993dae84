"""Records of a topic: through Penstock's door, and on to Arrow rows, beside confluent-kafka's bare `consume()`.

    python -m bench.hybrid [--records 80000] [--columns 6] [--rounds 7] [--bootstrap HOST:PORT]

Records a second and core: records over CPU seconds of this process, the client's threads included; the broker runs in
another process. All ways read the same records in turn, round by round; ratios are those of a round, as median and
[lowest, highest]. Without --bootstrap the broker is librdkafka's mock, which keeps some 5 MB a partition; with it a
topic is made on that broker, and deleted in the end.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from penstock.kafka.config import consumer_config
from penstock.kafka.record_reader import KafkaRecords
from penstock.kafka.topic_metadata import KafkaTopics
from penstock.proto.model.changes import ChangeFormat, ChangesOf
from penstock.proto.model.hybrid import HybridMode, KafkaRange, TopicRecords, ValueFormat
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import CommitTimeOrdering, Scan, Split, VisibleInstants
from penstock.reader.read_split import read_split
from penstock.reader.topics.reading import TopicReading
from penstock.table.schema.avro import META_COLUMNS
from penstock.table.schema.changes import CHANGE_INSTANT, CHANGE_SEQ, CHANGE_TYPE

PARTITIONS = 4
CHUNK_ROWS = 8192
COLUMNS: tuple[tuple[str, Any], ...] = (
    ("id", "long"),
    ("city", "string"),
    ("amount", "double"),
    ("ts", {"type": "long", "logicalType": "timestamp-micros"}),
    ("paid", "boolean"),
    ("note", "string"),
)
CITIES = ("Oslo", "Lima", "Porto Alegre", "Ouagadougou")


@dataclass(frozen=True)
class Filled:
    """A topic with records: as many in each of its partitions, from offset 0 on."""

    bootstrap: str
    topic: str
    each: int

    @property
    def client(self) -> tuple[tuple[str, str], ...]:
        return (("bootstrap.servers", self.bootstrap),)

    def ranges(self, topic_id: str) -> list[KafkaRange]:
        """All of it."""
        return [
            KafkaRange(topic=self.topic, topic_id=topic_id, partition=number, first=0, end=self.each)
            for number in range(PARTITIONS)
        ]


def fill(producer: Any, topic: str, each: int, columns: int) -> int:
    """Writes JSON objects; returns their mean size."""
    size = 0
    for number in range(each * PARTITIONS):
        row = (
            number,
            CITIES[number % 4],
            number / 8,
            1_760_000_000_000_000 + number,
            number % 3 == 0,
            f"note {number}",
        )
        value = json.dumps(dict(zip((name for name, _ in COLUMNS[:columns]), row, strict=False))).encode()
        size += len(value)
        producer.produce(topic, key=b"%d" % number, value=value, partition=number // each)
        if number % 10_000 == 0:
            producer.flush(30)
    assert producer.flush(60) == 0
    return size // (each * PARTITIONS)


def mock_broker(line: Connection, topic: str, each: int, columns: int) -> None:
    """A process of its own: it says where the filled topic is, and lives until told to end."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 2})
    brokers = producer.list_topics(timeout=10).brokers.values()
    size = fill(producer, topic, each, columns)
    line.send((",".join(f"{broker.host}:{broker.port}" for broker in brokers), size))
    line.recv()


@contextmanager
def filled(bootstrap: str, records: int, columns: int) -> Iterator[tuple[Filled, int]]:
    """The topic, and the mean size of its values."""
    topic, each = f"bench-{uuid.uuid4().hex[:8]}", records // PARTITIONS
    if bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        try:
            size = fill(Producer({"bootstrap.servers": bootstrap, "linger.ms": 20}), topic, each, columns)
            yield Filled(bootstrap, topic, each), size
        finally:
            admin.delete_topics([topic])[topic].result(30)
        return
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=mock_broker, args=(theirs, topic, each, columns))
    process.start()
    try:
        where, size = ours.recv()
        yield Filled(where, topic, each), size
    finally:
        ours.send("end")
        process.join()


def bare(source: Filled, *, touched: bool) -> int:
    """`consume()` alone, with the settings of Penstock's reader; `touched`: each message is asked for its parts."""
    count = 0
    for wanted in source.ranges(""):
        consumer = Consumer(consumer_config(source.client, "bench"))
        consumer.assign([TopicPartition(wanted.topic, wanted.partition, 0)])
        left = wanted.end
        while left:
            messages = consumer.consume(min(CHUNK_ROWS, left), 0.02)
            if touched:
                for message in messages:
                    assert message.error() is None
                    message.offset(), message.key(), message.value(), message.timestamp()
            left -= len(messages)
        count += wanted.end
        consumer.close()
    return count


def door(source: Filled, topics: KafkaTopics, topic_id: str) -> int:
    """Chunks of the door."""
    reader = KafkaRecords(source.client, topics=topics)
    wanted = source.ranges(topic_id)
    return sum(len(chunk.offsets) for one in wanted for chunk in reader.read(one, 0, CHUNK_ROWS))


def decoded(source: Filled, topics: KafkaTopics, topic_id: str, columns: int) -> int:
    """Rows of a changelog, as an engine gets them: the door, and the decode step behind it."""
    reading = TopicReading(records=KafkaRecords(source.client, topics=topics))
    scan, count = changelog(columns), 0
    for wanted in source.ranges(topic_id):
        split = Split(
            split_id=f"bench-{wanted.partition}",
            partition="",
            partition_values=(),
            file_group="",
            order_key=InstantTime("99"),
            base=None,
            part=wanted,
        )
        count += sum(batch.batch.num_rows for batch in read_split(scan, split, topics=reading))
    return count


def changelog(columns: int) -> Scan:
    """The table's columns, and those of a change."""
    meta = [{"name": name, "type": ["null", "string"]} for name in META_COLUMNS]
    fields = [{"name": name, "type": ["null", kind]} for name, kind in COLUMNS[:columns]]
    return Scan(
        table="bench",
        base_path="memory",
        table_version=9,
        schema_json=json.dumps({"type": "record", "name": "row", "fields": [*meta, *fields]}),
        columns=(*(name for name, _ in COLUMNS[:columns]), CHANGE_TYPE, CHANGE_INSTANT, CHANGE_SEQ),
        where="",
        merge=CommitTimeOrdering(),
        visible=VisibleInstants(frozenset()),
        rows=ChangesOf(ChangeFormat.ROWS, frozenset()),
        topic=TopicRecords(mode=HybridMode.CHANGELOG, value_format=ValueFormat.JSON, key_fields=("id",)),
    )


def spread(values: list[float], form: str) -> str:
    """Median [lowest, highest]."""
    return f"{statistics.median(values):{form}} [{min(values):{form}}, {max(values):{form}}]"


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=80_000)
    parser.add_argument("--columns", type=int, default=len(COLUMNS), choices=range(1, len(COLUMNS) + 1))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bootstrap", default="", help="a real broker's address")
    given = parser.parse_args()
    with filled(given.bootstrap, given.records, given.columns) as (source, size):
        topics = KafkaTopics(source.client)
        topic_id = topics.describe(source.topic).topic_id
        ways: dict[str, Callable[[], int]] = {
            "consume()": lambda: bare(source, touched=False),
            "consume(), each message asked": lambda: bare(source, touched=True),
            "RecordsDoor": lambda: door(source, topics, topic_id),
            "RecordsDoor, JSON to changelog rows": lambda: decoded(source, topics, topic_id, given.columns),
        }
        cpu_s: dict[str, list[float]] = {name: [] for name in ways}
        wall_s: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(given.rounds + 1):
            for name, way in ways.items():
                cpu, wall = time.process_time(), time.perf_counter()
                count = way()
                cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
                if count != source.each * PARTITIONS:
                    raise SystemExit(f"{name}: got {count} records of {source.each * PARTITIONS}")
                if number:  # the first warms up
                    cpu_s[name].append(cpu)
                    wall_s[name].append(wall)
    records = source.each * PARTITIONS
    shown = Table(title=f"{records:,} JSON records of {size} bytes, {given.columns} columns, {given.rounds} rounds")
    for heading in ("way", "k records/s and core", "CPU of consume()", "k records/s"):
        shown.add_column(heading, justify="right")
    base = cpu_s["consume()"]
    for name in ways:
        speed = spread([records / one / 1e3 for one in cpu_s[name]], ",.0f")
        ratio = spread([one / other for one, other in zip(cpu_s[name], base, strict=True)], ".2f")
        shown.add_row(name, speed, ratio, spread([records / one / 1e3 for one in wall_s[name]], ",.0f"))
    Console().print(shown)


if __name__ == "__main__":
    main()
