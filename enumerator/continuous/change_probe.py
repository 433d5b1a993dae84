"""Detect cheaply whether a table has changed: two file times, no listing.

The modification time of a folder changes when a file is added or renamed in it, which every step of every instant does.
An unchanged time proves that nothing happened only if it is old enough: a second change within the resolution of the
file system's clock does not move it. Object stores keep no folder times, so the probe never reports "unchanged" there;
`probe_listing` then lists the timeline, once for all groups that follow the table.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from penstock.proto.value_classes import dataclass
from penstock.table.config.properties import PROPERTIES_FILE
from penstock.table.hudi_table import HudiTable

SETTLED_NS: Final = 2_000_000_000
"""A younger time may stay the same through another change: some file systems count in two-second steps."""


@dataclass(frozen=True, slots=True)
class TableFingerprint:
    """File times of a table's timeline, taken before the timeline was read; 0 if the storage does not keep them."""

    timeline_ns: int
    """Modification time of the timeline folder, nanoseconds since 1970."""
    properties_ns: int
    """Modification time of `hoodie.properties`, nanoseconds since 1970."""
    properties_bytes: int
    """Size of `hoodie.properties`."""
    timeline_folder: str
    """Path of the timeline folder in the table."""
    is_settled: bool
    """Whether the times were old enough that every later change moves them."""
    listing: str = ""
    """A digest of the timeline's file names, sizes and times, which every step of every instant changes; '' if not
    taken."""
    properties_settled: bool = True
    """Whether the time of `hoodie.properties` was old enough that every later change moves it."""


class ChangeProbe:
    """Probes one table before it is read. Any thread; two file operations for each probe."""

    def __init__(self, table: HudiTable, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """`clock_ns` is the wall clock that file times are compared with."""
        self._storage, self._clock_ns = table.storage, clock_ns
        self._folder = table.properties.timeline_folder

    def probe(self) -> TableFingerprint:
        """The table's file times now. Take them before reading the table, and keep them with the result."""
        now_ns = self._clock_ns()
        folder = self._storage.file_info(self._folder)
        properties = self._storage.file_info(PROPERTIES_FILE)
        times = [info.modified_ns if info is not None else 0 for info in (folder, properties)]
        settled = [0 < changed_ns <= now_ns - SETTLED_NS for changed_ns in times]
        return TableFingerprint(
            timeline_ns=times[0],
            properties_ns=times[1],
            properties_bytes=properties.size_bytes if properties is not None else 0,
            timeline_folder=self._folder,
            is_settled=all(settled),
            properties_settled=settled[1],
        )

    def probe_listing(self, before: TableFingerprint | None = None) -> TableFingerprint:
        """Like `probe`; if the file times prove nothing, with a digest of the timeline's listing. So is the first probe
        after `before`, whose file times proved nothing: only the listing can show that nothing has changed since."""
        fingerprint = self.probe()
        if fingerprint.is_settled and (before is None or before.is_settled):
            return fingerprint
        digest = hashlib.sha256()
        for info in self._storage.list_dir(self._folder):
            digest.update(f"{info.name}\0{info.size_bytes}\0{info.modified_ns}\n".encode())
        return replace(fingerprint, listing=digest.hexdigest())


def is_unchanged(before: TableFingerprint | None, now: TableFingerprint) -> bool:
    """Whether the table is certainly the same as when `before` was taken."""
    if before is None or _times(before) != _times(now):
        return False
    if before.is_settled:
        return now.is_settled
    return (
        bool(before.listing) and before.listing == now.listing and before.properties_settled == now.properties_settled
    )


def _times(fingerprint: TableFingerprint) -> tuple[int, int, int, str]:
    return (
        fingerprint.timeline_ns,
        fingerprint.properties_ns,
        fingerprint.properties_bytes,
        fingerprint.timeline_folder,
    )
