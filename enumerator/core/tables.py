"""The tables that administrators add and remove: their records and decisions; `records` lists all records. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import ConfigurationError, TableNotFound

MAX_ADDED: Final = 10_000
"""Tables that administrators may add."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAdded:
    """An administrator added a table to those that are served."""

    table: str
    """The name under which it is served."""
    path: str
    """Its path or URI, without credentials."""
    poll_interval_ms: int | None = None
    """How often it is checked for new commits; None: the server's interval."""
    principal: str = ""
    """Principal that added it; '' without authentication."""


@dataclass(frozen=True, slots=True)
class TableDropped:
    """An administrator removed an added table."""

    table: str
    """Its name."""


TableRecord = TableAdded | TableDropped


def add(tables: Mapping[str, TableAdded], added: TableAdded) -> tuple[TableRecord, ...]:
    """Adds the table. The same table again changes nothing. ConfigurationError: the name has another table, or there
    are MAX_ADDED tables."""
    before = tables.get(added.table)
    if before is not None and before.path != added.path:
        raise ConfigurationError(
            f"table {added.table!r} was added with another path: remove it first (`penstock tables remove`)"
        )
    if before is None and len(tables) >= MAX_ADDED:
        raise ConfigurationError(f"{MAX_ADDED} tables were added, which is the maximum: remove some, or use a catalog")
    if before is not None and before.poll_interval_ms == added.poll_interval_ms:
        return ()
    return (added,)


def drop(tables: Mapping[str, TableAdded], table: str) -> tuple[TableRecord, ...]:
    """Removes the table. TableNotFound if it was not added."""
    if table not in tables:
        raise TableNotFound(f"table {table[:200]!r} was not added, so it cannot be removed")
    return (TableDropped(table),)


def apply_to_tables(tables: dict[str, TableAdded], record: TableRecord) -> tuple[str, ...]:
    """Applies the record to the added tables. Returns (): no plan or round is affected."""
    if isinstance(record, TableAdded):
        tables[record.table] = record
    else:
        del tables[record.table]
    return ()
