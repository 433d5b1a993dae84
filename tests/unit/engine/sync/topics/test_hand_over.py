"""The hand-over from a table to its topic: restarts, retention, transactions, partitions and shards."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.sync.feed import NotReady, TableFeed
from penstock.engine.sync.table_sync import TableSync
from penstock.engine.sync.topics.partitioner import partitions_of
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import (
    ConfigurationError,
    DataInvalidated,
    KafkaUnavailable,
    PositionExpired,
)
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from tests.golden_tables import GoldenTables
from tests.unit.engine.sync.scripted import COLUMNS, MemoryTarget, ScriptedFeed, described
from tests.unit.engine.sync.topics.tables_then_topics import (
    EventTopic,
    Row,
    ScriptedTable,
    copied,
    entry_of,
    feed_of,
    lake_row,
    run_to_end,
    source_of,
    unpartitioned,
)
from tests.unit.engine.sync.topics.test_table_then_topic import run, small

STREAMER = "C_v6_streamer"


def killed_before_hand_over(table: ScriptedTable) -> tuple[MemoryTarget, Any]:
    """The target after the load, and a way to continue."""
    target, entry = MemoryTarget(), entry_of()
    sync = TableSync(source_of(entry), feed_of(table, table.topic, entry), target)
    for _ in range(2):
        sync.step()
    assert copied(target) == {1: {"id": 1, "p": "a", "v": 1}}
    return target, lambda: run(table, target=target)


def test_what_happens_to_the_topic_during_the_load_is_noticed() -> None:
    table = small()
    _, continued = killed_before_hand_over(table)
    table.topic.starts[0] = 2
    with pytest.raises(PositionExpired, match=r"the table ends at offset 1, and the log starts at offset 2"):
        continued()
    table.topic.starts[0], table.topic.topic_id = 0, "second"
    with pytest.raises(DataInvalidated, match="was created again"):
        continued()
    table.topic.topic_id = "first"
    table.topic.put(1, {"id": 9, "p": "a", "v": 9})
    with pytest.raises(DataInvalidated, match="has 2 partitions and had 1"):
        continued()
    del table.topic.ends[1], table.topic.starts[1]
    table.topic.records.pop()
    assert sorted(copied(continued())) == [1, 2]


def test_offsets_of_the_snapshot_are_resolved_once() -> None:
    """What they were resolved from may be gone after a long load, such as the batches of Spark's checkpoint."""
    table = small()
    target, continued = killed_before_hand_over(table)
    (stored,) = target.tables["t"].positions.values()

    def refused(where: str) -> None:
        assert where != "hand_over"

    table.feed.fault = refused
    assert sorted(copied(continued())) == [1, 2]
    (reached,) = target.tables["t"].positions.values()
    assert json.loads(reached)["instant"] == json.loads(stored)["instant"] == "20260101000000000"


def test_position_without_an_instant_continues() -> None:
    table = small()
    target, continued = killed_before_hand_over(table)
    ((source, stored),) = target.tables["t"].positions.items()
    before = {key: value for key, value in json.loads(stored).items() if key != "instant"}
    positions = {source: json.dumps(before)}
    target.tables["t"] = replace(target.tables["t"], positions=positions)
    assert sorted(copied(continued())) == [1, 2]
    (reached,) = target.tables["t"].positions.values()
    assert json.loads(reached) == {**json.loads(reached), "phase": "topic", "instant": ""}


