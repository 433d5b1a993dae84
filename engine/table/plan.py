"""What a read would scan, as values for users: `TablePlan` and `PlannedSplit`."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from penstock.engine.read_tasks import OpenedRead
from penstock.proto.model.changes import GroupChanges
from penstock.proto.model.splits import RowGroupRun, Split


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSplit:
    """A part of a read: a file slice, some row groups of a file without logs, or the changes of a file group."""

    split_id: str
    """The split's id, unique in its plan; the same for each plan of the same state and request."""
    partition: str
    """The path of the partition; '' for a table without partitions."""
    file_group: str
    """The id of the file group."""
    base_file: str | None
    """The path of the base file, relative to the table's; None for log files only, and for changes."""
    row_groups: tuple[int, int] | None
    """The first row group of the base file that is read, and the one after the last; None: all of them."""
    log_files: tuple[str, ...]
    """The paths of the log files, in the order of merging; for changes, of all files that they are taken from."""
    bytes: int
    """The bytes on storage of what is read."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What a read would scan."""

    schema: pa.Schema
    """The schema of the rows."""
    splits: tuple[PlannedSplit, ...]
    """The splits in the order in which they are read."""
    bytes: int = field(init=False)
    """The bytes on storage of all splits."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", sum(split.bytes for split in self.splits))

    def __repr__(self) -> str:
        return f"TablePlan: {len(self.splits)} splits, {self.bytes:,} bytes, columns {', '.join(self.schema.names)}"


def plan_of(opened: OpenedRead) -> TablePlan:
    """The plan of an opened read. A plan that a server holds is fetched split by split."""
    return TablePlan(opened.schema, tuple(_planned(task.split) for task in opened.tasks()))


def _planned(split: Split) -> PlannedSplit:
    logs = [log.path for log in split.logs]
    if isinstance(split.part, GroupChanges):
        logs = list(dict.fromkeys(file.path for step in split.part.steps for file in step.files))
    return PlannedSplit(
        split_id=split.split_id,
        partition=split.partition,
        file_group=split.file_group,
        base_file=None if split.base is None else split.base.path,
        row_groups=(split.part.first, split.part.end) if isinstance(split.part, RowGroupRun) else None,
        log_files=tuple(logs),
        bytes=split.size_bytes,
    )
