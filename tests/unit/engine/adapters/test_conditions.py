"""Conditions of engines: what is translated is true for no fewer rows; the rest is refused and not pushed."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.engine.adapters.conditions import (
    Column,
    Condition,
    Untranslatable,
    column,
    compare,
    either,
    every,
    is_not_null,
    is_null,
    negated,
    one_of,
    pushed_where,
)

DAY = datetime.date(2025, 3, 1)
NOON = datetime.datetime(2025, 3, 1, 12)  # noqa: DTZ001 (a local timestamp)
SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "b": pa.int8(),
        "f": pa.float32(),
        "d": pa.float64(),
        "s": pa.string(),
        "ok": pa.bool_(),
        "amount": pa.decimal128(10, 2),
        "day": pa.date32(),
        "utc": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "st": pa.struct([("q", pa.int64())]),
        "ma": pa.map_(pa.string(), pa.int64()),
    }
)


def of(name: str) -> Column:
    return column(SCHEMA, name.split("."))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2**62),
        ("b", -128),
        ("d", 0.1),
        ("f", 0.5),
        ("s", "it's"),
        ("ok", True),
        ("amount", Decimal("1.5")),
        ("day", DAY),
        ("utc", NOON.replace(tzinfo=datetime.UTC)),
        ("local", NOON),
        ("st.q", 1),
    ],
)
def test_value_of_the_type_of_the_column_is_pushed(name: str, value: Any) -> None:
    assert pushed_where("", compare(of(name), "=", value).expression, SCHEMA)
    if name not in ("d", "f"):
        assert pushed_where("", one_of(of(name), [value]).expression, SCHEMA)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 1.0),
        ("n", True),
        ("n", 2**63),
        ("b", 128),
        ("f", 0.1),
        ("d", math.nan),
        ("d", math.inf),
        ("d", 1),
        ("s", b"x"),
        ("ok", 1),
        ("amount", Decimal("1.555")),
        ("amount", 1.5),
        ("day", NOON),
        ("utc", NOON),
        ("utc", DAY),
        ("local", NOON.replace(tzinfo=datetime.UTC)),
        ("n", None),
        ("st", {"q": 1}),
        ("ma", []),
    ],
)
def test_value_of_another_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises(Untranslatable):
        compare(of(name), "=", value)
    with pytest.raises(Untranslatable):
        one_of(of(name), [value])


def test_order_of_booleans_and_empty_lists_are_refused() -> None:
    with pytest.raises(Untranslatable):
        compare(of("ok"), "<", True)
    with pytest.raises(Untranslatable):
        one_of(of("n"), [])


@pytest.mark.parametrize("path", [["none"], ["st", "none"], ["n", "q"]])
def test_unknown_column_is_refused(path: list[str]) -> None:
    with pytest.raises(Untranslatable):
        column(SCHEMA, path)


def test_column_whose_name_occurs_twice_is_refused() -> None:
    with pytest.raises(Untranslatable):
        column(pa.schema([("n", pa.int64()), ("n", pa.int64())]), ["n"])


def kept(condition: Condition, values: list[Any]) -> list[Any]:
    """The values of the column `d` that the condition keeps."""
    rows: list[Any] = pa.table({"d": pa.array(values, pa.float64())}).filter(condition.expression)["d"].to_pylist()
    return rows


def test_comparison_of_floats_keeps_nan_as_the_greatest_value() -> None:
    values = [1.0, 2.0, math.nan, -0.0, None]
    assert [repr(value) for value in kept(compare(of("d"), ">", 1.0), values)] == ["2.0", "nan"]
    assert kept(compare(of("d"), "<", 2.0), values) == [1.0, -0.0]
    assert kept(one_of(of("d"), [0.0, 2.0]), values) == [2.0, -0.0]


@pytest.mark.parametrize("op", ["<", ">", "!="])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_comparison_with_zero_keeps_both_zeros(op: str, zero: float) -> None:
    """Daft orders -0.0 before 0.0."""
    rows = pa.table({"d": [0.0, -0.0]}).filter(compare(of("d"), op, zero).expression)
    assert rows.num_rows == 2


def test_negation_of_a_comparison_of_floats_is_refused() -> None:
    for inexact in (compare(of("d"), "<", 1.0), one_of(of("d"), [1.0]), either([compare(of("f"), "=", 0.5)])):
        with pytest.raises(Untranslatable):
            negated(inexact)
    assert negated(compare(of("n"), "<", 1)).exact
    assert negated(is_null(of("d"))).exact and negated(is_not_null(of("d"))).exact


def test_chain_of_ands_leaves_out_what_is_not_translated() -> None:
    def refused() -> Condition:
        raise Untranslatable("a function")

    partial = every(lambda: compare(of("n"), ">", 1), refused)
    assert partial.expression.equals(pc.field("n") > pa.scalar(1))
    assert not partial.exact
    assert every(lambda: compare(of("n"), ">", 1), lambda: is_null(of("s"))).exact
    with pytest.raises(Untranslatable):
        negated(partial)
    with pytest.raises(Untranslatable):
        every(refused, refused)


def test_pushed_terms_are_joined_with_those_of_the_caller() -> None:
    condition = pc.field("n") == 1
    assert pushed_where("s = 'x' OR n = 0", condition, SCHEMA) == "(s = 'x' OR n = 0) AND (`n` = 1)"
    assert pushed_where("n = 0", None, SCHEMA) == "n = 0"
    assert pushed_where("", None, SCHEMA) == ""
    assert pushed_where("n = 0", pc.field("n") + 1 > 2, SCHEMA) == "n = 0"
    assert pushed_where("", (pc.field("n") + 1 > 2) & condition, SCHEMA) == "`n` = 1"


def test_condition_beyond_the_limits_of_the_grammar_is_not_pushed() -> None:
    terms = pc.field("n") > 0
    for number in range(3000):
        terms = terms | (pc.field("n") == number)
    assert pushed_where("ok", terms, SCHEMA) == "ok"