@pytest.mark.parametrize("fields", [("p",), ()])
@pytest.mark.parametrize("is_late", [False, True])
def test_partition_that_the_commit_may_not_list_has_lost_no_record(fields: tuple[str, ...], is_late: bool) -> None:
    """A hand-over starts it where the log starts, before the load or after it."""
    table = small()
    table.feed, table.now = unpartitioned(table.feed), described(partition_fields=fields)
    table.topic.records, table.topic.ends = [], {0: 0, 1: 0}
    keys = [[n for n in range(60) if partitions_of([table.topic.event({"id": n})[0]], 2)[0] == at] for at in (0, 1)]
    table.topic.put(0, {"id": keys[0][0], "p": "a", "v": 1})
    for key in keys[1][:5]:
        table.topic.put(1, {"id": key, "p": "a", "v": 1})
    assert sorted(copied(run(table, partitioner="java"))) == sorted({1, *keys[1][:5]})
    target, entry = MemoryTarget(), entry_of()
    sync = TableSync(source_of(entry), feed_of(table, table.topic, entry, partitioner="java"), target)
    for _ in range(2 * is_late):
        sync.step()
    table.topic.starts[1] = 3
    table.topic.records = [one for one in table.topic.records if one.partition == 0 or one.offset >= 3]
    with pytest.raises(PositionExpired, match="partition 1: "):
        run(table, target=target, partitioner="java")
    assert [key for key in keys[1] if key in {row["id"] for row in target.rows.get("t", [])}] == []


def test_listed_partition_whose_records_have_all_expired_is_read_on() -> None:
    """It has been quiet for longer than the topic keeps its records."""
    table = small(ends=[{0: 1, 1: 5}])
    table.topic.starts[1], table.topic.ends[1] = 5, 5
    target = run(table)
    assert sorted(copied(target)) == [1, 2]
    table.topic.put(1, {"id": 3, "p": "a", "v": 3})
    assert sorted(copied(run(table, target=target))) == sorted(copied(run(table))) == [1, 2, 3]
    table.topic.starts[1] = 6
    with pytest.raises(PositionExpired, match=r"partition 1: the table ends at offset 5, and the log starts at offset"):
        run(table)
    with pytest.raises(PositionExpired, match=r"partition 1: the log starts at offset 6, and .* does not list"):
        run(replace(table, ends=[{0: 1}]))


@pytest.mark.parametrize(("listed", "number"), [((), None), ((1,), 1), ((2,), 1), ((2,), 2), ((1,), None)])
def test_last_partition_without_a_record_in_the_table_is_read(listed: tuple[int, ...], number: int | None) -> None:
    """Keys have not moved to an empty partition, and one that the commit lists was there before it."""
    table = small(ends=[{0: 1, **dict.fromkeys(listed, 0)}])
    for partition in (1, 2) if 2 in listed else (1,):
        table.topic.starts[partition] = table.topic.ends[partition] = 0
    if number is not None:
        table.topic.put(number, {"id": 7, "p": "a", "v": 7})
    assert sorted(copied(run(table))) == ([1, 2] if number is None else [1, 2, 7])


def test_table_that_always_has_a_new_commit_reaches_its_topic() -> None:
    table = small(now=described(partition_fields=()))
    feed = table.feed = unpartitioned(table.feed)

    def image(value: int) -> Row:
        return {**lake_row({"id": 1, "p": "a", "v": value}), "_hoodie_partition_path": ""}

    def busy(where: str) -> None:
        if where == "next_round":
            changes = [("-U", image(len(commits) + 1)), ("+U", image(len(commits) + 2))]
            commits.append(changes)

    commits: list[Any] = []
    feed.commits, feed.fault = commits, busy
    table.ends = [{0: 1}] * 100
    entry, target = entry_of(), MemoryTarget()
    sync = TableSync(source_of(entry), feed_of(table, table.topic, entry), target)
    for _ in range(20):
        sync.step()
    assert json.loads(target.tables["t"].positions["/lake/t"])["phase"] == "topic" and 2 in copied(target)
    assert 1 <= len(commits) < 10


def test_column_that_is_added_while_the_load_starts_is_copied() -> None:
    columns = COLUMNS.append(pa.field("b", pa.int64()))
    table = small()
    table.topic.columns = {**table.topic.columns, "b": "int64"}
    table.topic.records, table.topic.ends = [], {}
    for number in (1, 2):
        table.topic.put(0, {"id": number, "p": "a", "v": 1, "b": 7})
    table.feed = ScriptedFeed([[lake_row({"id": 1, "p": "a", "v": 1, "b": 7})]], columns=columns)

    def committed(where: str) -> None:
        if where == "start":
            table.now = described(columns)

    table.feed.fault = committed
    assert copied(run(table))[1] == {"id": 1, "p": "a", "v": 1, "b": 7}


