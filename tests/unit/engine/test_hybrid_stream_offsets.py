"""Offsets of hybrid streams: their frozen texts, the digest of their scope, and the texts that are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.stream_offsets import ScopeId, continued, is_offset, offset_of, point_of, scope_id
from penstock.proto.errors import ConfigurationError, InvariantViolation, StateVersionError
from penstock.proto.model.hybrid import (
    HandOverRules,
    Hybrid,
    HybridMode,
    KafkaAccess,
    KafkaPlace,
    KafkaRange,
    PartitionPlace,
    Phase,
    ValueFormat,
)
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.streams import (
    NoBatch,
    Progress,
    StreamPoint,
    TopicBatch,
    Watermark,
)
from tests.unit.engine.test_stream_offsets import (
    COMMITS,
    HERE,
    POINTS,
    SCOPE,
    SNAPSHOT,
    VERSION_1,
    instant_times,
    instants,
    points,
    times,
)
from tests.unit.engine.test_stream_offsets import TestDigest as Digest

HYBRID_SCOPE = ScopeId("00112233445566ff", is_hybrid=True)


LAKE = (
    '{"version": 3, "scope": "hybrid-00112233445566ff", "upto": null, "order_key": "20261120213505364", '
    '"index": 2147483647, "layout": 1, "table_id": "", "consumed": [], "ahead": [], "snapshot": {"done": 5, '
    '"total": 9, "digest": "abc"}, "watermark_us": null, "high_us": null, "content": {"kind": "snapshot", "first": 2}, '
    '"ended": false, "phase": "lake", "kafka": null}'
)


SWITCHING = (
    '{"version": 3, "scope": "hybrid-00112233445566ff", "upto": null, "order_key": "990000000000000000000000", '
    '"index": 2147483647, "layout": 2, "table_id": "t", "consumed": ["20261120213501000"], "ahead": [], '
    '"snapshot": null, "watermark_us": 5, "high_us": 7, "content": {"kind": "none"}, "ended": false, '
    '"phase": "switching", "kafka": {"topic": "orders", "topic_id": "H0f_tVwXQEO4Zr8mSsgGAg", '
    '"instant": "20261120213501000", "lake": ["20261120213505364", 2147483647], "starts": [[0, 17], [3, 0]], '
    '"epochs": [[0, 2]], "places": [[0, 17, null, 0], [3, 0, null, 0]]}}'
)


KAFKA = (
    '{"version": 3, "scope": "hybrid-00112233445566ff", "upto": null, "order_key": "990000000000000000000006", '
    '"index": 2147483647, "layout": 2, "table_id": "t", "consumed": ["20261120213501000"], "ahead": [], '
    '"snapshot": null, "watermark_us": 5, "high_us": 7, "content": {"kind": "topic", "ranges": [[0, 17, 20], '
    '[3, 0, 2]]}, "ended": false, "phase": "kafka", "kafka": {"topic": "orders", "topic_id": "H0f_tVwXQEO4Zr8mSsgGAg", '
    '"instant": "20261120213501000", "lake": ["20261120213505364", 2147483647], "starts": [[0, 17], [3, 0]], '
    '"epochs": [[0, 2]], "places": [[0, 20, 1700000000000000, 40], [3, 2, null, 0]]}}'
)


AT_SWITCH = KafkaPlace(
    phase=Phase.SWITCHING,
    topic="orders",
    topic_id="H0f_tVwXQEO4Zr8mSsgGAg",
    instant=InstantTime("20261120213501000"),
    lake=HERE,
    starts=((0, 17), (3, 0)),
    epochs=((0, 2),),
    places=(PartitionPlace(0, 17), PartitionPlace(3, 0)),
)


IN_TOPIC = replace(
    AT_SWITCH,
    phase=Phase.KAFKA,
    places=(PartitionPlace(0, 20, 1_700_000_000_000_000, 40), PartitionPlace(3, 2)),
)


def after_lake(place: KafkaPlace, *ranges: tuple[int, int, int]) -> StreamPoint:
    texts = tuple(
        KafkaRange(topic=place.topic, topic_id=place.topic_id, partition=partition, first=first, end=end)
        for partition, first, end in ranges
    )
    return StreamPoint(
        progress=Progress(place.position, 2, instants("20261120213501000"), table_id="t", kafka=place),
        watermark=Watermark(5, 7),
        content=TopicBatch(texts) if texts else NoBatch(),
    )


HYBRID_POINTS = {
    LAKE: POINTS[SNAPSHOT],
    SWITCHING: after_lake(AT_SWITCH),
    KAFKA: after_lake(IN_TOPIC, (0, 17, 20), (3, 0, 2)),
}


@st.composite
def hybrid_points(draw: st.DrawFn) -> StreamPoint:
    """Points in the table, at the hand-over and in the topic."""
    if draw(st.booleans()):
        return draw(points)
    starts = draw(st.dictionaries(st.integers(0, 9), st.integers(0, 9), max_size=3))
    read = {partition: draw(st.integers(0, 3)) for partition in starts}
    place = KafkaPlace(
        phase=draw(st.sampled_from(Phase)),
        topic=draw(st.sampled_from(["orders", "a.b-c_d"])),
        topic_id=draw(st.text(max_size=3)),
        instant=draw(instant_times),
        lake=draw(st.builds(Position, st.sampled_from([InstantTime("0"), InstantTime("20261120213501000")]))),
        starts=tuple(sorted(starts.items())),
        epochs=tuple(sorted(draw(st.dictionaries(st.integers(0, 9), st.integers(0, 3), max_size=2)).items())),
        places=tuple(
            PartitionPlace(item, starts[item] + read[item], draw(times), draw(st.integers(0, 3)))
            for item in sorted(starts)
        ),
    )
    ranges = [(item, starts[item], starts[item] + read[item]) for item in sorted(starts) if read[item]]
    return after_lake(place, *ranges if place.phase is Phase.KAFKA and draw(st.booleans()) else ())


@pytest.mark.parametrize("text", HYBRID_POINTS, ids=["lake", "switching", "kafka"])
def test_text_of_an_offset_of_a_hybrid_stream_is_frozen(text: str) -> None:
    """Checkpoints store this text: it must not change for version 3."""
    assert json.dumps(offset_of(HYBRID_POINTS[text], HYBRID_SCOPE)) == text
    assert point_of(json.loads(text), HYBRID_SCOPE) == HYBRID_POINTS[text]
    assert is_offset(json.loads(text))
    assert continued(json.loads(text), HYBRID_POINTS[text], None) == HYBRID_POINTS[text]


@given(hybrid_points())
def test_round_trip_of_a_hybrid_stream_through_json(point: StreamPoint) -> None:
    text = json.dumps(offset_of(point, HYBRID_SCOPE))
    assert point_of(json.loads(text), HYBRID_SCOPE) == point
    assert json.dumps(offset_of(point_of(json.loads(text), HYBRID_SCOPE), HYBRID_SCOPE)) == text


@given(hybrid_points(), hybrid_points())
def test_texts_of_a_hybrid_stream_are_equal_only_for_equal_points(one: StreamPoint, other: StreamPoint) -> None:
    texts = [json.dumps(offset_of(point, HYBRID_SCOPE)) for point in (one, other)]
    assert (texts[0] == texts[1]) == (one == other)


def test_hybrid_and_plain_streams_refuse_offsets_of_each_other() -> None:
    for text, scope in (
        (VERSION_1, HYBRID_SCOPE),
        (COMMITS, HYBRID_SCOPE),
        (LAKE, SCOPE),
        (KAFKA, SCOPE),
        (KAFKA, ScopeId("ffeeddccbbaa9988", is_hybrid=True)),
    ):
        with pytest.raises(ConfigurationError, match="nor hybrid, its topic and how values are written there"):
            point_of(json.loads(text), scope)


def test_plain_stream_has_no_topic_offsets() -> None:
    for point in (HYBRID_POINTS[SWITCHING], HYBRID_POINTS[KAFKA]):
        with pytest.raises(InvariantViolation, match="a stream that is not hybrid is in a topic"):
            offset_of(point, SCOPE)


def in_topic(**values: Any) -> dict[str, Any]:
    return {**json.loads(KAFKA), **values}


def at(**values: Any) -> dict[str, Any]:
    return in_topic(kafka={**json.loads(KAFKA)["kafka"], **values})


@pytest.mark.parametrize(
    "foreign",
    [
        {**json.loads(COMMITS), "scope": HYBRID_SCOPE.text},
        {**json.loads(COMMITS), "version": 3, "scope": HYBRID_SCOPE.text},
        in_topic(more=1),
        in_topic(version=2),
        in_topic(phase="lake"),
        in_topic(phase="switching"),
        in_topic(phase="over"),
        in_topic(phase=None),
        in_topic(kafka=None),
        in_topic(kafka=[]),
        in_topic(phase="lake", kafka=None),
        in_topic(order_key="990000000000000000000007"),
        in_topic(order_key="20261120213505364"),
        in_topic(index=0),
        in_topic(content={"kind": "topic"}),
        in_topic(content={"kind": "topic", "ranges": None}),
        in_topic(content={"kind": "topic", "ranges": [], "more": 1}),
        in_topic(content={"kind": "topic", "ranges": [[0, 17]]}),
        in_topic(content={"kind": "topic", "ranges": ["abc"]}),
        in_topic(content={"kind": "topic", "ranges": [[0, 17, "20"]]}),
        in_topic(content={"kind": "topic", "ranges": [[False, 17, 20]]}),
        in_topic(content={"kind": "topic", "ranges": [[0, 17, 17]]}),
        in_topic(content={"kind": "topic", "ranges": [[0, -1, 17]]}),
        in_topic(content={"kind": "topic", "ranges": [[0, 17, 21]]}),
        in_topic(content={"kind": "topic", "ranges": [[0, 17, 20], [0, 18, 20]]}),
        in_topic(content={"kind": "topic", "ranges": [[1, 0, 1]]}),
        at(more=1),
        at(topic="a/b"),
        at(topic=None),
        at(topic_id=7),
        at(topic_id="x" * 129),
        at(instant="now"),
        at(lake=["20261120213505364"]),
        at(lake=[20261120213505364, 1]),
        at(lake=["20261120213505364", -1]),
        at(lake=["990000000000000000000007", 2147483647]),
        at(starts={"0": 17}),
        at(starts=[[0, 17], [0, 0]]),
        at(starts=[[3, 0], [0, 17]]),
        at(starts=[[0, 17], [3, -1]]),
        at(starts=[[0, 17], [3, 0.0]]),
        at(starts=[[True, 17], [3, 0]]),
        at(epochs=[[0, 2**31]]),
        at(places=[[0, 16, None, 0], [3, 6, None, 0]]),
        at(places=[[0, 20, None], [3, 2, None]]),
        at(places=[[0, 20, 2**63, 0], [3, 2, None, 0]]),
        at(places=[[0, 20, "1", 0], [3, 2, None, 0]]),
        at(places=[[0, 2**63, None, 0], [3, 2, None, 0]]),
        at(places=[[0, 20, None, -1], [3, 2, None, 0]]),
        at(places=[[0, 20, None, True], [3, 2, None, 0]]),
        at(behind=40),
    ],
)
def test_text_that_is_not_a_hybrid_offset_is_refused(foreign: dict[str, object]) -> None:
    assert point_of(in_topic(), HYBRID_SCOPE) == HYBRID_POINTS[KAFKA]
    with pytest.raises((ConfigurationError, StateVersionError)):
        point_of(foreign, HYBRID_SCOPE)


class TestHybridDigest:
    """The scope that a checkpoint of a hybrid stream fixes."""

    hybrid = Hybrid(mode=HybridMode.CHANGELOG, topic="orders")
    scope = replace(Digest.scope, request=replace(Digest.request, hybrid=hybrid))

    def other(self, **change: Any) -> str:
        return scope_id(replace(self.scope, request=replace(self.scope.request, **change)))

    def test_digest_is_frozen(self) -> None:
        assert scope_id(self.scope).text == "hybrid-19c70aeac3b59d96"

    def test_digest_changes_with_the_scope(self) -> None:
        digests = [
            scope_id(Digest.scope),
            scope_id(self.scope),
            self.other(where="b > 2"),
            self.other(hybrid=replace(self.hybrid, mode=HybridMode.APPEND)),
            self.other(hybrid=replace(self.hybrid, topic="payments")),
            self.other(hybrid=replace(self.hybrid, value_format=ValueFormat.DEBEZIUM_JSON)),
        ]
        assert len(set(digests)) == len(digests)

    def test_digest_ignores_other_options(self) -> None:
        """The rules apply at the hand-over, and the checkpoint stores its result."""
        for change in (
            {"rules": HandOverRules(key="k", timestamp_ms=5)},
            {"fail_on_data_loss": False},
            {"access": KafkaAccess(client=(("bootstrap.servers", "b:9092"),))},
        ):
            assert self.other(hybrid=replace(self.hybrid, **change)) == scope_id(self.scope)
