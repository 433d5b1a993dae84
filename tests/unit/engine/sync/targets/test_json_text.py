"""JSON of nested values, against the JSON of Python, value by value."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.sync.targets.json_text import has_json, json_text
from penstock.proto.errors import ConfigurationError

THREE = dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC)
NESTED = pa.struct(
    [
        ("n", pa.int64()),
        ('é"\\', pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.struct([("x", pa.bool_()), ("b", pa.binary())]))),
        ("f", pa.float64()),
    ]
)
VALUES = st.none() | st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        'é"\\': st.none() | st.lists(st.none() | st.text(), max_size=3),
        "m": st.none()
        | st.dictionaries(
            st.text(max_size=3),
            st.none() | st.fixed_dictionaries({"x": st.none() | st.booleans(), "b": st.none() | st.binary(max_size=4)}),
            max_size=2,
        ).map(lambda one: list(one.items())),
        "f": st.none() | st.floats(),
    }
)


def plain(value: Any) -> Any:
    """The value of which `json.dumps` gives the JSON."""
    if value is None:
        return None
    floats = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    entries = value["m"]
    return {
        "n": value["n"],
        'é"\\': value['é"\\'],
        "m": None
        if entries is None
        else {
            key: None if one is None else {"x": one["x"], "b": None if one["b"] is None else "\\x" + one["b"].hex()}
            for key, one in entries
        },
        "f": floats.get(str(value["f"]), value["f"]),
    }


@settings(max_examples=100, deadline=None)
@given(st.lists(VALUES, max_size=6), st.integers(0, 3), st.integers(0, 6))
def test_json_is_that_of_python(values: list[Any], skipped: int, length: int) -> None:
    array = pa.array(values, NESTED).slice(skipped, length)
    texts = json_text(array).to_pylist()
    expected = [None if one is None else plain(one) for one in values[skipped:][:length]]
    assert [None if one is None else json.loads(one) for one in texts] == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([dt.date(1, 1, 1), None]), ['"0001-01-01"', None]),
        (pa.array([dt.time(1, 2, 3, 4)], pa.time64("us")), ['"01:02:03.000004"']),
        (pa.array([THREE], pa.timestamp("us")), ['"2020-01-02T03:00:00.000000"']),
        (pa.array([THREE], pa.timestamp("us", "UTC")), ['"2020-01-02T03:00:00.000000Z"']),
        (pa.array([Decimal("-12.50")], pa.decimal128(5, 2)), ["-12.50"]),
        (pa.array([1.1], pa.float32()), ["1.1"]),
        (pa.array([{}, None], pa.struct([])), ["{}", None]),
        (pa.array([], pa.binary()), []),
    ],
    ids=str,
)  # fmt: skip
def test_single_values_have_their_text(values: pa.Array, expected: list[str | None]) -> None:
    assert json_text(values).to_pylist() == expected


@pytest.mark.parametrize("type_", [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")], ids=str)
def test_years_that_arrow_does_not_write_are_refused(type_: pa.DataType) -> None:
    number = pa.array([10**8 if type_ == pa.date32() else 2**62], pa.int32() if type_ == pa.date32() else pa.int64())
    with pytest.raises(ConfigurationError, match="years"):
        json_text(number.cast(type_))


@pytest.mark.parametrize(
    "type_",
    [pa.map_(pa.int32(), pa.int32()), pa.list_(pa.duration("s")), pa.struct([("a", pa.int8()), ("a", pa.int8())])],
)
def test_types_without_json_are_known(type_: pa.DataType) -> None:
    assert not has_json(type_)