def test_records_of_an_open_transaction_delay_the_hand_over() -> None:
    """They are below the offsets of a writer that reads uncommitted records. The client reports no end there."""
    table = small()
    target, _ = killed_before_hand_over(table)
    table.topic.stable[0] = 0
    with pytest.raises(KafkaUnavailable, match=r"ends at offset 1, and the log's readable records at 0: a transaction"):
        feed_of(table, table.topic).next_round(target.tables["t"].positions["/lake/t"])
    table.topic.stable = {}
    assert sorted(copied(run(table, target=target))) == [1, 2]


def test_retention_after_the_hand_over_is_noticed() -> None:
    table, target = small(), MemoryTarget()
    entry = entry_of()
    sync = TableSync(source_of(entry), feed_of(table, table.topic, entry), target)
    for _ in range(3):
        sync.step()
    assert json.loads(target.tables["t"].positions["/lake/t"])["phase"] == "topic"
    table.topic.starts[0] = 2
    with pytest.raises(PositionExpired):
        run(table, target=target)


def test_table_is_not_read_after_the_hand_over() -> None:
    table, target = small(), MemoryTarget()
    run(table, target=target)
    table.topic.put(0, {"id": 5, "p": "a", "v": 5})

    def refused(where: str) -> None:
        raise AssertionError(where)

    table.feed.fault = refused
    assert sorted(copied(run(table, target=target))) == [1, 2, 5]


def test_added_partition_is_only_followed_with_the_check_of_keys() -> None:
    """Without it, nothing says whether events of a key are in two partitions."""
    table = small()
    table.topic.records, table.topic.ends = [], {0: 0, 1: 0}
    in_zero, in_one = (
        next(n for n in range(50) if partitions_of([table.topic.event({"id": n})[0]], 2)[0] == number)
        for number in range(2)
    )
    for number, key in enumerate((in_zero, in_one)):
        table.topic.put(number, {"id": key, "p": "a", "v": key})
    with pytest.raises(DataInvalidated, match="has no record of partition 1, which may have been added later"):
        run(table)
    rows = [[lake_row({"id": in_zero, "p": "a", "v": in_zero})]]
    table.feed = ScriptedFeed(rows)
    assert sorted(copied(run(table, partitioner="java"))) == sorted([in_zero, in_one])
    table.topic.put(0, {"id": in_one, "p": "a", "v": 0})
    with pytest.raises(DataInvalidated, match="the record's key selects another one of 2 partitions"):
        run(table, partitioner="java")


def test_restart_reads_the_table_again() -> None:
    table, target, entry = small(), MemoryTarget(), entry_of()
    run(table, target=target)
    table.ends, table.feed = [{0: 2}], ScriptedFeed([[lake_row({"id": 2, "p": "a", "v": 2})]])
    run_to_end(lambda: feed_of(table, table.topic, entry), target, source_of(entry), restart=True)
    assert copied(target) == {2: {"id": 2, "p": "a", "v": 2}}


def test_position_of_a_job_without_the_topic_is_refused() -> None:
    table, target = small(), MemoryTarget()
    killed, _ = killed_before_hand_over(table)
    for position in ("0", json.dumps({"version": 1}), "[" * 10_000, json.dumps({"phase": "topic", "topic": 1})):
        with pytest.raises(ConfigurationError, match=r"was not stored with `then`.*--restart"):
            feed_of(table, table.topic).next_round(position)
    (position,) = killed.tables["t"].positions.values()
    with pytest.raises(ConfigurationError, match="position is not one of this topic"):
        feed_of(table, EventTopic("u")).next_round(position)
    with pytest.raises(ConfigurationError, match=r"the target's position does not fit.*--restart"):
        TableFeed("/lake/t", {})._point(position)
    assert target.tables == {}


