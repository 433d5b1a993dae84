"""Every value of streams survives the wire; what cannot be is refused by naming the field."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.codec import streams as streams
from penstock.proto.codec.checks import MAX_CONSUMED, MAX_REASON_CHARS
from penstock.proto.errors import ConfigurationError, PenstockError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.positions import WHOLE_INSTANT, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Query, ReadOptimized, RoundLimits, Snapshot
from penstock.proto.model.streams import (
    Alignment,
    CommitsBatch,
    EventTimeRule,
    NextBatch,
    NoBatch,
    Progress,
    SnapshotBatch,
    SnapshotPlace,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamPoint,
    StreamScope,
    StreamStart,
    Watermark,
    WatermarkFallback,
)
from penstock.proto.v1 import penstock_pb2 as pb

numbers = st.integers(0, 2**63 - 1)
times_us = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
instants = st.from_regex(r"[0-9]{1,24}", fullmatch=True).map(InstantTime)
instant_sets = st.frozensets(instants, max_size=4)
positions = st.builds(Position, instants, st.integers(0, WHOLE_INSTANT))
requests = st.builds(
    PlanRequest,
    table=words,
    query=st.builds(Incremental, positions, positions, instant_sets)
    | st.builds(Changes, st.sampled_from(ChangeFormat), positions),
    columns=st.lists(words, max_size=3).map(tuple),
    where=texts,
    event_time=texts,
    event_time_unit=st.sampled_from(["", "s", "ms", "us"]),
    scan_event_time=st.booleans(),
    of_stream=st.text(max_size=20),
    target_split_bytes=st.integers(1, 2**63 - 1),
)
scopes = st.builds(
    StreamScope,
    request=requests,
    limits=st.builds(RoundLimits, max_commits=numbers, max_files=numbers, max_bytes=numbers, max_rows=numbers),
    rule=st.none()
    | st.builds(
        EventTimeRule, max_out_of_orderness_us=numbers, fallback=st.sampled_from(WatermarkFallback), timezone=texts
    ),
    upto=st.none() | positions,
    target=st.none() | positions,
    on_lost_range=st.sampled_from(OnLostRange),
    end_watermark_us=st.none() | numbers,
    name=st.sampled_from(["", "orders-query"]),
    alignment=st.none()
    | st.builds(
        Alignment,
        set=st.sampled_from(["clicks", "a:b@c/d"]),
        max_drift_us=st.integers(1, 2**63 - 1),
        idle_timeout_us=st.none() | st.integers(1, 2**63 - 1),
    ),
)
starts = st.sampled_from([StartSnapshot(), StartLatest()]) | st.builds(StartAfter, positions)
progresses = st.builds(
    Progress,
    position=positions,
    layout=st.integers(0, 2),
    consumed=instant_sets,
    ahead=instant_sets,
    table_id=texts,
)
watermarks = st.builds(Watermark, st.none() | times_us, st.none() | times_us)
digests = st.from_regex(r"[0-9a-f]{1,128}", fullmatch=True)


@st.composite
def points(draw: st.DrawFn) -> StreamPoint:
    """A point between two batches of any content, inside a snapshot or after it."""
    total = draw(st.integers(0, 2_000_000))
    done = draw(st.integers(0, total))
    place = draw(st.none() | st.builds(SnapshotPlace, done=st.just(done), total=st.just(total), digest=digests))
    contents = st.just(NoBatch()) | st.builds(CommitsBatch, positions, instant_sets)
    if place is not None:
        contents |= st.builds(SnapshotBatch, st.integers(0, done))
    return StreamPoint(
        progress=draw(progresses),
        snapshot=place,
        watermark=draw(watermarks),
        content=draw(contents),
        ended=draw(st.booleans()),
    )


def wired(message: Any) -> Any:
    """The message as the other side parses it."""
    return type(message).FromString(message.SerializeToString())


@settings(max_examples=60, deadline=None)
@given(scopes, starts)
def test_start_round_trips(scope: StreamScope, start: StreamStart) -> None:
    assert streams.start_from_message(wired(streams.start_to_message(scope, start))) == (scope, start)


@settings(max_examples=60, deadline=None)
@given(points())
def test_where_a_stream_begins_round_trips(point: StreamPoint) -> None:
    assert streams.started_from_message(wired(streams.started_to_message(point))) == point


@settings(max_examples=60, deadline=None)
@given(scopes, points())
def test_request_for_a_batch_round_trips(scope: StreamScope, point: StreamPoint) -> None:
    assert streams.asked_from_message(wired(streams.asked_to_message(scope, point))) == (scope, point)


@settings(max_examples=60, deadline=None)
@given(st.builds(NextBatch, point=points(), schema_json=texts, lost=texts, held=st.booleans()))
def test_batch_round_trips(batch: NextBatch) -> None:
    assert streams.batch_from_message(wired(streams.batch_to_message(batch))) == batch


def test_equal_points_give_equal_bytes_whatever_the_order_of_their_sets() -> None:
    times = [InstantTime(f"202601010000{n:02}000") for n in range(40)]
    one, other = (
        replace(
            POINT,
            progress=Progress(Position(times[0]), consumed=frozenset(order), ahead=frozenset(order)),
            content=CommitsBatch(Position(times[0]), frozenset(order)),
        )
        for order in (times, times[::-1])
    )
    first, second = streams.started_to_message(one), streams.started_to_message(other)
    assert first.SerializeToString() == second.SerializeToString()
    assert list(first.point.progress.consumed) == list(first.point.commits.without) == times


def test_reason_that_is_too_long_is_cut_before_it_travels() -> None:
    batch = NextBatch(point=POINT, lost="ü" * (MAX_REASON_CHARS + 1))
    message = streams.batch_from_message(wired(streams.batch_to_message(batch)))
    assert message.lost == "ü" * MAX_REASON_CHARS


# --- refusals ---

KEY = InstantTime("20260101000000000")
SCOPE = StreamScope(
    request=PlanRequest(table="t", query=Incremental()),
    rule=EventTimeRule(max_out_of_orderness_us=5),
    upto=Position(KEY),
    target=Position(KEY),
    end_watermark_us=0,
)
POINT = StreamPoint(
    progress=Progress(Position(KEY), 2, frozenset({KEY}), frozenset({KEY}), "t"),
    snapshot=SnapshotPlace(done=3, total=5, digest="00ff"),
    watermark=Watermark(-1, 1),
    content=SnapshotBatch(1),
)
IN_COMMITS = replace(POINT, snapshot=None, content=CommitsBatch(Position(KEY), frozenset({KEY})))
HUGE = 2**64 - 1
"""What a negative number is on the wire."""

BAD_SCOPES: dict[str, tuple[Callable[[pb.StreamScope], object], str]] = {
    "no request": (lambda m: m.ClearField("request"), "`table`: got nothing"),
    "no query": (lambda m: m.request.ClearField("incremental"), "`query`: got no query kind"),
    "other query": (lambda m: m.request.snapshot.SetInParent(), r"`scope\.request\.query`: got Snapshot"),
    "part": (
        lambda m: m.request.snapshot_part.MergeFrom(pb.SnapshotPart(at=pb.Position(order_key="1"), digest="00")),
        r"`scope\.request\.query`: got SnapshotPart, expected incremental or changes",
    ),
    "limit": (lambda m: setattr(m.limits, "max_files", HUGE), r"`limits\.max_files`: got 18446744073709551615"),
    "lateness": (lambda m: setattr(m.rule, "max_out_of_orderness_us", HUGE), r"`scope\.rule\.max_out_of_orderness_us`"),
    "fallback": (
        lambda m: setattr(m.rule, "fallback", "guess"),
        r"`scope\.rule\.fallback`: got 'guess', expected scan, hold, commitTime",
    ),
    "no fallback": (lambda m: m.rule.ClearField("fallback"), r"`scope\.rule\.fallback`: got ''"),
    "zone": (lambda m: setattr(m.rule, "timezone", "x" * 1025), r"`scope\.rule\.timezone`: got 1025 characters"),
    "upto": (lambda m: setattr(m.upto, "order_key", "latest"), r"`scope\.upto`: got 'latest'"),
    "target": (lambda m: setattr(m.target, "index", 2**31), r"`scope\.target`: got 2147483648"),
    "lost range": (
        lambda m: setattr(m, "on_lost_range", "shrug"),
        r"`scope\.on_lost_range`: got 'shrug', expected fail, earliest, snapshot",
    ),
    "no lost range": (lambda m: m.ClearField("on_lost_range"), r"`scope\.on_lost_range`: got ''"),
    "name": (lambda m: setattr(m, "name", "<b>"), "stream '<b>': expected letters"),
    "long name": (lambda m: setattr(m, "name", "x" * 201), "201 characters, expected at most 200"),
    "set": (lambda m: m.alignment.MergeFrom(pb.Alignment(max_drift_us=1)), "alignment set: field"),
    "drift": (lambda m: m.alignment.MergeFrom(pb.Alignment(set="s")), "maxDrift: got 0 µs, expected more than 0"),
    "huge drift": (
        lambda m: m.alignment.MergeFrom(pb.Alignment(set="s", max_drift_us=HUGE)),
        r"`scope\.alignment\.max_drift_us`",
    ),
    "idle": (
        lambda m: m.alignment.MergeFrom(pb.Alignment(set="s", max_drift_us=1, idle_timeout_us=0)),
        "idleTimeout: got 0 µs",
    ),
    "end": (lambda m: setattr(m, "end_watermark_us", HUGE), r"`scope\.end_watermark_us`: got 18446744073709551615"),
}


@pytest.mark.parametrize("case", BAD_SCOPES)
def test_scope_that_cannot_be_is_refused_naming_the_field_by_both_calls(case: str) -> None:
    damage, message = BAD_SCOPES[case]
    start, request = streams.start_to_message(SCOPE, StartLatest()), streams.asked_to_message(SCOPE, POINT)
    assert streams.start_from_message(wired(start))[0] == streams.asked_from_message(wired(request))[0] == SCOPE
    damage(start.scope)
    damage(request.scope)
    with pytest.raises(ConfigurationError, match=message):
        streams.start_from_message(wired(start))
    with pytest.raises(ConfigurationError, match=message):
        streams.asked_from_message(wired(request))


TOO_MANY = [str(KEY)] * (MAX_CONSUMED + 1)
BAD_POINTS: dict[str, tuple[StreamPoint, Callable[[pb.StreamPoint], object], str]] = {
    "no progress": (POINT, lambda m: m.ClearField("progress"), r"`point\.progress`: got nothing"),
    "no position": (POINT, lambda m: m.progress.ClearField("position"), r"`progress\.position`: got nothing"),
    "position": (POINT, lambda m: setattr(m.progress.position, "order_key", "-1"), r"`progress\.position`: got '-1'"),
    "index": (POINT, lambda m: setattr(m.progress.position, "index", 2**31), r"`progress\.position`: got 2147483648"),
    "layout": (POINT, lambda m: setattr(m.progress, "layout", 2**31), r"`progress\.layout`: got 2147483648"),
    "consumed": (POINT, lambda m: m.progress.consumed.append("x"), r"`progress\.consumed`: got 'x', expected 1 to 24"),
    "oversized": (POINT, lambda m: m.progress.consumed.extend(TOO_MANY), r"`progress\.consumed`: got 500002 entries"),
    "ahead": (POINT, lambda m: m.progress.ahead.append("٣"), r"`progress\.ahead`: got '٣'"),
    "far ahead": (POINT, lambda m: m.progress.ahead.extend(TOO_MANY), r"`progress\.ahead`: got 500002 entries"),
    "table id": (POINT, lambda m: setattr(m.progress, "table_id", "x" * 1025), r"`progress\.table_id`: got 1025"),
    "done": (POINT, lambda m: setattr(m.snapshot, "done", 6), r"`point\.snapshot\.done`: got 6, expected 0 to 5"),
    "minus": (POINT, lambda m: setattr(m.snapshot, "done", 2**32 - 1), r"`point\.snapshot\.done`: got 4294967295"),
    "total": (POINT, lambda m: setattr(m.snapshot, "total", 2_000_001), r"`point\.snapshot\.total`: got 2000001"),
    "no digest": (POINT, lambda m: m.snapshot.ClearField("digest"), r"`point\.snapshot\.digest`: got ''"),
    "digest": (POINT, lambda m: setattr(m.snapshot, "digest", "0x00"), r"`point\.snapshot\.digest`: got '0x00'"),
    "long digest": (POINT, lambda m: setattr(m.snapshot, "digest", "0" * 4096), r"`point\.snapshot\.digest`"),
    "nowhere": (POINT, lambda m: m.ClearField("snapshot"), r"`point\.snapshot`: got nothing, expected the place"),
    "first": (POINT, lambda m: setattr(m.snapshot_batch, "first", 4), r"`point\.snapshot_batch\.first`: got 4"),
    "no content": (POINT, lambda m: m.ClearField("snapshot_batch"), r"`point\.content`: got no content that this"),
    "no after": (IN_COMMITS, lambda m: m.commits.ClearField("after"), r"`point\.commits\.after`: got nothing"),
    "after": (IN_COMMITS, lambda m: setattr(m.commits.after, "order_key", ""), r"`point\.commits\.after`: got ''"),
    "without": (IN_COMMITS, lambda m: m.commits.without.append("../x"), r"`point\.commits\.without`: got '\.\./x'"),
}


@pytest.mark.parametrize("case", BAD_POINTS)
def test_point_that_cannot_be_is_refused_naming_the_field_wherever_it_travels(case: str) -> None:
    point, damage, text = BAD_POINTS[case]
    request = streams.asked_to_message(SCOPE, point)
    started, batch = streams.started_to_message(point), streams.batch_to_message(NextBatch(point=point))
    assert streams.asked_from_message(wired(request))[1] == point
    damage(request.point)
    started.point.CopyFrom(request.point)
    batch.point.CopyFrom(request.point)
    for decode, message in (
        (streams.asked_from_message, request),
        (streams.started_from_message, started),
        (streams.batch_from_message, batch),
    ):
        with pytest.raises(ConfigurationError, match=text):
            decode(wired(message))


@pytest.mark.parametrize("message", [pb.StartStreamResponse(), pb.NextBatchResponse()])
def test_answer_without_a_point_is_none(message: Any) -> None:
    decode = streams.started_from_message if isinstance(message, pb.StartStreamResponse) else streams.batch_from_message
    with pytest.raises(ConfigurationError, match="`point`: got nothing"):
        decode(message)


def test_request_without_a_point_is_refused() -> None:
    message = streams.asked_to_message(SCOPE, POINT)
    message.ClearField("point")
    with pytest.raises(ConfigurationError, match="next batch: field `point`: got nothing"):
        streams.asked_from_message(message)


def test_there_is_no_start_by_default() -> None:
    message = streams.start_to_message(SCOPE, StartLatest())
    message.ClearField("start_newest")
    with pytest.raises(ConfigurationError, match="`start`: got no start that this build knows"):
        streams.start_from_message(message)


def test_reason_without_end_is_refused() -> None:
    message = streams.batch_to_message(NextBatch(point=POINT))
    message.lost = "x" * (MAX_REASON_CHARS + 1)
    with pytest.raises(ConfigurationError, match="`lost`: got 65537 characters"):
        streams.batch_from_message(message)


@pytest.mark.parametrize("query", [Snapshot(), ReadOptimized()])
def test_stream_of_another_query_is_refused(query: Query) -> None:
    scope = replace(SCOPE, request=PlanRequest(table="t", query=query))
    with pytest.raises(ConfigurationError, match=f"got {type(query).__name__}, expected incremental or changes"):
        streams.start_from_message(streams.start_to_message(scope, StartLatest()))


@pytest.mark.parametrize(
    "point",
    [
        replace(POINT, content=SnapshotBatch(-1)),
        replace(POINT, snapshot=SnapshotPlace(done=-1, total=1, digest="0")),
        replace(POINT, watermark=Watermark(2**63)),
        replace(POINT, progress=replace(POINT.progress, layout=-1)),
        replace(POINT, progress=replace(POINT.progress, table_id="\ud800")),
    ],
)
def test_point_that_no_message_can_hold_is_an_error_of_the_tree(point: StreamPoint) -> None:
    for encode in (
        lambda: streams.asked_to_message(SCOPE, point),
        lambda: streams.started_to_message(point),
        lambda: streams.batch_to_message(NextBatch(point=point)),
    ):
        with pytest.raises(ConfigurationError, match="cannot be encoded"):
            encode()


def test_scope_that_no_message_can_hold_is_an_error_of_the_tree() -> None:
    with pytest.raises(ConfigurationError, match="start of a stream of table 't' cannot be encoded"):
        streams.start_to_message(replace(SCOPE, end_watermark_us=-1), StartLatest())


DECODERS: tuple[tuple[Any, Callable[[Any], object]], ...] = (
    (pb.StartStreamRequest, streams.start_from_message),
    (pb.StartStreamResponse, streams.started_from_message),
    (pb.NextBatchRequest, streams.asked_from_message),
    (pb.NextBatchResponse, streams.batch_from_message),
)


@pytest.mark.parametrize(("kind", "decode"), DECODERS)
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_bytes_give_a_value_or_an_error_of_the_tree(
    kind: Any, decode: Callable[[Any], object], data: st.DataObject
) -> None:
    seeds = [
        streams.start_to_message(SCOPE, StartAfter(Position(KEY))).SerializeToString(),
        streams.asked_to_message(SCOPE, POINT).SerializeToString(),
        streams.batch_to_message(NextBatch(point=IN_COMMITS)).SerializeToString(),
    ]
    raw = bytearray(data.draw(st.binary(max_size=40) | st.sampled_from(seeds)))
    for _ in range(data.draw(st.integers(0, 4))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PenstockError, DecodeError):
        decode(kind.FromString(bytes(raw)))
