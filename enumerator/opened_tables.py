"""Tables by path: opened once, asked many times, never stale.

Shell: storage through `penstock.table`, one lock a table. Not here: planning (`planning`), names (`embedded`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator import planning
from penstock.proto.positions import Position
from penstock.proto.queries import PlanRequest
from penstock.proto.reports import TableDescription
from penstock.proto.splits import Plan
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.storage import FileInfo

MAX_TABLES: Final = 64
"""Tables kept open; the one unused longest is closed."""
PROPERTIES_PATH: Final = ".hoodie/hoodie.properties"


@dataclass(slots=True)
class _Opened:
    """A table, and the properties file it was opened by: another file means another table, or an upgraded one."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    table: HudiTable | None = None
    properties: FileInfo | None = None


class OpenedTables:
    """Reads of tables by path or URI. Any thread; reads of one table run one after the other.

    A table stays open with what it has cached, until its `hoodie.properties` is another file: then it is opened anew,
    so that a table that was upgraded, or deleted and created again, is seen as it is.
    """

    def __init__(self, max_tables: int = MAX_TABLES) -> None:
        self._max_tables = max_tables
        self._lock = threading.Lock()
        self._opened: OrderedDict[str, _Opened] = OrderedDict()

    def check(self, path: str) -> None:
        """TableNotFound, UnsupportedFeature, … if no table can be opened at `path`."""
        with self._table(path):
            pass

    def describe(self, path: str, name: str) -> TableDescription:
        """The table now, under `name`."""
        with self._table(path) as table:
            return planning.describe(table, name)

    def newest(self, path: str, after: Position | None, max_commits: int) -> Position:
        """See `Enumerator.newest_position`."""
        with self._table(path) as table:
            return planning.newest(table, after, max_commits)

    def plan(self, path: str, name: str, request: PlanRequest) -> Plan:
        """The plan of a request; its scan calls the table `name`."""
        with self._table(path) as table:
            return planning.plan_request(table, name, request)

    @contextmanager
    def _table(self, path: str) -> Iterator[HudiTable]:
        entry = self._entry(path)
        with entry.lock:
            if entry.table is None or entry.table.storage.file_info(PROPERTIES_PATH) != entry.properties:
                entry.table = None  # should opening fail, the old table must not be asked again
                table = open_table(path)
                entry.properties = table.storage.file_info(PROPERTIES_PATH)
                entry.table = table
            yield entry.table

    def _entry(self, path: str) -> _Opened:
        with self._lock:
            entry = self._opened.pop(path, None) or _Opened()
            self._opened[path] = entry
            while len(self._opened) > self._max_tables:
                self._opened.popitem(last=False)
            return entry
