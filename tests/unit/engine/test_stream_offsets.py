"""Spark's offsets: a fixed text, every version is readable, foreign offsets are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.stream_offsets import ScopeId, continued, is_offset, offset_of, point_of, scope_id
from penstock.proto.errors import ConfigurationError, StateVersionError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.positions import EARLIEST, WHOLE_INSTANT, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, RoundLimits
from penstock.proto.model.streams import (
    END_OF_TIME_US,
    CommitsBatch,
    EventTimeRule,
    NoBatch,
    Progress,
    SnapshotBatch,
    SnapshotPlace,
    StreamPoint,
    StreamScope,
    Watermark,
)

SCOPE = ScopeId("00112233445566ff", is_hybrid=False)


VERSION_1 = '{"version": 1, "order_key": "20261120213505364", "index": 2147483647}'


COMMITS = (
    '{"version": 2, "scope": "00112233445566ff", "upto": null, "order_key": "20261120213505364", "index": 3, '
    '"layout": 2, '
    '"table_id": "t", "consumed": ["20261120213501000", "20261120213502000"], "ahead": ["20261120213509000"], '
    '"snapshot": null, "watermark_us": 1700000000000000, "high_us": 1700000600000000, "content": {"kind": "commits", '
    '"order_key": "20261120213500000", "index": 2147483647, "without": ["20261120213509000"]}, "ended": false}'
)


SNAPSHOT = (
    '{"version": 2, "scope": "00112233445566ff", "upto": null, "order_key": "20261120213505364", '
    '"index": 2147483647, "layout": 1, '
    '"table_id": "", "consumed": [], "ahead": [], "snapshot": {"done": 5, "total": 9, "digest": "abc"}, '
    '"watermark_us": null, "high_us": null, "content": {"kind": "snapshot", "first": 2}, "ended": false}'
)


NOTHING = (
    '{"version": 2, "scope": "00112233445566ff", "upto": null, "order_key": "0", "index": 2147483647, '
    '"layout": 0, "table_id": "", '
    '"consumed": [], "ahead": [], "snapshot": null, "watermark_us": null, "high_us": null, "content": '
    '{"kind": "none"}, "ended": true}'
)


def instants(*digits: str) -> frozenset[InstantTime]:
    return frozenset(map(InstantTime, digits))


HERE = Position(InstantTime("20261120213505364"))


POINTS = {
    COMMITS: StreamPoint(
        progress=Progress(
            position=Position(InstantTime("20261120213505364"), 3),
            layout=2,
            consumed=instants("20261120213502000", "20261120213501000"),
            ahead=instants("20261120213509000"),
            table_id="t",
        ),
        watermark=Watermark(1_700_000_000_000_000, 1_700_000_600_000_000),
        content=CommitsBatch(Position(InstantTime("20261120213500000")), instants("20261120213509000")),
    ),
    SNAPSHOT: StreamPoint(
        progress=Progress(position=HERE, layout=1),
        snapshot=SnapshotPlace(done=5, total=9, digest="abc"),
        content=SnapshotBatch(2),
    ),
    NOTHING: StreamPoint(progress=Progress(EARLIEST), ended=True),
}


instant_times = st.from_regex(r"[0-9]{1,24}", fullmatch=True).map(InstantTime)


positions = st.builds(Position, instant_times, st.integers(0, WHOLE_INSTANT))


sets = st.frozensets(instant_times, max_size=4)


times = st.none() | st.integers(-(2**63), 2**63 - 1)


points = st.builds(
    StreamPoint,
    progress=st.builds(Progress, positions, st.integers(0, 2), sets, sets, st.text(max_size=5)),
    snapshot=st.none()
    | st.integers(0, 99).flatmap(
        lambda total: st.builds(
            SnapshotPlace, done=st.integers(0, total), total=st.just(total), digest=st.text(max_size=5)
        )
    ),
    watermark=st.builds(Watermark, times, times),
    content=st.one_of(
        st.just(NoBatch()), st.builds(CommitsBatch, positions, sets), st.builds(SnapshotBatch, st.integers(0, 99))
    ),
    ended=st.booleans(),
)


@pytest.mark.parametrize("text", POINTS, ids=["commits", "snapshot", "nothing"])
def test_text_of_an_offset_is_frozen(text: str) -> None:
    """Checkpoints store this text: it must not change for version 2."""
    assert json.dumps(offset_of(POINTS[text], SCOPE)) == text
    assert point_of(json.loads(text), SCOPE) == POINTS[text]


@pytest.mark.parametrize("text", ["00112233445566ff", "hybrid-00112233445566ff"])
def test_scope_id_is_stored_as_before(text: str) -> None:
    """Checkpoints of earlier releases contain this text."""
    scope = ScopeId.parse(text)
    assert (scope.digest, scope.is_hybrid) == ("00112233445566ff", text.startswith("hybrid-"))
    assert scope.text == text


def test_version_1_is_a_position_of_any_scope() -> None:
    for scope in (SCOPE, ScopeId("another", is_hybrid=False)):
        assert point_of(json.loads(VERSION_1), scope) == StreamPoint(progress=Progress(HERE))


@given(points)
def test_round_trip_through_json(point: StreamPoint) -> None:
    text = json.dumps(offset_of(point, SCOPE))
    assert point_of(json.loads(text), SCOPE) == point
    assert json.dumps(offset_of(point_of(json.loads(text), SCOPE), SCOPE)) == text


@given(points, points)
def test_texts_are_equal_only_for_equal_points(one: StreamPoint, other: StreamPoint) -> None:
    assert (json.dumps(offset_of(one, SCOPE)) == json.dumps(offset_of(other, SCOPE))) == (one == other)


def test_newer_version_is_refused_by_name() -> None:
    with pytest.raises(StateVersionError, match="version 4, this release of Penstock reads 1 to 3"):
        point_of({**json.loads(COMMITS), "version": 4, "more": True}, SCOPE)


def test_checkpoint_of_another_scope_names_the_fixed_options() -> None:
    with pytest.raises(ConfigurationError, match="query, cdcFormat, eventTime, eventTimeUnit and where may not change"):
        point_of(json.loads(COMMITS), ScopeId("ffeeddccbbaa9988", is_hybrid=False))


LATER = Position(InstantTime("20271120213505364"))


@pytest.mark.parametrize("upto", [None, HERE])
def test_stream_continues_to_its_end(upto: Position | None) -> None:
    for point in POINTS.values():
        assert continued(offset_of(point, SCOPE, upto), point, upto) == point


def test_end_of_a_stream_may_not_change_before_it_is_reached() -> None:
    point = POINTS[COMMITS]
    for stored, now in ((LATER, None), (None, LATER), (LATER, HERE), (HERE, LATER)):
        with pytest.raises(ConfigurationError, match="the end may not change before it is reached, nor move back"):
            continued(offset_of(point, SCOPE, stored), point, now)
    assert continued(json.loads(VERSION_1), point, LATER) == point, "version 1 has no end"


def test_ended_stream_continues_to_a_later_end_unless_its_end_watermark_was_emitted() -> None:
    finite = replace(POINTS[COMMITS], ended=True)
    for now in (LATER, None):
        assert continued(offset_of(finite, SCOPE, HERE), finite, now) == POINTS[COMMITS]
    with pytest.raises(ConfigurationError, match="move back"):
        continued(offset_of(finite, SCOPE, LATER), finite, Position(InstantTime("20200101000000000")))
    spent = replace(finite, watermark=Watermark(END_OF_TIME_US, 5))
    with pytest.raises(ConfigurationError, match="endWatermark=DURATION"):
        continued(offset_of(spent, SCOPE, HERE), spent, LATER)


def changed(**values: Any) -> dict[str, Any]:
    return {**json.loads(COMMITS), **values}


@pytest.mark.parametrize(
    "foreign",
    [
        {},
        {"offset": 3},
        {"version": "1", "order_key": "1", "index": 0},
        {"version": True, "order_key": "1", "index": 0},
        {"version": 0, "order_key": "1", "index": 0},
        {"version": 1, "order_key": 1, "index": 0},
        {"version": 1, "order_key": "1", "index": "0"},
        {"version": 1, "order_key": "1"},
        {"version": 1, "order_key": "1", "index": 0, "more": 1},
        {"version": 1, "order_key": "not digits", "index": 0},
        {"version": 1, "order_key": "1", "index": -1},
        {"version": 1, "order_key": "1", "index": WHOLE_INSTANT + 1},
        {"version": 2, "order_key": "1", "index": 0},
        changed(more=1),
        {key: value for key, value in changed().items() if key != "ended"},
        changed(scope=7),
        changed(ended=0),
        changed(ended="false"),
        changed(layout=True),
        changed(layout=-1),
        changed(consumed="20261120213501000"),
        changed(consumed=[20261120213501000]),
        changed(consumed=["x"]),
        changed(ahead=None),
        changed(table_id=None),
        changed(watermark_us="1"),
        changed(watermark_us=1.0),
        changed(watermark_us=2**63),
        changed(snapshot=[]),
        changed(snapshot={"done": 1, "total": 2}),
        changed(snapshot={"done": 3, "total": 2, "digest": "d"}),
        changed(snapshot={"done": 1, "total": 2, "digest": "d", "more": 1}),
        changed(content=None),
        changed(content={"kind": "rows"}),
        changed(content={"kind": "none", "more": 1}),
        changed(content={"kind": "snapshot", "first": "1"}),
        changed(content={"kind": "commits", "order_key": "1", "index": 0}),
    ],
)
def test_text_that_is_not_an_offset_is_refused(foreign: dict[str, object]) -> None:
    with pytest.raises((ConfigurationError, StateVersionError)):
        point_of(foreign, SCOPE)


@pytest.mark.parametrize("foreign", [None, 7, "text", [1]])
def test_json_that_is_not_an_object_is_refused(foreign: object) -> None:
    with pytest.raises(ConfigurationError, match="not an offset of Penstock"):
        point_of(foreign, SCOPE)  # type: ignore[arg-type]
    assert not is_offset(foreign)


def test_offsets_of_penstock_are_recognized() -> None:
    assert is_offset(json.loads(COMMITS))
    assert not is_offset({"0": {"0": 17}})


class TestDigest:
    """The scope that a checkpoint fixes."""

    request = PlanRequest(table="t", query=Incremental(), columns=("a", "b"), event_time="a", where="b > 1")
    scope = StreamScope(request=request)

    def test_digest_is_frozen(self) -> None:
        """Checkpoints store the digest: another computation would refuse all of them."""
        assert scope_id(self.scope).text == "ca3fa9ee4bfa3a0b"

    @pytest.mark.parametrize(
        "change",
        [
            {"query": Changes(ChangeFormat.ROWS)},
            {"event_time": "b"},
            {"event_time": ""},
            {"event_time_unit": "ms"},
            {"where": "b > 2"},
        ],
    )
    def test_digest_changes_with_the_scope(self, change: dict[str, Any]) -> None:
        assert scope_id(replace(self.scope, request=replace(self.request, **change))) != scope_id(self.scope)

    def test_digest_differs_for_each_format_of_changes(self) -> None:
        requests = [replace(self.request, query=Changes(kind)) for kind in ChangeFormat]
        scopes = [replace(self.scope, request=request) for request in requests]
        scopes.append(self.scope)
        assert len({scope_id(scope) for scope in scopes}) == len(scopes)

    def test_digest_ignores_other_options(self) -> None:
        other = replace(
            self.scope,
            request=replace(self.request, columns=("a",), slots=7, metadata=False, skip_corrupt=True),
            limits=RoundLimits(max_rows=5),
            rule=EventTimeRule(max_out_of_orderness_us=7),
            target=HERE,
            upto=HERE,
            on_lost_range=OnLostRange.EARLIEST,
        )
        assert scope_id(other) == scope_id(self.scope)
