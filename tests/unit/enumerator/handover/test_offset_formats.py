"""Texts in which writers store offsets: each is parsed or refused with a named error."""

from __future__ import annotations

import json
import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.handover.offset_formats import (
    MAX_CHARS,
    NotKafka,
    SinkBatch,
    format_topics,
    parse_connect,
    parse_flink,
    parse_offset_log,
    parse_sink,
    parse_streamer,
    parse_topics,
)
from penstock.enumerator.handover.offsets import MAX_OFFSET, MAX_PARTITION, MAX_PARTITIONS, MalformedOffsets, OffsetMap
from penstock.proto.codec.hybrid.places_json import place_to_json
from penstock.proto.model.hybrid import KafkaPlace, PartitionPlace, Phase
from penstock.proto.model.positions import InstantTime, Position

TOPICS = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..")
)
NUMBERS = st.dictionaries(st.integers(0, MAX_PARTITION), st.integers(0, MAX_OFFSET), min_size=1, max_size=8)
PARSERS: list[Callable[[str], object]] = [
    parse_streamer,
    lambda text: parse_connect(text, "t"),
    parse_flink,
    parse_sink,
    parse_topics,
    parse_offset_log,
]


@given(TOPICS, NUMBERS)
def test_offset_map_is_equal_for_every_form_of_the_same_offsets(topic: str, result: dict[int, int]) -> None:
    expected = OffsetMap(topic, tuple(result.items()))
    pairs = list(result.items())
    assert parse_streamer(f"{topic}," + ",".join(f"{p}:{o}" for p, o in pairs)) == expected
    assert parse_streamer(f" {topic} , " + " , ".join(f"{p} : {o}" for p, o in pairs)) == expected
    assert parse_connect(",".join(f"{p}={o}" for p, o in pairs), topic) == expected
    entries = [f"kafka_metadata%3A{topic}%3A{p}:{o}" for p, o in pairs]
    cluster = f"kafka_metadata%3Akafka_cluster%3A{topic}%3A:west:9092"
    assert parse_flink(";".join(entries)) == expected
    assert parse_flink(";".join([*entries, cluster])) == expected
    assert parse_flink(";".join([cluster, *entries]) + ";") == expected
    as_json = json.dumps({topic: {str(p): o for p, o in pairs}})
    assert parse_topics(as_json) == (expected,)
    assert parse_topics(format_topics([expected])) == (expected,)
    assert parse_offset_log(f'v1\n{{"batchWatermarkMs":0}}\n-\n{{"logOffset":3}}\n{as_json}') == (expected,)


@given(st.one_of(st.text(), st.text('0123456789:,=;-{}"[] \nvkat%3A_.e', max_size=60)))
def test_arbitrary_text_is_parsed_or_refused(text: str) -> None:
    for parse in PARSERS:
        try:
            parse(text)
        except MalformedOffsets:
            continue


def test_offset_text_of_hudi_is_parsed() -> None:
    assert parse_streamer("bill.1.2.0,0:8,1:6") == OffsetMap("bill.1.2.0", ((0, 8), (1, 6)))
    assert parse_streamer("shop.eu_orders-v2,0:17,1:8") == OffsetMap("shop.eu_orders-v2", ((0, 17), (1, 8)))
    flink = (
        "kafka_metadata%3Atest-topic%3A0:100;kafka_metadata%3Atest-topic%3A1:200;"
        "kafka_metadata%3Atest-topic%3A2:300;kafka_metadata%3Akafka_cluster%3Atest-topic%3A:test-cluster"
    )
    assert parse_flink(flink) == OffsetMap("test-topic", ((0, 100), (1, 200), (2, 300)))
    assert parse_sink('{"default_single_writer":"2"}') == (SinkBatch("default_single_writer", 2),)


@pytest.mark.parametrize("text", ["1699999999000", "0", " 20261120215905690 "])
def test_bare_number_belongs_to_another_source(text: str) -> None:
    assert parse_streamer(text) == NotKafka()


@pytest.mark.parametrize("text", ["", " ", ";", "kafka_metadata%3Akafka_cluster%3Aorders%3A:cluster"])
def test_flink_text_may_lack_offsets(text: str) -> None:
    assert parse_flink(text) is None


