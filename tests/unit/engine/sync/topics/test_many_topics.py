"""Ten topics through one consumer, with a target that fails between any two steps."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from penstock.engine.sync.feed import TableFeed
from penstock.engine.sync.feeds import Feeds
from penstock.engine.sync.job import SyncEntry, TargetUrl
from penstock.engine.sync.sources import SourceTable, list_sources
from penstock.engine.sync.table_sync import TableSync
from penstock.engine.sync.targets.target import StoredTable, Write
from penstock.proto.errors import ConfigurationError, StorageError
from tests.unit.engine.sync.scripted import MemoryTarget, RandomFaults
from tests.unit.engine.sync.topics.debezium_events import Events, value_schema

TOPICS = [f"shop.public.t{number}" for number in range(10)]


def entry(events: Events, **options: Any) -> SyncEntry:
    return SyncEntry(
        source=f"kafka://{events.brokers}/shop.public.*", target=TargetUrl("duckdb", "copy.db"), options=options
    )


def listed(events: Events) -> tuple[SourceTable, ...]:
    sources = list_sources([entry(events)])
    assert sources.problems == ()
    return sources.tables


def run_to_end(sources: tuple[SourceTable, ...], target: MemoryTarget, rng: random.Random, starts: int = 1) -> None:
    """Steps of all tables in random order until there is nothing new; after an error a new object continues. The
    process starts `starts` times, with another consumer each time."""
    for left in reversed(range(starts)):
        feeds = Feeds()
        syncs: dict[str, TableSync] = {}
        open_tables = list(sources)
        steps = 0
        while open_tables and (not left or steps < 8):
            source = rng.choice(open_tables)
            try:
                sync = syncs.get(source.name) or TableSync(source, feeds.of(source), target)
                syncs[source.name] = sync
                step = sync.step()
                steps += step is None or not step.waits
                if step is None:
                    open_tables.remove(source)
            except StorageError:
                del syncs[source.name]
        feeds.close()


def copied(target: MemoryTarget, source: SourceTable) -> dict[int, dict[str, Any]]:
    rows = target.rows.get(source.target_table, [])
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


@pytest.mark.parametrize("seed", range(2))
def test_ten_topics_equal_their_tables_whatever_fails(events: Events, seed: int) -> None:
    rng = random.Random(seed)
    target = MemoryTarget(RandomFaults(rng, most=60))
    for round_ in range(2):
        for topic in TOPICS:
            events.random_changes(topic, rng, 15)
        sources = listed(events)
        assert [one.name for one in sources] == TOPICS
        run_to_end(sources, target, rng, starts=3 if round_ else 1)
        assert {one.name: copied(target, one) for one in sources} == events.rows
    assert target.fault.left < 60


class Beside(MemoryTarget):
    """A wrong target: it stores a position before the rows."""

    def write(self, write: Write) -> None:
        stored = self.tables.get(write.table)
        positions = dict(stored.positions) if stored else {}
        self.tables[write.table] = StoredTable(
            layout=write.change.layout, positions={**positions, write.source: write.position}
        )
        self.fault("between")
        before = self.tables[write.table]
        self.tables[write.table] = StoredTable(layout=before.layout, positions=positions)
        fault, self.fault = self.fault, lambda where: None
        super().write(write)
        self.fault = fault


def test_position_stored_beside_rows_loses_rows(events: Events) -> None:
    rng = random.Random(1)
    target = Beside()
    for topic in TOPICS:
        events.random_changes(topic, rng, 15)
    left = iter(range(20))  # of ten topics at most one each is before their rows

    def fault(where: str) -> None:
        if where == "between" and next(left, None) is not None:
            raise StorageError(where)

    target.fault = fault
    sources = listed(events)
    run_to_end(sources, target, rng)
    assert {one.name: copied(target, one) for one in sources} != events.rows


def test_added_column_follows_and_removed_column_stays(events: Events) -> None:
    events.upsert(TOPICS[0], {"id": 1, "name": "a", "amount": 1})
    assert events.producer.flush(60) == 0
    target, rng = MemoryTarget(), random.Random(0)
    run_to_end(listed(events), target, rng)
    events.schema = value_schema(name="string", city="string")
    events.upsert(TOPICS[0], {"id": 2, "name": "b", "city": "Oslo"})
    assert events.producer.flush(60) == 0
    (source,) = listed(events)
    run_to_end((source,), target, rng)
    assert copied(target, source) == {
        1: {"id": 1, "name": "a", "amount": 1, "city": None},
        2: {"id": 2, "name": "b", "amount": None, "city": "Oslo"},
    }


def test_events_without_schema_are_refused(events: Events) -> None:
    events.producer.produce(TOPICS[0], key=b'{"id":1}', value=b'{"op":"c","before":null,"after":{"id":1}}')
    assert events.producer.flush(60) == 0
    (source,) = listed(events)
    feeds = Feeds()
    with pytest.raises(ConfigurationError, match=r"shop\.public\.t0, partition \d: its JSON has no schema"):
        TableSync(source, feeds.of(source), MemoryTarget()).planned()
    feeds.close()


def test_events_without_schema_have_the_columns_of_the_job(events: Events) -> None:
    for number in range(3):
        value = b'{"op":"c","before":null,"after":{"id":%d,"name":"n%d"}}' % (number, number)
        events.producer.produce(TOPICS[0], key=b'{"id":%d}' % number, value=value)
    assert events.producer.flush(60) == 0
    given = replace(entry(events), columns={"id": "int64", "name": "string"}, key=("id",))
    (source,) = list_sources([given]).tables
    target = MemoryTarget()
    run_to_end((source,), target, random.Random(0))
    assert copied(target, source) == {number: {"id": number, "name": f"n{number}"} for number in range(3)}


def test_topics_that_are_shards_fill_one_table(events: Events) -> None:
    rng, target = random.Random(5), MemoryTarget()
    shards = TOPICS[:3]
    for _ in range(2):
        for topic in shards:
            events.random_changes(topic, rng, 20)
        sources = list_sources([replace(entry(events), into="all", source_column="shard")])
        assert sources.problems == () and [one.name for one in sources.tables] == shards
        run_to_end(sources.tables, target, rng)
        rows = {(row["shard"], row["id"]): row for row in target.rows["all"]}
        assert len(rows) == len(target.rows["all"])
        expected = {
            (topic, key): {"shard": topic, **row} for topic in shards for key, row in events.rows[topic].items()
        }
        assert rows == expected


def test_topic_of_a_lake_table_is_no_option_of_it() -> None:
    for name, value in (("hybrid", "changelog"), ("kafka.topic", "orders"), ("kafkaValueFormat", "json")):
        with pytest.raises(ConfigurationError, match=r"not for a sync|hybrid"):
            TableFeed("/lake/orders", {name: value})
