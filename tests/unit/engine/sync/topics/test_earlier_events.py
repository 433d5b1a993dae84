"""The events below a position: how many are read, and what is known of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from penstock.engine.sync.feed import NotReady
from penstock.engine.sync.topics.earlier_events import OFFSETS, EarlierEvents
from penstock.engine.sync.topics.position import TopicPosition
from penstock.proto.errors import PositionExpired, SchemaMismatch
from tests.unit.engine.sync.topics.tables_then_topics import EventTopic


def earlier(topic: EventTopic, *ends: int) -> EarlierEvents:
    at = TopicPosition(topic="t", topic_id="first", offsets=dict(enumerate(ends)))
    return EarlierEvents(topic, topic.feed().decoder, at, dict(topic.starts))


def names(known: TopicPosition) -> list[str]:
    return [one["name"] for one in json.loads(known.schema_json)["fields"]]


def tombstone(topic: EventTopic, offset: int) -> None:
    topic.put(0, {"id": 1}, offset=offset)
    topic.records[-1] = replace(topic.records[-1], value=None)


def test_last_events_of_each_partition_below_the_end() -> None:
    topic = EventTopic("t", most=400)
    for number in range(3 * OFFSETS):
        topic.put(0, {"id": number}, offset=number)
    topic.put(1, {"id": 1})
    topic.columns = {**topic.columns, "late": "string"}
    topic.put(1, {"id": 1})
    known = earlier(topic, 3 * OFFSETS, 1).read()
    assert names(known) == ["id", "p", "v"] and known.key is not None and known.key.names == ("id",)
    assert topic.lowest == {0: 2 * OFFSETS, 1: 0}
    assert names(earlier(topic, 0, 2).read()) == ["id", "p", "v", "late"]


def test_more_offsets_are_read_until_one_has_a_schema() -> None:
    topic = EventTopic("t", most=1_000)
    topic.put(0, {"id": 1}, offset=5 * OFFSETS)
    for number in range(10):
        tombstone(topic, 12 * OFFSETS - number - 1)
    topic.starts[0] = 7
    assert names(earlier(topic, 12 * OFFSETS).read()) == ["id", "p", "v"]
    assert topic.lowest == {0: 2 * OFFSETS}
    assert earlier(topic, 5 * OFFSETS).read().schema_json == ""
    assert topic.lowest == {0: 7}


def test_waiting_keeps_what_was_read() -> None:
    topic = EventTopic("t", most=2)
    for number in range(5):
        topic.put(0, {"id": number})
    topic.pending, reading = 2, earlier(topic, 5)
    for _ in range(2):
        with pytest.raises(NotReady):
            reading.read()
    assert names(reading.read()) == ["id", "p", "v"]


def test_partition_whose_rest_is_in_an_open_transaction_ends_there() -> None:
    topic = EventTopic("t")
    topic.put(0, {"id": 1})
    topic.ends[0] = 1
    assert names(earlier(topic, 9).read()) == ["id", "p", "v"]


def test_retention_that_moves_while_events_are_read_leaves_the_rest() -> None:
    topic = EventTopic("t")
    for number in range(5):
        topic.put(0, {"id": number})
    reading = earlier(topic, 5)
    topic.starts[0] = 3
    assert names(reading.read()) == ["id", "p", "v"]
    topic.starts[0] = 6
    known = replace(reading, known=replace(reading.known, schema_json=""))
    assert known.read().schema_json == ""


def test_retention_that_another_answer_does_not_show_is_an_error() -> None:
    topic: Any = EventTopic("t")
    topic.put(0, {"id": 1})
    reading = earlier(topic, 1)

    def expired(where: str) -> None:
        raise PositionExpired(where)

    topic.fault = expired
    with pytest.raises(PositionExpired):
        reading.read()


def versioned(topic: EventTopic, place: int, version: int) -> None:
    """Gives the key of a record another schema with the same columns."""
    key = json.loads(topic.records[place].key or b"")
    key["schema"]["version"] = version
    topic.records[place] = replace(topic.records[place], key=json.dumps(key).encode())


@pytest.mark.parametrize(
    ("versions", "is_known"),
    [({}, False), ({0: 2}, True), ({0: 2, 1: 2}, False), ({0: 1, 1: 2}, False), ({3: 2}, False), ({0: 2, 3: 3}, False)],
)
def test_key_schemas_may_change_and_the_last_one_counts_if_it_is_known(
    versions: dict[int, int], is_known: bool
) -> None:
    topic = EventTopic("t", most=1)
    for partition in (0, 0, 1, 1):
        topic.put(partition, {"id": partition})
    (before,) = topic.feed().decoder.described("t", 0, topic.fetch("t", {0: 1}).chunks[0])[0]  # type: ignore[union-attr]
    for place, version in versions.items():
        versioned(topic, place, version)
    if 3 in versions:
        topic.records[2] = replace(topic.records[2], key=topic.records[3].key)
    key = earlier(topic, 2, 2).read().key
    assert key is not None and key.names == ("id",) and bool(key.head) == is_known
    if versions == {0: 2}:
        assert key.head == before.head


def test_several_keys_and_other_types_are_refused() -> None:
    topic = EventTopic("t")
    topic.put(0, {"id": 1, "p": "a"})
    topic.key = ("id", "p")
    topic.put(1, {"id": 1, "p": "a"})
    with pytest.raises(SchemaMismatch, match=r"events had the key \(id\) and have \(id, p\)"):
        earlier(topic, 1, 1).read()
    topic.key = ("id",)
    topic.columns = {**topic.columns, "v": "boolean"}
    topic.put(2, {"id": 1, "p": "a"})
    with pytest.raises(SchemaMismatch, match="column v was int64 and is bool"):
        earlier(topic, 1, 0, 1).read()
