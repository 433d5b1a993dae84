"""Filters against a row-at-a-time evaluation in Python with three-valued logic."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.reader.split.filter import evaluate, kept_rows
from penstock.table.predicate.parse import parse_predicate

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(6, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("p", pa.struct([("q", pa.int64())])),
    ]
)
ROW = st.fixed_dictionaries(
    {
        "i": st.one_of(st.none(), st.integers(-3, 3)),
        "x": st.one_of(st.none(), st.sampled_from([-0.0, 0.0, 1.0, 2.5, math.inf, math.nan])),
        "f": st.one_of(st.none(), st.sampled_from([-0.0, 0.5, math.nan])),
        "d": st.one_of(
            st.none(), st.sampled_from([decimal.Decimal("-1.00"), decimal.Decimal("0.01"), decimal.Decimal("2.50")])
        ),
        "s": st.one_of(st.none(), st.sampled_from(["", "a", "ab", "b%", "é"])),
        "b": st.one_of(st.none(), st.booleans()),
        "day": st.one_of(st.none(), st.dates(datetime.date(2026, 1, 1), datetime.date(2026, 1, 4))),
        "at": st.one_of(
            st.none(), st.integers(0, 3).map(lambda hour: datetime.datetime(2026, 1, 1, hour, tzinfo=datetime.UTC))
        ),
        "p": st.one_of(st.none(), st.fixed_dictionaries({"q": st.one_of(st.none(), st.integers(0, 2))})),
    }
)


def spark(value: Any) -> Any:
    """A key that sorts as Spark does: NaN highest, -0.0 as 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


class Leaf:
    """A comparison as text, and its answer for a row."""

    def __init__(self, text: str, column: str, holds: Any) -> None:
        self.text, self.column, self.holds = text, column, holds

    def answer(self, row: dict[str, Any]) -> bool | None:
        value: Any = row
        for name in self.column.split("."):
            value = None if value is None else value[name]
        return None if value is None else self.holds(spark(value))


OPS = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
LITERALS: dict[str, list[tuple[str, Any]]] = {
    "i": [("0", 0), ("-2", -2), ("1.5", 1.5), ("99999999999", 99999999999)],
    "x": [("0", (0, 0.0)), ("1", (0, 1.0)), ("2.5", (0, 2.5))],
    "f": [("0", (0, 0.0)), ("0.5", (0, 0.5))],
    "d": [("0.01", decimal.Decimal("0.01")), ("0.005", decimal.Decimal("0.005")), ("1e6", decimal.Decimal(10**6))],
    "s": [("'a'", "a"), ("''", ""), ("'é'", "é")],
    "day": [("DATE '2026-01-02'", datetime.date(2026, 1, 2))],
    "at": [("TIMESTAMP '2026-01-01 02:00:00+01:00'", datetime.datetime(2026, 1, 1, 1, tzinfo=datetime.UTC))],
    "p.q": [("1", 1), ("0.5", 0.5)],
}


@st.composite
def leaf(draw: st.DrawFn) -> Leaf:
    column = draw(st.sampled_from(sorted(LITERALS)))
    shape = draw(st.sampled_from(["compare", "compare", "in", "between", "like", "truth"]))
    if shape == "like":
        prefix = draw(st.sampled_from(["", "a", "é", "b\\\\%"]))
        return Leaf(f"s LIKE '{prefix}%'", "s", lambda value: value.startswith(prefix.replace("\\\\", "")))
    if shape == "truth":
        return Leaf("b", "b", lambda value: value is True)
    if shape == "in":
        chosen = draw(st.lists(st.sampled_from(LITERALS[column]), min_size=1, max_size=3))
        text = ", ".join(item for item, _ in chosen)
        return Leaf(f"{column} IN ({text})", column, lambda value: any(value == held for _, held in chosen))
    if shape == "between":
        (low, low_held), (high, high_held) = draw(st.tuples(*[st.sampled_from(LITERALS[column])] * 2))
        return Leaf(f"{column} BETWEEN {low} AND {high}", column, lambda value: low_held <= value <= high_held)
    op = draw(st.sampled_from(sorted(OPS)))
    text, held = draw(st.sampled_from(LITERALS[column]))
    return Leaf(f"{column} {op} {text}", column, lambda value: OPS[op](value, held))


class Null(Leaf):
    """IS NULL is never null itself."""

    def __init__(self, column: str) -> None:
        super().__init__(f"{column} IS NULL", column, None)

    def answer(self, row: dict[str, Any]) -> bool | None:
        return row[self.column] is None


class Tree:
    """A connective over two (NOT: one) trees."""

    def __init__(self, word: str, *parts: Any) -> None:
        self.word, self.parts = word, parts
        joined = f" {word} ".join(f"({part.text})" for part in parts)
        self.text = f"NOT ({parts[0].text})" if word == "NOT" else joined

    def answer(self, row: dict[str, Any]) -> bool | None:
        answers = [part.answer(row) for part in self.parts]
        if self.word == "NOT":
            return None if answers[0] is None else not answers[0]
        decisive = self.word == "OR"
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive


TREES = st.recursive(
    st.one_of(leaf(), st.sampled_from(["i", "s", "p"]).map(Null)),
    lambda inner: st.one_of(
        inner.map(lambda part: Tree("NOT", part)),
        st.tuples(st.sampled_from(["AND", "OR"]), inner, inner).map(lambda parts: Tree(*parts)),
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(TREES, st.lists(ROW, max_size=8))
def test_answers_are_those_of_a_loop_over_rows(tree: Any, rows: list[dict[str, Any]]) -> None:
    batch = pa.RecordBatch.from_pylist([{"i": 7}, *rows], SCHEMA).slice(1)
    expected = [tree.answer(row) for row in pa.RecordBatch.from_pylist(rows, SCHEMA).to_pylist()]
    predicate = parse_predicate(tree.text, SCHEMA)
    assert evaluate(predicate, batch).to_pylist() == expected
    remaining = kept_rows(predicate, batch)
    expectation = [row for row, answer in enumerate(expected) if answer is True]
    assert (list(range(len(rows))) if remaining is None else remaining.tolist()) == expectation


@pytest.mark.parametrize(
    ("text", "remaining"),
    [
        ("x > 5", [2, 3]),
        ("x >= 5", [2, 3]),
        ("x < 5", [0, 1]),
        ("x <= 5", [0, 1]),
        ("x = 0", [0, 1]),
        ("x IN (0)", [0, 1]),
        ("x != 0", [2, 3]),
    ],
)
def test_nan_is_greatest_and_minus_zero_is_zero_as_in_spark(text: str, remaining: list[int]) -> None:
    batch = pa.record_batch({"x": pa.array([0.0, -0.0, math.nan, math.inf, None])})
    result = kept_rows(parse_predicate(text, batch.schema), batch)
    assert result is not None
    assert result.tolist() == remaining


def test_float_column_compares_as_double() -> None:
    """0.1 as a float is not 0.1 as a double: Spark says so too."""
    batch = pa.record_batch({"f": pa.array([0.1, 0.5], pa.float32())})
    assert evaluate(parse_predicate("f = 0.1", batch.schema), batch).to_pylist() == [False, False]
    assert evaluate(parse_predicate("f > 0.1", batch.schema), batch).to_pylist() == [True, True]
