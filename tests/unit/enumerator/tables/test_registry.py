"""Names, patterns, sources, conflicts, limits and listeners of the registry of tables."""

from __future__ import annotations

import pytest

from penstock.enumerator.tables.registry import RegistryChange, TableEntry, TableRegistry
from penstock.proto.errors import ConfigurationError, TableNotFound


def entries(**paths: str) -> list[TableEntry]:
    return [TableEntry(name.replace("__", "."), path) for name, path in paths.items()]


def registry(**paths: str) -> TableRegistry:
    return TableRegistry({name.replace("__", "."): path for name, path in paths.items()}, default_interval_ms=5_000)


def test_names_are_sorted_and_every_name_is_a_path_without_a_registry() -> None:
    named = registry(b="/b", a="/a")
    assert (named.names(), named.path("b"), named.version) == (("a", "b"), "/b", 1)
    assert [entry.path for entry in named.entries()] == ["/a", "/b"]
    unnamed = TableRegistry()
    assert (unnamed.names(), unnamed.path("/x/y"), unnamed.version) == ((), "/x/y", 0)
    for some in (named, unnamed):
        with pytest.raises(ConfigurationError):
            some.entry("")


def test_unknown_name_names_the_nearest_one() -> None:
    with pytest.raises(TableNotFound, match=r"'orderz'.*did you mean 'orders'.*registered: orders, trips"):
        registry(orders="/o", trips="/t").path("orderz")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("sales.*", ("sales.eu.orders", "sales.orders")),
        ("*.orders", ("sales.eu.orders", "sales.orders")),
        ("sales.orders", ("sales.orders",)),
        ("sales.[a-n]*", ("sales.eu.orders",)),
        ("SALES.*", ()),
        ("*", ("hr.staff", "sales.eu.orders", "sales.orders")),
    ],
)
def test_patterns_are_shell_patterns_on_served_names(pattern: str, names: tuple[str, ...]) -> None:
    tables = registry(sales__orders="/1", sales__eu__orders="/2", hr__staff="/3")
    assert tables.matching(pattern) == names


@pytest.mark.parametrize("pattern", ["", "*" * 401])
def test_empty_and_too_long_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="1 to 400"):
        registry(a="/a").matching(pattern)


def test_hostile_pattern_ends_soon() -> None:
    tables = TableRegistry({"a" * 200: "/a"})
    assert tables.matching("*a" * 199 + "b") == ()


def test_source_is_replaced_and_listeners_get_each_difference_in_order() -> None:
    tables, changes = registry(a="/a"), list[RegistryChange]()
    tables.subscribe(changes.append)
    tables.put_source("catalog lake", entries(lake__x="/x", lake__y="/y"))
    tables.put_source("catalog lake", entries(lake__y="/moved", lake__z="/z"))
    assert tables.put_source("catalog lake", entries(lake__y="/moved", lake__z="/z")) is None
    assert tables.names() == ("a", "lake.y", "lake.z")
    assert [change.version for change in changes] == [2, 3]
    assert [entry.name for entry in changes[0].added] == ["lake.x", "lake.y"]
    (added,), (removed,), ((before, after),) = changes[1].added, changes[1].removed, changes[1].changed
    assert (added.name, removed.name, before.path, after.path) == ("lake.z", "lake.x", "/y", "/moved")
    assert added.source == "catalog lake"


def test_exception_of_one_listener_does_not_keep_the_change_from_others() -> None:
    tables, changes = registry(), list[RegistryChange]()

    def fail(change: RegistryChange) -> None:
        raise RuntimeError("broken")

    tables.subscribe(fail)
    tables.subscribe(changes.append)
    assert tables.put_source("admin", entries(a="/a")) == changes[0]
    assert tables.names() == ("a",)


def test_table_keeps_its_name_when_another_source_names_one_too() -> None:
    tables = registry()
    tables.put_source("first", ())
    tables.put_source("second", entries(a="/second"))
    assert tables.put_source("first", entries(a="/first", b="/b")) is not None
    assert tables.path("a") == "/second"
    (conflict,) = tables.conflicts()
    assert (conflict.refused.path, conflict.served.path) == ("/first", "/second")
    tables.put_source("second", ())
    assert (tables.path("a"), tables.conflicts()) == ("/first", ())


def test_first_source_and_first_entry_have_the_name_among_new_tables() -> None:
    tables = registry(a="/config")
    tables.put_source("catalog", [TableEntry("a", "/late"), TableEntry("b", "/b1"), TableEntry("b", "/b2")])
    assert [tables.path(name) for name in tables.names()] == ["/config", "/b1"]
    assert [conflict.refused.path for conflict in tables.conflicts()] == ["/late", "/b2"]


def test_tables_beyond_the_limit_are_counted_and_served_ones_stay() -> None:
    tables = TableRegistry({"m": "/m"}, max_tables=2)
    tables.put_source("catalog", entries(b="/b", c="/c", d="/d"))
    assert (tables.names(), tables.beyond_limit) == (("b", "m"), 2)
    tables.put_source("catalog", entries(a="/a", b="/b"))
    assert (tables.names(), tables.beyond_limit) == (("b", "m"), 1)


def test_interval_is_that_of_the_entry_or_the_default() -> None:
    tables = TableRegistry({"a": "/a"}, default_interval_ms=5_000)
    tables.put_source("catalog", [TableEntry("b", "/b", poll_interval_ms=100)])
    assert [tables.interval_ms(name) for name in ("a", "b", "unknown")] == [5_000, 100, 5_000]
