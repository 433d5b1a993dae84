"""Tables that administrators add and remove, as events of the core."""

from __future__ import annotations

import pytest

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.tables import TableAdded
from penstock.proto.errors import ConfigurationError, TableNotFound
from tests.unit.enumerator.core.groups import Core


def test_added_table_is_served_until_it_is_removed() -> None:
    core = Core()
    core.handle(ev.AddTable(table="orders", path="s3://a/orders", poll_interval_ms=500, principal="alice"))
    core.handle(ev.AddTable(table="items", path="s3://a/items"))
    orders = TableAdded(table="orders", path="s3://a/orders", poll_interval_ms=500, principal="alice")
    assert core.state.tables == {"orders": orders, "items": TableAdded(table="items", path="s3://a/items")}
    core.handle(ev.DropTable("items"))
    assert core.state.tables == {"orders": orders}


def test_same_table_again_changes_only_its_interval() -> None:
    core = Core()
    core.handle(ev.AddTable(table="orders", path="p", poll_interval_ms=500, principal="alice"))
    before = core.state.tables["orders"]
    core.handle(ev.AddTable(table="orders", path="p", poll_interval_ms=500, principal="bob"))
    assert core.state.tables["orders"] is before
    core.handle(ev.AddTable(table="orders", path="p", principal="bob"))
    assert core.state.tables["orders"] == TableAdded(table="orders", path="p", principal="bob")


def test_other_path_and_unknown_table_are_refused() -> None:
    core = Core()
    core.handle(ev.AddTable(table="orders", path="p"))
    with pytest.raises(ConfigurationError, match="table 'orders' was added with another path"):
        core.handle(ev.AddTable(table="orders", path="q"))
    with pytest.raises(TableNotFound, match="table 'items' was not added"):
        core.handle(ev.DropTable("items"))
    assert list(core.state.tables) == ["orders"]
