"""The filter's grammar, bound and typed."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.predicate.literals import (
    Comparison,
    ConstantComparison,
    DoubleLiteral,
    NumberLiteral,
    Op,
    RangeComparison,
    comparison,
)
from penstock.table.predicate.parse import parse_predicate
from penstock.table.predicate.tree import And, Compare, Constant, IsNull, Like, Not, OneOf, Or, StartsWith, columns_of

SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("n", pa.int64()),
        ("amount", pa.decimal128(10, 2)),
        ("Name", pa.string()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("clock", pa.time64("us")),
        ("ok", pa.bool_()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("City", pa.string()), ("zip", pa.struct([("no", pa.int32())]))])),
        ("a b.c", pa.int64()),
        ("date", pa.int32()),
    ]
)


def parsed(text: str) -> Any:
    return parse_predicate(text, SCHEMA)


def compared(text: str) -> tuple[str, str, Any]:
    result = parsed(text)
    assert isinstance(result, Compare)
    return str(result.operand), result.op.value, result.value.as_py()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 1", ("id", "=", 1)),
        ("ID == -1", ("id", "=", -1)),
        ("id != 1", ("id", "!=", 1)),
        ("id <> 1", ("id", "!=", 1)),
        ("id < 1", ("id", "<", 1)),
        ("1 < id", ("id", ">", 1)),
        ("1 >= id", ("id", "<=", 1)),
        ("id > 3.5", ("id", ">", 3)),
        ("id >= 3.5", ("id", ">", 3)),
        ("id < 3.5", ("id", "<=", 3)),
        ("id <= -3.5", ("id", "<=", -4)),
        ("id = 3.0", ("id", "=", 3)),
        ("n = 9223372036854775807", ("n", "=", 2**63 - 1)),
        ("n = 1e3", ("n", "=", 1000)),
        ("amount = 1.5", ("amount", "=", decimal.Decimal("1.50"))),
        ("amount > 1.005", ("amount", ">", decimal.Decimal("1.00"))),
        ("amount <= -1.005", ("amount", "<=", decimal.Decimal("-1.01"))),
        ("x = 0.1", ("x", "=", 0.1)),
        ("f >= 0.1", ("f", ">=", 0.1)),
        ("name = 'it\\'s'", ("Name", "=", "it's")),
        ("name = ''", ("Name", "=", "")),
        ("name = 'naïve 😀'", ("Name", "=", "naïve 😀")),
        ("day = DATE '2024-02-29'", ("day", "=", datetime.date(2024, 2, 29))),
        ("day < '0001-01-01'", ("day", "<", datetime.date(1, 1, 1))),
        (
            "at = TIMESTAMP '2024-01-01 10:00:00.000001'",
            ("at", "=", datetime.datetime(2024, 1, 1, 10, 0, 0, 1, datetime.UTC)),
        ),
        ("at = '2024-01-01T10:00:00+01:30'", ("at", "=", datetime.datetime(2024, 1, 1, 8, 30, tzinfo=datetime.UTC))),
        ("at = DATE '2024-01-01'", ("at", "=", datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC))),
        (
            "local = '2024-01-01 10:00'",
            ("local", "=", datetime.datetime(2024, 1, 1, 10, tzinfo=datetime.UTC).replace(tzinfo=None)),
        ),
        ("clock = '10:00:00.5'", ("clock", "=", datetime.time(10, 0, 0, 500_000))),
        ("ok", ("ok", "=", True)),
        ("ok = false", ("ok", "=", False)),
        ("PLACE.city = 'x'", ("place.City", "=", "x")),
        ("place.zip.no = 1", ("place.zip.no", "=", 1)),
        ("`a b.c` = 1", ("a b.c", "=", 1)),
        ("date = 1", ("date", "=", 1)),
        ("n = 9223372036854775807L", ("n", "=", 2**63 - 1)),
        ("n > -1L", ("n", ">", -1)),
        ("id < 3.5D", ("id", "<=", 3)),
        ("x = 0.1D", ("x", "=", 0.1)),
        ("x = -0.1D", ("x", "=", -0.1)),
        ("f = 0.1F", ("f", "=", 0.10000000149011612)),
        ("x < CAST('Infinity' AS DOUBLE)", ("x", "<", math.inf)),
        ("x > -CAST('Infinity' AS DOUBLE)", ("x", ">", -math.inf)),
        ("amount = 1.5BD", ("amount", "=", decimal.Decimal("1.50"))),
        ("amount = 0.29D", ("amount", "=", decimal.Decimal("0.29"))),
        ("amount < 0.29D", ("amount", "<=", decimal.Decimal("0.28"))),
        ("amount >= 0.295D", ("amount", ">", decimal.Decimal("0.29"))),
        ("raw >= X'0aFF'", ("raw", ">=", b"\x0a\xff")),
        ("raw = X'F'", ("raw", "=", b"\x0f")),
        ("raw = CAST('é' AS BINARY)", ("raw", "=", "é".encode())),
        ("amount = -1.5bd", ("amount", "=", decimal.Decimal("-1.50"))),
        ("isnan(x)", ("isnan(x)", "=", True)),
        ("isnan(x) = false", ("isnan(x)", "=", False)),
        ("true = SIGNBIT(amount)", ("signbit(amount)", "=", True)),
        ("((id = 1)) -- a comment", ("id", "=", 1)),
    ],
)
def test_comparison_is_typed_by_its_column(text: str, expected: tuple[str, str, Any]) -> None:
    assert compared(text) == expected


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("id = 3.5", False),
        ("id != 3.5", True),
        ("id < 99999999999", True),
        ("id >= 99999999999", False),
        ("id > -99999999999", True),
        ("id = 99999999999.5", False),
        ("amount < 100000000", True),
        ("amount = 1.001", False),
        ("n <= -9223372036854775809", False),
        ("id in (1.5, 99999999999)", False),
        ("id = 1.5D", False),
        ("id < CAST('Infinity' AS DOUBLE)", True),
        ("amount > CAST('-Infinity' AS DOUBLE)", True),
        ("amount = CAST('Infinity' AS DOUBLE)", False),
        ("amount != 1.001D", True),
        ("amount < -1e300D", False),
        ("amount in (1.001D, 1e30D)", False),
    ],
)
def test_comparisons_outside_the_range_of_the_type_are_constant(text: str, answer: bool) -> None:
    result = parsed(text)
    assert isinstance(result, Constant)
    assert result.result is answer


@given(
    st.sampled_from(list(Op)),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-2000, max_value=2000, places=3),
    st.integers(-128, 127),
)
def test_integers_compare_with_any_number_exactly(op: Op, literal: decimal.Decimal, value: int) -> None:
    check = {
        Op.EQ: lambda left, right: left == right,
        Op.NE: lambda left, right: left != right,
        Op.LT: lambda left, right: left < right,
        Op.LE: lambda left, right: left <= right,
        Op.GT: lambda left, right: left > right,
        Op.GE: lambda left, right: left >= right,
    }
    meaning = comparison("c", pa.int8(), op, NumberLiteral(literal))
    if isinstance(meaning, ConstantComparison):
        assert meaning.result == check[op](value, literal)
    else:
        assert check[meaning.op](value, meaning.value.as_py()) == check[op](value, literal)


@given(
    st.sampled_from(list(Op)),
    st.sampled_from([(5, 2), (15, 3), (18, 2), (38, 10), (38, 38)]),
    st.data(),
)
def test_decimals_compare_with_doubles_by_their_nearest_doubles(
    op: Op, digits: tuple[int, int], data: st.DataObject
) -> None:
    precision, scale = digits
    unscaled = data.draw(st.integers(1 - 10**precision, 10**precision - 1))
    value = decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=60))
    near = float(value)
    double = data.draw(st.sampled_from([near, math.nextafter(near, math.inf), math.nextafter(near, 0), -near, 0.0]))
    check = {
        Op.EQ: lambda left, right: left == right,
        Op.NE: lambda left, right: left != right,
        Op.LT: lambda left, right: left < right,
        Op.LE: lambda left, right: left <= right,
        Op.GT: lambda left, right: left > right,
        Op.GE: lambda left, right: left >= right,
    }
    match comparison("d", pa.decimal128(precision, scale), op, DoubleLiteral(double)):
        case ConstantComparison(result):
            answer = result
        case RangeComparison(low, high, negated):
            answer = (low.as_py() <= value <= high.as_py()) is not negated
        case Comparison(exact_op, limit):
            answer = check[exact_op](value, limit.as_py())
    assert answer == check[op](near, double)


def test_connectives_keep_their_shape() -> None:
    match parsed("not ok and (id = 1 or name is not null) and id in (1, 2.5, 3)"):
        case And((Not(Compare()), Or((Compare(), Not(IsNull()))), OneOf(column, values))):
            assert (str(column), values.to_pylist()) == ("id", [1, 3])
        case other:
            raise AssertionError(other)
    match parsed("id not in (1) or id not between 1 and 2 or name not like 'a%'"):
        case Or((Not(OneOf()), Not(And((Compare(), Compare()))), Not(StartsWith(_, "a")))):
            pass
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [("a%", "a"), ("%", ""), ("a%%", "a"), (r"50\\%%", "50%"), (r"a\\_b%", "a_b"), (r"c:\\\\%", "c:\\")],
)
def test_like_of_a_prefix(pattern: str, prefix: str) -> None:
    result = parsed(f"name like '{pattern}'")
    assert isinstance(result, StartsWith)
    assert result.prefix == prefix


@pytest.mark.parametrize(
    ("text", "pattern", "prefix"),
    [
        ("name like '%x%'", "%x%", ""),
        ("name like '%%x%%%'", "%x%", ""),
        ("name like 'a_'", "a_", "a"),
        (r"name like 'a\\_b_c%'", r"a\_b_c%", "a_b"),
        ("name like 'a!%b%!!' escape '!'", r"a\%b%!", "a%b"),
        (r"name like 'a\\b%c' escape '!'", r"a\\b%c", "a\\b"),
        ("contains(name, 'a_b')", r"%a\_b%", ""),
        ("endswith(name, '%')", r"%\%", ""),
    ],
)
def test_like_of_other_patterns(text: str, pattern: str, prefix: str) -> None:
    result = parsed(text)
    assert isinstance(result, Like)
    assert (result.pattern, result.prefix) == (pattern, prefix)


def test_like_without_wildcards_is_a_comparison() -> None:
    assert compared("name like 'a'") == ("Name", "=", "a")
    assert compared(r"name like 'a\\%'") == ("Name", "=", "a%")
    assert isinstance(parsed("startswith(name, 'a%')"), StartsWith)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("upper(name) = 'X'", ("upper(Name)", "=", "X")),
        ("5 < length(place.city)", ("length(place.City)", ">", 5)),
        ("(abs(id)) >= 1.5", ("abs(id)", ">", 1)),
        ("nvl(ok, false)", ("coalesce(ok, False)", "=", True)),
        ("cast(id as bigint) = 1", ("cast(id)", "=", 1)),
        ("id::bigint = 1L", ("cast(id)", "=", 1)),
        ("try_cast(id as decimal(12, 2)) = 1", ("cast(id)", "=", decimal.Decimal(1))),
        ("date(at) = '2024-01-01'", ("cast(at)", "=", datetime.date(2024, 1, 1))),
        ("substr(name, 2) = 'x'", ("substring(Name, 2)", "=", "x")),
        ("name || 'a' || name = 'x'", ("concat(Name, 'a', Name)", "=", "x")),
        ("ltrim(name) = 'x'", ("ltrim(Name)", "=", "x")),
        ("dayofmonth(day) = 3", ("day(day)", "=", 3)),
    ],
)
def test_functions_are_typed(text: str, expected: tuple[str, str, Any]) -> None:
    assert compared(text) == expected


def test_columns_of_a_filter() -> None:
    assert columns_of(parsed("name is null or (ID > 1 and place.city = 'x') or id = 3")) == ("Name", "id", "place")
    assert columns_of(parsed("concat(name, 'x', upper(place.city)) like '%a_'")) == ("Name", "place")
