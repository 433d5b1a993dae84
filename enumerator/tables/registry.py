"""The registry of an enumerator's tables: their names and paths, which may change while it runs.

Sources (the configuration, an administrator, catalogs) put their tables here. All other parts of the server ask the
registry for names and tables, and never keep a list of their own: `subscribe` reports changes.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from fnmatch import translate
from types import MappingProxyType
from typing import Final

from penstock.enumerator.log import log_event
from penstock.enumerator.visibility import EVERYTHING, may_use
from penstock.proto.errors import ConfigurationError, TableNotFound
from penstock.proto.model.queries import is_pattern
from penstock.proto.model.splits import Plan
from penstock.proto.value_classes import dataclass
from penstock.table.storage.uris import redacted_uri, uri_without_credentials

MAX_TABLES: Final = 10_000
"""Served tables, if the settings do not say otherwise."""
MAX_PATTERN_CHARS: Final = 400
"""Longest pattern of names."""
CONFIG: Final = "config"
"""The source of the tables that the configuration names."""
ADMIN: Final = "admin"
"""The source of the tables that administrators added."""


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A served table."""

    name: str
    """The name under which it is served."""
    path: str
    """Its local path or URI."""
    source: str = CONFIG
    """Who named it: the configuration, `admin`, or `catalog NAME`."""
    poll_interval_ms: int | None = None
    """How often it is checked for new commits; None: the server's interval."""


@dataclass(frozen=True, slots=True)
class RegistryChange:
    """The difference between two successive versions of a registry. All names sorted."""

    version: int
    """The new version."""
    added: tuple[TableEntry, ...]
    """Tables that are served from now on."""
    removed: tuple[TableEntry, ...]
    """Tables that are no longer served."""
    changed: tuple[tuple[TableEntry, TableEntry], ...]
    """Tables that have another path, source or interval now: before and after. Another path is another table."""


@dataclass(frozen=True, slots=True)
class NameConflict:
    """A table that is not served, because another one has its name."""

    refused: TableEntry
    """The table that is not served."""
    served: TableEntry
    """The table that has the name."""


@dataclass(frozen=True, slots=True)
class _Version:
    """One immutable version of the registry."""

    number: int = 0
    entries: Mapping[str, TableEntry] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    paths: frozenset[str] = frozenset()
    conflicts: tuple[NameConflict, ...] = ()
    beyond_limit: int = 0


