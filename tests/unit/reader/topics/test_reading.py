"""Ranges of a topic as rows and as changes: kinds, keys, deletes, ordinals, filters, sizes of batches, refusals."""

from __future__ import annotations

import datetime
import json
from collections.abc import Generator
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.kafka.protocols import RecordChunk
from penstock.proto.errors import ConfigurationError, InvariantViolation, UndecodableRecord
from penstock.proto.model.hybrid import HybridMode, KafkaRange
from penstock.proto.model.splits import DeleteMarker
from penstock.reader.read_split import ReadOptions, SplitTally, output_schema, read_split
from penstock.reader.split.emit import BATCH_BYTES
from penstock.reader.topics.reading import TopicReading
from tests.unit.reader.topics.fake_topic import (
    ORDERS,
    FakeTopic,
    chunk_of,
    order,
    read_all,
    rows_of,
    topic_of,
    topic_scan,
    topic_split,
)

APPEND = HybridMode.APPEND
AT = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)


def test_rows_of_a_changelog_and_of_an_append_table() -> None:
    topic = topic_of(order(1), order(2))
    (batch,) = read_all(topic_scan(), topic)
    assert batch.batch.schema == output_schema(topic_scan())
    assert rows_of([batch]) == [
        {
            **order(number, ts=AT),
            "_change_type": "+U",
            "_change_instant": None,
            "_change_seq": f"99{number - 1:022d}.{0:018d}.1",
        }
        for number in (1, 2)
    ]
    (batch,) = read_all(topic_scan(mode=APPEND), topic)
    assert batch.batch.schema == output_schema(topic_scan(mode=APPEND))
    assert rows_of([batch]) == [order(1, ts=AT), order(2, ts=AT)]


def test_sequences_sort_after_every_commits_and_in_offset_order() -> None:
    scan = topic_scan(columns=("_change_seq",))
    topic = FakeTopic(dict.fromkeys((0, 9, 10, 123456789012, 2**62), (None, b'{"id": 1}')))
    sequences = [row["_change_seq"] for row in rows_of(read_all(scan, topic))]
    assert sequences == sorted(map(str, sequences))
    assert len(set(sequences)) == 5
    assert str(sequences[0]) > "98991231235959999.999999999999999999.1", "instants of the next 7,800 years"


def test_meta_columns_are_null_even_where_the_record_has_them() -> None:
    scan = topic_scan(columns=("_hoodie_record_key", "id"))
    tally = SplitTally()
    assert rows_of(read_all(scan, topic_of({"_hoodie_record_key": "x", "id": 1}), tally=tally)) == [
        {"_hoodie_record_key": None, "id": 1}
    ]
    assert dict(tally.report().counts) == {"kafka_records": 1}


def test_kind_of_a_changelog_table_is_a_meta_column() -> None:
    """A record's field of its name neither is its value nor makes the record a delete."""
    scan = topic_scan(columns=("id", "_hoodie_operation", "_change_type"))
    schema = json.loads(scan.schema_json)
    field = {"name": "_hoodie_operation", "type": ["null", "string"], "default": None}
    scan = replace(scan, schema_json=json.dumps({**schema, "fields": [field, *schema["fields"]]}))
    assert rows_of(read_all(scan, topic_of({"id": 1, "_hoodie_operation": "D"}, {"id": 2}))) == [
        {"id": number, "_hoodie_operation": None, "_change_type": "+U"} for number in (1, 2)
    ]


