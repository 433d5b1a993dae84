"""The record of readers that hold the cleaner, in the metadata of cleans: both ways, and texts of other writers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.timeline.services.recorded_holds import HOLDS, RecordedHold, encode_holds, parse_holds

HELD = (
    RecordedHold(kind="group", name="billing", commits=200),
    RecordedHold(kind="checkpoint", name="/checkpoints/ü", seconds=172_800.5),
)


def test_record_is_decoded_as_it_was_encoded() -> None:
    (text,) = encode_holds(HELD).values()
    assert parse_holds(text) == HELD and [*encode_holds(HELD)] == [HOLDS]
    assert encode_holds(()) == {} and parse_holds("") == ()


@pytest.mark.parametrize(
    "item",
    [
        None,
        [],
        {"kind": "group", "name": "g"},
        {"kind": "group", "name": 1, "commits": 1},
        {"kind": "group", "name": "g", "commits": True},
        {"kind": "group", "name": "g", "commits": 0},
        {"kind": "group", "name": "g", "seconds": -1},
        {"kind": "group", "name": "g", "seconds": 1e300},
        {"kind": "group", "name": "g" * 4097, "seconds": 1},
    ],
)
def test_item_of_another_form_is_left_out(item: object) -> None:
    good = {"kind": "group", "name": "good", "commits": 1}
    assert parse_holds(json.dumps([item, good])) == (RecordedHold(kind="group", name="good", commits=1),)


@pytest.mark.parametrize(
    "text", ["{", "{}", "1", "[" * 100_000, "[" + "1," * 200 + "1]", '["' + "x" * (1 << 20) + '"]']
)
def test_text_of_another_form_has_no_holds(text: str) -> None:
    assert parse_holds(text) == ()


@given(st.text())
def test_any_text_is_decoded_without_an_error(text: str) -> None:
    assert isinstance(parse_holds(text), tuple)
