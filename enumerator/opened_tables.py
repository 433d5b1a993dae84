"""Tables by path: opened once, asked many times, never stale.

Shell: storage through `penstock.table`. Not here: planning (`planning`), names (`embedded`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from penstock.enumerator import planning
from penstock.enumerator.split_times import EventTimeScan, TimeSources
from penstock.enumerator.times_cache import TimesCache
from penstock.proto.positions import Position
from penstock.proto.queries import PlanRequest
from penstock.proto.reports import TableDescription
from penstock.proto.splits import Plan
from penstock.table.hudi_table import HudiTable, open_table

MAX_TABLES: Final = 64
"""Tables kept open; the one unused longest is let go."""


class OpenedTables:
    """Reads of tables by path or URI, from any thread.

    A table stays open for what it has cached of commits that cannot change. Its properties are read for each question,
    so that a table that was upgraded, or deleted and created again, is seen as it is. `scan_event_time` reads splits
    whose files do not tell their event times, for requests that want that; what files and reads told is kept.
    """

    def __init__(self, max_tables: int = MAX_TABLES, *, scan_event_time: EventTimeScan | None = None) -> None:
        self._max_tables = max_tables
        self._sources = TimeSources(TimesCache(), scan_event_time)
        self._lock = threading.Lock()
        self._opened: OrderedDict[str, HudiTable] = OrderedDict()

    def check(self, path: str) -> None:
        """TableNotFound, UnsupportedFeature, … if no table can be opened at `path`."""
        self._table(path)

    def describe(self, path: str, name: str) -> TableDescription:
        """The table now, under `name`."""
        return planning.describe(self._table(path), name)

    def newest(self, path: str, after: Position | None, max_commits: int) -> Position:
        """See `Enumerator.newest_position`."""
        return planning.newest(self._table(path), after, max_commits)

    def plan(self, path: str, name: str, request: PlanRequest) -> Plan:
        """The plan of a request; its scan calls the table `name`."""
        return planning.plan_request(self._table(path), name, request, sources=self._sources)

    def opened(self, path: str) -> HudiTable:
        """The table as it was when somebody last asked about it, opened if nobody did."""
        with self._lock:
            held = self._opened.get(path)
        return self._table(path) if held is None else held

    def _table(self, path: str) -> HudiTable:
        """The table with its properties as they are now."""
        with self._lock:
            held = self._opened.get(path)
        table = open_table(path) if held is None else held.refreshed()
        with self._lock:
            self._opened[path] = table
            self._opened.move_to_end(path)
            while len(self._opened) > self._max_tables:
                self._opened.popitem(last=False)
        return table
