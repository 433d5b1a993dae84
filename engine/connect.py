"""The enumerator of a read: a server, or one inside this process.

Imports are late, so that a read without a server loads no gRPC, and a Spark task no planner.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from penstock.proto.enumerator import Enumerator
from penstock.proto.model.access import NO_ACCESS, ServerAccess

if TYPE_CHECKING:
    from penstock.enumerator.embedded import EmbeddedEnumerator
    from penstock.enumerator.tables.open_tables import OpenTables


def enumerator_for(server: str | None, access: ServerAccess = NO_ACCESS) -> Enumerator:
    """An enumerator for one read. With `server` (HOST:PORT, reached with `access`) tables are names that it serves;
    without one they are paths or URIs.

    It makes no call yet, and need not be closed: connections belong to the process, and an enumerator inside the
    process keeps its plans as long as it exists.
    """
    if server is not None:
        from penstock.proto.client.client import EnumeratorClient

        return EnumeratorClient(server, access=access)
    return embedded_enumerator()


def embedded_enumerator(reads: OpenTables | None = None, tables: Mapping[str, str] | None = None) -> EmbeddedEnumerator:
    """An enumerator inside this process that can read splits for their event times. `reads` are tables that stay open
    between enumerators. `tables` maps names to paths or URIs; None: each name is a path itself."""
    from penstock.enumerator.embedded import EmbeddedEnumerator

    return EmbeddedEnumerator(tables, reads=open_tables() if reads is None else reads)


def open_tables(max_tables: int | None = None, mergers: tuple[tuple[str, str], ...] = ()) -> OpenTables:
    """Tables that are opened at their first use and stay open; at most `max_tables`. Event times are read with
    `mergers`, the pairs (name, function) of the option."""
    from penstock.engine.event_time_scan import scan_event_time
    from penstock.enumerator.tables.open_tables import MAX_TABLES, OpenTables

    return OpenTables(max_tables or MAX_TABLES, scan_event_time=partial(scan_event_time, mergers=mergers))
