"""The names of temporary views of tables. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.proto.errors import ConfigurationError
from penstock.proto.options.types import nearest

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")


@dataclass(frozen=True, slots=True)
class ViewNames:
    """The names of views for tables."""

    views: Mapping[str, str]
    """The view of each table, in the order of the tables."""
    refused: Mapping[str, str]
    """Why a table has no view, by table."""


def safe_name(table: str, prefix: str = "") -> str:
    """`prefix` and the table's name, with `_` in place of every character other than an ASCII letter, a digit and `_`;
    `t_` precedes a name that would start with a digit."""
    name = prefix + re.sub(r"[^A-Za-z0-9_]", "_", table)
    return f"t_{name}" if name[:1].isdigit() else name


def view_names(tables: Sequence[str], prefix: str = "", names: Mapping[str, str] | None = None) -> ViewNames:
    """The view of each table: from `names`, else its `safe_name`. Tables whose views have the same name, in any case,
    are all refused.

    ConfigurationError: a table of `names` does not exist, or a name or the prefix is not a name for Spark.
    """
    given = dict(names or {})
    for table in given:
        if table not in tables:
            raise ConfigurationError(f"names: no table {table[:200]!r}{nearest(table, tables)}")
    for text, where in [*((name, "names") for name in given.values()), *([(prefix, "prefix")] if prefix else [])]:
        if not _NAME.fullmatch(text):
            raise ConfigurationError(
                f"{where}: got {text[:80]!r}, expected ASCII letters, digits and _, of which the first is no digit"
            )
    planned = {table: given.get(table) or safe_name(table, prefix) for table in tables}
    by_view: dict[str, list[str]] = defaultdict(list)
    for table, view in planned.items():
        by_view[view.lower()].append(table)
    refused: dict[str, str] = {}
    for table, view in planned.items():
        others = [other for other in by_view[view.lower()] if other != table]
        if others:
            refused[table] = (
                f"the name {view} of its view is also that of {', '.join(others)[:500]}: give another name, such as "
                f"names={{{table!r}: '{view}_2'}}"
            )
    return ViewNames({table: view for table, view in planned.items() if table not in refused}, refused)