def test_row_18_unknown_fields_are_dropped_and_counted_and_missing_ones_null() -> None:
    tally = SplitTally()
    batches = read_all(topic_scan(mode=APPEND), topic_of({"id": 1, "x": {}, "y": None}, {"city": "a"}), tally=tally)
    assert rows_of(batches) == [
        {"id": 1, "city": None, "amount": None, "ts": None},
        {"id": None, "city": "a", "amount": None, "ts": None},
    ]
    report = tally.report()
    assert dict(report.counts) == {"kafka_records": 2, "kafka_unknown_fields": 2}
    assert (report.rows, report.size_bytes) == (2, len('{"id": 1, "x": {}, "y": null}{"city": "a"}'))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"id": 7}, 7),
        ({"id": "7", "more": 1}, 7),
        (b"7", 7),
        (b'"7"', 7),
        (b" 7 ", 7),
    ],
)
def test_row_15_tombstone_is_a_delete_of_its_key(key: object, message: int) -> None:
    (batch,) = read_all(topic_scan(), topic_of(None, keys=[key]))
    nothing = {"city": None, "amount": None, "ts": None, "_change_instant": None}
    sequence = f"99{0:022d}.{0:018d}.0"
    assert rows_of([batch]) == [{"id": message, **nothing, "_change_type": "-D", "_change_seq": sequence}]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (b"007", "007"),
        (b"1e5", "1e5"),
        (b"true", "true"),
        (b'"quoted \\u00e9"', "quoted é"),
        ("plänt".encode(), "plänt"),
        ({"city": "x"}, "x"),
        ({"city": 1}, "1"),
        (b"{not json", "{not json"),
    ],
)
def test_keys_of_text_columns_are_texts_as_they_are(key: object, message: str) -> None:
    scan = topic_scan(key_fields=("city",), columns=("city",))
    assert rows_of(read_all(scan, topic_of(None, keys=[key]))) == [{"city": message}]


def test_keys_of_several_and_of_nested_columns() -> None:
    place = {
        "name": "place",
        "type": {
            "type": "record",
            "name": "p",
            "fields": [{"name": "x", "type": ["null", "int"]}, {"name": "y", "type": ["null", "int"]}],
        },
    }
    scan = topic_scan(*ORDERS, place, key_fields=("place.x", "city"), columns=("place", "city", "id"))
    rows = rows_of(read_all(scan, topic_of(None, keys=[{"place": {"x": 3}, "city": "a"}])))
    assert rows == [{"place": {"x": 3, "y": None}, "city": "a", "id": None}]
    with pytest.raises(UndecodableRecord, match=r"the key has no place\.x"):
        read_all(scan, topic_of(None, keys=[{"place": {"y": 3}, "city": "a"}]))
    with pytest.raises(UndecodableRecord, match=r"the key is not a JSON object of place\.x, city"):
        read_all(scan, topic_of(None, keys=[b"a"]))


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (None, "no value: there is no key"),
        ({"idd": 7}, "the key has no id"),
        ({"id": None}, "the key has no id"),
        ({"id": 2**63}, "the key's id: the number 9223372036854775808, expected a long"),
        (b"[7]", "the key is a list"),
        (b"\x00\x00\x00\x00\x00\x00\x00\x07", "neither JSON nor text"),
        (b"\xff\xfe", "neither JSON nor text"),
        (b"", "the key is empty"),
        (b"null", "the key's id: the text 'null', expected a long"),
    ],
)
def test_tombstone_without_a_usable_key_is_undecodable(key: object, problem: str) -> None:
    with pytest.raises(UndecodableRecord, match=rf"topic orders, partition 0, offset 0: .*{problem}"):
        read_all(topic_scan(), topic_of(None, keys=[key]))


def test_table_that_makes_its_keys_itself_has_no_deletes_by_key() -> None:
    scan = topic_scan(key_fields=(), columns=("id", "_change_type"))
    with pytest.raises(UndecodableRecord, match="has no columns that make its keys"):
        read_all(scan, topic_of(None, keys=[b"1"]))
    marked = topic_of({"id": 4, "_hoodie_is_deleted": True})
    assert rows_of(read_all(scan, marked)) == [{"id": 4, "_change_type": "-D"}]


def test_value_that_says_it_is_deleted() -> None:
    flag = {"name": "_hoodie_is_deleted", "type": ["null", "boolean"]}
    values = (
        {"id": 1, "_hoodie_is_deleted": True},
        {"id": 2, "_hoodie_is_deleted": False},
        {"id": 3, "_hoodie_is_deleted": None},
        {"city": "by key", "_hoodie_is_deleted": True},
    )
    for fields in (ORDERS, (*ORDERS, flag)):
        scan = topic_scan(*fields, columns=("id", "city", "_change_type"))
        tally = SplitTally()
        rows = rows_of(read_all(scan, topic_of(*values, keys=[None, None, None, b"4"]), tally=tally))
        assert [tuple(row.values()) for row in rows] == [
            (1, None, "-D"),
            (2, None, "+U"),
            (3, None, "+U"),
            (4, "by key", "-D"),
        ]
        assert dict(tally.report().counts) == {"kafka_records": 4}
    with pytest.raises(UndecodableRecord, match="column _hoodie_is_deleted: the text 'true', expected true or false"):
        read_all(topic_scan(), topic_of({"id": 1, "_hoodie_is_deleted": "true"}))
    with pytest.raises(UndecodableRecord, match="a delete: there is no key"):
        read_all(topic_scan(), topic_of({"_hoodie_is_deleted": True}))


