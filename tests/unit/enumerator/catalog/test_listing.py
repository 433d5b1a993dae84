"""Which tables a catalog serves after a listing: names, patterns, unreadable parts, limits, two tables of one name."""

from __future__ import annotations

import pytest

from penstock.enumerator.catalog.adapter import Item, ListedTable, RefusedTable, UnreadablePart
from penstock.enumerator.catalog.listing import MAX_PROBLEMS, CatalogRules, Listing, refusal_of_path
from penstock.enumerator.tables.registry import TableEntry


def listed(*items: Item, before: tuple[TableEntry, ...] = (), rules: CatalogRules | None = None) -> Listing:
    listing = Listing(rules or CatalogRules(catalog="lake"), before)
    for item in items:
        listing.add(item)
    return listing


def names(listing: Listing) -> list[str]:
    return [entry.name for entry in listing.result()]


def table(name: str, path: str = "") -> ListedTable:
    return ListedTable(name, path or f"/lake/{name}")


def entry(name: str, path: str = "") -> TableEntry:
    return TableEntry(name, path or f"/lake/{name.removeprefix('lake.')}", "catalog lake")


def test_tables_have_the_name_of_the_catalog_as_prefix_and_its_interval() -> None:
    rules = CatalogRules(catalog="lake", poll_interval_ms=250)
    (only,) = listed(None, table("orders"), rules=rules).result()
    assert (only.name, only.path, only.poll_interval_ms) == ("lake.orders", "/lake/orders", 250)


def test_link_is_served_only_if_its_folder_is_not() -> None:
    link = ListedTable("alias", "/lake/alias", link_to="/lake/orders")
    for items in ((link, table("orders")), (table("orders"), link)):
        listing = listed(*items, before=(entry("lake.alias"),))
        assert names(listing) == ["lake.orders"]
        [problem] = listing.problems
        assert problem.startswith("lake.alias: a symbolic link to lake.orders: served once")
    rules = CatalogRules(catalog="lake", exclude=("orders",))
    assert names(listed(link, table("orders"), rules=rules)) == ["lake.alias"], "its folder is excluded"
    assert names(listed(link, ListedTable("other", "/lake/other", link_to="/lake/orders"))) == ["lake.alias"]


def test_tables_that_are_not_listed_go() -> None:
    assert names(listed(table("b"), before=(entry("lake.a"), entry("lake.b")))) == ["lake.b"]


@pytest.mark.parametrize(
    ("include", "exclude", "served"),
    [
        (("*",), (), ["lake.eu.a", "lake.eu.tmp_b", "lake.us.a"]),
        (("eu.*",), (), ["lake.eu.a", "lake.eu.tmp_b"]),
        (("*",), ("*tmp_*",), ["lake.eu.a", "lake.us.a"]),
        (("*.a",), ("us.*", "x"), ["lake.eu.a"]),
    ],
)
def test_include_and_exclude_are_patterns_of_names_in_the_catalog(
    include: tuple[str, ...], exclude: tuple[str, ...], served: list[str]
) -> None:
    rules = CatalogRules(catalog="lake", include=include, exclude=exclude)
    assert names(listed(table("eu.a"), table("eu.tmp_b"), table("us.a"), rules=rules)) == served


def test_unreadable_part_keeps_its_tables_and_no_others() -> None:
    before = (entry("lake.eu.a"), entry("lake.eu.b"), entry("lake.europe.c"), entry("lake.us.d"))
    listing = listed(UnreadablePart("eu", "no answer"), table("eu.b"), before=before)
    assert names(listing) == ["lake.eu.a", "lake.eu.b"]
    assert listing.problems == ["lake.eu: no answer"]


def test_listing_that_ended_early_keeps_all_tables() -> None:
    before = (entry("lake.a"), entry("lake.z"))
    assert names(listed(table("a"), UnreadablePart("", "too many"), before=before)) == ["lake.a", "lake.z"]


def test_refused_table_goes_even_if_it_was_served() -> None:
    listing = listed(RefusedTable("a", "a link leads out"), before=(entry("lake.a"),))
    assert (names(listing), listing.problems) == ([], ["lake.a: a link leads out"])


@pytest.mark.parametrize("name", ["a b", "a*", "[x]", "a/b", "a,b", "a=b", "a\x00b", "x" * 200, ""])
def test_names_that_no_pattern_or_flag_could_name_are_a_problem(name: str) -> None:
    listing = listed(table(name, "/lake/x"), table("good"))
    assert (names(listing), listing.problem_count) == (["lake.good"], 1)


def test_each_problem_is_one_line_without_control_characters() -> None:
    name = "a\nb\x1b[31m\udcff"
    listing = listed(RefusedTable(name, "no\rtable"), UnreadablePart(name, "no answer"), table(name, "/x"))
    assert listing.problem_count == 3
    for problem in listing.problems:
        assert problem.isprintable() and problem.encode() and r"a\nb\x1b[31m\udcff" in problem


def test_of_two_tables_of_one_name_the_served_one_stays_and_a_problem_is_reported() -> None:
    two = (table("a", "/one/a"), table("a", "/two/a"))
    for before, path in [
        ((), "/one/a"),
        ((entry("lake.a", "/two/a"),), "/two/a"),
        ((entry("lake.a", "/x"),), "/one/a"),
    ]:
        listing = listed(*two, before=before)
        assert [served.path for served in listing.result()] == [path]
        assert "two tables of this name" in listing.problems[0]


def test_tables_beyond_the_limit_are_one_problem_with_their_number() -> None:
    rules = CatalogRules(catalog="lake", max_tables=2)
    listing = listed(*map(table, "abcde"), rules=rules)
    assert (names(listing), listing.problem_count) == (["lake.a", "lake.b"], 1)
    assert "3 tables beyond the maximum of 2" in listing.problems[0]


def test_problems_are_counted_and_only_the_first_are_described() -> None:
    listing = listed(*(RefusedTable(f"t{number}", "x" * 1000) for number in range(50)))
    assert (listing.problem_count, len(listing.problems)) == (50, MAX_PROBLEMS)
    assert max(map(len, listing.problems)) <= 500


@pytest.mark.parametrize(("path", "is_refused"), [("/a", False), ("", True), ("/a\0", True), ("/" * 4097, True)])
def test_paths_are_bounded(path: str, is_refused: bool) -> None:
    assert bool(refusal_of_path(path)) == is_refused
