"""The values of an IN list in comparison order, for the list and one by one."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.table.predicate import bounds
from penstock.table.predicate.bounds import comparable, comparables

COLUMNAR = [
    pa.array(["b", "", "ä\U0001f600", "a"]),
    pa.array([3, -(2**63), 2**63 - 1], pa.int64()),
    pa.array([-128, 127], pa.int8()),
    pa.array([2**64 - 1], pa.uint64()),
    pa.array([True, False]),
    pa.array([Decimal("-1.50"), Decimal("99999999999999999999999999999999999.999")], pa.decimal128(38, 3)),
    pa.array([-1, 253_370_764_800_000_000], pa.timestamp("us")),
    pa.array([-1], pa.timestamp("us", "UTC")),
    pa.array([datetime.time(23, 59, 59, 999_999)], pa.time64("us")),
]
OTHERS = [
    pa.array([1.5, float("nan"), -0.0], pa.float64()),
    pa.array([1.5, float("inf")], pa.float32()),
    pa.array([datetime.date(1582, 10, 4), datetime.date(2024, 2, 29)]),
    pa.array(["text"], pa.large_string()),
    pa.array([-1], pa.timestamp("ms")),
    pa.array([b"bytes"]),
]


def named(arrays: list[pa.Array]) -> list[object]:
    return [pytest.param(values, id=str(values.type)) for values in arrays]


@pytest.mark.parametrize("values", named(COLUMNAR + OTHERS))
def test_list_has_the_value_of_each(values: pa.Array) -> None:
    expected = [comparable(value) for value in values]
    given = comparables(values)
    assert str(given) == str(expected)  # NaN has none
    assert [type(value) for value in given] == [type(value) for value in expected]
    assert comparables(values[:0]) == []


@pytest.mark.parametrize("values", named(COLUMNAR))
def test_no_object_of_arrow_for_each_value(monkeypatch: pytest.MonkeyPatch, values: pa.Array) -> None:
    """1,000 keys are tested for each of 10,000 files."""
    monkeypatch.delattr(bounds, "comparable")
    assert len(comparables(values)) == len(values)
