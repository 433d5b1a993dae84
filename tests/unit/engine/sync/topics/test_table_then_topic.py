"""A copy that begins with a table and continues in its topic: columns, keys, offsets, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.sync.feed import NotReady, TableFeed
from penstock.engine.sync.table_sync import TableSync
from penstock.engine.sync.topics.partitioner import partitions_of
from penstock.engine.sync.topics.place import given_columns
from penstock.engine.sync.topics.then import then_topic
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import (
    ConfigurationError,
    DataInvalidated,
    KafkaUnavailable,
    PositionExpired,
    SchemaMismatch,
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

STREAMER, SINK = "C_v6_streamer", "C_v9_sink"


def small(**changes: Any) -> ScriptedTable:
    """Key 1 in partition a, one event of it below the end, and one event of key 2 after it."""
    topic = EventTopic("t")
    topic.put(0, {"id": 1, "p": "a", "v": 1})
    topic.put(0, {"id": 2, "p": "a", "v": 2})
    feed = ScriptedFeed([[lake_row({"id": 1, "p": "a", "v": 1})]])
    return replace(ScriptedTable(feed, [{0: 1}], topic), **changes)


def run(table: ScriptedTable, text: str = "", target: MemoryTarget | None = None, **options: Any) -> MemoryTarget:
    target, entry = target or MemoryTarget(), entry_of(text)
    options = {"partitioner": "any", **options}
    run_to_end(lambda: feed_of(table, table.topic, entry, **options), target, source_of(entry))
    return target


def test_row_that_moves_between_two_commits_is_not_lost() -> None:
    """With the key of the events, the commits of the table would remove it."""
    moved = {"id": 1, "p": "b", "v": 3}
    commits: Any = [[("+I", lake_row(moved))], [("-D", lake_row({"id": 1, "p": "a", "v": 1}))]]
    table = small()
    table.topic.put(0, moved)
    end = {0: 3}
    table = replace(table, feed=ScriptedFeed(table.feed.parts, commits), ends=[{0: 1}, end, end])
    expected = {1: moved, 2: {"id": 2, "p": "a", "v": 2}}
    assert copied(run(table)) == expected
    table.now = described(partition_fields=())  # the control: as if rows could not move
    table.feed = unpartitioned(table.feed)
    assert run(table).rows["t"] == []


def test_partition_that_is_part_of_the_key_follows_commits() -> None:
    """No event below the end of the last commit is read again."""
    topic = EventTopic("t", key=("p", "id"))
    for number in range(4):
        topic.put(0, {"id": 1, "p": "a", "v": number})
    commits: Any = [[("-U", lake_row({"id": 1, "p": "a", "v": 1})), ("+U", lake_row({"id": 1, "p": "a", "v": 99}))]]
    feed = ScriptedFeed([[lake_row({"id": 1, "p": "a", "v": 1})]], commits)
    table = ScriptedTable(feed, [{0: 2}, {0: 4}], topic, described(record_key_fields=("id", "p")))
    target = run(table)
    assert copied(target) == {1: {"id": 1, "p": "a", "v": 99}}
    assert target.tables["t"].layout.key == ("p", "id")


def test_key_that_is_twice_in_the_snapshot_stops_before_the_topic() -> None:
    twice = [lake_row({"id": 1, "p": "a", "v": 1}), lake_row({"id": 1, "p": "b", "v": 2})]
    table, target = small(feed=ScriptedFeed([twice])), MemoryTarget()
    with pytest.raises(ConfigurationError, match=r"several rows have the key \[1\]"):
        run(table, target=target)
    (position,) = target.tables["t"].positions.values()
    assert json.loads(position)["phase"] == "table" and len(target.rows["t"]) == 2


def test_columns_are_those_of_all_events_near_the_end() -> None:
    """The first records of the topic lack a column that rows of the table have."""
    columns = COLUMNS.append(pa.field("b", pa.int64()))
    table = small()
    old = table.topic.records[:]
    table.topic.columns = {**table.topic.columns, "b": "int64"}
    table.topic.records, table.topic.ends = [], {}
    table.topic.put(0, {"id": 1, "p": "a", "v": 1, "b": 7})
    table.topic.records = [old[0], replace(table.topic.records[0], offset=1)]
    table.topic.ends = {0: 2}
    rows = [[lake_row({"id": 1, "p": "a", "v": 1, "b": 7})]]
    table = replace(table, feed=ScriptedFeed(rows, columns=columns), ends=[{0: 2}], now=described(columns))
    assert copied(run(table)) == {1: {"id": 1, "p": "a", "v": 1, "b": 7}}
    with pytest.raises(SchemaMismatch, match="has column b, and the last events"):
        run(replace(table, ends=[{0: 1}]))


def test_column_after_the_hand_over_is_added() -> None:
    table = small()
    table.topic.columns = {**table.topic.columns, "b": "int64"}
    table.topic.put(0, {"id": 3, "p": "a", "v": 3, "b": 4})
    assert copied(run(table))[3] == {"id": 3, "p": "a", "v": 3, "b": 4}
    assert copied(run(table))[1] == {"id": 1, "p": "a", "v": 1, "b": None}


@pytest.mark.parametrize("name", ["day", "b"])
def test_column_of_the_table_alone_can_be_left_out(name: str) -> None:
    columns = COLUMNS.append(pa.field(name, pa.string()))
    rows = [[lake_row({"id": 1, "p": "a", "v": 1, name: "x"})]]
    table = small(feed=ScriptedFeed(rows, columns=columns), now=described(columns))
    with pytest.raises(SchemaMismatch, match=rf"has column {name}, and the last events .* \(without\)"):
        run(table)
    assert copied(run(table, f'without = "{name}"\n'))[1] == {"id": 1, "p": "a", "v": 1}
    with pytest.raises(ConfigurationError, match=r"without none: neither the table nor the last events .* have"):
        run(table, 'without = "none"\n')


def test_column_that_only_events_before_the_end_have_can_be_left_out() -> None:
    """The source has dropped it. Its type does not matter. With the events that follow it would be part of the copy."""
    table = small()
    table.topic.put(0, {"id": 3, "p": "a", "v": 3})
    for place, kind in enumerate(("string", "boolean")):
        table.topic.columns["gone"] = kind
        row = {"id": place + 1, "p": "a", "v": place + 1}
        table.topic.records[place] = replace(table.topic.records[place], value=table.topic.event(row)[1])
    del table.topic.columns["gone"]
    table.ends = [{0: 2}]
    with pytest.raises(SchemaMismatch, match=r"column gone was string and is bool"):
        run(table)
    text = 'without = ["gone"]\n'
    assert copied(run(table, text)) == {1: {"id": 1, "p": "a", "v": 1}, 3: {"id": 3, "p": "a", "v": 3}}
    table.ends = [{0: 1}]
    with pytest.raises(SchemaMismatch, match=r"events of topic t have column gone, and table .* \(without\)"):
        run(table)
    with pytest.raises(
        SchemaMismatch, match=r"offsets 0:\d+: events have column gone, which .* leaves out \(without\)"
    ):
        run(table, text)


@pytest.mark.parametrize("until", [1, 2])
def test_column_that_is_left_out_is_not_in_the_events_between_two_commits(until: int) -> None:
    table = small(now=described(partition_fields=()))
    table.topic.columns["gone"] = "string"
    for place in range(until):
        row = {"id": place + 1, "p": "a", "v": place + 1}
        table.topic.records[place] = replace(table.topic.records[place], value=table.topic.event(row)[1])
    del table.topic.columns["gone"]
    table.topic.put(0, {"id": 3, "p": "a", "v": 3})
    commits: Any = [[("+I", lake_row({"id": 2, "p": "a", "v": 2}))]]
    table.feed, table.ends = unpartitioned(ScriptedFeed(table.feed.parts, commits)), [{0: 1}, {0: 2}]
    assert sorted(copied(run(table, 'without = "gone"\n'))) == [1, 2, 3]


def test_key_schema_of_the_events_in_the_table_may_be_another_one() -> None:
    """Those after the table have one schema, so that the events of a row are in one partition."""

    def old(place: int) -> None:
        key = json.loads(table.topic.records[place].key or b"")
        key["schema"]["optional"] = False
        table.topic.records[place] = replace(table.topic.records[place], key=json.dumps(key).encode())

    table, target = small(), MemoryTarget()
    old(0)
    assert sorted(copied(run(table, target=target))) == [1, 2]
    table.topic.put(0, {"id": 3, "p": "a", "v": 3})
    old(2)
    with pytest.raises(SchemaMismatch, match="its schema is another one, so events of one row may be in several"):
        run(table, target=target)
    with pytest.raises(SchemaMismatch, match="its schema is another one"):  # after the events below the end
        run(replace(table, ends=[{0: 2}]))


def test_column_of_the_events_alone_is_refused() -> None:
    table = small()
    table.topic.columns["extra"] = "string"
    table.topic.records[0] = replace(table.topic.records[0], value=table.topic.event({"id": 1, "p": "a", "v": 1})[1])
    with pytest.raises(SchemaMismatch, match="events of topic t have column extra, and table"):
        run(table)


def test_columns_that_change_during_the_load_stop_the_table() -> None:
    columns = COLUMNS.append(pa.field("b", pa.int64()))
    commits: Any = [[("+I", {**lake_row({"id": 3, "p": "", "v": 3}), "b": 1, "_hoodie_partition_path": ""})]]
    feed = ScriptedFeed([[lake_row({"id": 1, "p": "a", "v": 1})]], commits, columns_later={1: columns})
    table, target = small(feed=feed, now=described(partition_fields=()), ends=[{0: 1}, {0: 2}]), MemoryTarget()
    with pytest.raises(SchemaMismatch, match=r"columns were id, p, v at the start and have changed.*--restart"):
        run(table, target=target)
    assert copied(target) == {1: {"id": 1, "p": "a", "v": 1}}


def test_column_that_the_table_does_not_take_stops_at_the_hand_over() -> None:
    """A transformer drops it from the events between the snapshot and the last commit."""
    table = small()
    table.topic.columns = {**table.topic.columns, "b": "int64"}
    table.topic.put(0, {"id": 3, "p": "a", "v": 3, "b": 4})
    commits: Any = [[("+I", {**lake_row({"id": 3, "p": "a", "v": 3}), "_hoodie_partition_path": ""})]]
    feed = ScriptedFeed(table.feed.parts, commits)
    table = replace(table, feed=feed, now=described(partition_fields=()), ends=[{0: 1}, {0: 3}])
    with pytest.raises(SchemaMismatch, match="its events had other columns while table"):
        run(table)
    assert copied(run(replace(table, ends=[{0: 1}, {0: 2}])))[3]["b"] == 4


MILLIS, MICROS = "io.debezium.time.Timestamp", "io.debezium.time.MicroTimestamp"


def two_units() -> ScriptedTable:
    """The first event has milliseconds, the second one microseconds; the table has a long of both."""
    topic = EventTopic("t", names={"v": MILLIS}, most=1)
    topic.put(0, {"id": 1, "p": "", "v": 5_000})
    topic.names["v"] = MICROS
    second = {"id": 2, "p": "", "v": 5_000_000}
    topic.put(0, second)
    feed = ScriptedFeed([[lake_row({"id": 1, "p": "", "v": 5_000})]], [[("+I", lake_row(second))]])
    return ScriptedTable(feed, [{0: 1}, {0: 2}], topic, now=described(partition_fields=()))


@pytest.mark.parametrize("most", [1, 7])
def test_unit_that_changed_before_the_snapshot_is_refused(most: int) -> None:
    table, target = two_units(), MemoryTarget()
    table.topic.most, table.ends = most, [{0: 2}, {0: 2}]
    with pytest.raises(SchemaMismatch, match=r"column v .* was local-timestamp-millis and local-timestamp-micros, and"):
        run(table, target=target)
    assert not target.rows


def test_unit_that_changes_during_the_load_stops_before_the_topic() -> None:
    table, target = two_units(), MemoryTarget()
    with pytest.raises(SchemaMismatch, match=r"column v .* was local-timestamp-millis and local-timestamp-micros, and"):
        run(table, target=target)
    (position,) = target.tables["t"].positions.values()
    assert json.loads(position)["phase"] == "table"


def test_unit_that_changes_after_the_table_is_read_with_each_event() -> None:
    table = two_units()
    table.feed = ScriptedFeed(table.feed.parts)
    rows = copied(run(table))
    assert rows[1]["v"] == rows[2]["v"] == dt.datetime(1970, 1, 1, 0, 0, 5)  # noqa: DTZ001 - as Debezium's type


def test_rows_of_partitions_without_partition_fields_are_refused() -> None:
    commits: Any = [[("+I", lake_row({"id": 3, "p": "a", "v": 3}))]]
    feed = ScriptedFeed(small().feed.parts, commits)
    with pytest.raises(SchemaMismatch, match="its properties name no partition fields"):
        run(small(feed=feed, now=described(partition_fields=()), ends=[{0: 1}, {0: 2}]))


@pytest.mark.parametrize(
    ("changes", "error", "expected"),
    [
        ({"now": described(record_key_fields=("id", "p"))}, SchemaMismatch, r"record key is \(id, p\), .* is \(id\)"),
        ({"topic_id": "other"}, DataInvalidated, "got the id first, and other where"),
        ({"ends": [{0: 0}]}, KafkaUnavailable, "no event below the offsets"),
        ({"ends": [{0: 3}]}, DataInvalidated, r"ends at offset 3, and the log at 2: it was cut back"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    changes: dict[str, Any], error: type[Exception], expected: str
) -> None:
    table, target, entry = small(**changes), MemoryTarget(), entry_of()
    sync = TableSync(source_of(entry), feed_of(table, table.topic, entry), target)
    with pytest.raises(error, match=expected):
        sync.step()
    assert target.tables == {}


def test_topic_without_events_below_the_end_has_the_columns_of_the_job() -> None:
    table = small(ends=[{0: 0}], feed=ScriptedFeed([]))
    text = 'key = "id"\ncolumns = {id = "int64", p = "string", v = "int64"}\n'
    entry = entry_of(text)
    given = {"columns": given_columns(entry, then_topic(entry, "t").place), "given_key": entry.key}
    for one in table.topic.records:
        assert one.key and one.value
    plain = [
        replace(
            one,
            key=json.dumps(json.loads(one.key or b"")["payload"]).encode(),
            value=json.dumps(json.loads(one.value or b"")["payload"]).encode(),
        )
        for one in table.topic.records
    ]
    table.topic.records = plain
    assert copied(run(table, text, **given)) == {n: {"id": n, "p": "a", "v": n} for n in (1, 2)}
    wrong = text.replace('v = "int64"', 'v = "string"')
    given = {**given, "columns": given_columns(entry_of(wrong), then_topic(entry, "t").place)}
    with pytest.raises(SchemaMismatch, match="column v is int64 in table"):
        run(table, wrong, **given)


def test_given_key_must_be_that_of_the_events() -> None:
    assert copied(run(small(), 'key = "id"\n'))
    with pytest.raises(ConfigurationError, match="key p: expected that of the events, id"):
        run(small(), 'key = "p"\n')


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
