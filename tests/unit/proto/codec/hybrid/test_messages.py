"""Messages of hybrid reads that are refused, by the name of the field."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.codec import groups as groups
from penstock.proto.codec import plan_calls as calls
from penstock.proto.codec import streams as streams
from penstock.proto.codec.serialized import (
    decode_request,
    decode_scan,
    decode_split,
    encode_request,
    encode_split,
)
from penstock.proto.codec.splits import scan_to_message, split_to_message
from penstock.proto.errors import ConfigurationError, PenstockError
from penstock.proto.model.files import FileRef
from penstock.proto.model.hybrid import (
    MAX_OFFSET,
    HandOverRules,
    KafkaPlace,
    KafkaRange,
    PartitionPlace,
    Phase,
)
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import TopicRanges
from penstock.proto.model.splits import (
    Split,
)
from penstock.proto.model.streams import Progress, StreamPoint, TopicBatch
from penstock.proto.v1 import penstock_pb2 as pb
from tests.plan_bytes import decode_plan, encode_plan
from tests.unit.proto.codec.hybrid.hybrid_values import (
    HUGE,
    HYBRID,
    KEY,
    OTHER,
    PLACE,
    PLAN,
    POINT,
    RANGE,
    SCAN,
    SCOPE,
    SPLIT,
    wired,
)


def _many(entries: Any, count: int) -> None:
    entries.extend([entries[0]] * count)


BAD_HYBRIDS: dict[str, tuple[Callable[[pb.Hybrid], object], str]] = {
    "no mode": (lambda m: m.ClearField("mode"), r"`hybrid\.mode`: got '', expected changelog, append"),
    "mode": (lambda m: setattr(m, "mode", "upsert"), r"`hybrid\.mode`: got 'upsert'"),
    "no topic": (lambda m: m.ClearField("topic"), r"`hybrid\.topic`: got '', expected 1 to 249 of A-Z"),
    "long topic": (lambda m: setattr(m, "topic", "x" * 250), r"`hybrid\.topic`: got 'x{40}'"),
    "topic": (lambda m: setattr(m, "topic", "a/b"), r"`hybrid\.topic`: got 'a/b'"),
    "dots": (lambda m: setattr(m, "topic", ".."), r"`hybrid\.topic`: got '\.\.'"),
    "line end": (lambda m: setattr(m, "topic", "a\n"), r"`hybrid\.topic`"),
    "other letters": (lambda m: setattr(m, "topic", "ü"), r"`hybrid\.topic`"),
    "format": (lambda m: setattr(m, "value_format", "xml"), r"`hybrid\.value_format`: got 'xml', expected json, avro"),
    "no format": (lambda m: m.ClearField("value_format"), r"`hybrid\.value_format`: got ''"),
    "key": (lambda m: setattr(m.rules, "key", "x" * 1025), r"`hybrid\.rules\.key`: got 1025 characters"),
    "key format": (lambda m: setattr(m.rules, "key_format", "x" * 1025), r"`hybrid\.rules\.key_format`: got 1025"),
    "no folder": (lambda m: m.rules.checkpoints.add(writer="w"), r"`hybrid\.rules\.checkpoints\.folder`: got nothing"),
    "long folder": (
        lambda m: m.rules.checkpoints.add(folder="x" * 4097),
        r"`hybrid\.rules\.checkpoints\.folder`: got 4097",
    ),
    "writer": (
        lambda m: m.rules.checkpoints.add(folder="x", writer="x" * 1025),
        r"`hybrid\.rules\.checkpoints\.writer`: got 1025",
    ),
    "checkpoints": (lambda m: _many(m.rules.checkpoints, 1000), r"`hybrid\.rules\.checkpoints`: got 1001 entries"),
    "group": (lambda m: setattr(m.rules, "group", "x" * 1025), r"`hybrid\.rules\.group`: got 1025"),
    "time": (lambda m: setattr(m.rules, "timestamp_ms", HUGE), r"`hybrid\.rules\.timestamp_ms`: got 18446744073709551"),
    "offsets": (
        lambda m: setattr(m.rules, "starting_offsets", "x" * ((4 << 20) + 1)),
        r"`hybrid\.rules\.starting_offsets`: got 4194305 characters",
    ),
}


@pytest.mark.parametrize("case", BAD_HYBRIDS)
def test_invalid_hybrid_is_refused_by_field(case: str) -> None:
    damage, text = BAD_HYBRIDS[case]
    message = calls.request_to_message(SCOPE.request)
    assert calls.request_from_message(wired(message)) == SCOPE.request
    damage(message.hybrid)
    with pytest.raises(ConfigurationError, match=text):
        calls.request_from_message(wired(message))


BAD_RANGES: dict[str, tuple[Callable[[pb.KafkaRange], object], str]] = {
    "no topic": (lambda m: m.ClearField("topic"), r"\.topic`: got ''"),
    "topic": (lambda m: setattr(m, "topic", "../x"), r"\.topic`: got '\.\./x'"),
    "id": (lambda m: setattr(m, "topic_id", "x" * 129), r"\.topic_id`: got 129 characters"),
    "partition": (lambda m: setattr(m, "partition", 2**31), r"\.partition`: got 2147483648, expected 0 to 2147483647"),
    "first": (lambda m: setattr(m, "first", 2**63), r"\.first`: got 9223372036854775808"),
    "end": (lambda m: setattr(m, "end", HUGE), r"\.end`: got 18446744073709551615, expected 0 to 9223372036854775807"),
    "empty": (lambda m: setattr(m, "end", 3), r"`: got 3 to 3, expected a first offset below the end"),
    "backwards": (lambda m: setattr(m, "end", 2), r"`: got 3 to 2"),
}


@pytest.mark.parametrize("case", BAD_RANGES)
def test_invalid_range_is_refused_by_field_in_every_message(case: str) -> None:
    damage, message = BAD_RANGES[case]
    split = split_to_message(SPLIT)
    damage(split.kafka)
    with pytest.raises(ConfigurationError, match=f"split 'orders:0:3': field `kafka{message}"):
        decode_split(split.SerializeToString())
    request = calls.request_to_message(replace(SCOPE.request, query=TopicRanges((RANGE,))))
    request.topic_ranges.ranges[0].CopyFrom(split.kafka)
    with pytest.raises(ConfigurationError, match=f"field `topic_ranges{message}"):
        calls.request_from_message(wired(request))
    started = streams.started_to_message(POINT)
    started.point.topic.ranges[0].CopyFrom(split.kafka)
    with pytest.raises(ConfigurationError, match=rf"field `point\.topic{message}"):
        streams.started_from_message(wired(started))


BESIDE: dict[str, Callable[[pb.Split], object]] = {
    "base": lambda m: m.base.CopyFrom(pb.FileRef(path="x")),
    "log": lambda m: m.logs.add(path="x"),
    "base instant": lambda m: setattr(m, "base_instant", "1"),
    "row groups": lambda m: m.row_groups.CopyFrom(pb.RowGroupRun(first=0, end=1)),
    "changes": lambda m: m.changes.SetInParent(),
    "ancestry": lambda m: m.ancestry.SetInParent(),
    "left out": lambda m: m.left_out.SetInParent(),
}


@pytest.mark.parametrize("case", BESIDE)
def test_range_beside_files_is_refused(case: str) -> None:
    message = split_to_message(SPLIT)
    BESIDE[case](message)
    with pytest.raises(ConfigurationError, match="`kafka`: got files beside a range of a topic"):
        decode_split(message.SerializeToString())


FILE_SPLIT = Split(
    split_id="s", partition="", partition_values=(), file_group="f", order_key=KEY, base=FileRef("f.parquet", 1)
)


def test_range_of_a_topic_is_refused_as_an_origin() -> None:
    message = split_to_message(replace(SPLIT, part=replace(RANGE), base=None))
    outer = split_to_message(FILE_SPLIT)
    outer.ancestry.origins.add(service="1").slices.add().CopyFrom(message)
    with pytest.raises(ConfigurationError, match=r"`ancestry\.origins`: got a range of a topic"):
        decode_split(outer.SerializeToString())


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda m: setattr(m, "mode", "both"), r"`topic\.mode`: got 'both'"),
        (lambda m: setattr(m, "value_format", ""), r"`topic\.value_format`: got ''"),
        (lambda m: m.key_fields.append(""), r"`topic\.key_fields`: got nothing"),
        (lambda m: _many(m.key_fields, 1000), r"`topic\.key_fields`: got 1001 entries"),
    ],
)
def test_invalid_scan_of_a_topic_is_refused(damage: Callable[[pb.TopicRecords], object], text: str) -> None:
    message = scan_to_message(SCAN)
    damage(message.topic)
    with pytest.raises(ConfigurationError, match=text):
        decode_scan(message.SerializeToString())


def test_ranges_are_those_of_the_hybrid_of_their_request() -> None:
    request = calls.request_to_message(replace(SCOPE.request, query=TopicRanges((RANGE, OTHER))))
    for damage, text in (
        (lambda m: m.ClearField("hybrid"), "none unless the request is of a hybrid read"),
        (lambda m: setattr(m.hybrid, "topic", "payments"), "got topic orders, expected that of `hybrid`"),
        (lambda m: setattr(m.topic_ranges.ranges[1], "topic", "payments"), "got topics orders and payments"),
        (lambda m: setattr(m.topic_ranges.ranges[1], "topic_id", "new"), "expected one topic, with one id"),
        (lambda m: setattr(m.topic_ranges.ranges[1], "partition", 0), "got partition 0 from 0, expected 9 or more"),
    ):
        message = wired(request)
        damage(message)
        with pytest.raises(ConfigurationError, match=text):
            calls.request_from_message(message)


BAD_PLACES: dict[str, tuple[Callable[[pb.KafkaPlace], object], str]] = {
    "no phase": (lambda m: m.ClearField("phase"), r"`progress\.kafka\.phase`: got '', expected switching, kafka"),
    "phase": (lambda m: setattr(m, "phase", "lake"), r"`progress\.kafka\.phase`: got 'lake'"),
    "topic": (lambda m: setattr(m, "topic", ""), r"`progress\.kafka\.topic`: got ''"),
    "id": (lambda m: setattr(m, "topic_id", "x" * 129), r"`progress\.kafka\.topic_id`: got 129"),
    "instant": (lambda m: setattr(m, "instant", "now"), r"`progress\.kafka\.instant`: got 'now'"),
    "no lake": (lambda m: m.ClearField("lake"), r"`progress\.kafka\.lake`: got nothing"),
    "lake": (lambda m: setattr(m.lake, "index", 2**31), r"`progress\.kafka\.lake`: got 2147483648"),
    "lake after the hand-over": (
        lambda m: setattr(m.lake, "order_key", PLACE.position.order_key),
        r"`progress\.kafka\.lake`: got 99\d+, expected a position of the lake",
    ),
    "start": (lambda m: setattr(m.starts[0], "number", 2**63), r"`progress\.kafka\.starts`: got 9223372036854775808"),
    "partition": (lambda m: setattr(m.starts[1], "partition", 2**31), r"`progress\.kafka\.starts`: got 2147483648"),
    "twice": (lambda m: setattr(m.starts[1], "partition", 0), r"`progress\.kafka\.starts`: got partitions out of"),
    "too many": (lambda m: _many(m.starts, 100_000), r"`progress\.kafka\.starts`: got 100002 entries"),
    "epoch": (lambda m: setattr(m.epochs[0], "number", 2**31), r"`progress\.kafka\.epochs`: got 2147483648"),
    "epochs": (lambda m: m.epochs.add(partition=0, number=7), r"`progress\.kafka\.epochs`: got partitions out of"),
    "next": (lambda m: setattr(m.places[0], "next", HUGE), r"`progress\.kafka\.places`: got 18446744073709551615"),
    "before": (
        lambda m: setattr(m.places[0], "next", 2),
        r"`progress\.kafka\.places`: got partition 0 at offset 2, expected its start 3, or more",
    ),
    "order": (lambda m: setattr(m.places[0], "partition", 3), r"`progress\.kafka\.places`: got partitions out of"),
    "sum": (
        lambda m: (setattr(m.places[0], "next", MAX_OFFSET), setattr(m.places[1], "next", MAX_OFFSET)),
        r"`progress\.kafka\.places`: got 18446744073709551611",
    ),
    "behind": (lambda m: setattr(m.places[1], "behind", HUGE), r"`progress\.kafka\.places`: got 18446744073709551615"),
    "elsewhere": (
        lambda m: setattr(m.places[0], "next", 10),
        r"`progress\.position`: got 99\d+8, expected that of its",
    ),
    "not read": (lambda m: setattr(m, "phase", "switching"), r"`progress\.position`: got 99\d+8, expected .*7"),
}


@pytest.mark.parametrize("case", BAD_PLACES)
def test_invalid_place_is_refused_by_field(case: str) -> None:
    damage, text = BAD_PLACES[case]
    message = streams.asked_to_message(SCOPE, POINT)
    assert streams.asked_from_message(wired(message)) == (SCOPE, POINT)
    damage(message.point.progress.kafka)
    with pytest.raises(ConfigurationError, match=text):
        streams.asked_from_message(wired(message))


def test_batch_of_ranges_ends_at_its_point() -> None:
    switching = replace(PLACE, phase=Phase.SWITCHING)
    for progress, content, text in (
        (Progress(Position(KEY)), (RANGE,), "none unless the point is in one"),
        (Progress(switching.position, kafka=switching), (RANGE,), "none unless the point is in one"),
        (POINT.progress, (replace(RANGE, topic="payments"),), "got topic payments, expected the point's, orders"),
        (POINT.progress, (replace(RANGE, topic_id="old"),), "with its id"),
        (POINT.progress, (replace(RANGE, end=10),), "partition 0 to 10, expected only offsets before the point's"),
        (POINT.progress, (replace(RANGE, partition=1),), "partition 1 to 9, expected only offsets before the point's"),
        (POINT.progress, (RANGE, RANGE), "partition 0 from 3, expected 9 or more"),
    ):
        message = streams.started_to_message(StreamPoint(progress=progress, content=TopicBatch(content)))
        with pytest.raises(ConfigurationError, match=text):
            streams.started_from_message(wired(message))


@pytest.mark.parametrize(
    "place",
    [
        replace(PLACE, places=(PartitionPlace(0, 9, None, -1),)),
        replace(PLACE, starts=((-1, 3),)),
        replace(PLACE, epochs=((0, -1),)),
        replace(PLACE, places=(PartitionPlace(0, 9, 2**63),)),
        replace(PLACE, topic_id="\ud800"),
    ],
)
def test_place_that_no_message_can_hold_is_an_error_of_the_tree(place: KafkaPlace) -> None:
    point = StreamPoint(progress=Progress(Position(KEY), kafka=place))
    with pytest.raises(ConfigurationError, match="cannot be encoded"):
        streams.started_to_message(point)


@pytest.mark.parametrize("part", [replace(RANGE, first=-1), replace(RANGE, end=2**64), replace(RANGE, partition=-1)])
def test_range_that_no_message_can_hold_is_an_error_of_the_tree(part: KafkaRange) -> None:
    with pytest.raises(ConfigurationError, match="cannot be encoded"):
        encode_split(replace(SPLIT, part=part))
    with pytest.raises(ConfigurationError, match="cannot be encoded"):
        encode_request(replace(SCOPE.request, query=TopicRanges((part,))))


def test_time_that_no_message_can_hold_is_an_error_of_the_tree() -> None:
    hybrid = replace(HYBRID, rules=HandOverRules(timestamp_ms=-1))
    with pytest.raises(ConfigurationError, match="cannot be encoded"):
        encode_request(replace(SCOPE.request, hybrid=hybrid))


SEEDS: tuple[tuple[Callable[[bytes], object], bytes], ...] = (
    (decode_plan, encode_plan(PLAN)),
    (decode_request, encode_request(replace(SCOPE.request, query=TopicRanges((RANGE, OTHER))))),
    (
        lambda data: streams.asked_from_message(pb.NextBatchRequest.FromString(data)),
        streams.asked_to_message(SCOPE, POINT).SerializeToString(),
    ),
)


@pytest.mark.parametrize(("decode", "seed"), SEEDS)
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_mutated_bytes_give_a_value_or_an_error_of_the_tree(
    decode: Callable[[bytes], object], seed: bytes, data: st.DataObject
) -> None:
    raw = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PenstockError, DecodeError):
        decode(bytes(raw))
