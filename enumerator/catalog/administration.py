"""The administration of the tables of a server: a `TableService` over the registry, the catalogs and the coordinator.

Tables that are added are records of the state: they survive a restart if the state does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Final, Protocol
from urllib.parse import unquote

from penstock.enumerator.catalog.catalogs import Catalogs
from penstock.enumerator.catalog.listing import refusal_of_name, refusal_of_path
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.tables import TableAdded
from penstock.enumerator.log import log_event
from penstock.enumerator.tables.registry import ADMIN, TableEntry, TableRegistry
from penstock.enumerator.visibility import may_use
from penstock.proto.errors import ConfigurationError, PermissionDenied, TableNotFound
from penstock.proto.model.catalogs import CatalogStatus, ServedTable, TableList
from penstock.table.storage.uris import folder_uri, redacted_uri, uri_without_credentials

REFRESH_S: Final = 25.0
"""How long a refresh waits for listings; less than the deadline of a call."""
MAX_PROBLEMS: Final = 100
"""Tables that are not served, in one list of tables."""
INTERVALS_MS: Final = (10, 86_400_000)
"""The shortest and the longest interval of an added table."""


class _Health(Protocol):
    def trouble_of(self, name: str) -> tuple[str, str]:
        """Code and text of the table's error; ('', '') if it has none."""
        ...


