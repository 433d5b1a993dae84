"""A scripted table for both enumerators: the embedded one, and the same one served on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.proto.errors import PositionExpired
from tests.contract.scripted_lake import ManyTables, many_tables
from tests.contract.scripted_table import (
    Clock,
    Deployment,
    ScriptedGroups,
    ScriptedTable,
    _served,
    embedded_over,
)


@pytest.fixture(params=["embedded", "served"])
def deployment(request: pytest.FixtureRequest) -> Iterator[Deployment]:
    """Each test of the contract runs with both."""
    table, clock = ScriptedTable(), Clock()
    embedded = embedded_over(table, clock)
    if request.param == "embedded":
        yield Deployment(embedded, table, clock, embedded, None, groups := ScriptedGroups(), groups)
        return
    yield from _served(table, clock, embedded)


@pytest.fixture(params=["embedded", "served"])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ManyTables]:
    """Scripted tables with the service over them, in this process and over gRPC."""
    with many_tables(monkeypatch, served=request.param == "served") as many:
        yield many


@pytest.fixture
def table() -> ScriptedTable:
    """A separate table, for an enumerator that a test creates."""
    return ScriptedTable()


@pytest.fixture
def served() -> Iterator[Deployment]:
    """Only the served enumerator."""
    table, clock = ScriptedTable(), Clock()
    embedded = embedded_over(table, clock)
    yield from _served(table, clock, embedded)


@pytest.fixture
def expired() -> PositionExpired:
    """An error whose text must arrive unchanged."""
    return PositionExpired("cannot plan trips: position 1 is gone\n  got 1, expected ≥ 5: start anew (100 % sure)")
