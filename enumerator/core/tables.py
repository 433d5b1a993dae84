"""Decisions about the tables that administrators add and remove. Pure."""

from __future__ import annotations

from typing import Final

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.results import Decision, changes
from penstock.enumerator.core.state import State
from penstock.enumerator.core.table_records import TableAdded, TableDropped
from penstock.proto.errors import ConfigurationError, TableNotFound

MAX_ADDED: Final = 10_000
"""Tables that administrators may add."""


def add(state: State, event: ev.AddTable) -> Decision[None]:
    """Adds the table. The same table again changes nothing. ConfigurationError: the name has another table, or there
    are MAX_ADDED tables."""
    before = state.tables.get(event.table)
    if before is not None and before.path != event.path:
        raise ConfigurationError(
            f"table {event.table!r} was added with another path: remove it first (`penstock tables remove`)"
        )
    if before is None and len(state.tables) >= MAX_ADDED:
        raise ConfigurationError(f"{MAX_ADDED} tables were added, which is the maximum: remove some, or use a catalog")
    if before is not None and before.poll_interval_ms == event.poll_interval_ms:
        return changes()
    return changes(
        TableAdded(
            table=event.table,
            path=event.path,
            poll_interval_ms=event.poll_interval_ms,
            principal=event.principal,
        )
    )


def drop(state: State, table: str) -> Decision[None]:
    """Removes the table. TableNotFound if it was not added."""
    if table not in state.tables:
        raise TableNotFound(f"table {table[:200]!r} was not added, so it cannot be removed")
    return changes(TableDropped(table))
