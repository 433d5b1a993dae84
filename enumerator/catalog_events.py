"""Events of catalogs and of tables that come and go; `observer` lists all events. Values only."""

from __future__ import annotations

from penstock.proto.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class TableRemoved:
    """A table is no longer served: its measurements end."""

    table: str
    """Name of the table."""


@dataclass(frozen=True, slots=True)
class CatalogListed:
    """A listing of a catalog has ended; replaces the listing before."""

    catalog: str
    """Name of the catalog."""
    code: str
    """Code of the error; '' if the catalog was listed."""
    tables: int
    """How many tables it has, after a failure those of the last listing."""
    problems: int
    """How many problems the listing had."""
    spent_s: float
    """How long it took, in seconds, pauses included."""


@dataclass(frozen=True, slots=True)
class TimelinesWatched:
    """Timeline folders on local disks; replaces the counts before."""

    watched: int
    """Folders whose changes the system reports."""
    refused: int
    """Folders that the system does not watch: the interval remains."""
    changes: int = 0
    """Changes of tables that were reported since the event before."""


CatalogEvent = TableRemoved | CatalogListed | TimelinesWatched