def test_value_that_the_tables_own_marker_says_is_deleted() -> None:
    scan = replace(topic_scan(columns=("id", "_change_type")), delete_marker=DeleteMarker("city", "gone"))
    rows = rows_of(read_all(scan, topic_of({"id": 1, "city": "gone"}, {"id": 2, "city": "here"})))
    assert [row["_change_type"] for row in rows] == ["-D", "+U"]


def test_append_read_drops_deletes_and_counts_them() -> None:
    tally = SplitTally()
    topic = topic_of(order(1), None, {"id": 2, "_hoodie_is_deleted": True}, order(3))
    (batch,) = read_all(topic_scan(mode=APPEND, columns=("id",)), topic, tally=tally)
    assert rows_of([batch]) == [{"id": 1}, {"id": 3}]
    assert batch.kept is not None
    assert (batch.first_ordinal, batch.next_ordinal, batch.kept.tolist()) == (0, 4, [0, 3])
    assert dict(tally.report().counts) == {"kafka_records": 4, "kafka_deletes_dropped": 2}


def test_ordinals_are_offsets_from_the_first_and_gaps_are_like_filtered_rows() -> None:
    records = {offset: (None, b'{"id": %d}' % offset) for offset in (103, 104, 107, 110, 111)}
    split = topic_split(100, 120, partition=3)
    scan = topic_scan(columns=("id", "_change_seq"))
    batches = read_all(scan, FakeTopic(records), split=split, batch_rows=2)
    assert [(b.first_ordinal, b.next_ordinal, b.ordinals().tolist()) for b in batches] == [
        (0, 5, [3, 4]),
        (5, 11, [7, 10]),
        (11, 20, [11]),
    ]
    assert batches[0].batch.column(1).to_pylist()[0] == f"99{103:022d}.{3:018d}.1"
    for start in range(21):
        rest = read_all(scan, FakeTopic(records), split=split, start=start)
        expected = [offset for offset in records if offset >= 100 + start]
        assert [row["id"] for row in rows_of(rest)] == expected
        assert all(b.first_ordinal >= start for b in rest)
        assert not rest or rest[-1].next_ordinal == 20
    with pytest.raises(ConfigurationError, match="has 20 offsets"):
        read_all(scan, FakeTopic(records), split=split, start=21)


def test_all_kept_is_said_by_none() -> None:
    (batch,) = read_all(topic_scan(), topic_of(order(1), order(2), first=5), split=topic_split(5, 7))
    assert batch.kept is None
    assert batch.ordinals().tolist() == [0, 1]


def test_empty_range_yields_nothing_and_closes_its_source() -> None:
    topic = FakeTopic()
    assert read_all(topic_scan(), topic, split=topic_split(5, 50)) == []
    assert read_all(topic_scan(where="id = 3"), topic_of(order(1), order(2))) == []
    assert topic.closed == 1


def test_closing_a_read_closes_its_source() -> None:
    topic = topic_of(*(order(number) for number in range(10)))
    split = topic_split(0, 10)
    reading = TopicReading(records=topic)
    batches = read_split(topic_scan(), split, options=ReadOptions(batch_rows=2), topics=reading)
    next(batches)
    batches.close()
    assert topic.closed == 1


def test_filters_columns_and_event_time_see_the_finished_row() -> None:
    scan = topic_scan(columns=("city",), where="_change_type = '-D' OR id > 2")
    tally = SplitTally(event_time="ts")
    topic = topic_of(order(1), order(3), None, order(4, ts=1_800_000_000_000_000), keys=[None, None, b"9"])
    (batch,) = read_all(scan, topic, tally=tally)
    assert batch.batch.to_pydict() == {"city": ["c3", None, "c4"]}
    assert batch.ordinals().tolist() == [1, 2, 3]
    assert tally.report().max_event_time_us == 1_800_000_000_000_000
    assert tally.report().rows == 3


