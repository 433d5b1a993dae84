"""Ranges of record keys: in the order of Java's strings."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import InvariantViolation
from penstock.table.parquet.key_range import by_utf_16, key_range, text_by_utf_16


@given(st.lists(st.text(max_size=4) | st.text("a\ud7ff\ue000\uffff😀\U0010ffff", max_size=4), min_size=1, max_size=9))
def test_range_is_by_utf_16_units(keys: list[str]) -> None:
    array = pa.array(["", *keys], pa.string()).slice(1)
    ordered = sorted(keys, key=lambda key: key.encode("utf-16-be"))
    assert key_range(array) == (ordered[0], ordered[-1])
    places = pc.sort_indices(by_utf_16(array)).to_pylist()
    assert [keys[place] for place in places] == ordered
    assert by_utf_16(array).to_pylist() == [text_by_utf_16(key) for key in keys]


def test_range_differs_from_that_of_utf_8() -> None:
    keys = ["\uffff", "😀"]
    assert key_range(pa.array(keys, pa.string())) == ("😀", "\uffff")
    assert min(keys) == "\uffff"


@pytest.mark.parametrize("keys", [[], ["a", None]])
def test_range_of_no_keys_is_refused(keys: list[str | None]) -> None:
    with pytest.raises(InvariantViolation):
        key_range(pa.array(keys, pa.string()))


def test_order_of_no_keys_is_empty() -> None:
    assert by_utf_16(pa.array([], pa.string())).to_pylist() == []
