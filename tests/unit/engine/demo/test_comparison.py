"""The comparison of rows in the demo and the interop suite."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from penstock.engine.demo.comparison import compare_rows


def table(*rows: tuple[object, ...], names: tuple[str, ...] = ("id", "v")) -> pa.Table:
    return pa.table({name: [row[number] for row in rows] for number, name in enumerate(names)})


def test_order_of_rows_and_columns_does_not_matter() -> None:
    assert compare_rows(table((1, "a"), (2, "b")), table(("b", 2), ("a", 1), names=("v", "id"))).is_empty


def test_duplicate_rows_are_compared_by_count() -> None:
    difference = compare_rows(table((1, "a"), (1, "a")), table((1, "a")))
    assert difference.unexpected == ((("id", 1), ("v", "a")),)
    assert difference.missing == ()


def test_missing_rows_are_named() -> None:
    difference = compare_rows(table((1, "a")), table((1, "a"), (2, "b"), (3, "c")))
    assert len(difference.missing) == 2
    assert "2 missing rows" in difference.text()
    assert "id=2" in difference.text()


def test_columns_on_one_side_are_a_difference_even_without_rows() -> None:
    actual = pa.table({"id": pa.array([], pa.int64())})
    expected = pa.table({"id": pa.array([], pa.int64()), "v": pa.array([], pa.string())})
    assert compare_rows(actual, expected).columns == ("v",)


AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        (pa.array([AT], pa.timestamp("us", "UTC")), pa.array([AT], pa.timestamp("us", "UTC")), True),
        (
            pa.array([AT], pa.timestamp("us", "UTC")).cast(pa.timestamp("us", "Asia/Tokyo")),
            pa.array([AT], pa.timestamp("us", "UTC")),
            True,
        ),
        (pa.array([AT.replace(tzinfo=None)], pa.timestamp("us")), pa.array([AT], pa.timestamp("us", "UTC")), False),
        (pa.array([decimal.Decimal("1.10")]), pa.array([decimal.Decimal("1.1")]), True),
        (pa.array([decimal.Decimal("1.11")]), pa.array([decimal.Decimal("1.1")]), False),
        (pa.array([float("nan")]), pa.array([float("nan")]), True),
        (pa.array([0.1]), pa.array([0.1000001]), False),
        (pa.array([None], pa.string()), pa.array([""]), False),
        (pa.array([[1, 2]]), pa.array([[2, 1]]), False),
        (pa.array([{"a": 1, "b": 2}]), pa.array([{"b": 2, "a": 1}]), True),
        (
            pa.array([[("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int32())),
            pa.array([[("b", 2), ("a", 1)]], pa.map_(pa.string(), pa.int32())),
            True,
        ),
    ],
)
def test_values_are_compared_by_meaning(actual: pa.Array, expected: pa.Array, same: bool) -> None:
    assert compare_rows(pa.table({"c": actual}), pa.table({"c": expected})).is_empty is same
