"""Names of views: safe for SQL, and never shared by two tables."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.spark.catalog.view_names import safe_name, view_names
from penstock.errors import ConfigurationError


@pytest.mark.parametrize(
    ("table", "view"),
    [
        ("orders", "orders"),
        ("Orders", "Orders"),
        ("sales.orders-eu", "sales_orders_eu"),
        ("2026 orders", "t_2026_orders"),
        ("größe`; drop", "gr__e___drop"),
    ],
)
def test_other_characters_become_underscores(table: str, view: str) -> None:
    assert safe_name(table) == view


def test_prefix_precedes_the_name() -> None:
    assert safe_name("2026", "lake_") == "lake_2026"
    assert view_names(["a", "b"], prefix="lake_").views == {"a": "lake_a", "b": "lake_b"}


@given(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=8), st.sampled_from(["", "p_", "P"]))
def test_views_are_safe_and_distinct_and_every_table_is_accounted_for(tables: list[str], prefix: str) -> None:
    planned = view_names(tables, prefix)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", view) for view in planned.views.values())
    assert len({view.lower() for view in planned.views.values()}) == len(planned.views)
    assert sorted([*planned.views, *planned.refused]) == sorted(tables)


def test_tables_whose_views_have_one_name_are_all_refused() -> None:
    planned = view_names(["a-b", "A.b", "c"])
    assert planned.views == {"c": "c"}
    assert planned.refused.keys() == {"a-b", "A.b"}
    assert "is also that of A.b: give another name, such as names={'a-b': 'a_b_2'}" in planned.refused["a-b"]


def test_given_name_ends_a_clash_or_causes_one() -> None:
    assert view_names(["a-b", "a.b"], names={"a.b": "other"}).views == {"a-b": "a_b", "a.b": "other"}
    assert view_names(["a", "b"], names={"a": "B"}).views == {}


@pytest.mark.parametrize("name", ["", "1a", "a b", "a`b", "a.b", "ä"])
def test_given_name_that_is_no_name_is_an_error(name: str) -> None:
    with pytest.raises(ConfigurationError, match="expected ASCII letters, digits and _"):
        view_names(["t"], names={"t": name})


def test_invalid_prefix_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="prefix: got 'a-'"):
        view_names(["t"], prefix="a-")


def test_name_for_an_unknown_table_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="no table 'oders': did you mean orders"):
        view_names(["orders"], names={"oders": "x"})