class TableAdministration:
    """A `TableService`. Any thread. `check` opens a table at a path; `add_from` has the shell patterns of the paths
    that may be added, see `Settings.add_from`; without `catalogs` there is nothing to refresh."""

    def __init__(
        self,
        registry: TableRegistry,
        coordinator: Coordinator,
        health: _Health,
        check: Callable[[str], object],
        catalogs: Catalogs | None = None,
        add_from: tuple[str, ...] | None = None,
        wake: Callable[[], object] = lambda: None,
    ) -> None:
        self._registry, self._coordinator, self._health, self._check = registry, coordinator, health, check
        self._catalogs, self._add_from, self._wake = catalogs, add_from, wake
        self._changing = threading.Lock()

    def restore(self) -> None:
        """Serves the added tables of the stored state."""
        self._put(self._coordinator.read(lambda state: tuple(state.tables.values())))

    def list_tables(self, pattern: str = "*", *, catalogs: bool = False) -> TableList:
        """See `TableService.list_tables`."""
        names = self._registry.names() if pattern == "*" else self._registry.matching(pattern)
        tables = []
        for name in names:
            try:
                tables.append(self._served(self._registry.entry(name)))
            except TableNotFound:
                continue  # removed since
        statuses = self._catalogs.statuses() if catalogs and self._catalogs is not None else ()
        return TableList(
            version=self._registry.version,
            tables=tuple(tables),
            catalogs=statuses,
            problems=self._problems() if catalogs else (),
        )

    def add_table(self, table: str, path: str, *, poll_interval_ms: int = 0, principal: str = "") -> ServedTable:
        """See `TableService.add_table`."""
        self._check_new(table, path, poll_interval_ms)
        entry = TableEntry(table, path, ADMIN, poll_interval_ms or None)
        with self._changing:
            self._check_free(entry)
        self._check(path)  # outside of the lock: storage may be slow
        with self._changing:
            self._check_free(entry)
            added = ev.AddTable(table=table, path=path, poll_interval_ms=entry.poll_interval_ms, principal=principal)
            self._coordinator.handle(added)
            self._put(self._coordinator.read(lambda state: tuple(state.tables.values())))
        log_event("table added", table=table, path=redacted_uri(path), principal=principal)
        self._wake()
        return self._served(self._registry.entry(table))

    def remove_table(self, table: str) -> None:
        """See `TableService.remove_table`."""
        with self._changing:
            if table not in self._coordinator.read(lambda state: frozenset(state.tables)):
                source = self._registry.entry(table).source
                raise ConfigurationError(
                    f"table {table!r} is named by the {source if source != 'config' else 'configuration'}: remove it "
                    "there, or give its catalog a pattern in `exclude`; `tables remove` removes added tables"
                )
            if self._coordinator.read(lambda state: table in state.writes and bool(state.writes[table].live)):
                raise ConfigurationError(
                    f"table {table!r} has writes that have not ended (`penstock writes list`): nobody would complete "
                    "them or roll them back; remove it when they have ended"
                )
            self._coordinator.handle(ev.DropTable(table))
            self._put(self._coordinator.read(lambda state: tuple(state.tables.values())))
        log_event("table removed", table=table)

    def refresh_tables(self, catalog: str = "") -> tuple[CatalogStatus, ...]:
        """See `TableService.refresh_tables`."""
        if self._catalogs is None:
            raise TableNotFound("no catalog is configured here: add an entry under [catalog]")
        return self._catalogs.refresh(catalog, REFRESH_S)

    def _put(self, added: tuple[TableAdded, ...]) -> None:
        self._registry.put_source(
            ADMIN, (TableEntry(each.table, each.path, ADMIN, each.poll_interval_ms) for each in added)
        )

    def _check_new(self, table: str, path: str, poll_interval_ms: int) -> None:
        """ConfigurationError for a name, path or interval that cannot be."""
        refusal = refusal_of_name(table) or refusal_of_path(path)
        if refusal:
            raise ConfigurationError(f"table {table[:200]!r} cannot be added: {refusal}")
        least_ms, most_ms = INTERVALS_MS
        if poll_interval_ms and not least_ms <= poll_interval_ms <= most_ms:
            raise ConfigurationError(
                f"table {table!r}: poll interval: got {poll_interval_ms} ms, expected {least_ms} to {most_ms} ms"
            )
        described = redacted_uri(path)[:300]
        if uri_without_credentials(path) != path:
            raise ConfigurationError(
                f"table {table!r}: path {described!r} has credentials: set them in the environment of the server"
            )
        is_local = not folder_uri(path)
        if ".." in unquote(path).split("/") or (is_local and not path.startswith("/")):
            raise ConfigurationError(
                f"table {table!r}: path {described!r}: expected an absolute path of the server, or a URI, without `..`"
            )
        if self._add_from is None:
            if not may_use()("admin", "*", ""):
                raise PermissionDenied(
                    f"table {table!r} at {described!r}: without `addFrom` in the configuration of this server, only "
                    "callers with the right `admin` on all tables add tables, because a path may be that of a table on "
                    "which they have no right: set `addFrom` to the patterns of paths that every caller may add"
                )
        elif not any(_is_below(path, pattern) for pattern in self._add_from):
            raise ConfigurationError(
                f"table {table!r}: this server does not allow tables at {described!r}: `addFrom` of its configuration "
                "has the patterns of paths that may be added"
            )

    def _check_free(self, entry: TableEntry) -> None:
        """ConfigurationError if another table has the name, or if there is no room."""
        if entry.name not in self._registry.names():
            if self._registry.is_full:
                raise ConfigurationError(
                    f"table {entry.name!r}: this server has as many tables as it may: raise `limits.tables`, or remove "
                    "tables"
                )
            return
        served = self._registry.entry(entry.name)
        if (served.source, served.path) != (ADMIN, entry.path):
            raise ConfigurationError(
                f"table {entry.name!r} is served already, by the {served.source}, at "
                f"{redacted_uri(served.path)[:300]}: choose another name"
            )

    def _served(self, entry: TableEntry) -> ServedTable:
        code, text = self._health.trouble_of(entry.name)
        return ServedTable(
            table=entry.name, source=entry.source, path=redacted_uri(entry.path), error_code=code, error=text
        )

    def _problems(self) -> tuple[str, ...]:
        conflicts = self._registry.conflicts()
        lines = [
            f"{each.refused.name}: the table of {each.refused.source} at {redacted_uri(each.refused.path)[:300]} is "
            f"not served: {each.served.source} has a table of this name at {redacted_uri(each.served.path)[:300]}"
            for each in conflicts[:MAX_PROBLEMS]
        ]
        if len(conflicts) > MAX_PROBLEMS:
            lines.append(f"{len(conflicts) - MAX_PROBLEMS} further tables whose names are taken are not served")
        if self._registry.beyond_limit:
            lines.append(
                f"{self._registry.beyond_limit} tables beyond limits.tables are not served: raise it, or exclude some"
            )
        return tuple(lines)


def _is_below(path: str, pattern: str) -> bool:
    """Whether a pattern of `addFrom` allows a path. The query of a URI is not matched by wildcards: it may name another
    host."""
    if "://" not in path:
        return fnmatchcase(path, pattern)
    place, _, query = path.partition("?")
    allowed_place, _, allowed_query = pattern.partition("?")
    return query == allowed_query and fnmatchcase(place, allowed_place)
