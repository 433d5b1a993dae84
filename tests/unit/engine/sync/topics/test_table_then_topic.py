"""A copy that begins with a table and continues in its topic: columns, keys, offsets, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.sync.table_sync import TableSync
from penstock.engine.sync.topics.place import given_columns
from penstock.engine.sync.topics.then import then_topic
from penstock.proto.errors import (
    ConfigurationError,
    DataInvalidated,
    KafkaUnavailable,
    SchemaMismatch,
)
from tests.unit.engine.sync.scripted import COLUMNS, MemoryTarget, ScriptedFeed, described
from tests.unit.engine.sync.topics.tables_then_topics import (
    EventTopic,
    ScriptedTable,
    copied,
    entry_of,
    feed_of,
    lake_row,
    run_to_end,
    source_of,
    unpartitioned,
)


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
