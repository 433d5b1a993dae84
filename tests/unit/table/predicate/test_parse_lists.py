"""Long lists in a filter mean what short ones mean, and too many parts are refused before they are parsed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import ConfigurationError
from penstock.table.predicate import grammar
from penstock.table.predicate.grammar import MAX_ALL_TOKENS, MAX_TOKENS
from penstock.table.predicate.tree import And, Or
from tests.unit.table.predicate.test_parse import parsed

LITERALS = st.lists(
    st.sampled_from(
        [
            "1",
            "-7",
            "2.50",
            "1e3",
            "1.5D",
            "-2D",
            "DATE '2024-01-01'",
            "TIMESTAMP '2024-01-01'",
            "X'0A'",
            "'a'",
            "'b''c'",
            "'x,y)'",
            "'\ue0000'",
            "'2024-01-01'",
        ]
    ),
    min_size=1,
    max_size=6,
)


def outcome(text: str, long_list: int) -> Any:
    """The parsed filter, or its error, if IN lists of more than `long_list` literals bypass the parser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammar, "_LONG_LIST", long_list)
        try:
            return parsed(text)
        except ConfigurationError as error:
            return str(error).partition(";")[0]


@given(
    lists=st.lists(LITERALS, min_size=1, max_size=3),
    columns=st.lists(st.sampled_from(["id", "amount", "x", "Name", "at", "ok", "place.City"]), min_size=3, max_size=3),
    form=st.sampled_from(["{0}", "NOT {0} OR ok", "ok AND ({0} OR {1})", "{0} AND NOT {1} AND {2}", "{2} = TRUE"]),
    negated=st.booleans(),
)
def test_long_lists_mean_what_short_ones_mean(
    lists: list[list[str]], columns: list[str], form: str, negated: bool
) -> None:
    parts = [
        f"{column} {'NOT IN' if negated else 'IN'} ({', '.join(lists[number % len(lists)])})"
        for number, column in enumerate(columns)
    ]
    text = form.format(*parts)
    expected, result = outcome(text, 1 << 20), outcome(text, 0)
    if isinstance(expected, str) and "…" in str(result):
        return  # the same error, with the literals left out of the text that it shows
    assert result == expected


@pytest.mark.parametrize(
    "item", ["TRUE", "NULL", "DATE '2024-01-01'", "n", "(1)", "1 + 1", "'a' 'b'", "1L", "CAST(1 AS INT)", "- - 1", ""]
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_lists_with_other_items_are_parsed_by_the_grammar(item: str, place: int) -> None:
    items = ["1", "2"]
    items.insert(place, item)
    text = f"n IN ({', '.join(items)}) AND ok"
    assert outcome(text, 0) == outcome(text, 1 << 20)


def test_text_that_looks_like_the_mark_of_a_list_is_a_text() -> None:
    many = ", ".join(f"'{number}'" for number in range(30))
    result = parsed(f"Name IN ({many}) OR Name IN ('\ue0000')")
    assert isinstance(result, Or)
    assert result.terms[1].values.to_pylist() == ["\ue0000"]
    assert len(result.terms[0].values) == 30


def test_lists_of_thousands_are_taken() -> None:
    numbers = list(range(10_000))
    result = parsed(f"id IN ({','.join(map(str, numbers))}) AND ok")
    assert isinstance(result, And)
    assert result.terms[0].values.to_pylist() == numbers


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (" OR ".join(["ok"] * MAX_TOKENS), MAX_TOKENS),
        ("ok IN (" + ",".join(["TRUE"] * (MAX_TOKENS // 2)) + ")", MAX_TOKENS),
        (f"id IN ({','.join(['1'] * MAX_ALL_TOKENS)})", MAX_ALL_TOKENS),
        (" OR ".join(["id IN (1)"] * (MAX_TOKENS // 5)), MAX_TOKENS),
    ],
    ids=["terms", "booleans", "literals", "lists"],
)
def test_filters_of_many_parts_are_refused_before_they_are_parsed(
    text: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammar, "Dialect", None)  # the way to the parser
    with pytest.raises(ConfigurationError, match=f"at most {most} are allowed"):
        parsed(text)