def test_topic_may_have_the_name_of_the_cluster_entry() -> None:
    assert parse_flink("kafka_metadata%3Akafka_cluster%3A0:7") == OffsetMap("kafka_cluster", ((0, 7),))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "orders,",
        ",0:1",
        "orders,0",
        "orders,0:1,",
        "orders,0:1,0:1",
        "orders,0:1;1:2",
        "orders,0:-1",
        "orders,0:9223372036854775808",
        "orders,2147483648:0",
        "orders,0:1:2",
        "a,b,0:1",
        "or ders,0:1",
        '{"orders":{"0":1}}',
    ],
)
def test_streamer_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedOffsets):
        parse_streamer(text)


@pytest.mark.parametrize("text", ["", "0", "0:1", "0=1,0=2", "0=1,", "t,0=1", "0==1"])
def test_connect_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedOffsets):
        parse_connect(text, "t")


@pytest.mark.parametrize(
    "text",
    [
        "orders,0:1",
        "kafka_metadata%3A",
        "kafka_metadata%3Aorders:1",
        "kafka_metadata%3Aorders%3A0",
        "kafka_metadata%3Aorders%3A0:1;;",
        "kafka_metadata%3Aorders%3A0:1;kafka_metadata%3Aorders%3A0:2",
        "kafka_metadata%3Aorders%3A0:1;kafka_metadata%3Aother%3A1:2",
        "kafka_metadata%3Aor%3Aders%3A0:1",
    ],
)
def test_flink_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedOffsets):
        parse_flink(text)


@pytest.mark.parametrize(
    "text",
    ["", "2", "[]", "{}", '{"a":2}', '{"a":"-1"}', '{"a":"x"}', '{"":"1"}', '{"a":"1","a":"2"}', '{"a\\u0000":"1"}'],
)
def test_sink_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedOffsets):
        parse_sink(text)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "null",
        '{"t":{}}',
        '{"t":{"0":"1"}}',
        '{"t":{"0":1.0}}',
        '{"t":{"0":true}}',
        '{"t":{"0":-2}}',
        '{"t":{"0":NaN}}',
        '{"t":{"0":1,"0":1}}',
        '{"t":{"0":1},"t":{"1":1}}',
        '{"t":{"00":1}}',
        '{"t x":{"0":1}}',
        '{"t":{"0":' + "9" * 5000 + "}}",
        "[" * 100_000,
    ],
)
def test_topics_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedOffsets):
        parse_topics(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1",
        "v1\n{}",
        'v2\n{}\n{"t":{"0":1}}',
        'v1\n\n{"t":{"0":1}}',
        'v1\n{}\n{"t":{"0":1}}\n{"t":{"1":1}}',
        'v1\n{}\n{"t":{"0":1}',
        'v1\n{}\n{"t":{"0":"1"}}',
        'v1\n{}\n{"t":{}}',
    ],
)
def test_offset_log_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedOffsets):
        parse_offset_log(text)


def test_offset_log_may_have_several_sources_and_topics() -> None:
    text = 'v1\n{}\n{"b":{"1":2},"a":{"0":1}}\n7\n{"shard":{"part-0":{}}}\n{"c":{"0":0}}\n'
    assert [item.topic for item in parse_offset_log(text)] == ["a", "b", "c"]
    assert parse_offset_log("v1\n{}\n7\n") == ()


def test_offset_log_of_a_hybrid_stream_has_its_topic_only_after_the_hand_over() -> None:
    place = KafkaPlace(
        phase=Phase.KAFKA,
        topic="orders",
        topic_id="",
        instant=InstantTime("20260101000000000"),
        lake=Position(InstantTime("20260101000000001"), 0),
        starts=((0, 4), (1, 9)),
        places=(PartitionPlace(0, 6, None, 0),),
    )

    def log_of(phase: str, kafka: object) -> str:
        return "v1\n{}\n" + json.dumps({"version": 3, "phase": phase, "kafka": kafka})

    assert parse_offset_log(log_of("kafka", place_to_json(place))) == (OffsetMap("orders", ((0, 6), (1, 9))),)
    assert parse_offset_log(log_of("switching", place_to_json(place))) == ()
    assert parse_offset_log(log_of("lake", None)) == ()
    with pytest.raises(MalformedOffsets, match="offset of a hybrid stream"):
        parse_offset_log(log_of("kafka", {"topic": "orders"}))


@pytest.mark.parametrize("parse", PARSERS)
def test_long_texts_are_refused_before_they_are_parsed(parse: Callable[[str], object]) -> None:
    with pytest.raises(MalformedOffsets, match="characters"):
        parse("1" * (MAX_CHARS + 1))


def test_too_many_partitions_are_refused() -> None:
    with pytest.raises(MalformedOffsets, match="partitions"):
        parse_streamer("t," + ",".join(f"{p}:0" for p in range(MAX_PARTITIONS + 1)))