class TableRegistry:
    """Names of tables and their paths or URIs. With `paths` None every name is a path itself.

    Registered tables are served to other processes: their plans carry no credentials of a URI, because readers bring
    their own. Reads take no lock and see one consistent version. `default_interval_ms` is the interval of entries
    without one of their own; `max_tables` limits the registered tables.
    """

    def __init__(
        self,
        paths: Mapping[str, str] | None = None,
        *,
        default_interval_ms: int = 0,
        max_tables: int = MAX_TABLES,
    ) -> None:
        self._by_path = paths is None
        self._default_interval_ms, self._max_tables = default_interval_ms, max_tables
        self._changing = threading.RLock()
        self._sources: dict[str, tuple[TableEntry, ...]] = {CONFIG: (), ADMIN: ()}
        self._listeners: list[Callable[[RegistryChange], object]] = []
        self._now = _Version()
        if paths:
            self.put_source(CONFIG, (TableEntry(name, path) for name, path in paths.items()))

    # --- reads

    @property
    def version(self) -> int:
        """The number of changes so far: it grows with each change, and never goes back."""
        return self._now.number

    def names(self) -> tuple[str, ...]:
        """The registered names, sorted; none if every name is a path."""
        return self._now.names

    def matching(self, pattern: str) -> tuple[str, ...]:
        """The registered names that match a shell pattern such as `sales.*`, sorted. Case matters; `*` also matches
        dots. The rules of `[[acl]]` use the same patterns. ConfigurationError for an empty or too long pattern."""
        if not 0 < len(pattern) <= MAX_PATTERN_CHARS:
            raise ConfigurationError(
                f"pattern of tables: got {len(pattern)} characters, expected 1 to {MAX_PATTERN_CHARS}"
            )
        matches = re.compile(translate(pattern)).match
        return tuple(name for name in self._now.names if matches(name))

    def entry(self, table: str) -> TableEntry:
        """The table of a name. ConfigurationError for an empty name; TableNotFound for an unknown one."""
        if not table:
            raise ConfigurationError("table: got nothing, expected a name or a path")
        if self._by_path:
            return TableEntry(table, table)
        now = self._now
        entry = now.entries.get(table)
        if entry is None:
            raise TableNotFound(_unknown(table, now.names))
        return entry

    def entries(self) -> tuple[TableEntry, ...]:
        """The registered tables by name, sorted."""
        now = self._now
        return tuple(now.entries[name] for name in now.names)

    def path(self, table: str) -> str:
        """The path or URI of a table. Errors as `entry`."""
        return self.entry(table).path

    def serves(self, path: str) -> bool:
        """Whether a registered table has this path; always if every name is a path."""
        return self._by_path or path in self._now.paths

    def interval_ms(self, table: str) -> int:
        """How often the table is checked for new commits. Unknown tables have the default."""
        entry = self._now.entries.get(table)
        interval_ms = None if entry is None else entry.poll_interval_ms
        return self._default_interval_ms if interval_ms is None else interval_ms

    def display_name(self, table: str) -> str:
        """The name of the table in plans, descriptions and log lines; a URI without its credentials."""
        return redacted_uri(table) if self._by_path else table

    def published(self, plan: Plan) -> Plan:
        """The plan, without credentials if it leaves this process."""
        if self._by_path:
            return plan
        return replace(plan, scan=replace(plan.scan, base_path=uri_without_credentials(plan.scan.base_path)))

    def conflicts(self) -> tuple[NameConflict, ...]:
        """Tables that are not served, because another one has their name; sorted by name."""
        return self._now.conflicts

    @property
    def beyond_limit(self) -> int:
        """How many tables are not served, because the registry has its maximum number of tables."""
        return self._now.beyond_limit

    # --- changes

    def subscribe(self, listener: Callable[[RegistryChange], object]) -> None:
        """Calls `listener` after each change, in the order of versions, on the thread that made the change.

        It must return soon and must not change the registry. Its exceptions are logged and affect nobody else.
        """
        with self._changing:
            self._listeners.append(listener)

    def put_source(self, source: str, entries: Iterable[TableEntry]) -> RegistryChange | None:
        """Replaces all tables of a source by these. Returns the change; None if there is none.

        The table that has a name keeps it while its source names it with the same path. Among tables that are new at
        the same time, the first source has the name (the configuration, administrators, then the others by their first
        calls), then the first entry. Those without a name are `conflicts`.
        """
        with self._changing:
            named = tuple(replace(entry, source=source) for entry in entries)
            self._sources[source] = tuple(entry for entry in named if not is_pattern(entry.name))
            for entry in named:
                if is_pattern(entry.name):
                    log_event("table not served", level=logging.WARNING, source=source, table=entry.name[:200],
                              reason="its name has a character of patterns: *, ? or [")  # fmt: skip
            before, after = self._now, self._merged()
            change = _difference(before.entries, after.entries, after.number)
            if change is None:
                self._now = replace(after, number=before.number)
                return None
            self._now = after
            for listener in self._listeners:
                _report(listener, change)
            return change

    @property
    def is_full(self) -> bool:
        """Whether a further table would not be served."""
        return len(self._now.entries) >= self._max_tables

    def source(self, source: str) -> tuple[TableEntry, ...]:
        """The tables of a source, also those that are not served; in its order."""
        with self._changing:
            return self._sources.get(source, ())

    def _merged(self) -> _Version:
        """The next version, from all sources."""
        candidates = [entry for entries in self._sources.values() for entry in entries]
        held = self._now.entries
        served: dict[str, TableEntry] = {}
        for entry in candidates:  # present holders first: nobody takes a served table's name from it
            holder = held.get(entry.name)
            if holder is not None and (holder.source, holder.path) == (entry.source, entry.path):
                served.setdefault(entry.name, entry)
        conflicts, beyond = [], 0
        for entry in candidates:
            if entry.name not in served and len(served) >= self._max_tables:
                beyond += 1
            elif served.setdefault(entry.name, entry) != entry:
                conflicts.append(NameConflict(entry, served[entry.name]))
        return _Version(
            number=self._now.number + 1,
            entries=MappingProxyType(served),
            names=tuple(sorted(served)),
            paths=frozenset(entry.path for entry in served.values()),
            conflicts=tuple(sorted(conflicts, key=lambda conflict: conflict.refused.name)),
            beyond_limit=beyond,
        )


def _unknown(table: str, names: tuple[str, ...]) -> str:
    """The text for an unknown table. It names only tables that the caller may read."""
    may = may_use()
    readable = names if may is EVERYTHING else tuple(name for name in names if may("read", name, ""))
    import difflib  # late: for error texts

    near = difflib.get_close_matches(table[:200], readable[:1000], n=1)
    hint = f" (did you mean {redacted_uri(near[0])!r}?)" if near else ""
    known = ", ".join(map(redacted_uri, readable[:20])) + (", …" if len(readable) > 20 else "")
    none = "none" if readable == names else "none that this caller may read"
    return f"no table {redacted_uri(table)[:200]!r} is registered here{hint}; registered: {known or none}"


def _difference(
    before: Mapping[str, TableEntry], after: Mapping[str, TableEntry], version: int
) -> RegistryChange | None:
    added = tuple(after[name] for name in sorted(after.keys() - before.keys()))
    removed = tuple(before[name] for name in sorted(before.keys() - after.keys()))
    changed = tuple(
        (before[name], after[name]) for name in sorted(before.keys() & after.keys()) if before[name] != after[name]
    )
    return RegistryChange(version, added, removed, changed) if added or removed or changed else None


def _report(listener: Callable[[RegistryChange], object], change: RegistryChange) -> None:
    try:
        listener(change)
    except Exception as error:  # noqa: BLE001 - the registry and other listeners go on
        log_event(
            "change of tables not processed",
            level=logging.ERROR,
            version=change.version,
            exc_info=error,
            reason=f"{type(error).__name__}: {error}"[:500],
        )
