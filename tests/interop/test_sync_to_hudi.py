"""`penstock sync` writes a hundred of Debezium's topics into Hudi tables, which real Hudi reads and writes on."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.engine.sync.feeds import Feeds
from penstock.engine.sync.job import parse_job
from penstock.engine.sync.runner import Runner, RunSettings
from penstock.engine.sync.sources import list_sources
from penstock.engine.sync.targets.open import SharedTargets, open_target
from penstock.engine.write.create import create_table
from penstock.engine.write.service.served_timeline import ServedTimeline
from penstock.enumerator.server.assembly import TableFunctions
from penstock.enumerator.server.run import serve
from penstock.proto.client.client import EnumeratorClient
from tests.unit.engine.sync.topics.debezium_events import Events, simulated_events, value_schema

pytestmark = pytest.mark.interop

TOPICS: Final = [f"shop.public.t{number:03}" for number in range(100)]
READ_BY_HUDI: Final = 6
COLUMNS: Final = ("id", "name", "amount")


@pytest.fixture
def events() -> Iterator[Events]:
    """Topics of Debezium's events on simulated brokers."""
    with simulated_events() as simulated:
        yield simulated


def sync(
    events: Events, lake: pathlib.Path, options: str = "buckets=1", job: str = "", restart: frozenset[str] = frozenset()
) -> None:
    """Copies all topics until nothing is new. `job`: further lines of the entry."""
    text = f'[[sync]]\nfrom = "kafka://{events.brokers}/shop.public.*"\nto = "hudi:///{lake}?{options}"\n{job}'
    entries = parse_job(text, "job.toml")
    targets, feeds = SharedTargets(open_target), Feeds()
    try:
        runner = Runner(
            lambda: list_sources(entries),
            feeds.of,
            lambda source: targets.of(source.entry.target),
            RunSettings(once=True, restart=restart),
        )
        assert runner.run() == 0
    finally:
        feeds.close()
        targets.close()


def rows_of(table: pa.Table) -> dict[int, dict[str, Any]]:
    """The rows by key; AssertionError if a key is repeated."""
    rows = table.to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: {name: row[name] for name in COLUMNS} for row in rows}


def as_stored(rows: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {key: {name: row.get(name) for name in COLUMNS} for key, row in rows.items()}


@pytest.mark.long
def test_hundred_topics_become_tables_under_one_server(hudi: Any, events: Events, tmp_path: pathlib.Path) -> None:
    rng, lake, first = random.Random(7), tmp_path / "lake", tmp_path / "first"
    create_table(str(first), pa.schema([("k", pa.string())]), record_key="k", buckets=1)
    with serve({"first": str(first)}, "127.0.0.1:0", functions=TableFunctions(timelines=ServedTimeline)) as server:
        for _ in range(2):
            for topic in TOPICS:
                events.random_changes(topic, rng, 6)
            sync(events, lake, f"buckets=1&server={server.address}")
        client = EnumeratorClient(server.address)
        assert len(client.list_tables().tables) == 1 + len(TOPICS)
        assert not client.list_writes()
    differing = [
        topic
        for topic in TOPICS
        if rows_of(penstock.read(str(lake / topic.rpartition(".")[2])).read_all()) != as_stored(events.rows[topic])
    ]
    assert not differing
    for topic in rng.sample(TOPICS, READ_BY_HUDI):
        path = lake / topic.rpartition(".")[2]
        assert rows_of(hudi.read(path)) == as_stored(events.rows[topic]), topic


@pytest.mark.parametrize("options", ["buckets=2", "buckets=1&table_type=copy_on_write", "buckets=2&table_version=6"])
def test_hudi_reads_every_round_and_writes_on(hudi: Any, events: Events, tmp_path: pathlib.Path, options: str) -> None:
    rng, lake, topic = random.Random(options), tmp_path / "lake", TOPICS[0]
    path = lake / "t000"
    for number in range(12):  # among them a compaction
        events.random_changes(topic, rng, 5)
        if number == 6:
            events.schema = value_schema(name="string", amount="int32", more="string")
        sync(events, lake, options)
        if number % 3 == 2:
            assert rows_of(hudi.read(path)) == as_stored(events.rows[topic]), f"round {number}"
    index = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": options.partition("=")[2][0]}
    statements = (f"CREATE TABLE synced USING hudi LOCATION '{path}'", "DELETE FROM synced WHERE id >= 100")
    version = {"hoodie.write.table.version": "6" if "version=6" in options else "9", "hoodie.metadata.enable": "false"}
    hudi.script({**index, **version, "hoodie.write.auto.upgrade": "false"}, [*statements, "DROP TABLE synced"])
    rest = {key: row for key, row in events.rows[topic].items() if key < 100}
    assert rows_of(hudi.read(path)) == as_stored(rest)
    events.upsert(topic, {"id": 3, "name": "last", "amount": 1})
    assert events.producer.flush(60) == 0
    sync(events, lake, options)
    assert rows_of(hudi.read(path)) == as_stored({**rest, 3: events.rows[topic][3]})


def test_hudi_reads_a_table_of_several_sources(hudi: Any, events: Events, tmp_path: pathlib.Path) -> None:
    """Each source is a partition, which is replaced when the source is loaded again."""
    rng, lake, topics = random.Random(5), tmp_path / "lake", TOPICS[:2]
    into = 'into = "every"\nsource_column = "shard"\n'

    def copied() -> dict[str, dict[int, dict[str, Any]]]:
        table = hudi.read(lake / "every")
        assert sorted(pc.unique(table["shard"]).to_pylist()) == sorted(topics)
        return {topic: rows_of(table.filter(pc.equal(table["shard"], topic))) for topic in topics}

    for restart in (frozenset[str](), frozenset[str](), frozenset({"every"})):
        for topic in topics:
            events.random_changes(topic, rng, 6)
        sync(events, lake, job=into, restart=restart)
        assert copied() == {topic: as_stored(events.rows[topic]) for topic in topics}
    index = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1", "hoodie.metadata.enable": "false"}
    create = f"CREATE TABLE shards USING hudi LOCATION '{lake / 'every'}'"
    hudi.script(index, [create, f"DELETE FROM shards WHERE shard = '{topics[0]}' AND id >= 6", "DROP TABLE shards"])
    rest = {key: row for key, row in events.rows[topics[0]].items() if key < 6}
    assert copied() == {topics[0]: as_stored(rest), topics[1]: as_stored(events.rows[topics[1]])}
    events.upsert(topics[0], {"id": 3, "name": "last", "amount": 1})
    assert events.producer.flush(60) == 0
    sync(events, lake, job=into)
    assert copied()[topics[0]] == as_stored({**rest, 3: events.rows[topics[0]][3]})
