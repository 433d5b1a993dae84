"""Spark's offsets: one fixed text, every version read, nothing foreign taken."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.spark.offsets import offset_of, position_of
from penstock.proto.errors import ConfigurationError, StateVersionError
from penstock.proto.positions import EARLIEST, WHOLE_INSTANT, InstantTime, Position

positions = st.builds(
    Position, st.from_regex(r"[0-9]{1,24}", fullmatch=True).map(InstantTime), st.integers(0, WHOLE_INSTANT)
)


def test_text_of_an_offset_is_frozen() -> None:
    """Checkpoints keep this text: it may never change for version 1."""
    position = Position(InstantTime("20261120213505364"))
    text = '{"version": 1, "order_key": "20261120213505364", "index": 2147483647}'
    assert json.dumps(offset_of(position)) == text
    assert position_of(json.loads(text)) == position


def test_earliest() -> None:
    assert position_of(offset_of(EARLIEST)) == EARLIEST


@given(positions)
def test_round_trip_through_json(position: Position) -> None:
    text = json.dumps(offset_of(position))
    assert position_of(json.loads(text)) == position
    assert json.dumps(offset_of(position_of(json.loads(text)))) == text


@given(positions, positions)
def test_texts_are_equal_only_for_equal_positions(one: Position, other: Position) -> None:
    assert (json.dumps(offset_of(one)) == json.dumps(offset_of(other))) == (one == other)


def test_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(StateVersionError, match="version 2, this release of Penstock reads 1 to 1"):
        position_of({"version": 2, "order_key": "1", "index": 0, "more": True})


@pytest.mark.parametrize(
    "foreign",
    [
        {},
        {"offset": 3},
        {"version": "1", "order_key": "1", "index": 0},
        {"version": True, "order_key": "1", "index": 0},
        {"version": 1, "order_key": 1, "index": 0},
        {"version": 1, "order_key": "1", "index": "0"},
        {"version": 1, "order_key": "1"},
        {"version": 1, "order_key": "1", "index": 0, "more": 1},
        {"version": 1, "order_key": "not digits", "index": 0},
        {"version": 1, "order_key": "1", "index": -1},
        {"version": 1, "order_key": "1", "index": WHOLE_INSTANT + 1},
    ],
)
def test_what_is_no_offset_of_ours_is_refused(foreign: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        position_of(foreign)


@pytest.mark.parametrize("foreign", [None, 7, "text", [1]])
def test_what_is_no_object_is_refused(foreign: object) -> None:
    with pytest.raises(ConfigurationError, match="not an offset of Penstock"):
        position_of(foreign)  # type: ignore[arg-type]
