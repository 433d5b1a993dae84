"""Ordering values of every comparable type against Python's own order (and Java's for floats)."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import SchemaMismatch
from penstock.reader.merge.ordering import OrderingTuples, OrderingValues
from tests.oracle.merge import above, java_double

MOMENTS = st.integers(-(10**15), 10**15).map(
    lambda micros: datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=micros)
)
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], Callable[[Any], Any]]] = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1), lambda value: value),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1), lambda value: value),
    "double": (pa.float64(), st.floats(), java_double),
    "float": (pa.float32(), st.floats(width=32), java_double),
    "boolean": (pa.bool_(), st.booleans(), lambda value: value),
    "string": (pa.string(), st.text(max_size=6), lambda value: None if value is None else value.encode()),
    "date": (pa.date32(), st.dates(), lambda value: value),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        MOMENTS,
        lambda value: value,
    ),
    "local timestamp": (pa.timestamp("us"), MOMENTS.map(lambda value: value.replace(tzinfo=None)), lambda value: value),
    "time": (pa.time64("us"), st.times(), lambda value: value),
    "decimal": (
        pa.decimal128(20, 3),
        st.decimals(-(10**15), 10**15, places=3, allow_nan=False),
        lambda value: value,
    ),
}


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_ranks_and_comparisons_follow_the_values(kind: str, data: st.DataObject) -> None:
    arrow, values, sortable = TYPES[kind]
    few = data.draw(st.lists(values, min_size=1, max_size=4))
    log = data.draw(st.lists(st.one_of(st.sampled_from(few), st.none()), min_size=1, max_size=12))
    base = data.draw(st.lists(st.one_of(st.sampled_from(few), st.none(), values), min_size=1, max_size=12))
    ordering = OrderingValues(pa.array(log, arrow))
    ranks = ordering.ranks()
    for left, rank in zip(log, ranks, strict=True):
        for right, other in zip(log, ranks, strict=True):
            assert above(sortable(left), sortable(right)) == (rank > other)
    rows = data.draw(st.lists(st.integers(0, len(log) - 1), min_size=len(base), max_size=len(base)))
    expected = [above(sortable(value), sortable(log[row])) for value, row in zip(base, rows, strict=True)]
    assert ordering.exceeded_by(pa.array(base, arrow), np.array(rows)).tolist() == expected
    used = ordering.take(np.array(rows))
    assert used.exceeded_by(pa.array(base, arrow), np.arange(len(base))).tolist() == expected


def zero_of(columns: list[pa.DataType]) -> Any:
    """What a null is in Hudi 1.2.0 in a table ordered by these columns."""
    if len(columns) > 1:
        return None
    return {pa.int32(): 0, pa.date32(): datetime.date(1970, 1, 1)}.get(columns[0])


@pytest.mark.parametrize("names", [(name,) for name in TYPES] + [("int", "date"), ("date", "long")])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_null_is_zero_where_an_int_or_a_date_orders_alone(names: tuple[str, ...], data: st.DataObject) -> None:
    kinds = [TYPES[name][0] for name in names]
    zero = zero_of(kinds)
    near = {
        "int": st.sampled_from([-(2**31), -1, 0, 1]),
        "date": st.integers(-2, 2).map(lambda days: datetime.date(1970, 1, 1) + datetime.timedelta(days)),
    }
    value = st.tuples(*(st.none() | near.get(name, TYPES[name][1]) for name in names))
    log = data.draw(st.lists(value, min_size=1, max_size=8))
    base = data.draw(st.lists(value, min_size=1, max_size=8))
    rows = data.draw(st.lists(st.integers(0, len(log) - 1), min_size=len(base), max_size=len(base)))

    def sortable(values: tuple[Any, ...]) -> tuple[Any, ...]:
        held = [zero if one is None else TYPES[name][2](one) for name, one in zip(names, values, strict=True)]
        return tuple((0,) if one is None else (1, one) for one in held)

    def columns(records: list[Any]) -> list[pa.Array]:
        return [pa.array([one[place] for one in records], kind) for place, kind in enumerate(kinds)]

    ordering = OrderingTuples(columns(log))
    ranks = ordering.ranks()
    for left, rank in zip(log, ranks, strict=True):
        for right, other in zip(log, ranks, strict=True):
            assert (sortable(left) > sortable(right)) == (rank > other)
    expected = [sortable(one) > sortable(log[row]) for one, row in zip(base, rows, strict=True)]
    assert ordering.exceeded_by(columns(base), np.array(rows)).tolist() == expected
    assert ordering.take(np.array(rows)).exceeded_by(columns(base), np.arange(len(base))).tolist() == expected


@pytest.mark.parametrize("kind", [pa.int32(), pa.date32()])
def test_lowest_of_ints_and_dates_counts_nulls_as_zero(kind: pa.DataType) -> None:
    ordering = OrderingTuples([pa.array([5, None, -3, 7], pa.int32()).view(kind)])
    assert [ordering.lowest(np.array(rows)) for rows in ([0, 3], [0, 1, 3], [1, 2])] == [5, 0, -3]
    assert OrderingTuples([pa.array([5, None])]).lowest(np.array([0, 1])) is None


def test_doubles_as_java_compares_them() -> None:
    ranks = OrderingValues(pa.array([math.nan, -0.0, 0.0, math.inf, -math.inf, -1.0, None, -math.nan])).ranks()
    nan, minus_zero, zero, infinite, low, minus_one, null, other_nan = ranks.tolist()
    assert null < low < minus_one < minus_zero < zero < infinite < nan == other_nan


def test_smallest_long_is_above_null() -> None:
    ordering = OrderingValues(pa.array([-(2**63), None]))
    assert ordering.ranks()[0] > ordering.ranks()[1]
    assert ordering.exceeded_by(pa.array([-(2**63), None]), np.array([1, 0])).tolist() == [True, False]


def test_texts_order_by_code_point() -> None:
    """U+FF5E is below U+1F600, though its UTF-16 unit is above the surrogate's."""
    low, high = OrderingValues(pa.array(["\uff5e", "\U0001f600"])).ranks()
    assert low < high


@pytest.mark.parametrize("kind", [pa.binary(), pa.list_(pa.int32()), pa.struct([("a", pa.int32())])])
def test_types_without_an_order_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch, match="order"):
        OrderingValues(pa.array([None], kind))
