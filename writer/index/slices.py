"""The newest file slice of each file group, as a write needs it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from penstock.proto.model.files import FileRef
from penstock.table.files.slices import GroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestSlice:
    """The newest slice of a file group."""

    partition: str
    """Partition path."""
    file_id: str
    """The file group."""
    base: FileRef | None
    """The base file, if any."""
    base_instant: str
    """Requested time of the instant that wrote the base file; '' without one."""
    logs: tuple[FileRef, ...]
    """The committed logs, in scan order."""
    key: str
    """The instant that names a new log on layout 1: that of a pending compaction of the group, else of the base file,
    else of the first log."""
    being_compacted: bool = False
    """Whether a compaction of the group is pending, which its base file must wait for."""
    logs_may_add_keys: bool = False
    """Whether its logs may have rows of keys that the base file lacks: one of them was written while the compaction
    that wrote the base file was pending, for a key that the compaction then removed."""

    @property
    def group(self) -> GroupId:
        """The file group."""
        return (self.partition, self.file_id)

    @property
    def size_bytes(self) -> int:
        """The size of the base file."""
        return self.base.size_bytes if self.base else 0

    @property
    def base_name(self) -> str:
        """The name of the base file; '' without one."""
        return self.base.path.rpartition("/")[2] if self.base else ""

    @property
    def log_names(self) -> tuple[str, ...]:
        """The names of the logs."""
        return tuple(log.path.rpartition("/")[2] for log in self.logs)


@dataclass(frozen=True, slots=True)
class TableSlices:
    """The newest slices of a table."""

    by_partition: Mapping[str, Sequence[LatestSlice]]
    """Partition path -> its slices, by file id."""
    locked: frozenset[GroupId]
    """The groups that a pending clustering or replacecommit rewrites."""

    def without(self, groups: Collection[GroupId]) -> TableSlices:
        """The slices of the other groups."""
        if not groups:
            return self
        left = {
            partition: tuple(item for item in slices if item.group not in groups)
            for partition, slices in self.by_partition.items()
        }
        return TableSlices(left, self.locked)

    def all(self) -> Sequence[LatestSlice]:
        """The slices of all partitions, those of a partition together."""
        return [item for slices in self.by_partition.values() for item in slices]

    def of(self, partition: str) -> Sequence[LatestSlice]:
        """The slices of a partition; () for a new one."""
        return self.by_partition.get(partition, ())


NO_ROWS: Final = np.zeros(0, np.int64)
"""The row numbers of a group whose rows are elsewhere."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupWrite:
    """The rows of one file group in a write."""

    partition: str
    """Partition path."""
    file_id: str
    """The file group: an existing one, or a new one."""
    latest: LatestSlice | None
    """Its newest slice; None for a new group."""
    rows: np.ndarray
    """Row numbers (int64)."""
    rewrites: bool = False
    """Whether the base file is rewritten even in a merge-on-read table: it is small, and new keys fill it."""

    def with_inserts(self, rows: np.ndarray) -> GroupWrite:
        """The group with rows of new keys added, which rewrites its base file."""
        return replace(self, rows=np.concatenate([self.rows, rows]), rewrites=True)
