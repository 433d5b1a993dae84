"""Decides which tables a catalog serves after a listing, from its items and the tables before it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from penstock.enumerator.catalog.adapter import Item, ListedTable, RefusedTable, UnreadablePart
from penstock.enumerator.tables.registry import TableEntry

MAX_NAME_CHARS: Final = 200
"""Longest served name."""
MAX_PATH_CHARS: Final = 4096
"""Longest path or URI of a table."""
MAX_PROBLEMS: Final = 20
"""Problems of a listing that are described; further ones are counted."""
_FORBIDDEN: Final = re.compile(r"[*?\[\]/\\,=\s]")
"""Patterns, lists of names and `NAME=PATH` could not name a table with one of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRules:
    """How tables of a catalog are served."""

    catalog: str
    """The catalog's name; it and a dot precede each served name."""
    include: tuple[str, ...] = ("*",)
    """Shell patterns of names in the catalog; a table must match one of them."""
    exclude: tuple[str, ...] = ()
    """Shell patterns of names in the catalog; a table must match none of them."""
    poll_interval_ms: int | None = None
    """How often its tables are checked for new commits; None: the server's interval."""
    max_tables: int = 10_000
    """Tables that are served; further ones are a problem."""


@dataclass(slots=True)
class Listing:
    """Collects the items of one listing. `result` is the decision."""

    rules: CatalogRules
    """The rules of the catalog."""
    before: tuple[TableEntry, ...] = ()
    """The tables of the last listing."""
    steps: int = 0
    """How many items were added."""
    entries: dict[str, TableEntry] = field(default_factory=dict)
    """The tables by served name."""
    problem_count: int = 0
    """How many problems there were."""
    problems: list[str] = field(default_factory=list)
    """The first MAX_PROBLEMS of them, one line each."""
    _unknown: list[str] = field(default_factory=list)
    _links: list[ListedTable] = field(default_factory=list)
    _beyond: int = 0

    def add(self, item: Item) -> None:
        """Adds the next item."""
        self.steps += 1
        match item:
            case ListedTable(link_to=""):
                self._add_table(item)
            case ListedTable():
                self._links.append(item)
            case RefusedTable(name, reason):
                if self._is_included(name):
                    self._problem(f"{self._served(name)}: {reason}")
            case UnreadablePart(name, reason):
                self._unknown.append(name)
                self._problem(f"{self._served(name) if name else 'catalog ' + self.rules.catalog}: {reason}")

    def result(self) -> tuple[TableEntry, ...]:
        """The tables to serve, sorted by name: those that were listed, and those of the last listing whose part was
        unreadable. A table that has its name keeps it. A link to a folder that is served under another name is not."""
        self._add_links()
        for entry in self.before:
            if entry.name not in self.entries and self._is_unknown(entry.name):
                self.entries[entry.name] = entry
        if self._beyond:
            self._problem(
                f"catalog {self.rules.catalog}: {self._beyond} tables beyond the maximum of {self.rules.max_tables} "
                "are not served: raise limits.tables, or exclude some"
            )
            self._beyond = 0
        return tuple(self.entries[name] for name in sorted(self.entries))

    def _add_table(self, table: ListedTable) -> None:
        if not self._is_included(table.name):
            return
        name = self._served(table.name)
        refusal = refusal_of_name(name) or refusal_of_path(table.path)
        if refusal:
            self._problem(f"{name[:MAX_NAME_CHARS]!r}: not served: {refusal}")
            return
        entry = TableEntry(name, table.path, poll_interval_ms=self.rules.poll_interval_ms)
        holder = self.entries.get(name)
        if holder is not None:
            held = next((before.path for before in self.before if before.name == name), holder.path)
            if held == table.path:
                self.entries[name] = entry
            self._problem(f"{name}: two tables of this name in the catalog: only one of them is served")
        elif len(self.entries) >= self.rules.max_tables:
            self._beyond += 1
        else:
            self.entries[name] = entry

    def _add_links(self) -> None:
        """Adds the links whose folder no other entry serves, in their order."""
        served = {entry.path: entry.name for entry in self.entries.values()}
        for link in filter(lambda link: self._is_included(link.name), self._links):
            other = served.setdefault(link.link_to, self._served(link.name))
            if other == self._served(link.name):
                self._add_table(link)
            else:
                self._problem(f"{self._served(link.name)}: a symbolic link to {other}: served once, under that name")
        self._links.clear()

    def _is_included(self, name: str) -> bool:
        def matches(patterns: Iterable[str]) -> bool:
            return any(fnmatchcase(name, pattern) for pattern in patterns)

        return matches(self.rules.include) and not matches(self.rules.exclude)

    def _served(self, name: str) -> str:
        return f"{self.rules.catalog}.{name}"

    def _is_unknown(self, served: str) -> bool:
        name = served.removeprefix(self.rules.catalog + ".")
        return self._is_included(name) and any(
            not part or name == part or name.startswith(part + ".") for part in self._unknown
        )

    def _problem(self, text: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(_one_line(text[:500]))


def _one_line(text: str) -> str:
    """The text with escapes for what is not printable, such as a new line or a sequence for a terminal."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def refusal_of_name(name: str) -> str:
    """Why a table must not be served under this name; '' if it may."""
    if not 0 < len(name) <= MAX_NAME_CHARS:
        return f"its name has {len(name)} characters, expected 1 to {MAX_NAME_CHARS}"
    if "" in name.split("."):
        return "its name has an empty part"
    if not name.isprintable() or _FORBIDDEN.search(name) or name.startswith("-"):
        return "its name has characters that names of tables cannot have (spaces, * ? [ ] / \\ , = or a leading -)"
    return ""


def refusal_of_path(path: str) -> str:
    """Why a table must not be opened at this path; '' if it may."""
    if not 0 < len(path) <= MAX_PATH_CHARS or "\0" in path:
        return f"its path has {len(path)} characters, expected 1 to {MAX_PATH_CHARS} without NUL"
    return ""
