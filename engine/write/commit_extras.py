"""The extra metadata of commits, in which writers keep their own state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.table.hudi_table import HudiTable


def newest_extra(table: HudiTable, key: str) -> str | None:
    """The value of a key in the newest commit that has it; None if no commit has."""
    return next((extra[key] for extra in newest_first(table) if key in extra), None)


def newest_first(table: HudiTable) -> Iterator[Mapping[str, str]]:
    """The extra metadata of the completed writes, the newest first; archived ones after the active ones."""
    for instant in reversed(table.timeline().completed_writes):
        yield table.commit(instant).extra
    if table.has_archived():
        commits = table.archive().commits
        for requested in sorted(commits, reverse=True):
            yield commits[requested].extra
