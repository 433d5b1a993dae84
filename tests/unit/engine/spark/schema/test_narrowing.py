"""Values of a widened column are restored exactly, or refused."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.spark.schema.narrowing import narrowed
from penstock.proto.errors import SchemaMismatch

D = decimal.Decimal
SHORT, LONG = pa.decimal128(10, 2), pa.decimal128(20, 4)


@pytest.mark.parametrize(
    ("values", "wide", "narrow", "expected"),
    [
        ([1, None, 2**31 - 1, -(2**31)], pa.int64(), pa.int32(), None),
        ([1.5, None, math.inf, -0.0], pa.float64(), pa.float32(), None),
        ([1.0, -3.0], pa.float64(), pa.int64(), [1, -3]),
        ([D("1.50"), None], LONG, SHORT, None),
        ([D("7.00"), None], SHORT, pa.int32(), [7, None]),
        (["2026-01-31", None], pa.string(), pa.date32(), [dt.date(2026, 1, 31), None]),
        ([dt.date(2026, 1, 31)], pa.date32(), pa.string(), ["2026-01-31"]),
        (["0.5", "1.0E10", None], pa.string(), pa.float32(), [0.5, 1e10, None]),
        (["0.1", "1.0E-5"], pa.string(), pa.float64(), [0.1, 1e-5]),
        (["7", "-1"], pa.string(), pa.int32(), [7, -1]),
        (["1.50", "1.5"], pa.string(), SHORT, [D("1.50"), D("1.50")]),
        ([b"abc", None], pa.binary(), pa.string(), ["abc", None]),
        (["abc", None], pa.string(), pa.binary(), [b"abc", None]),
        ([], pa.int64(), pa.int32(), []),
    ],
)
def test_values_that_fit_are_narrowed(
    values: list[object], wide: pa.DataType, narrow: pa.DataType, expected: list[object] | None
) -> None:
    actual = narrowed(pa.array(values, wide), narrow, "c", "t")
    assert actual.type == narrow
    assert actual.to_pylist() == (values if expected is None else expected)


@pytest.mark.parametrize(
    ("value", "wide", "narrow"),
    [
        (2**31, pa.int64(), pa.int32()),
        (0.123456789, pa.float64(), pa.float32()),
        (1 / 3, pa.float64(), pa.float32()),
        (1e300, pa.float64(), pa.float32()),
        (1.5, pa.float64(), pa.int64()),
        (math.nan, pa.float64(), pa.int64()),
        (2.0**63, pa.float64(), pa.int64()),
        (D("1.505"), LONG, SHORT),
        (D("123456789012.50"), LONG, SHORT),
        (D("7.50"), SHORT, pa.int32()),
        (D("9999999999.00"), LONG, pa.int32()),
        ("2026-1-31", pa.string(), pa.date32()),
        ("soon", pa.string(), pa.date32()),
        ("007", pa.string(), pa.int32()),
        ("7.5", pa.string(), pa.int32()),
        ("0.123456789", pa.string(), pa.float32()),
        ("1.505", pa.string(), SHORT),
        (b"\xff", pa.binary(), pa.string()),
        (D("123456789.1234"), LONG, pa.float32()),
        (D("0.123456789012345678"), pa.decimal128(38, 18), pa.float64()),
    ],
)
def test_value_that_does_not_fit_names_column_and_table(value: object, wide: pa.DataType, narrow: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch, match=r"table orders, column price: it was widened to .* new load\(\)"):
        narrowed(pa.array([None, value], wide), narrow, "price", "orders")


def test_floats_that_hudi_promoted_through_text() -> None:
    actual = narrowed(pa.array([0.1, 0.30000001192092896, None], pa.float64()), pa.float32(), "c", "t")
    assert actual.equals(pa.array([0.1, 0.3, None], pa.float32()))


def test_nan_stays_nan() -> None:
    (actual,) = narrowed(pa.array([math.nan], pa.float64()), pa.float32(), "c", "t").to_pylist()
    assert math.isnan(actual)


def test_structs_are_narrowed_field_by_field() -> None:
    wide = pa.array(
        [{"new": 1, "b": "x", "a": 1}, None, {"new": 2, "b": None, "a": None}, {"new": 3, "b": "y", "a": 5}],
        pa.struct([("new", pa.int32()), ("b", pa.string()), ("a", pa.int64())]),
    )
    narrow = pa.struct([("a", pa.int32()), ("b", pa.string())])
    expected = [{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 5, "b": "y"}]
    assert narrowed(wide, narrow, "c", "t").to_pylist() == expected
    assert narrowed(wide.slice(1), narrow, "c", "t").to_pylist() == expected[1:]
    too_large = pa.array([{"new": 1, "b": "x", "a": 2**40}], wide.type)
    with pytest.raises(SchemaMismatch, match=r"column c\.a"):
        narrowed(too_large, narrow, "c", "t")


@pytest.mark.parametrize(
    "inner",
    [pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32()), pa.null(), pa.bool_(), pa.timestamp("us", "UTC")],
    ids=str,
)
def test_struct_with_an_added_field_keeps_its_other_fields(inner: pa.DataType) -> None:
    was = pa.struct([("a", pa.int32()), ("l", inner)])
    wide = pa.array([{"a": 1, "l": None, "new": "x"}, None], pa.struct([*was, ("new", pa.string())]))
    assert narrowed(wide, was, "c", "t").equals(pa.array([{"a": 1, "l": None}, None], was))


@given(st.lists(st.none() | st.integers(-(10**6), 10**6)), st.sampled_from([4, 10]))
def test_floats_promoted_to_decimals_are_restored(parts: list[int | None], scale: int) -> None:
    texts = [None if part is None else str(D(part) / 10_000) for part in parts]
    for kind in (pa.float32(), pa.float64()):
        column = pa.array([None if text is None else float(text) for text in texts], kind)
        wide = pa.array([None if text is None else D(text) for text in texts], pa.decimal128(30, scale))
        assert narrowed(wide, kind, "c", "t").equals(column)


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)))
def test_integers_are_restored_from_every_promotion(values: list[int | None]) -> None:
    column = pa.array(values, pa.int32())
    for wide in (pa.int64(), pa.float64(), pa.string(), pa.decimal128(20, 2)):
        assert narrowed(column.cast(wide), pa.int32(), "c", "t").equals(column)


@given(st.lists(st.none() | st.floats(width=32, allow_nan=False)))
def test_floats_are_restored_from_every_promotion(values: list[float | None]) -> None:
    column = pa.array(values, pa.float32())
    for wide in (pa.float64(), pa.string()):
        assert narrowed(column.cast(wide), pa.float32(), "c", "t").equals(column)
