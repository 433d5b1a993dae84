"""Text outside the grammar of filters is refused with its place and reason, and no text fails in another way."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import ConfigurationError
from penstock.table.predicate.grammar import MAX_DEPTH
from penstock.table.predicate.parse import parse_predicate
from penstock.table.predicate.tree import Compare, Or
from tests.unit.table.predicate.test_parse import SCHEMA, parsed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read the filter"),
        ("id =", "cannot read the filter"),
        ("id = 1 name", "cannot read the filter"),
        ("id = 1; drop table t", "';' in the filter"),
        ("name = 'x", "cannot read the filter"),
        ("(id = 1", "cannot read the filter"),
        ("nope = 1", "no column 'nope'"),
        ("place.nope = 1", "no column 'nope'"),
        ("id.x = 1", "it has no field 'x'"),
        ("id = 'x'", "compare it with a number"),
        ("name = 1", "compare it with a quoted text"),
        ("ok < true", "compare it with = or != TRUE or FALSE"),
        ("day = 1", "compare it with DATE"),
        ("day = TIMESTAMP '2024-01-01 00:00:00'", "compare it with DATE"),
        ("at = 5", "compare it with TIMESTAMP"),
        ("id", "does not match this type"),
        ("raw = 'x'", "compare it with X"),
        ("tags = 'x'", "only IS"),
        ("place = 'x'", "only IS"),
        ("day = '2024-02-30'", "not a date"),
        ("day = '2024-2-3'", "not a date"),
        ("at = '2024-01-01 25:00:00'", "not a timestamp"),
        ("at = '2024-01-01 10:00:00.1234567'", "not a timestamp"),
        ("at = '2024-01-01 10:00:00+99:00'", "not a zone"),
        ("local = '2024-01-01 10:00:00Z'", "must have no zone"),
        ("clock = '24:00:00'", "not a time of day"),
        ("id = null", "IS NULL"),
        ("id in (1, null)", "IS NULL"),
        ("id in ()", "not supported"),
        ("id in (select 1)", "not supported"),
        ("id = n", "not supported"),
        ("1 = 1", "not supported"),
        ("true", "not supported"),
        ('"id" = 1', "backticks"),
        ("name = 'it''s'", r"write a quote inside a text as \\'"),
        ("name like name", "not supported"),
        ("id like 'a%'", "LIKE is for text"),
        ("name rlike 'a'", "not supported"),
        ("id <=> 1", "not supported"),
        ("ok is true", "not supported"),
        ("id + 1 = 2", "not supported"),
        ("id[0] = 1", "not supported"),
        ("id" + ".x" * 2500 + " = 1", "nested deeper"),
        ("id = 1.5L", "not supported"),
        ("id = 9223372036854775808L", "not supported"),
        ("id = CAST(1.5 AS INT)", "not supported"),
        ("id = CAST(1.5 AS DECIMAL)", "not supported"),
        ("id = 1.5::DECIMAL", "not supported"),
        ("x = CAST('NaN' AS DOUBLE)", "isnan"),
        ("x = CAST('1_0' AS DOUBLE)", "not a number"),
        ("raw = X'0G'", "filter"),
        ("isnan(name)", "expected numbers"),
        ("f IN (0.1D)", "which has no value 0.1"),
        ("signbit(id, n)", "not supported"),
        ("name like 'a\\\\b'", "only %, _"),
        ("name like 'a\\\\'", "only %, _"),
        ("name like 'a!b' escape '!'", "only %, _"),
        ("name like 'a' escape '%'", "expected one character"),
        ("name like 'a' escape 'ab'", "expected one character"),
        ("name like '%" + "a_" * 250 + "'", "more than 500 characters"),
        ("id ilike '1'", "LIKE is for text"),
        ("abs(name) = 1", "expected numbers"),
        ("upper(id) = '1'", "expected text"),
        ("length(day) = 1", "expected text or bytes"),
        ("year(name) = 1", "expected dates or timestamps"),
        ("day(id) = 1", "expected dates or timestamps"),
        ("date(name) = DATE '2024-01-01'", "only casts that cannot fail"),
        ("to_date(name) = DATE '2024-01-01'", "expected a date"),
        ("cast(name as int) = 1", "only casts that cannot fail"),
        ("cast(n as int) = 1", "only casts that cannot fail"),
        ("cast(x as int) = 1", "only casts that cannot fail"),
        ("cast(x as string) = '1'", "only casts that cannot fail"),
        ("cast(at as string) = '1'", "only casts that cannot fail"),
        ("cast(local as timestamp) = '2024-01-01'", "only casts that cannot fail"),
        ("cast(amount as decimal(5, 2)) = 1", "only casts that cannot fail"),
        ("cast(amount as decimal(12, 1)) = 1", "only casts that cannot fail"),
        ("cast(n as decimal(19, 1)) = 1", "only casts that cannot fail"),
        ("coalesce(id, n) = 1", "the type of id"),
        ("coalesce(id, 1.5) = 1", "expected a value of type"),
        ("coalesce(id, 'x') = 1", "does not match this type"),
        ("coalesce(local, '2024-01-01 00:00:00Z') = '2024-01-01'", "must have no zone"),
        ("concat(name, id) = 'x'", "expected text"),
        ("concat(name) = 'x'", "not supported|cannot read"),
        (f"concat({', '.join(['name'] * 33)}) = 'x'", "more than 32 texts"),
        ("concat(concat(name, name, name), " * 11 + "name" + ")" * 11 + " = 'x'", "more than 32 texts"),
        ("substring(name, id) = 'x'", "not supported|whole numbers"),
        ("substring(name, 1.5) = 'x'", "whole numbers"),
        ("substring(name, 1, 99999999999) = 'x'", "whole numbers"),
        ("trim('x' from name) = 'x'", "not supported"),
        ("current_date = day", "not supported"),
        ("rand() < 1", "not supported"),
        ("upper(name) = lower(name)", "not supported"),
        ("upper(name)", "does not match this type"),
        ("abs(id) = -abs(id)", "not supported"),
        ("upper(" * 17 + "name" + ")" * 17 + " = 'x'", "nested deeper"),
        ("name || " * 2000 + "name = 'x'", "more than 32 texts"),
        ("id" + "::bigint" * 2000 + " = 1", "nested deeper"),
        ("case when ok then true end", "not supported"),
        ("exists (select 1)", "not supported"),
        ("id = 1e999999", "more than 400 digits or an exponent beyond 400"),
        ("x = 1e400", "beyond what column 'x'"),
        ("not " * (MAX_DEPTH + 1) + "ok", "nested deeper"),
        ("(" * (MAX_DEPTH + 1) + "ok" + ")" * (MAX_DEPTH + 1), "nested deeper"),
        ("id = 1 or " * 20_000 + "ok", "characters"),
    ],
)
def test_text_outside_the_grammar_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        parsed(text)
    assert len(str(caught.value)) < 1000


def test_deepest_and_the_longest_filter_are_read() -> None:
    assert isinstance(parsed("(" * MAX_DEPTH + "ok" + ")" * MAX_DEPTH), Compare)
    longest = parsed(" or ".join(["id=1"] * 1500))
    assert isinstance(longest, Or)
    assert len(longest.terms) == 1500


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_a_configuration_error(text: str) -> None:
    with contextlib.suppress(ConfigurationError):
        parse_predicate(text, SCHEMA)


@given(
    st.recursive(
        st.sampled_from(
            [
                "id",
                "=",
                "<",
                "1",
                "'a'",
                "and",
                "or",
                "not",
                "in",
                "(",
                ")",
                ",",
                "between",
                "like",
                "is",
                "null",
                "upper(",
                "cast(",
                "as int)",
                "coalesce(",
                "||",
                "escape",
                "`",
                "date",
                ".",
            ]
        ),
        lambda inner: st.lists(inner, min_size=1, max_size=6).map(" ".join),
        max_leaves=20,
    )
)
def test_any_words_are_a_filter_or_a_configuration_error(text: str) -> None:
    with contextlib.suppress(ConfigurationError):
        parse_predicate(text, SCHEMA)
