"""The groups by name, and which of them are the tables of a group over tables; the groups by table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Generic, Protocol, TypeVar

from penstock.enumerator.core.records import GroupKey
from penstock.proto.model.groups import GroupScope


class NamedGroup(Protocol):
    """What the names use of a group."""

    fits: bool
    """Whether it consumes what the group over tables of its name consumes."""

    @property
    def key(self) -> GroupKey:
        """Its table and name."""
        ...

    @property
    def scope(self) -> GroupScope:
        """What it consumes."""
        ...


G = TypeVar("G", bound=NamedGroup)


@dataclass(slots=True)
class GroupNames(Generic[G]):
    """All groups by name and by table. A name has at most one group over tables, and groups of any number of tables."""

    over_tables: dict[str, G] = field(default_factory=dict)
    """Groups over tables by name."""
    tables: dict[str, dict[str, G]] = field(default_factory=dict)
    """Groups of one table, by name and table."""
    of_table: dict[str, dict[GroupKey, G]] = field(default_factory=dict)
    """All groups by table, those over tables by their pattern. A table without groups is not listed."""
    sizes: Counter[str] = field(default_factory=Counter)
    """How many groups `of` returns, by the name of the group over tables."""
    removed: int = 0
    """How many groups were removed: since then there may be room for others."""

    def add(self, group: G) -> None:
        """Adds a group that was created, and notes which groups consume what the group over tables consumes."""
        name = group.key.group
        self.of_table.setdefault(group.key.table, {})[group.key] = group
        if group.scope.over_tables:
            self.over_tables[name] = group
        else:
            self.tables.setdefault(name, {})[group.key.table] = group
        whole = self.over_tables.get(name)
        for each in self.tables.get(name, {}).values() if group is whole else (group,):
            each.fits = whole is None or each.scope == whole.scope.of_table(each.key.table)
            self.sizes[name] += self.whole_of(each) is not None

    def remove(self, group: G) -> None:
        """Removes a group that was deleted."""
        name = group.key.group
        self.removed += 1
        self.sizes[name] -= self.whole_of(group) is not None
        del self.of_table[group.key.table][group.key]
        if not self.of_table[group.key.table]:
            del self.of_table[group.key.table]
        if group.scope.over_tables:
            del self.over_tables[name], self.sizes[name]
            for each in self.tables.get(name, {}).values():
                each.fits = True
            return
        del self.tables[name][group.key.table]
        if not self.tables[name]:
            del self.tables[name]
            if not self.sizes[name]:
                del self.sizes[name]

    def by_table(self, whole: G) -> dict[str, G]:
        """The groups with the name of a group over tables by table; maybe also of tables that do not match."""
        return self.tables.get(whole.key.group, {})

    def of(self, whole: G) -> Iterator[G]:
        """The groups of the tables of a group over tables, those of tables that are no longer served included.

        A group of its name that consumes something else is not one of them.
        """
        for table, group in self.by_table(whole).items():
            if group.fits and fnmatchcase(table, whole.key.table):
                yield group

    def whole_of(self, group: G) -> G | None:
        """The group over tables to which the group of a table belongs; None if there is none."""
        whole = self.over_tables.get(group.key.group)
        if whole is None or whole is group or not group.fits or not fnmatchcase(group.key.table, whole.key.table):
            return None
        return whole
