"""Conditions that a scan takes, and those that stay in Spark."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some
from pyspark.sql import types as st

from penstock.engine.spark.query.expressions import Call, Constant, Expression, Kind, Name, conjuncts
from penstock.engine.spark.query.handed_down import SessionRules, where_of
from penstock.engine.spark.query.lexer import for_analysis, tokens_of
from penstock.engine.spark.query.narrowing import columns_in, where_of_all, where_of_any
from penstock.engine.spark.query.sql_tree import condition_of
from penstock.reader.split.filter import evaluate
from penstock.table.predicate.parse import parse_predicate

SCHEMA = st.StructType(
    [
        st.StructField("id", st.LongType()),
        st.StructField("small", st.IntegerType()),
        st.StructField("name", st.StringType()),
        st.StructField("amount", st.DecimalType(10, 2)),
        st.StructField("wide", st.DecimalType(38, 30)),
        st.StructField("ratio", st.DoubleType()),
        st.StructField("thin", st.FloatType()),
        st.StructField("open", st.BooleanType()),
        st.StructField("day", st.DateType()),
        st.StructField("at", st.TimestampType()),
        st.StructField("local", st.TimestampNTZType()),
        st.StructField("bytes", st.BinaryType()),
        st.StructField("tags", st.ArrayType(st.StringType())),
        st.StructField("s", st.StructType([st.StructField("a", st.IntegerType())])),
        st.StructField("Twice", st.IntegerType()),
        st.StructField("twice", st.IntegerType()),
        st.StructField("odd `name`", st.IntegerType()),
    ]
)
UTC = SessionRules(instant_of=lambda text: 1_704_067_200_000_000 if text.startswith("2024-01-01") else None)


def handed_down(text: str, rules: SessionRules = UTC) -> str:
    """The `where` of the conjuncts of a condition in SQL."""
    return where_of_all(list(conjuncts(condition_of(for_analysis(text, tokens_of(text))))), SCHEMA, rules)


@pytest.mark.parametrize(
    ("condition", "where"),
    [
        ("id = 5", "`id` = 5"),
        ("5 < ID", "`id` > 5"),
        ("id <> -5", "`id` != -5"),
        ("id = 1 AND upper(name) = 'X' AND small >= 2", "`id` = 1 AND `small` >= 2"),
        ("id = 1 OR NOT (small IS NULL)", "(`id` = 1 OR (NOT `small` IS NULL))"),
        ("id = 1 OR upper(name) = 'X'", ""),
        ("NOT (id = 1 AND upper(name) = 'X')", ""),
        ("small IS NOT NULL", "(NOT `small` IS NULL)"),
        ("id BETWEEN 1 AND 3", "`id` >= 1 AND `id` <= 3"),
        ("id NOT BETWEEN 1 AND 3", "(NOT (`id` >= 1 AND `id` <= 3))"),
        ("id IN (1, 2)", "`id` IN (1, 2)"),
        ("id NOT IN (1, 2)", "(NOT `id` IN (1, 2))"),
        ("name IN ('a', 'b')", "`name` IN ('a', 'b')"),
        ("name LIKE 'a%'", "`name` LIKE 'a%'"),
        ("name LIKE '%a'", "`name` LIKE '%a'"),
        ("name LIKE 'a_%b%'", "`name` LIKE 'a_%b%'"),
        ("name NOT LIKE 'a%'", "(NOT `name` LIKE 'a%')"),
        ("amount > 12.5", "`amount` > 12.5"),
        ("amount > 12", "`amount` > 12"),
        ("ratio < 0.1", "`ratio` < 0.1"),
        ("thin = 16777216", "`thin` = 16777216"),
        ("open", "`open` = TRUE"),
        ("NOT open", "(NOT `open` = TRUE)"),
        ("open = false", "`open` = FALSE"),
        ("day >= DATE '2024-01-01'", "`day` >= DATE '2024-01-01'"),
        ("day >= '2024-01-01'", "`day` >= DATE '2024-01-01'"),
        ("at >= TIMESTAMP '2024-01-01 00:00:00'", "`at` >= TIMESTAMP '2024-01-01 00:00:00.000000Z'"),
        ("at >= '2024-01-01'", "`at` >= TIMESTAMP '2024-01-01 00:00:00.000000Z'"),
        ("at >= DATE '2024-01-01'", "`at` >= TIMESTAMP '2024-01-01 00:00:00.000000Z'"),
        ("at >= TIMESTAMP '2024-02-01 01:00:00+02:00'", "`at` >= TIMESTAMP '2024-01-31 23:00:00.000000Z'"),
        ("local = TIMESTAMP_NTZ '2024-02-01 01:00:00.5'", "`local` = TIMESTAMP '2024-02-01 01:00:00.500000'"),
        ("local < DATE '2024-02-01'", "`local` < TIMESTAMP '2024-02-01 00:00:00.000000'"),
        ("local < '2024-02-01'", "`local` < TIMESTAMP '2024-02-01 00:00:00.000000'"),
        ("s.a = 1", "`s`.`a` = 1"),
        ("`odd ``name``` = 1", "`odd ``name``` = 1"),
        ("tags IS NULL", "`tags` IS NULL"),
        ("id = 1 -- AND id = 2\n AND small = 3 /* AND id = 4 */", "`id` = 1 AND `small` = 3"),
    ],
)
def test_condition_reaches_the_scan(condition: str, where: str) -> None:
    assert handed_down(condition) == where


@pytest.mark.parametrize(
    "condition",
    [
        "id = '5'",  # ANSI mode raises an error where the other mode gives null
        "id = 5.0",
        "id = 5D",
        "id = 9223372036854775808",
        "id IN (1, NULL)",
        "id IN (1, 2.5)",
        "id IN (1, '2')",
        "id IN ()",
        "id = NULL",
        "id <=> 1",
        "id = small",
        "id + 1 = 2",
        "id = 1 = true",
        "id = 1 IS NULL",
        "id IS TRUE",
        "name = 5",
        "name = 'it''s'",  # one text in Spark 4, two before
        "name = 'a\\tb'",
        'name = "a"',
        "name = r'a'",
        "name = 'a' 'b'",
        "name LIKE '" + "a_" * 251 + "'",
        r"name LIKE 'a\\_'",
        "name LIKE 'a!%' ESCAPE '!'",
        "name ILIKE 'a%'",
        "name RLIKE 'a'",
        "name COLLATE UNICODE_CI = 'a'",
        "id LIKE '1%'",
        "wide = 123456789.5",
        "wide = 1",
        "ratio IN (0.1)",
        "ratio = 1e400",
        "thin = 16777217",
        "open = 1",
        "open > false",
        "day = '2024-1-1'",
        "day = '2024-02-30'",
        "day = DATE '1582-10-04'",
        "day IN ('2024-01-01')",
        "day = TIMESTAMP '2024-01-01 00:00:00'",
        "at = 'now'",
        "at = TIMESTAMP '2023-01-01 00:00:00'",  # instant_of does not know it
        "at = TIMESTAMP '2024-01-01 00:00:00 Europe/Berlin'",
        "at = TIMESTAMP_NTZ '2024-01-01 00:00:00'",
        "at = TIMESTAMP '2024-01-01 00:00:00+19:00'",
        "local = TIMESTAMP '2024-01-01 00:00:00'",
        "local = TIMESTAMP_NTZ '2024-01-01 00:00:00Z'",
        "bytes = X'00'",
        "s = 1",
        "s.b = 1",
        "TWICE = 1",
        "nosuch = 1",
        "id = 1 OR nosuch = 1",
        "id = (SELECT 1)",
        "id IN (SELECT 1)",
        "id =",
        "try_cast('2024-01-01' AS DATE) = day",
    ],
)
def test_condition_stays_in_spark(condition: str) -> None:
    assert handed_down(condition) == ""


@pytest.mark.parametrize(
    ("condition", "change"),
    [
        ("ID = 5", {"case_sensitive": True}),
        ("name = 'a'", {"binary_texts": False}),
        ("day = '2024-01-01'", {"dates_as_texts": True}),
        ("at = '2024-01-01'", {"dates_as_texts": True}),
        ("at = TIMESTAMP '2024-01-01 00:00:00'", {"timestamps_have_zone": False}),
        ("at = TIMESTAMP '2024-01-01 00:00:00'", {"instant_of": lambda _: None}),
    ],
)
def test_condition_stays_in_a_session_where_it_means_something_else(condition: str, change: dict[str, object]) -> None:
    assert handed_down(condition) != ""
    assert handed_down(condition, dataclasses.replace(UTC, **change)) == ""  # type: ignore[arg-type]


def test_case_sensitive_sessions_choose_between_columns_that_differ_in_case() -> None:
    assert handed_down("Twice = 1", SessionRules(case_sensitive=True)) == "`Twice` = 1"


def test_long_list_that_the_enumerator_would_refuse_stays_in_spark() -> None:
    numbers = ", ".join(str(number) for number in range(30_000))
    assert handed_down(f"small = 1 AND id IN ({numbers})") == "`small` = 1"


def test_columns_are_those_named_else_the_narrowest() -> None:
    assert columns_in(SCHEMA, {"name", "id", "other"}) == ("id", "name")
    assert columns_in(SCHEMA, {"twice"}) == ("Twice", "twice")
    assert columns_in(SCHEMA, {"other"}) == ("open",)


@given(value=some.text(max_size=20))
def test_any_text_means_the_same_in_where_or_stays(value: str) -> None:
    where = where_of(Call("=", (Name(("name",)), Constant(Kind.TEXT, value))), SCHEMA, UTC)
    if where is not None:
        rows = pa.record_batch({"name": pa.array([value, value + "x", None])})
        assert evaluate(parse_predicate(where, rows.schema), rows).to_pylist() == [True, False, None]


@given(value=some.integers(-(2**63), 2**63 - 1), operator=some.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
def test_any_integer_compares_by_value(value: int, operator: str) -> None:
    condition: Expression = Call(operator, (Constant(Kind.INTEGER, value), Name(("id",))))
    where = where_of(condition, SCHEMA, UTC)
    assert where is not None
    near = [each for each in (value - 1, value, value + 1) if -(2**63) <= each < 2**63]
    rows = pa.record_batch({"id": pa.array(near, pa.int64())})
    python = "==" if operator == "=" else operator
    expected = [eval(f"{value} {python} {each}") for each in near]
    assert evaluate(parse_predicate(where, rows.schema), rows).to_pylist() == expected


@given(value=some.floats(allow_nan=True, allow_infinity=True))
def test_any_double_compares_by_value(value: float) -> None:
    where = where_of(Call("=", (Name(("ratio",)), Constant(Kind.DOUBLE, value))), SCHEMA, UTC)
    if where is None:
        assert value != value or abs(value) == float("inf")
    else:
        rows = pa.record_batch({"ratio": pa.array([value], pa.float64())})
        assert evaluate(parse_predicate(where, rows.schema), rows).to_pylist() == [True]


@given(moment=some.datetimes(dt.datetime(1900, 1, 2), dt.datetime(9999, 12, 30)))  # noqa: DTZ001
def test_any_instant_compares_by_value(moment: dt.datetime) -> None:
    value = pa.scalar(moment, pa.timestamp("us")).value
    where = where_of(Call("=", (Name(("at",)), Constant(Kind.INSTANT, value))), SCHEMA, UTC)
    assert where is not None
    rows = pa.record_batch({"at": pa.array([value], pa.timestamp("us", "UTC"))})
    assert evaluate(parse_predicate(where, rows.schema), rows).to_pylist() == [True]


@given(value=some.decimals(min_value=-(10**7), max_value=10**7, places=4))
def test_any_decimal_compares_by_value(value: Decimal) -> None:
    where = where_of(Call("<", (Name(("amount",)), Constant(Kind.DECIMAL, value))), SCHEMA, UTC)
    assert where is not None
    rows = pa.record_batch({"amount": pa.array([Decimal("12.50")], pa.decimal128(10, 2))})
    assert evaluate(parse_predicate(where, rows.schema), rows).to_pylist() == [Decimal("12.50") < value]


@pytest.mark.parametrize(
    ("wheres", "expected"),
    [
        (["`id` = 1", "`small` > 2"], "(`id` = 1) OR (`small` > 2)"),
        (["`id` = 1", "`id` = 1"], "(`id` = 1)"),
        (["`id` = 1 AND `small` > 2", "`id` = 3"], "(`id` = 1 AND `small` > 2) OR (`id` = 3)"),
        (["`id` = 1", ""], ""),
        ([f"`id` = {value}" for value in range(5000)], ""),
    ],
)
def test_where_of_scans_that_become_one(wheres: list[str], expected: str) -> None:
    assert where_of_any(wheres, SCHEMA) == expected
