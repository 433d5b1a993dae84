"""Catalogs and their registry: tables come and go, failures keep what was, refresh, and the status tells it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from penstock.enumerator.catalog.adapter import Item, ListedTable, RefusedTable, UnreadablePart
from penstock.enumerator.catalog.catalogs import Catalog, Catalogs, log_changes
from penstock.enumerator.catalog.listing import CatalogRules
from penstock.enumerator.catalog_events import CatalogListed
from penstock.enumerator.observer import Observation
from penstock.enumerator.tables.registry import TableRegistry
from penstock.proto.errors import StorageError, TableNotFound


class Lake:
    """A scripted catalog, its registry and a clock."""

    def __init__(self, *names: str) -> None:
        self.items: list[Item] = [ListedTable(name, f"/lake/{name}") for name in names]
        self.error: BaseException | None = None
        self.now_ms = 0
        self.opened = 0
        self.during: Callable[[], object] = lambda: None
        self.events: list[Observation] = []
        self.registry = TableRegistry({"own": "/own"})
        self.catalog = Catalog(CatalogRules(catalog="lake"), "folders", self.adapter, interval_s=3600)
        self.catalogs = Catalogs(
            [self.catalog],
            self.registry,
            clock_ms=lambda: self.now_ms,
            wall_ms=lambda: 1_800_000_000_000 + self.now_ms,
            observer=self,
        )

    def observe(self, event: Observation) -> None:
        self.events.append(event)

    def adapter(self) -> Lake:
        self.opened += 1
        return self

    def listing(self) -> Iterator[Item]:
        for item in self.items:
            self.during()
            yield item
        if self.error is not None:
            raise self.error

    def names(self) -> tuple[str, ...]:
        self.catalogs.list_once("lake")
        return self.registry.names()


def test_tables_come_and_go_with_each_listing() -> None:
    lake = Lake("a", "b")
    assert lake.names() == ("lake.a", "lake.b", "own")
    lake.items = [ListedTable("b", "/lake/b"), ListedTable("c", "/lake/c")]
    assert lake.names() == ("lake.b", "lake.c", "own")
    assert lake.catalogs.list_once("lake") is None
    (status,) = lake.catalogs.statuses()
    assert (status.tables, status.error, status.listed_ms) == (2, "", 1_800_000_000_000)


@pytest.mark.parametrize("error", [StorageError("down"), MemoryError("full"), RecursionError("deep")])
def test_failed_listing_keeps_the_tables_and_is_the_error_of_the_catalog(error: BaseException) -> None:
    lake = Lake("a")
    lake.names()
    lake.items, lake.error, lake.now_ms = [ListedTable("b", "/b")], error, 5_000
    assert lake.names() == ("lake.a", "own")
    (status,) = lake.catalogs.statuses()
    assert str(error) in status.error and status.error_code and status.listed_ms == 1_800_000_000_000
    lake.error = None
    assert lake.names() == ("lake.b", "own")
    assert (lake.catalogs.statuses()[0].error_code, lake.opened) == ("", 2)


def test_problems_are_in_the_status() -> None:
    lake = Lake()
    lake.items = [RefusedTable("x", "a link"), UnreadablePart("y", "denied")]
    lake.names()
    (status,) = lake.catalogs.statuses()
    assert (status.problem_count, status.problems) == (2, ("lake.x: a link", "lake.y: denied"))


def test_each_listing_is_observed() -> None:
    lake = Lake("a")
    lake.names()
    lake.error = StorageError("down")
    lake.names()
    assert [(event.code, event.tables) for event in lake.events if isinstance(event, CatalogListed)] == [
        ("", 1),
        ("STORAGE", 1),
    ]


def test_listing_that_does_not_answer_is_an_error_while_it_lasts() -> None:
    lake, codes = Lake("a"), list[str]()

    def hang() -> None:
        for _ in range(2):
            lake.now_ms += 31_000
            codes.append(lake.catalogs.statuses()[0].error_code)

    lake.during = hang
    lake.names()
    assert (codes, lake.catalogs.statuses()[0].error_code) == (["", "STORAGE"], "")


def test_refresh_lists_now_and_returns_after_the_listing() -> None:
    lake = Lake("a")
    lake.catalogs.start()
    try:
        lake.catalogs.wait_for_first(60)
        lake.items = [ListedTable("b", "/b")]
        (status,) = lake.catalogs.refresh("lake", 60)
        assert (status.tables, lake.registry.names()) == (1, ("lake.b", "own"))
        assert len(lake.catalogs.refresh("", 60)) == 1
        with pytest.raises(TableNotFound, match="configured: lake"):
            lake.catalogs.refresh("nope", 60)
    finally:
        lake.catalogs.stop()


def test_refresh_of_a_slow_catalog_says_so_and_another_catalog_goes_on() -> None:
    lake, release = Lake("a"), threading.Event()
    fast = Lake("x")
    other = Catalog(CatalogRules(catalog="fast"), "file", fast.adapter, interval_s=3600)
    catalogs = Catalogs([lake.catalog, other], lake.registry)
    lake.during = release.wait
    catalogs.start()
    try:
        with pytest.raises(StorageError, match="lake has not ended"):
            catalogs.refresh("lake", 0.01)
        assert catalogs.refresh("fast", 60)[0].tables == 1
        assert "fast.x" in lake.registry.names()
        release.set()
        assert catalogs.refresh("lake", 60)[0].tables == 1
    finally:
        release.set()
        catalogs.stop()


def test_change_is_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    lake = Lake(*(f"t{number:02}" for number in range(30)))
    lake.registry.subscribe(log_changes)
    with caplog.at_level("INFO", logger="penstock.enumerator"):
        lake.names()
    (line,) = [record.getMessage() for record in caplog.records if "tables changed" in record.getMessage()]
    assert "added=30" in line and "lake.t19" in line and "lake.t20" not in line
