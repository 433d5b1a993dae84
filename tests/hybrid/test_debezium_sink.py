"""Debezium's events become a merge-on-read table through Spark, as in docs/guides/tables-from-changes.md: updates,
deletes and tombstones, in any order within a micro-batch. A second query continues at the offsets in the commits."""

from __future__ import annotations

import json
import pathlib
import random
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import penstock
from penstock.engine.cli.main import run as command_line
from tests.hybrid.topic_records import PARTITIONS, make_topic
from tests.progress import PROGRESS_S

TOPIC: Final = "debezium_sink"
SCHEMA: Final = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.int64())])
IMAGE: Final = "struct<id: bigint, name: string, amount: bigint>"
FIELDS: Final = f"payload struct<op: string, before: {IMAGE}, after: {IMAGE}, source: struct<lsn: bigint>>"
COLUMNS: Final = (
    *(f"coalesce(v.payload.after, v.payload.before).{name} AS {name}" for name in SCHEMA.names),
    "CASE v.payload.op WHEN 'd' THEN '-D' WHEN 'u' THEN '+U' ELSE '+I' END AS _change_type",
    "v.payload.source.lsn AS _change_seq",
)
Row = dict[str, Any]


@dataclass
class Source:
    """A table whose changes are events, in random partitions and orders."""

    bootstrap: str
    rng: random.Random
    rows: dict[int, Row] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    """The keys that were ever deleted."""
    _lsn: int = 0

    def change(self, count: int) -> None:
        """Produces the events of some changes. Each deleted key of this or an earlier call may return."""
        records: list[tuple[int, bytes | None]] = []
        for _ in range(count):
            key = self.rng.randrange(10)
            before, after = self.rows.pop(key, None), None
            if before is None or self.rng.random() < 0.5:
                after = self.rows[key] = {"id": key, "name": f"n{self._lsn}", "amount": self._lsn}
            else:
                self.deleted.add(key)
                records.append((key, None))
            self._lsn += 1
            payload = {"op": self._operation(before, after), "before": before, "after": after}
            event = {"schema": None, "payload": {**payload, "source": {"lsn": self._lsn}}}
            records.append((key, json.dumps(event).encode()))
        self.rng.shuffle(records)
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for key, value in records:
            producer.produce(TOPIC, value, json.dumps({"id": key}), partition=self.rng.randrange(PARTITIONS))
        assert producer.flush(PROGRESS_S) == 0

    def _operation(self, before: Row | None, after: Row | None) -> str:
        return "d" if after is None else "u" if before else self.rng.choice("cr")


def rows_of(table: pa.Table) -> dict[int, Row]:
    """The rows by key; AssertionError if a key is repeated."""
    rows = {row["id"]: row for row in table.select(SCHEMA.names).to_pylist()}
    assert len(rows) == table.num_rows
    return rows


@pytest.mark.timeout(600)
def test_debezium_events_become_a_table_and_another_query_continues(
    hudi: Any, kafka: Any, penstock_sink: Any, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, table = Source(kafka.bootstrap, random.Random(5)), tmp_path / "table"
    make_topic(kafka.bootstrap, TOPIC)
    penstock.create_table(str(table), SCHEMA, record_key="id", buckets=2)
    request: dict[str, Any] = {
        "bootstrap": kafka.bootstrap,
        "topic": TOPIC,
        "fields": FIELDS,
        "columns": COLUMNS,
        "where": "has_value",
        "at_most": "100000",
        "sink": {"operation": "upsert"},
    }

    def write(state: str, **starting: str) -> None:
        penstock_sink.run_sink(table, checkpoint=str(tmp_path / state), **request, **starting)
        assert rows_of(penstock.read(str(table)).read_all()) == source.rows

    for _ in range(2):
        source.change(40)
        write("first")
    penstock.maintain(str(table), compact_after=1)
    source.change(40)  # while no query runs
    capsys.readouterr()
    assert command_line(["offsets", "resolve", str(table), "--topic", TOPIC, "--format", "json"]) == 0
    offsets = json.loads(capsys.readouterr().out)["offsets"]
    below = [TopicPartition(TOPIC, int(partition), offset) for partition, offset in offsets.items()]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})  # its futures end only while it is there
    for removed in admin.delete_records(below).values():
        removed.result(PROGRESS_S)  # a query that reads below the offsets fails
    for _ in range(2):
        write("second", starting=json.dumps({TOPIC: offsets}))
        source.change(20)
    write("second", starting="earliest")  # of a query with a checkpoint it is not used
    assert len(source.deleted & source.rows.keys()) > 2, "keys that were deleted, and returned"
    assert rows_of(hudi.read(table)) == source.rows
    keys = sorted(str(one.order_key) for one in penstock.open_table(str(table)).timeline() if one.completion_time)
    newest = penstock.read(str(table), query="incremental", after=keys[-3], upto=keys[-1]).read_all()
    assert newest.num_rows > 0 and rows_of(hudi.incremental(table, keys[-3], keys[-1])) == rows_of(newest)
