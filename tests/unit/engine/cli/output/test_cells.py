"""Values as JSON and as text: exact, on one line, without terminal control characters."""

from __future__ import annotations

import datetime as dt
import decimal
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.cli.output.cells import json_values, text_values
from penstock.engine.cli.output.terminal_text import one_line, printable, width_of

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None, -(2**63)], pa.int64()), [1, None, -(2**63)]),
        (pa.array([True, None]), [True, None]),
        (pa.array(["ü", None, ""]), ["ü", None, ""]),
        (pa.array([1.5, float("nan"), float("inf"), float("-inf"), None]), [1.5, "NaN", "Infinity", "-Infinity", None]),
        (pa.array([b"\x00\xff", None], pa.binary()), ["AP8=", None]),
        (pa.array([b"ab"], pa.binary(2)), ["YWI="]),
        (pa.array([decimal.Decimal("0.00000001"), None], pa.decimal128(20, 8)), ["0.00000001", None]),
        (pa.array([decimal.Decimal("-12.50")], pa.decimal128(20, 2)), ["-12.50"]),
        (pa.array([dt.date(2026, 1, 31), None]), ["2026-01-31", None]),
        (pa.array([dt.time(1, 2, 3, 4)], pa.time64("us")), ["01:02:03.000004"]),
        (pa.array([0, None], pa.timestamp("us", "UTC")), ["1970-01-01T00:00:00.000000Z", None]),
        (pa.array([-1], pa.timestamp("us")), ["1969-12-31T23:59:59.999999"]),
        (pa.array([2**62], pa.timestamp("us", "UTC")), [str(2**62)]),
        (pa.array([2**31 - 1, 0, None], pa.date32()), [str(2**31 - 1), "1970-01-01", None]),
        (pa.array([None, None], pa.null()), [None, None]),
        (pa.array([[1, None], None, []], pa.list_(pa.int32())), [[1, None], None, []]),
        (
            pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int32())),
            [{"a": 1, "b": None}, None, {}],
        ),
        (
            pa.array(
                [{"x": {"y": [0]}}, None, {"x": None}], pa.struct([("x", pa.struct([("y", pa.list_(pa.date32()))]))])
            ),
            [{"x": {"y": ["1970-01-01"]}}, None, {"x": None}],
        ),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_json_values(array: pa.Array, expected: list[object]) -> None:
    cells = json_values(array)
    assert cells == expected
    assert json.loads(json.dumps(cells, allow_nan=False)) == expected
    for start in range(len(expected)):
        assert json_values(array.slice(start)) == expected[start:]


@given(st.lists(st.none() | st.integers(-(10**17), 10**17)))
def test_timestamps_are_exact(values: list[int | None]) -> None:
    for text, value in zip(json_values(pa.array(values, pa.timestamp("us", "UTC"))), values, strict=True):
        if value is None:
            assert text is None
            continue
        assert isinstance(text, str)
        if -62_135_596_800_000_000 <= value <= 253_402_300_799_999_999:
            assert (dt.datetime.fromisoformat(text) - EPOCH) // dt.timedelta(microseconds=1) == value


@given(
    st.lists(
        st.none() | st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**12), max_value=10**12)
    )
)
def test_decimals_are_exact(values: list[decimal.Decimal | None]) -> None:
    cells = json_values(pa.array(values, pa.decimal128(38, 6)))
    assert [None if text is None else decimal.Decimal(str(text)) for text in cells] == values
    assert not any("E" in str(text) for text in cells if text is not None)


@given(st.lists(st.text()))
def test_text_is_one_printable_line(values: list[str]) -> None:
    for text in text_values(pa.array(values, pa.string())):
        assert text.isprintable()


def test_text_values() -> None:
    assert text_values(pa.array(["a\nb\x1b[31m", None])) == ["a\\nb\\x1b[31m", "null"]
    assert text_values(pa.array([[{"a": 1}]])) == ['[{"a": 1}]']


def test_text_is_reduced_to_one_line() -> None:
    assert one_line("a\n  b\tc\x1b") == "a b c\\x1b"
    assert printable("\u202e") == "\\u202e"


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("é", 1), ("e\u0301", 1), ("", 0)])
def test_width_of_text(text: str, width: int) -> None:
    assert width_of(text) == width
