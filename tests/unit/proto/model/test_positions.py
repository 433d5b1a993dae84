"""Instant times, positions and ranges: order, bounds, refusals."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import EARLIEST, WHOLE_INSTANT, CommitRange, InstantTime, Position

instants = st.from_regex(r"[0-9]{1,24}", fullmatch=True).map(InstantTime)
positions = st.builds(Position, instants, st.integers(0, WHOLE_INSTANT))


@pytest.mark.parametrize("text", ["", "x", "2026-01-01", "1" * 25, " 1", "1\n", "-1", "٣", "20260101.bootstrap"])
def test_invalid_instants_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not an instant"):
        InstantTime(text)


def test_instants_compare_as_text_so_seconds_stand_before_their_milliseconds() -> None:
    assert InstantTime("20260101000000") < InstantTime("20260101000000000") < InstantTime("20260101000001")


@given(instants)
def test_instant_is_its_text_and_survives_pickling(instant: InstantTime) -> None:
    assert InstantTime(str(instant)) == instant == pickle.loads(pickle.dumps(instant))


@given(positions, positions)
def test_positions_order_by_key_then_index(one: Position, other: Position) -> None:
    assert (one < other) == ((one.order_key, one.index) < (other.order_key, other.index))
    assert (one == other) == ((one.order_key, one.index) == (other.order_key, other.index))


@given(positions, instants)
def test_what_is_consumed_of_an_instant_at_a_position(position: Position, other: InstantTime) -> None:
    for key in (other, position.order_key):
        assert position.touches(key) == (Position(key, 0) < position)
        assert position.holds(key) == (Position(key) <= position)


@given(positions)
def test_nothing_but_zeros_is_before_the_earliest(position: Position) -> None:
    assert position >= EARLIEST or set(position.order_key) == {"0"}


def test_position_takes_plain_text_and_checks_it() -> None:
    assert isinstance(Position("20260101").order_key, InstantTime)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="not an instant"):
        Position("yesterday")  # type: ignore[arg-type]


@pytest.mark.parametrize("index", [-1, WHOLE_INSTANT + 1])
def test_index_outside_an_instant_is_refused(index: int) -> None:
    with pytest.raises(ConfigurationError, match=f"position index {index}"):
        Position(InstantTime("1"), index)


def test_position_shows_its_index_only_inside_an_instant() -> None:
    assert str(Position(InstantTime("5"))) == "5"
    assert str(Position(InstantTime("5"), 3)) == "5+3"


@given(positions, positions)
def test_range_never_ends_before_it_starts(one: Position, other: Position) -> None:
    assert CommitRange(min(one, other), max(one, other))
    if one != other:
        with pytest.raises(ConfigurationError, match="ends before it starts"):
            CommitRange(max(one, other), min(one, other))


def test_range_is_open_at_its_start_and_closed_at_its_end() -> None:
    span = CommitRange(Position(InstantTime("10")), Position(InstantTime("30")))
    assert [key for key in ("10", "11", "20", "30", "31") if span.holds(key)] == ["11", "20", "30"]


def test_equal_ends_are_an_empty_range() -> None:
    here = Position(InstantTime("10"))
    assert not CommitRange(here, here).holds("10")


def test_range_touches_the_instants_that_its_ends_lie_inside() -> None:
    inside = CommitRange(Position(InstantTime("10"), 2), Position(InstantTime("30"), 1))
    assert [key for key in ("09", "10", "20", "30", "31") if inside.touches(key)] == ["10", "20", "30"]
    whole = CommitRange(Position(InstantTime("10")), Position(InstantTime("30"), 0))
    assert [key for key in ("10", "20", "30") if whole.touches(key)] == ["20"]


def test_earliest_is_all_zeros() -> None:
    assert EARLIEST.is_earliest and Position(InstantTime("000"), 3).is_earliest
    assert not Position(InstantTime("001"), 0).is_earliest
