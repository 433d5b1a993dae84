"""The extra metadata of commits, in which writers keep their own state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.table.hudi_table import HudiTable
from penstock.table.timeline.settled_reads import read_current


def newest_extra(table: HudiTable, key: str) -> str | None:
    """The value of a key in the newest commit that has it, in the timeline as it is now; None if no commit has."""
    return read_current(lambda: next((extra[key] for extra in _newest_first(table.pinned()) if key in extra), None))


def _newest_first(pinned: HudiTable) -> Iterator[Mapping[str, str]]:
    """The extra metadata of the completed writes, the newest first; archived ones after the active ones."""
    for instant in reversed(pinned.timeline().completed_writes):
        yield pinned.commit(instant).extra
    if pinned.has_archived():
        commits = pinned.archive().commits
        for requested in sorted(commits, reverse=True):
            yield commits[requested].extra