@pytest.mark.golden
def test_feed_says_whether_an_instant_is_delivered(golden: GoldenTables) -> None:
    """The newest instant of this table is a compaction."""
    feed = TableFeed(str(next(path.parent for path in golden.table(STREAMER).rglob(".hoodie") if path.is_dir())), {})
    start, newest = feed.start(), feed.description().newest
    assert feed.has_reached(start, newest) and feed.has_reached(start, EARLIEST)
    assert not feed.has_reached(start, Position(InstantTime(str(int(newest.order_key) + 1))))


@pytest.mark.golden
def test_several_writers_are_refused(golden: GoldenTables) -> None:
    table = str(next(path.parent for path in golden.table("C_v9_streamer_keys").rglob(".hoodie") if path.is_dir()))
    topic = EventTopic("bill.1.2.0", columns={"id": "string", "region": "string", "amount": "int64", "ts": "int64"})
    feed = TableFeed(table, {})
    feed._embedded = feed._enumerator = EmbeddedEnumerator(reads=OpenTables(1, open_topic=topic.open))
    with pytest.raises(ConfigurationError, match="several writers"):
        feed_of(feed, topic).layout(entry_of())
    with pytest.raises(ConfigurationError, match=r"no commit .* holds offsets of other"):
        feed_of(feed, EventTopic("other")).layout(entry_of())


def test_hand_over_waits_for_the_records_and_keeps_its_offsets() -> None:
    commits: Any = [[("+I", {**lake_row({"id": 2, "p": "a", "v": 2}), "_hoodie_partition_path": ""})]]
    feed = ScriptedFeed(small().feed.parts, commits)
    table = small(feed=feed, now=described(partition_fields=()), ends=[{0: 1}, {0: 2}])
    target, entry = MemoryTarget(), entry_of()
    sync = TableSync(source_of(entry), feed_of(table, table.topic, entry), target)
    for _ in range(3):
        sync.step()
    calls: list[str] = []
    table.topic.pending, feed.fault = 3, calls.append
    waits = [step for step in iter(sync.step, None) if step.waits]
    assert len(waits) == 3 and calls.count("hand_over") == 1
    assert copied(target)[2] == {"id": 2, "p": "a", "v": 2}


def test_layout_waits_for_the_records() -> None:
    table = small()
    table.topic.pending = 2
    feed = feed_of(table, table.topic)
    for _ in range(2):
        with pytest.raises(NotReady):
            feed.layout(entry_of())
    assert feed.layout(entry_of()) is not None


def test_shards_and_their_topics_fill_one_table() -> None:
    entry, target = entry_of('into = "all"\nsource_column = "shard"\n'), MemoryTarget()
    for name in ("t", "u"):
        table = small()
        table.topic.topic = name
        source = replace(source_of(entry, f"/lake/{name}", name), target_table="all")
        run_to_end(lambda table=table: feed_of(table, table.topic, entry), target, source)  # type: ignore[misc]
    assert sorted((row["shard"], row["id"]) for row in target.rows["all"]) == [("t", 1), ("t", 2), ("u", 1), ("u", 2)]
    assert target.tables["all"].layout.key == ("shard", "id")


def test_shard_with_a_repeated_key_stops_alone() -> None:
    entry, target = entry_of('into = "all"\n'), MemoryTarget()
    syncs = {}
    for name, ids in (("t", (1,)), ("u", (1, 1))):
        rows = [[lake_row({"id": number, "p": "a", "v": place}) for place, number in enumerate(ids)]]
        table = small(feed=ScriptedFeed(rows))
        table.topic.topic = name
        source = replace(source_of(entry, f"/lake/{name}", name), target_table="all")
        syncs[name] = TableSync(source, feed_of(table, table.topic, entry), target)
        while name not in [row["_source"] for row in target.rows.get("all", [])]:
            syncs[name].step()
    while syncs["t"].step() is not None:
        pass
    assert sorted(row["id"] for row in target.rows["all"] if row["_source"] == "t") == [1, 2]
    with pytest.raises(ConfigurationError, match=r"several rows have the key \['u', 1\]"):
        while syncs["u"].step() is not None:
            pass
