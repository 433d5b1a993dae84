"""Messages and bytes of hybrid reads: what is encoded comes back; settings of Kafka clients are never encoded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.codec import groups as groups
from penstock.proto.codec import streams as streams
from penstock.proto.codec.serialized import (
    decode_request,
    decode_scan,
    decode_split,
    encode_request,
    encode_scan,
    encode_split,
)
from penstock.proto.model.changes import ChangeFormat, ChangesOf
from penstock.proto.model.groups import GroupScope
from penstock.proto.model.hybrid import (
    MAX_OFFSET,
    Hybrid,
    KafkaAccess,
    KafkaRange,
    TopicRecords,
)
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, TopicRanges
from penstock.proto.model.splits import (
    AllRows,
    EventTimeBounds,
    NoEventTimes,
    UnknownBounds,
)
from penstock.proto.model.streams import NextBatch, Progress, StreamPoint, StreamScope
from tests.plan_bytes import decode_plan, encode_plan
from tests.unit.proto.codec.hybrid.hybrid_values import (
    HYBRID,
    PLACE,
    PLAN,
    SCAN,
    SCOPE,
    SPLIT,
    formats,
    hybrids,
    modes,
    points,
    ranges,
    texts,
    wired,
    words,
)


@given(hybrids, st.booleans())
def test_request_of_a_hybrid_read_round_trips_without_its_ranges_and_with(hybrid: Hybrid, changes: bool) -> None:
    query = Changes(ChangeFormat.ROWS) if changes else Incremental()
    request = PlanRequest(table="t", query=query, hybrid=hybrid)
    assert decode_request(encode_request(request)) == request
    scope = GroupScope(request=request)
    assert groups.scope_from_message("group", wired(groups.scope_to_message(scope))) == scope


@given(st.data(), hybrids)
def test_request_for_ranges_round_trips(data: st.DataObject, hybrid: Hybrid) -> None:
    one = data.draw(ranges(hybrid.topic))
    further = [replace(one, first=one.end, end=MAX_OFFSET)] if one.end < MAX_OFFSET else []
    other = replace(one, partition=(one.partition + 1) % 2**31)
    request = PlanRequest(table="t", query=TopicRanges((one, other, *further)), hybrid=hybrid)
    assert decode_request(encode_request(request)) == request


@given(ranges(), texts, st.sampled_from([UnknownBounds(), NoEventTimes(), EventTimeBounds(-3, 5)]))
def test_range_of_a_topic_round_trips_as_a_split(part: KafkaRange, partition: str, bounds: Any) -> None:
    split = replace(SPLIT, part=part, partition=partition, event_time=bounds)
    assert decode_split(encode_split(split)) == split


@given(
    st.builds(
        TopicRecords,
        mode=modes,
        value_format=formats,
        key_fields=st.lists(words, max_size=3).map(tuple),
        fail_on_data_loss=st.booleans(),
    )
)
def test_how_records_become_rows_round_trips(topic: TopicRecords) -> None:
    scan = replace(SCAN, topic=topic)
    assert decode_scan(encode_scan(scan)) == scan


@settings(max_examples=60, deadline=None)
@given(points())
def test_point_after_the_hand_over_round_trips(point: StreamPoint) -> None:
    assert streams.started_from_message(wired(streams.started_to_message(point))) == point
    assert streams.asked_from_message(wired(streams.asked_to_message(SCOPE, point))) == (SCOPE, point)
    batch = NextBatch(point=point)
    assert streams.batch_from_message(wired(streams.batch_to_message(batch))) == batch


@pytest.mark.parametrize("rows", [AllRows(), ChangesOf(ChangeFormat.ROWS, ())])
def test_plan_of_ranges_round_trips_in_both_shapes(rows: AllRows | ChangesOf) -> None:
    plan = replace(PLAN, scan=replace(SCAN, rows=rows))
    assert decode_plan(encode_plan(plan)) == plan


def test_settings_of_kafka_clients_are_in_no_bytes_and_in_no_text() -> None:
    access = KafkaAccess(
        client=(("sasl.password", "sEcReT-1"),), registry_url="http://u:sEcReT-2@registry", dead_letter="sEcReT-3"
    )
    request = PlanRequest(table="t", query=Incremental(), hybrid=replace(HYBRID, access=access))
    point = StreamPoint(progress=Progress(PLACE.position, kafka=PLACE))
    scope = StreamScope(request=request)
    sent = [
        encode_request(request),
        streams.asked_to_message(scope, point).SerializeToString(),
        groups.scope_to_message(GroupScope(request=request)).SerializeToString(),
    ]
    assert not any(b"sEcReT" in data for data in sent)
    assert "sEcReT" not in repr(request)
    back = decode_request(sent[0])
    assert back.hybrid is not None
    assert back.hybrid.access == KafkaAccess()
    assert back == request == replace(request, hybrid=HYBRID), "fields that are not sent are not compared"


def test_request_without_a_topic_has_the_same_bytes_as_before() -> None:
    request = PlanRequest(table="t", query=Incremental())
    hybrid = encode_request(replace(request, hybrid=HYBRID))
    assert hybrid.startswith(encode_request(request))
    assert b"orders" in hybrid
