"""`Target`, the interface of a system that is kept equal, and the values that it exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa

from penstock.engine.sync.layout import LayoutChange, TargetLayout
from penstock.proto.errors import TargetUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """A table of the target that a sync filled."""

    layout: TargetLayout
    """Its columns and key."""
    positions: Mapping[str, str]
    """The position of each of its sources, by the source's id."""
    lost: str = ""
    """Why layout and positions are gone, with the table's name; '': they are known. Only a write that `replaces` all
    rows continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One transaction on a table of the target."""

    table: str
    """The table's name."""
    source: str
    """The id of the source: its path without credentials, or server and name."""
    source_name: str
    """The name of the source, for rows of a table with a source column."""
    expected: str | None
    """The stored position of the source; None: there is none."""
    position: str
    """The position after the transaction."""
    change: LayoutChange
    """The table's layout, and how it changes. A table that does not exist is created."""
    base: TargetLayout | None = None
    """The stored layout that changes; None: there is no table, or it has the layout of `change` already."""
    removed: pa.Table | None = None
    """Keys whose rows are removed first; the columns are those of the key."""
    replaces: bool = False
    """Whether all rows of the source are removed first. Without a source column these are all rows of the table, and
    the positions of other sources are removed too."""
    rows: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))
    """Rows to append, after the removals; their columns are some of the layout's with its types, the others become
    null."""


OUTSIDE_OF_YEARS: Final = "SELECT 1 FROM {0} WHERE {1} < DATE '0001-01-01' OR {1} > DATE '9999-12-31' LIMIT 1"
"""Finds a date that `rows.check_text_of_dates` refuses."""

REPEATED: Final = "SELECT {key} FROM {table} WHERE {rows} GROUP BY {key} HAVING count(*) > 1 LIMIT 1"
"""Finds a key that several rows have."""


def check_base(write: Write, stored: TargetLayout | None, where: str) -> None:
    """TargetUnavailable, beginning with `where`, if the layout that is stored now is not the one that changes: another
    process, which copies another source into the table, has changed it. The next try starts from its layout."""
    if stored is None or (write.replaces and not write.change.layout.source_column):
        return
    if stored != (write.base or write.change.layout):
        raise TargetUnavailable(f"{where}: another process has changed its columns: the next try continues with them")


def dates_to_text(write: Write) -> list[str]:
    """The columns of dates that become text. Those of a SQL target are checked with `OUTSIDE_OF_YEARS`."""
    if write.base is None:
        return []
    new = write.change.layout.columns
    return [
        name
        for name in write.change.widened
        if pa.types.is_date32(write.base.columns.field(name).type) and pa.types.is_string(new.field(name).type)
    ]


class Target(Protocol):
    """A system that is kept equal. Any thread may call `write` for different tables at the same time.

    Errors: TargetUnavailable if a retry may help (the system is gone, full or locked), ConfigurationError if not.
    """

    def check_columns(self, table: str, columns: pa.Schema) -> None:
        """ConfigurationError, naming column and type, if the target cannot hold the columns."""
        ...

    def types_of(self, columns: pa.Schema) -> list[str]:
        """The type of each column in the target, for people."""
        ...

    def stored(self, table: str) -> StoredTable | None:
        """The table as it is stored; None: there is no such table.

        ConfigurationError for a table that a sync did not create.
        """
        ...

    def write(self, write: Write) -> None:
        """Applies everything in one transaction, or nothing.

        TargetConflict if the stored position is not the expected one: another process fills the table.
        """
        ...

    def repeated_key(self, table: str, source: str) -> str:
        """A key that several rows of a table of `stored` have, as text for people; '': each key has one row. If the
        table has a source column, only the rows of the source with this name count."""
        ...

    def close(self) -> None:
        """Releases files and connections."""
        ...
