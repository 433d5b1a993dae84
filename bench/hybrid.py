"""Records of a topic through Penstock's `KafkaRecords` and on to Arrow rows, compared with librdkafka's `consume()`.

    python -m bench.hybrid [--records 80000] [--columns 6] [--rounds 7] [--bootstrap HOST:PORT]

Records per second and core are records per CPU second of this process, the client's threads included; the broker runs
in another process. All readers read the same records in turn, round by round; ratios are computed within a round and
printed as median and [lowest, highest]. Without --bootstrap the broker is librdkafka's mock, which holds about 5 MB per
partition; with it the bench creates a topic on that broker and deletes it at the end.
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
class FilledTopic:
    """A topic with an equal number of records in each partition, from offset 0 on."""

    bootstrap: str
    """Bootstrap servers."""
    topic: str
    """Name of the topic."""
    rows_per_partition: int
    """Records of each partition."""

    @property
    def client(self) -> tuple[tuple[str, str], ...]:
        return (("bootstrap.servers", self.bootstrap),)

    def ranges(self, topic_id: str) -> list[KafkaRange]:
        """The ranges of all records."""
        return [
            KafkaRange(topic=self.topic, topic_id=topic_id, partition=number, first=0, end=self.rows_per_partition)
            for number in range(PARTITIONS)
        ]


def fill(producer: Any, topic: str, rows_per_partition: int, columns: int) -> int:
    """Writes JSON objects; returns their mean size."""
    size = 0
    for number in range(rows_per_partition * PARTITIONS):
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
        producer.produce(topic, key=b"%d" % number, value=value, partition=number // rows_per_partition)
        if number % 10_000 == 0:
            producer.flush(30)
    assert producer.flush(60) == 0
    return size // (rows_per_partition * PARTITIONS)


def mock_broker(line: Connection, topic: str, rows_per_partition: int, columns: int) -> None:
    """Main function of the broker's process: sends its address and the records' mean size, then waits for a message."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 2})
    brokers = producer.list_topics(timeout=10).brokers.values()
    size = fill(producer, topic, rows_per_partition, columns)
    line.send((",".join(f"{broker.host}:{broker.port}" for broker in brokers), size))
    line.recv()


@contextmanager
def filled_topic(bootstrap: str, records: int, columns: int) -> Iterator[tuple[FilledTopic, int]]:
    """Creates and fills the topic; yields it with the mean size of its values."""
    topic, rows_per_partition = f"bench-{uuid.uuid4().hex[:8]}", records // PARTITIONS
    if bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        try:
            size = fill(Producer({"bootstrap.servers": bootstrap, "linger.ms": 20}), topic, rows_per_partition, columns)
            yield FilledTopic(bootstrap, topic, rows_per_partition), size
        finally:
            admin.delete_topics([topic])[topic].result(30)
        return
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=mock_broker, args=(theirs, topic, rows_per_partition, columns)
    )
    process.start()
    try:
        where, size = ours.recv()
        yield FilledTopic(where, topic, rows_per_partition), size
    finally:
        ours.send("end")
        process.join()


def consume_alone(source: FilledTopic, *, touched: bool) -> int:
    """`consume()` alone, with the settings of Penstock's reader; `touched` also reads the parts of each message."""
    count = 0
    for ranges in source.ranges(""):
        consumer = Consumer(consumer_config(source.client, "bench"))
        consumer.assign([TopicPartition(ranges.topic, ranges.partition, 0)])
        remaining = ranges.end
        while remaining:
            messages = consumer.consume(min(CHUNK_ROWS, remaining), 0.02)
            if touched:
                for message in messages:
                    assert message.error() is None
                    message.offset(), message.key(), message.value(), message.timestamp()
            remaining -= len(messages)
        count += ranges.end
        consumer.close()
    return count


def raw_records(source: FilledTopic, topics: KafkaTopics, topic_id: str) -> int:
    """Chunks of `KafkaRecords`."""
    reader = KafkaRecords(source.client, topics=topics)
    ranges = source.ranges(topic_id)
    return sum(len(chunk.offsets) for one in ranges for chunk in reader.read(one, 0, CHUNK_ROWS))


def decoded_rows(source: FilledTopic, topics: KafkaTopics, topic_id: str, columns: int) -> int:
    """Rows of a changelog as an engine reads them: `KafkaRecords` and the decode step."""
    reading = TopicReading(records=KafkaRecords(source.client, topics=topics))
    scan, count = changelog(columns), 0
    for ranges in source.ranges(topic_id):
        split = Split(
            split_id=f"bench-{ranges.partition}",
            partition="",
            partition_values=(),
            file_group="",
            order_key=InstantTime("99"),
            base=None,
            part=ranges,
        )
        count += sum(batch.batch.num_rows for batch in read_split(scan, split, topics=reading))
    return count


def changelog(columns: int) -> Scan:
    """A scan of the table's columns and the change columns."""
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
    args = parser.parse_args()
    with filled_topic(args.bootstrap, args.records, args.columns) as (source, size):
        topics = KafkaTopics(source.client)
        topic_id = topics.describe(source.topic).topic_id
        readers: dict[str, Callable[[], int]] = {
            "consume()": lambda: consume_alone(source, touched=False),
            "consume(), every message's parts read": lambda: consume_alone(source, touched=True),
            "KafkaRecords": lambda: raw_records(source, topics, topic_id),
            "KafkaRecords, JSON to changelog rows": lambda: decoded_rows(source, topics, topic_id, args.columns),
        }
        cpu_s: dict[str, list[float]] = {name: [] for name in readers}
        wall_s: dict[str, list[float]] = {name: [] for name in readers}
        for number in range(args.rounds + 1):
            for name, read_all in readers.items():
                cpu, wall = time.process_time(), time.perf_counter()
                count = read_all()
                cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
                if count != source.rows_per_partition * PARTITIONS:
                    raise SystemExit(f"{name}: got {count} records of {source.rows_per_partition * PARTITIONS}")
                if number:  # the first warms up
                    cpu_s[name].append(cpu)
                    wall_s[name].append(wall)
    records = source.rows_per_partition * PARTITIONS
    report = Table(title=f"{records:,} JSON records of {size} bytes, {args.columns} columns, {args.rounds} rounds")
    for heading in ("reader", "k records/s and core", "CPU of consume()", "k records/s"):
        report.add_column(heading, justify="right")
    base = cpu_s["consume()"]
    for name in readers:
        speed = spread([records / one / 1e3 for one in cpu_s[name]], ",.0f")
        ratio = spread([one / other for one, other in zip(cpu_s[name], base, strict=True)], ".2f")
        report.add_row(name, speed, ratio, spread([records / one / 1e3 for one in wall_s[name]], ",.0f"))
    Console().print(report)


if __name__ == "__main__":
    main()
