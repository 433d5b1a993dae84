"""The file groups of new keys: small ones are filled first, then new ones are created. Pure.

Source: Hudi `UpsertPartitioner`, `SparkUpsertDeltaCommitPartitioner`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from penstock.table.files.slices import GroupId
from penstock.writer.index.slices import GroupWrite, LatestSlice


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizes:
    """The sizes to which base files are filled."""

    max_file_bytes: int = 120 << 20
    """A base file is not filled beyond it (`hoodie.parquet.max.file.size`)."""
    small_file_bytes: int = 100 << 20
    """A base file below it is filled first (`hoodie.parquet.small.file.limit`); 0: none is."""
    small_files: int | None = None
    """How many small files of a partition are filled; None: all. Hudi rewrites one for tables with logs."""
    row_bytes: int = 1024
    """The average size of a row in base files."""

    @property
    def rows_of_file(self) -> int:
        """How many rows fill a new base file."""
        return max(1, ceil(self.max_file_bytes / max(1, self.row_bytes)))


def average_row_bytes(written: Sequence[tuple[int, int]], sizes: FileSizes, default: int) -> int:
    """The average size of a row by (bytes, rows) of the base files of each write, newest first: that of the first write
    of more than the size of a small file; `default` if there is none."""
    for size_bytes, num_rows in written:
        if num_rows > 0 and size_bytes > sizes.small_file_bytes:
            return max(1, ceil(size_bytes / num_rows))
    return max(1, default)


def place_new_rows(
    partition: str,
    rows: np.ndarray,
    slices: Sequence[LatestSlice],
    locked: Collection[GroupId],
    sizes: FileSizes,
    new_file_id: Callable[[], str],
) -> list[GroupWrite]:
    """The new rows of a partition by file group, in their order."""
    small = [
        item
        for item in slices
        if item.base is not None
        and not item.logs
        and not item.being_compacted
        and item.group not in locked
        and 0 < item.size_bytes < sizes.small_file_bytes
    ]
    small.sort(key=lambda item: (item.size_bytes, item.file_id))
    writes: list[GroupWrite] = []
    begin = 0
    for item in small[: sizes.small_files]:
        room = (sizes.max_file_bytes - item.size_bytes) // max(1, sizes.row_bytes)
        if room > 0 and begin < len(rows):
            writes.append(GroupWrite(partition, item.file_id, item, rows[begin : begin + room], rewrites=True))
            begin += room
    while begin < len(rows):
        writes.append(GroupWrite(partition, new_file_id(), None, rows[begin : begin + sizes.rows_of_file]))
        begin += sizes.rows_of_file
    return writes
