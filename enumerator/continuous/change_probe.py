"""A cheap answer to "has this table changed since?": two file times, no listing.

Shell: reads file times and a clock. Not here: what changed (`advance`).

A folder's time tells that a file was added or renamed in it, which every step of every instant does. It tells that
nothing was only if it is old enough: a second change within the grain of the file system's clock leaves it as it is.
Storages that keep no times of folders (object stores) never say "unchanged" so: there `look_closely` lists the
timeline, once for all that follow the table.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from penstock.table.config.properties import PROPERTIES_FILE
from penstock.table.hudi_table import HudiTable

SETTLED_NS: Final = 2_000_000_000
"""A time younger than this may stay the same through another change: some file systems count in two-second steps."""


@dataclass(frozen=True, slots=True)
class Look:
    """File times of a table's timeline, as they were before it was read; 0 where the storage does not tell.

    `is_settled`: they were old enough that any later change must show in them. `listing`: else, where it was taken, a
    digest of the timeline's file names and sizes, in which every step of every instant shows.
    """

    timeline_ns: int
    properties_ns: int
    properties_bytes: int
    timeline_folder: str
    is_settled: bool
    listing: str = ""


class TableWatch:
    """The gate before polling one table. Any thread; two file operations a look."""

    def __init__(self, table: HudiTable, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """`clock_ns` is the wall clock that file times are held against."""
        self._storage, self._clock_ns = table.storage, clock_ns
        self._folder = table.properties.timeline_folder

    def look(self) -> Look:
        """The table's file times now: to be taken before the table is read, and kept with what was found."""
        now_ns = self._clock_ns()
        folder = self._storage.file_info(self._folder)
        properties = self._storage.file_info(PROPERTIES_FILE)
        times = [info.modified_ns if info is not None else 0 for info in (folder, properties)]
        return Look(
            timeline_ns=times[0],
            properties_ns=times[1],
            properties_bytes=properties.size_bytes if properties is not None else 0,
            timeline_folder=self._folder,
            is_settled=all(0 < changed_ns <= now_ns - SETTLED_NS for changed_ns in times),
        )

    def look_closely(self) -> Look:
        """As `look`; where the file times prove nothing, with a listing of the timeline instead."""
        found = self.look()
        if found.is_settled:
            return found
        digest = hashlib.sha256()
        for info in self._storage.list_dir(self._folder):
            digest.update(f"{info.name}\0{info.size_bytes}\n".encode())
        return replace(found, listing=digest.hexdigest())

    def follow(self, table: HudiTable) -> None:
        """From now on watches the table as it is after an upgrade, which moves the timeline to another folder."""
        self._storage, self._folder = table.storage, table.properties.timeline_folder


def nothing_changed(before: Look | None, now: Look) -> bool:
    """Whether what was found behind `before` is still so. Never true on doubt."""
    return before is not None and (before.is_settled or bool(before.listing)) and before == now
