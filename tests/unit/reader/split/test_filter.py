"""Filters against a row-at-a-time evaluation in Python with three-valued logic."""

from __future__ import annotations

import datetime
import decimal
import math
from functools import partial
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
        "s": st.one_of(st.none(), st.sampled_from(["", "a", "ab", "b%", "é", " a", "a \t", "Straße", "a_b"])),
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


Row = dict[str, Any]


def like(pattern: str, text: str) -> bool:
    """LIKE by a search that shares nothing with regular expressions."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(pattern[1:], text[start:]) for start in range(len(text) + 1))
    literal = pattern[1:] if pattern[0] == "\\" else pattern
    matches = bool(text) and (text[0] == literal[0] or pattern[0] == "_")
    return matches and like(literal[1:], text[1:])


def substring(text: str, position: int, length: int) -> str:
    """As in Spark: the characters whose position is in the range."""
    first = position if position > 0 else len(text) + position + 1 if position < 0 else 1
    return "".join(character for at, character in enumerate(text, 1) if first <= at < first + length)


class Function(Leaf):
    """A condition on a function of columns, and its value for a row; None is null."""

    def __init__(self, text: str, columns: str, value: Any, compared: Any) -> None:
        super().__init__(text, columns, compared)
        self.value = value

    def answer(self, row: Row) -> bool | None:
        values = [row[name] for name in self.column.split()]
        value = self.value(*values) if None not in values or self.value in NULL_SAFE else None
        return None if value is None else self.holds(value)


def first_of(*values: Any) -> Any:
    return next((value for value in (*values, "a") if value is not None), None)


def first_number(value: Any) -> Any:
    return 0 if value is None else value


def is_nan(value: Any) -> bool:
    return value is not None and math.isnan(value)


NULL_SAFE = (first_of, first_number, is_nan)
FUNCTIONS: list[tuple[str, str, Any, list[tuple[str, Any]]]] = [
    ("upper(s)", "s", str.upper, [("'AB'", "AB"), ("'STRASSE'", "STRASSE"), ("''", "")]),
    ("lower(s)", "s", str.lower, [("'ab'", "ab"), ("'é'", "é")]),
    ("length(s)", "s", len, [("0", 0), ("1.5", 1.5), ("2", 2)]),
    ("trim(s)", "s", lambda text: text.strip(" "), [("'a'", "a"), ("''", "")]),
    ("ltrim(s)", "s", lambda text: text.lstrip(" "), [("'a '", "a "), ("''", "")]),
    ("rtrim(s)", "s", lambda text: text.rstrip(" "), [("' a'", " a"), ("'\t'", "\t")]),
    ("concat(s, 'x', s)", "s", lambda text: f"{text}x{text}", [("'axa'", "axa"), ("'x'", "x")]),
    ("s || cast(i as string)", "s i", lambda text, number: f"{text}{number}", [("'a1'", "a1"), ("'-2'", "-2")]),
    ("coalesce(s, upper(s), 'a')", "s", first_of, [("'a'", "a"), ("'ab'", "ab")]),
    ("coalesce(i, 0)", "i", first_number, [("0", 0), ("-1.5", -1.5)]),
    ("abs(i)", "i", abs, [("2", 2), ("0", 0), ("-1", -1)]),
    ("abs(x)", "x", lambda value: spark(abs(value)), [("0", (0, 0.0)), ("1", (0, 1.0))]),
    ("abs(d)", "d", abs, [("1", 1), ("2.5", 2.5)]),
    ("year(day)", "day", lambda value: value.year, [("2026", 2026)]),
    ("month(at)", "at", lambda value: value.month, [("1", 1)]),
    ("day(day)", "day", lambda value: value.day, [("2", 2), ("3", 3)]),
    ("date(at)", "at", lambda value: value.date(), [("DATE '2026-01-01'", datetime.date(2026, 1, 1))]),
    ("cast(i as string)", "i", str, [("'-2'", "-2"), ("'1'", "1")]),
    ("cast(b as int)", "b", int, [("1", 1), ("0.5", 0.5)]),
    ("cast(d as double)", "d", float, [("0.01", 0.01), ("2.5D", 2.5)]),
    ("cast(d as string)", "d", str, [("'0.01'", "0.01"), ("'-1.00'", "-1.00")]),
    ("cast(i as decimal(12, 2))", "i", decimal.Decimal, [("1.5", 1.5), ("-2", -2)]),
    ("isnan(x)", "x", is_nan, [("TRUE", True), ("FALSE", False)]),
    ("signbit(f)", "f", lambda value: math.copysign(1, value) < 0, [("TRUE", True)]),
    *(
        (f"substring(s, {at}, {size})", "s", partial(substring, position=at, length=size), [("'a'", "a"), ("''", "")])
        for at in (-3, -2, -1, 0, 1, 2)
        for size in (-1, 0, 1, 2)
    ),
    ("substring(s, -2)", "s", lambda text: text[-2:], [("'ab'", "ab")]),
]  # fmt: skip


@st.composite
def function_leaf(draw: st.DrawFn) -> Leaf:
    """A condition on a function, or LIKE."""
    if draw(st.booleans()):
        pattern = "".join(draw(st.lists(st.sampled_from(["%", "_", "a", "b", "é", "\\%", "\\_", "\\\\"]), max_size=5)))
        quoted = pattern.replace("\\", "\\\\")
        negated = draw(st.booleans())
        word = "NOT LIKE" if negated else "LIKE"
        return Leaf(f"s {word} '{quoted}'", "s", lambda value: like(pattern, value) is not negated)
    call, columns, value, literals = draw(st.sampled_from(FUNCTIONS))
    text, held = draw(st.sampled_from(literals))
    if isinstance(held, bool):
        return Function(f"{call} = {text}", columns, value, lambda result: result is held)
    op = draw(st.sampled_from(sorted(OPS)))
    return Function(f"{call} {op} {text}", columns, value, lambda result: OPS[op](result, held))


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
    st.one_of(leaf(), function_leaf(), st.sampled_from(["i", "s", "p"]).map(Null)),
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


ROWS: list[Row] = [
    {
        "i": (-2, 0, 1, 3)[number % 4],
        "x": (-0.0, 1.0, -2.5, math.inf, math.nan)[number % 5],
        "f": (-0.0, 0.5, -0.5, math.nan)[number % 4],
        "d": decimal.Decimal(("-1.00", "0.01", "2.50")[number % 3]),
        "s": ("", "a", "ab", "b%", "é", " a", "a \t", "Straße", "a_b", "axa", "a1", "-2")[number % 12],
        "b": number % 2 == 0,
        "day": datetime.date(2026, 1, 1 + number % 4),
        "at": datetime.datetime(2026, 1, 1 + number % 2, 23, tzinfo=datetime.UTC),
        "p": None,
    }
    for number in range(12)
] + [dict.fromkeys(SCHEMA.names)]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function[0])
def test_every_function_against_a_loop_over_rows(function: tuple[str, str, Any, list[tuple[str, Any]]]) -> None:
    call, columns, value, literals = function
    batch = pa.RecordBatch.from_pylist(ROWS, SCHEMA)
    answers = set()
    for text, held in literals:
        for op in sorted(OPS) if not isinstance(held, bool) else ["="]:
            leaf_of_row = Function(
                f"{call} {op} {text}", columns, value, lambda result, op=op, held=held: OPS[op](result, held)
            )
            expected = [leaf_of_row.answer(row) for row in ROWS]
            assert evaluate(parse_predicate(leaf_of_row.text, SCHEMA), batch).to_pylist() == expected, leaf_of_row.text
            answers |= set(expected)
    assert {True, False} <= answers, "else little is compared"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abs(n) = 9223372036854775808", [True, False]),
        ("cast(n as double) = -9223372036854775808D", [True, False]),
        ("cast(d as double) = 0.29", [True, False]),
        ("year(local) = 1969 and month(local) = 12 and day(local) = 31", [True, False]),
        ("date(local) = DATE '1969-12-31'", [True, False]),
        ("upper(s) = 'ΣΑΣ'", [True, False]),
        ("lower(s) = 'σας'", [True, False]),
        ("length(raw) = 2", [True, False]),
        ("s ILIKE 'σα_'", [True, False]),
    ],
)
def test_values_at_the_ends_of_their_types(text: str, expected: list[bool]) -> None:
    kinds = {
        "n": pa.int64(),
        "d": pa.decimal128(10, 2),
        "local": pa.timestamp("us"),
        "s": pa.string(),
        "raw": pa.binary(),
    }
    before = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001
    rows = [
        {"n": -(2**63), "d": decimal.Decimal("0.29"), "local": before, "s": "ΣΑΣ", "raw": b"\xff\x00"},
        {"n": 1, "d": decimal.Decimal("0.28"), "local": before.replace(year=2000), "s": "x", "raw": b""},
    ]
    batch = pa.RecordBatch.from_pylist(rows, pa.schema(list(kinds.items())))
    assert evaluate(parse_predicate(text, batch.schema), batch).to_pylist() == expected


@pytest.mark.parametrize(
    "pattern", ["%\\\\", "%\\\\b", "%a\\\\b%", "a\\\\b%", "%\\\\_", "%.\\\\", "\\%%\\\\", "_%\\\\"]
)
def test_pattern_has_backslash(pattern: str) -> None:
    texts = ["\\", "a\\", "a\\b", "xa\\b\n", "a\\\\b", "\n\\b", "%\\", "é.\\", "", "ab", None]
    batch = pa.record_batch({"s": pa.array(texts)})
    quoted = pattern.replace("\\", "\\\\")
    answers = evaluate(parse_predicate(f"s LIKE '{quoted}'", batch.schema), batch).to_pylist()
    assert answers == [None if text is None else like(pattern, text) for text in texts]
    assert {True, False} < set(answers)


def test_hostile_patterns_take_linear_time() -> None:
    """The longest pattern on a long text: alternatives are not tried one by one, which would take for ever."""
    text = "a" * 100_000
    batch = pa.record_batch({"s": pa.array([text, text + "b"])})
    for pattern in ("%a_" * 160 + "%b", "%a" * 240 + "%b", "_%" * 240 + "b"):
        assert evaluate(parse_predicate(f"s LIKE '{pattern}'", batch.schema), batch).to_pylist() == [False, True]


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
