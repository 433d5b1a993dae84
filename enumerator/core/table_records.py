"""Records of the tables that administrators add and remove; `records` lists all records. Values only."""

from __future__ import annotations

from dataclasses import dataclass


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


def apply_to_tables(tables: dict[str, TableAdded], record: TableRecord) -> tuple[str, ...]:
    """Applies the record to the added tables. Returns (): no plan or round is affected."""
    if isinstance(record, TableAdded):
        tables[record.table] = record
    else:
        del tables[record.table]
    return ()
