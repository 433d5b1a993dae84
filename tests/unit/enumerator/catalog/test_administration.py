"""Tables added and removed by administrators: what is refused, what is durable, and the list of tables."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.enumerator.catalog.administration import TableAdministration
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.enumerator.tables.registry import TableEntry, TableRegistry
from penstock.enumerator.visibility import restricted
from penstock.proto.errors import ConfigurationError, CorruptFile, PermissionDenied, TableNotFound


class World:
    """An administration without storage."""

    def __init__(self, state: State | None = None, add_from: tuple[str, ...] | None = None) -> None:
        self.registry = TableRegistry({"own": "/own"}, max_tables=4)
        self.registry.put_source("catalog lake", [TableEntry("lake.a", "/lake/a")])
        self.troubles: dict[str, tuple[str, str]] = {}
        self.checked: list[str] = []
        self.error: Exception | None = None
        self.coordinator = Coordinator(clock_ms=lambda: 0, settings=CoordinatorSettings(), state=state)
        health: Any = self
        self.tables = TableAdministration(self.registry, self.coordinator, health, self.check, add_from=add_from)
        self.tables.restore()

    def trouble_of(self, name: str) -> tuple[str, str]:
        return self.troubles.get(name, ("", ""))

    def check(self, path: str) -> None:
        self.checked.append(path)
        if self.error is not None:
            raise self.error

    def restarted(self) -> World:
        """A world on the state that the log of this one restores."""
        state = State()
        for record in self.coordinator.read(lambda before: tuple(compacted_records(before))):
            apply(state, record)
        return World(state)


def test_added_table_is_opened_served_and_survives_a_restart() -> None:
    world = World()
    added = world.tables.add_table("sales.orders", "/lake/orders", poll_interval_ms=500, principal="token:ops")
    assert (added.table, added.source, added.path) == ("sales.orders", "admin", "/lake/orders")
    assert (world.checked, world.registry.interval_ms("sales.orders")) == (["/lake/orders"], 500)
    later = world.restarted()
    assert later.registry.entry("sales.orders") == world.registry.entry("sales.orders")
    assert later.coordinator.read(lambda state: state.tables["sales.orders"].principal) == "token:ops"
    later.tables.remove_table("sales.orders")
    assert later.registry.names() == later.restarted().registry.names() == ("lake.a", "own")


def test_same_table_again_changes_nothing_and_another_path_is_refused() -> None:
    world = World()
    world.tables.add_table("x", "/x")
    version = world.registry.version
    world.tables.add_table("x", "/x")
    assert world.registry.version == version
    with pytest.raises(ConfigurationError, match="served already, by the admin, at /x"):
        world.tables.add_table("x", "/y")


@pytest.mark.parametrize("name", ["own", "lake.a"])
def test_name_of_the_configuration_or_of_a_catalog_is_taken_and_not_removed(name: str) -> None:
    world = World()
    with pytest.raises(ConfigurationError, match="served already"):
        world.tables.add_table(name, "/other")
    with pytest.raises(ConfigurationError, match="remove it there"):
        world.tables.remove_table(name)
    assert world.registry.names() == ("lake.a", "own")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a b", "/x"),
        ("*", "/x"),
        ("", "/x"),
        ("x" * 201, "/x"),
        ("x", ""),
        ("x", "relative/path"),
        ("x", "/lake/../etc"),
        ("x", "file:///lake/../etc"),
        ("x", "s3://bucket/lake/%2E%2e/etc"),
        ("x", "s3://bucket/lake/.."),
        ("x", "s3://key:secret@bucket/x"),
        ("x", "s3://bucket/x?access_key=a&secret_key=b"),
        ("x", "ftp://host/x"),
    ],
)
def test_names_and_paths_that_cannot_be_are_refused_before_storage_is_read(name: str, path: str) -> None:
    world = World()
    with pytest.raises(ConfigurationError) as refused:
        world.tables.add_table(name, path)
    assert "secret" not in str(refused.value)
    assert (world.checked, world.registry.names()) == ([], ("lake.a", "own"))


def test_only_paths_that_the_configuration_allows_are_added() -> None:
    world = World(add_from=("/lake/*", "s3://bucket/*"))
    with pytest.raises(ConfigurationError, match="addFrom"):
        world.tables.add_table("x", "/etc/x")
    assert world.tables.add_table("x", "/lake/x").path == "/lake/x"
    with pytest.raises(ConfigurationError, match="addFrom"):
        World(add_from=()).tables.add_table("x", "/lake/x")


def test_wildcards_do_not_allow_another_host() -> None:
    """The query of a URI may name the host that gets signed requests."""
    world = World(add_from=("s3://bucket/*", "s3://east/*?region=us-east-1"))
    for path in ("s3://bucket/t?endpoint_override=other.example&scheme=http", "s3://east/t", "s3://east/t?region=x"):
        with pytest.raises(ConfigurationError, match="does not allow tables at"):
            world.tables.add_table("x", path)
    world.tables.add_table("x", "s3://east/t?region=us-east-1")


def test_table_for_which_there_is_no_room_is_not_added() -> None:
    world = World()
    for name in "xy":
        world.tables.add_table(name, f"/{name}")
    with pytest.raises(ConfigurationError, match=r"as many tables as it may: raise `limits.tables`"):
        world.tables.add_table("z", "/z")
    assert "z" not in world.coordinator.read(lambda state: state.tables)


def test_without_patterns_only_callers_that_administer_all_tables_add_paths() -> None:
    world = World()
    for patterns, granted, allowed in ((None, "x", False), (None, "*", True), (("/lake/*",), "x", True)):
        world = World(add_from=patterns)
        with restricted(lambda right, table, group, granted=granted: (right, table) == ("admin", granted)):
            if allowed:
                assert world.tables.add_table("x", "/lake/x").table == "x"
            else:
                with pytest.raises(PermissionDenied, match="addFrom"):
                    world.tables.add_table("x", "/lake/x")
        assert bool(world.checked) == allowed, "storage is not read for a caller that may not add the path"


def test_table_that_cannot_be_opened_is_not_added() -> None:
    world = World()
    world.error = CorruptFile("no table")
    with pytest.raises(CorruptFile):
        world.tables.add_table("x", "/x")
    assert "x" not in world.registry.names()


def test_interval_is_bounded_and_unknown_tables_are_not_removed() -> None:
    world = World()
    with pytest.raises(ConfigurationError, match="got 5 ms"):
        world.tables.add_table("x", "/x", poll_interval_ms=5)
    with pytest.raises(TableNotFound):
        world.tables.remove_table("x")
    with pytest.raises(TableNotFound, match="no catalog"):
        world.tables.refresh_tables()


def test_list_has_the_errors_of_tables_and_names_those_that_are_not_served() -> None:
    world = World()
    world.troubles["own"] = ("STORAGE", "down")
    world.registry.put_source(
        "catalog two", [TableEntry("own", "/two/own"), TableEntry("b", "s3://u:p@b/x?secret_key=z")]
    )
    world.registry.put_source("catalog three", [TableEntry(name, f"/{name}") for name in "cde"])
    listed = world.tables.list_tables(catalogs=True)
    assert [(each.table, each.error_code) for each in listed.tables] == [
        ("b", ""),
        ("c", ""),
        ("lake.a", ""),
        ("own", "STORAGE"),
    ]
    assert listed.tables[0].path == "s3://b/x"
    assert listed.version == world.registry.version
    conflict, beyond = listed.problems
    assert "own: the table of catalog two at /two/own is not served: config has a table" in conflict
    assert "2 tables beyond limits.tables" in beyond
    assert [each.table for each in world.tables.list_tables("lake.*").tables] == ["lake.a"]
    assert world.tables.list_tables("lake.*").problems == ()
