"""The interface of a catalog adapter, and the items of a listing. Values only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A Hudi table of the catalog."""

    name: str
    """Its name in the catalog: the served name without the name of the catalog."""
    path: str
    """Its local path or URI."""
    link_to: str = ""
    """The path of its folder, if `path` leads there through a symbolic link; '' without a link."""


@dataclass(frozen=True, slots=True)
class RefusedTable:
    """An entry of the catalog that is a table but must not be served. It is not served any more."""

    name: str
    """Its name in the catalog."""
    reason: str
    """Why, for operators."""


@dataclass(frozen=True, slots=True)
class UnreadablePart:
    """A part of the catalog whose content is unknown now. Its tables of the last listing stay."""

    name: str
    """A table, or a folder or database with all of its tables (`name.…`); '': everything that was not listed."""
    reason: str
    """Why, for operators."""


Item = ListedTable | RefusedTable | UnreadablePart | None
"""An item of a listing. None: one step of work without a result, such as a folder that is no table."""


class CatalogAdapter(Protocol):
    """A catalog of tables."""

    def listing(self) -> Iterator[Item]:
        """Lists the catalog now: one item for about one access to storage or to a service, in an order that is the
        same each time. The caller may pause between items, and may stop early.

        Raises a PenstockError if the catalog cannot be listed; then the tables of the last listing stay.
        """
        ...
