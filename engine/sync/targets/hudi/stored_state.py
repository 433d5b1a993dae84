"""The state of a sync in the commits of a Hudi table: its layout, and the positions of its sources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa

from penstock.engine.sync.layout import TargetLayout
from penstock.engine.sync.targets.rows import layout_text, parsed_layout
from penstock.engine.sync.targets.target import StoredTable
from penstock.table.hudi_table import HudiTable
from penstock.table.timeline.settled_reads import read_current

SYNC: Final = "penstock.sync"
"""The key of the state in the metadata of a commit."""


def state_text(layout: TargetLayout, positions: Mapping[str, str]) -> str:
    """The state as text. positions: the position of each source, by its id."""
    return json.dumps({"layout": layout_text(layout), "positions": dict(positions)}, separators=(",", ":"))


def parsed_state(text: str) -> StoredTable:
    """The state of a text. ValueError for a text that is not one of `state_text`."""
    try:
        values = json.loads(text)
        positions = {str(source): str(position) for source, position in values["positions"].items()}
        return StoredTable(layout=parsed_layout(values["layout"]), positions=positions)
    except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise ValueError(str(error)) from None


def newest_state(table: HudiTable) -> str | None:
    """The text in the newest commit that has one, in the timeline as it is now; None if no commit has."""
    return read_current(lambda: next((extra[SYNC] for extra in _newest_first(table.pinned()) if SYNC in extra), None))


def _newest_first(pinned: HudiTable) -> Iterator[Mapping[str, str]]:
    """The extra metadata of the completed writes, the newest first; archived ones after the active ones."""
    for instant in reversed(pinned.timeline().completed_writes):
        yield pinned.commit(instant).extra
    if pinned.has_archived():
        commits = pinned.archive().commits
        for requested in sorted(commits, reverse=True):
            yield commits[requested].extra
