"""Bounds against the rows they bound: a filter that may not hold keeps no row, whatever the filter and the rows."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.reader.split.filter import evaluate
from penstock.table.predicate.bounds import (
    ONLY_NULLS,
    UNKNOWN,
    ColumnBounds,
    MayMatch,
    comparable,
    range_bounds,
    value_bounds,
)
from penstock.table.predicate.parse import parse_predicate
from penstock.table.predicate.tree import Column
from tests.unit.reader.split.test_filter import ROW, SCHEMA, TREES


def column_of(batch: pa.RecordBatch, column: Column) -> pa.Array:
    values = batch.column(column.path[0])
    for name in column.path[1:]:
        values = values.flatten()[values.type.get_field_index(name)]
    return values


def exact(values: pa.Array, drop: frozenset[str]) -> ColumnBounds:
    """The narrowest bounds of these values as Parquet would have them; `drop` says what is left out."""
    held = [comparable(value) for value in values if value.is_valid and not is_nan(value)]
    has_nan = any(value.is_valid and is_nan(value) for value in values)
    if values.null_count == len(values):
        return ONLY_NULLS
    nulls = values.null_count > 0 or "nulls" in drop
    if any(value is None for value in held):
        return ColumnBounds(nulls=nulls)
    low = None if "low" in drop or not held else min(held)  # type: ignore[type-var]
    high = None if "high" in drop or not held or has_nan else max(held)  # type: ignore[type-var]
    return range_bounds(low, high, nulls=nulls)


def is_nan(value: pa.Scalar) -> bool:
    return pa.types.is_floating(value.type) and math.isnan(value.as_py())


@pytest.mark.thorough
@settings(max_examples=600, deadline=None)
@given(
    TREES,
    st.lists(ROW, min_size=1, max_size=5),
    st.frozensets(st.sampled_from(["low", "high", "nulls"])),
    st.frozensets(st.sampled_from(SCHEMA.names)),
)
def test_no_row_is_kept_where_the_filter_may_not_hold(
    tree: Any, rows: list[dict[str, Any]], drop: frozenset[str], unknown: frozenset[str]
) -> None:
    batch = pa.RecordBatch.from_pylist([{"i": 7}, *rows], SCHEMA).slice(1)
    predicate = parse_predicate(tree.text, SCHEMA)

    def bounds(column: Column) -> ColumnBounds:
        return UNKNOWN if column.path[0] in unknown else exact(column_of(batch, column), drop)

    may_hold = MayMatch(predicate)
    if not may_hold(bounds):
        assert evaluate(predicate, batch).true_count == 0
    if len(rows) == 1 and not drop and not unknown and tree.text.split()[0] in ("i", "d", "day", "b"):
        assert may_hold(bounds) is (evaluate(predicate, batch).true_count == 1), "one value is known exactly"


RANGES: list[tuple[str, ColumnBounds, bool]] = [
    ("i = 5", ColumnBounds(1, 4), False),
    ("i = 5", ColumnBounds(1, 5), True),
    ("i != 5", ColumnBounds(5, 5), False),
    ("i != 5", ColumnBounds(5, 6), True),
    ("i < 5", ColumnBounds(5, None), False),
    ("i <= 5", ColumnBounds(5, None), True),
    ("i > 5", ColumnBounds(None, 5), False),
    ("i >= 5", ColumnBounds(None, 5), True),
    ("NOT (i > 5)", ColumnBounds(6, 9), False),
    ("NOT (i > 5)", ColumnBounds(5, 9), True),
    ("i IN (1, 9)", ColumnBounds(2, 8), False),
    ("i IN (1, 5, 9)", ColumnBounds(2, 8), True),
    ("NOT (i IN (1, 5))", ColumnBounds(5, 5), False),
    ("i BETWEEN 3 AND 4", ColumnBounds(5, 9), False),
    ("i = 1.5", ColumnBounds(1, 2), False),
    ("i IS NULL", ColumnBounds(1, 2, nulls=False), False),
    ("i IS NULL", ColumnBounds(1, 2), True),
    ("i IS NOT NULL", ONLY_NULLS, False),
    ("NOT (i = 1)", ONLY_NULLS, False),
    ("NOT (i = 1 AND i > 0)", ONLY_NULLS, False),
    ("i = 1 OR i IS NULL", ONLY_NULLS, True),
    ("i = 1 OR s = 'a'", ColumnBounds(5, 9), True),
    ("i = 1 AND s = 'a'", ColumnBounds(5, 9), False),
    ("x > 5", ColumnBounds(1.0, None), True),
    ("x < 5", ColumnBounds(5.0, None), False),
    ("x = 0", ColumnBounds(-0.0, -0.0), True),
    ("d = 0.01", ColumnBounds(Decimal("0.02"), Decimal("9")), False),
    ("d > 0.015", ColumnBounds(Decimal("-1"), Decimal("0.01")), False),
    ("s LIKE 'ab%'", ColumnBounds(b"a", b"aa"), False),
    ("s LIKE 'ab%'", ColumnBounds(b"ac", b"b"), False),
    ("s LIKE 'ab%'", ColumnBounds(b"a", b"ab"), True),
    ("s LIKE 'ab%'", ColumnBounds(b"abz", b"b"), True),
    ("s NOT LIKE 'ab%'", ColumnBounds(b"ab", b"abz"), False),
    ("s NOT LIKE 'ab%'", ColumnBounds(b"ab", b"ac"), True),
    ("s LIKE '%'", ColumnBounds(b"ab", b"ac"), True),
    ("s = 'é'", ColumnBounds(b"a", b"z"), False),
    ("b", ColumnBounds(False, False), False),
    ("NOT b", ColumnBounds(False, False), True),
]


@pytest.mark.parametrize(("text", "known", "answer"), RANGES, ids=lambda item: item if isinstance(item, str) else "")
def test_bounds_decide_whether_a_filter_may_match(text: str, known: ColumnBounds, answer: bool) -> None:
    name = "ixdsb"["ixdsb".index(text.replace("NOT (", "").replace("NOT ", "")[0])]
    may_hold = MayMatch(parse_predicate(text, SCHEMA))
    assert may_hold(lambda column: known if column.path == (name,) else UNKNOWN) is answer
    assert may_hold(lambda column: known if column.path == (name,) else UNKNOWN) is answer, "asked again"


def test_bounds_that_cannot_be_say_nothing() -> None:
    assert range_bounds(3, 2, nulls=False) == UNKNOWN
    assert range_bounds(math.nan, 2.0, nulls=False) == ColumnBounds(nulls=False)
    assert range_bounds(1.0, math.nan, nulls=True) == UNKNOWN
    assert value_bounds(pa.scalar(None, pa.int32())) == ONLY_NULLS
    assert value_bounds(pa.scalar(math.nan)) == ColumnBounds(nulls=False)
    assert value_bounds(pa.scalar(b"x")) == ColumnBounds(nulls=False), "bytes compare with nothing"
