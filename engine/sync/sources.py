"""The tables that an entry of a job names, and the tables of the target that they fill."""

from __future__ import annotations

import hashlib
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from penstock.engine.sync.job import NAME, SyncEntry
from penstock.engine.sync.topics.place import is_topics, listed_topics, topic_names
from penstock.enumerator.catalog.adapter import ListedTable, RefusedTable, UnreadablePart
from penstock.enumerator.catalog.folders import PROPERTIES, FolderCatalog
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import EntryPoint, parse_options
from penstock.table.storage.filesystem import open_storage
from penstock.table.storage.uris import redacted_uri


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A Hudi table or a topic, and the table of the target that it fills."""

    entry: SyncEntry
    """The entry that names it."""
    name: str
    """The name of the source: the parts of its path that wildcards match, joined by dots, else its folder; or its name
    on a server, or the topic."""
    table: str = field(repr=False)
    """Its path or URI, or its name on a server; of a topic brokers and name."""
    target_table: str
    """The table of the target."""

    @property
    def source(self) -> str:
        """The id under which the target stores the position: the name if the rows have it in a source column, else the
        place."""
        return _short(self.name) if self.entry.source_column else self.place

    @property
    def place(self) -> str:
        """Where the table is: the server and the name, the path without credentials, or the topic."""
        if is_topics(self.table):  # the position has the topic's id, whatever the brokers are called
            return f"kafka:{self.name}"
        server = self.entry.options.get("server")
        path = self.table if "://" in self.table else os.path.normpath(pathlib.Path(self.table).absolute())
        return _short(redacted_uri(path).rstrip("/") if server is None else f"{server} {self.table}")


def _short(text: str) -> str:
    """The text, or for a long one its hash. It has no line break, which the stored position has after a place."""
    return text if len(text) <= 1_000 and "\n" not in text else hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Sources:
    """The result of listing the sources of a job."""

    tables: tuple[SourceTable, ...]
    """The tables, in the order of the entries."""
    problems: tuple[str, ...]
    """What could not be listed, and tables that are left out, one line each."""


ListTables = Callable[[str, Mapping[str, object]], Iterable[ListedTable | RefusedTable | UnreadablePart]]
"""Lists the tables of a `from` with the options of its entry."""


def list_sources(entries: Iterable[SyncEntry], list_tables: ListTables | None = None) -> Sources:
    """The sources of all entries. Two sources for one table of one target are a problem, unless both entries have the
    same `into` and the sources have different names; the first one fills the table. Several tables of an entry that
    names one topic (`then`) are a problem; none of them is a source.

    Raises nothing for a single entry: what cannot be listed is a problem.
    """
    tables: list[SourceTable] = []
    problems: list[str] = []
    filled: dict[tuple[str, str], SourceTable] = {}
    named: dict[tuple[str, str, str], SourceTable] = {}
    for entry in entries:
        before = len(tables), len(problems)
        for item in (list_tables or listed_tables)(entry.source, entry.options):
            if isinstance(item, RefusedTable | UnreadablePart):
                problems.append(f"{redacted_uri(entry.source)}: {item.name or 'cannot be listed'}: {item.reason}")
                continue
            if not _is_named(item.name, entry):
                continue
            source = SourceTable(entry=entry, name=item.name, table=item.path, target_table=_target_table(item, entry))
            place = (str(entry.target), source.target_table.casefold())
            other = filled.setdefault(place, source)
            if entry.into and other.entry.source_column == entry.source_column:
                other = named.setdefault((*place, source.name), source)
            if other is source:
                tables.append(source)
            else:
                problems.append(_two_sources(source, other))
        if entry.then and NAME not in entry.then and len(tables) > before[0] + 1:
            names = ", ".join(one.name for one in tables[before[0] : before[0] + 2])
            problems.append(
                f"{redacted_uri(entry.source)}: several tables ({names}) "
                f"have one topic, {entry.then.rpartition('/')[2]}: none of them is copied: expected a name with {NAME} "
                "(then), or one table"
            )
            del tables[before[0] :]
        if (len(tables), len(problems)) == before:
            problems.append(f"{redacted_uri(entry.source)}: no table of this name or pattern")
    return Sources(tuple(tables), tuple(problems))


def _is_named(name: str, entry: SyncEntry) -> bool:
    return any(fnmatchcase(name, one) for one in entry.pattern) and not any(
        fnmatchcase(name, one) for one in entry.exclude
    )


def _target_table(item: ListedTable, entry: SyncEntry) -> str:
    """`into`, else the name of the source's folder, or the last part of its name on a server or of a topic."""
    if entry.into:
        return entry.into
    if "server" in entry.options or is_topics(entry.source):
        return item.name.rpartition(".")[2]
    return item.path.partition("?")[0].rstrip("/").rpartition("/")[2]


def _two_sources(source: SourceTable, other: SourceTable) -> str:
    given = "another name (its wildcards match the same)" if source.name == other.name else "`into`"
    return (
        f"{redacted_uri(source.table)}: table {source.target_table} of {source.entry.target} is filled from "
        f"{redacted_uri(other.table)}: give {given}, a pattern, or another target"
    )


def listed_tables(place: str, options: Mapping[str, object]) -> Iterable[ListedTable | RefusedTable | UnreadablePart]:
    """The tables of a folder, a glob or a server, or topics."""
    try:
        if is_topics(place):
            yield from listed_topics(place, options, topic_names)
        elif options.get("server") is not None:
            yield from _of_server(place, options)
        elif _is_table(place):
            yield ListedTable(place.partition("?")[0].rstrip("/").rpartition("/")[2], place)
        else:
            yield from (item for item in FolderCatalog(place).listing() if item is not None)
    except ConfigurationError as error:
        yield RefusedTable("", str(error))
    except Exception as error:  # noqa: BLE001 - storage, a server, a bug: the other entries go on
        yield UnreadablePart("", str(error))


def _is_table(place: str) -> bool:
    if any(character in place for character in "*["):
        return False
    return open_storage(place).file_info(PROPERTIES) is not None


def _of_server(pattern: str, options: Mapping[str, object]) -> Iterable[ListedTable]:
    from penstock.proto.client.client import EnumeratorClient

    parsed = parse_options(
        {"server": options["server"], **_access(options)}, entry_point=EntryPoint.CONSUMER, environment=os.environ
    )
    client = EnumeratorClient(str(parsed.server), access=parsed.access)
    for table in client.list_tables(pattern).tables:
        if fnmatchcase(table.table, pattern):
            yield ListedTable(table.table, table.table)


def _access(options: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in options.items() if name.casefold().startswith("server")}