def test_expired_offsets_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Also if their chunk is returned in pieces, or has no records."""
    removed = replace(chunk_of({}, 5), lost=5)
    big = replace(
        chunk_of({at: (None, json.dumps(order(at) | {"city": "x" * BATCH_BYTES}).encode()) for at in (6, 7)}, 9), lost=1
    )

    class Expired(FakeTopic):
        def read(self, kafka_range: KafkaRange, first: int, chunk_rows: int) -> Generator[RecordChunk, None, None]:
            yield from (removed, big)

    tally = SplitTally()
    batches = read_all(topic_scan(), Expired(), split=topic_split(0, 9), tally=tally)
    assert [(item.next_ordinal, item.batch.num_rows) for item in batches] == [(7, 1), (9, 1)]
    assert dict(tally.report().counts) == {"kafka_records": 2, "kafka_lost": 6}
    assert "topic orders, partition 0: retention took 5 of the offsets below 5 before they were read" in caplog.text


def test_split_of_a_topic_needs_access_and_a_valid_start() -> None:
    with pytest.raises(ConfigurationError, match="the reader has no access to Kafka"):
        read_split(topic_scan(), topic_split())
    with pytest.raises(ConfigurationError, match="no column nope"):
        read_all(topic_scan(columns=("nope",)), topic_of())
    with pytest.raises(ConfigurationError, match="no column nope"):
        output_schema(topic_scan(columns=("nope",)))
    with pytest.raises(InvariantViolation):
        read_all(replace(topic_scan(), topic=None), topic_of())


def test_source_that_returns_earlier_offsets_violates_an_invariant() -> None:
    class Wrong(FakeTopic):
        def read(self, expected, first, chunk_rows):  # type: ignore[no-untyped-def]
            yield from super().read(expected, max(first - 1, 0), chunk_rows)

    topic = Wrong(topic_of(order(1), order(2), order(3)).records)
    assert len(rows_of(read_all(topic_scan(), topic))) == 3
    with pytest.raises(InvariantViolation):
        read_all(topic_scan(), topic, start=2)


def test_large_chunks_are_read_in_pieces_of_bounded_size() -> None:
    topic = topic_of(*(order(number, city="x" * (6 << 20)) for number in range(5)))
    batches = read_all(topic_scan(columns=("id",)), topic)
    assert [b.batch.num_rows for b in batches] == [2, 2, 1]
    assert [b.next_ordinal for b in batches] == [2, 4, 5]
    assert isinstance(batches[0].batch, pa.RecordBatch)


def test_change_without_its_key_is_no_change() -> None:
    wrapped = {"schema": {}, "payload": order(1)}
    for value in ({"city": "a"}, {"id": None}, wrapped):
        with pytest.raises(UndecodableRecord, match="offset 1: value has no id, the table's record key"):
            read_all(topic_scan(), topic_of(order(1), value))
    several = topic_scan(key_fields=("id", "city"), columns=("id", "city"))
    rows = rows_of(read_all(several, topic_of({"id": 1}, {"city": "a"})))
    assert rows == [{"id": 1, "city": None}, {"id": None, "city": "a"}], "Hudi writes a null part of a key"
    with pytest.raises(UndecodableRecord, match="value has no id, city"):
        read_all(several, topic_of({"amount": 1}))
    keyless = topic_scan(key_fields=(), columns=("id",))
    assert rows_of(read_all(keyless, topic_of({"city": "a"}))) == [{"id": None}]


@pytest.mark.thorough
@pytest.mark.exhaustive
def test_chunks_of_wide_tables_have_fewer_records() -> None:
    request: list[int] = []

    class Asking(FakeTopic):
        def read(self, expected, first, chunk_rows):  # type: ignore[no-untyped-def]
            request.append(chunk_rows)
            yield from super().read(expected, first, chunk_rows)

    wide = [{"name": f"c{n}", "type": ["null", "int"]} for n in range(400)]
    topic = Asking(topic_of({"c1": 1}).records)
    read_all(topic_scan(*wide, key_fields=(), mode=APPEND), topic)
    read_all(topic_scan(*wide, key_fields=(), mode=APPEND, columns=("c1",)), topic)
    read_all(topic_scan(*wide, key_fields=(), mode=APPEND, columns=("c1",)), topic, batch_rows=10)
    assert request == [(1 << 20) // 401, 8192, 10]
