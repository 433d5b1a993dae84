"""Served tables and catalogs, as operators see them, and the administration of tables. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTable:
    """A table of a server."""

    table: str
    """Its name on the server."""
    source: str
    """Who named it: `config`, `admin`, or `catalog NAME`."""
    path: str
    """Its path or URI, without credentials."""
    error_code: str = ""
    """The code of the error with which the server cannot open it; empty: none."""
    error: str = ""
    """The text of that error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogStatus:
    """A catalog of a server."""

    catalog: str
    """Its name; it and a dot precede the names of its tables."""
    kind: str
    """`folders`, `file` or `hive`."""
    tables: int
    """How many tables its last listing has."""
    listed_ms: int | None
    """When the last successful listing ended, in milliseconds since 1970 UTC; None: never."""
    error_code: str = ""
    """The code of the error of the last listing; empty: none. The tables of the listing before it stay."""
    error: str = ""
    """The text of that error."""
    problem_count: int = 0
    """How many problems the last listing had."""
    problems: tuple[str, ...] = ()
    """The first of them, one line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableList:
    """The tables of a server that match a pattern."""

    version: int
    """The version of the server's list of tables: it grows with each change, and starts again with the process."""
    tables: tuple[ServedTable, ...]
    """The tables, by name."""
    catalogs: tuple[CatalogStatus, ...] = ()
    """The catalogs, in the order of the configuration; only if the caller asked for them."""
    problems: tuple[str, ...] = ()
    """Tables that are not served: two of one name, or beyond the limit. One line each."""


class TableService(Protocol):
    """The administration of the tables of a server. Errors are PenstockErrors."""

    def list_tables(self, pattern: str = "*", *, catalogs: bool = False) -> TableList:
        """The tables whose name matches a shell pattern, which the caller may read; `catalogs`: also the catalogs."""
        ...

    def add_table(self, table: str, path: str, *, poll_interval_ms: int = 0, principal: str = "") -> ServedTable:
        """Serves the table at a path or URI from now on, also after a restart. 0: the server's interval.
        `principal` is set by the server.

        Adding the same table again changes nothing. ConfigurationError for a name that is taken or not valid, and for
        a path with credentials or one that the server does not allow; errors of the table if it cannot be opened.
        """
        ...

    def remove_table(self, table: str) -> None:
        """Stops serving a table that was added. Its groups wait until a table has its name again.

        TableNotFound for an unknown table; ConfigurationError for one of the configuration or of a catalog.
        """
        ...

    def refresh_tables(self, catalog: str = "") -> tuple[CatalogStatus, ...]:
        """Lists the catalog now, or all of them if '', and returns after the listings. See `Catalogs.refresh`."""
        ...
