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


def files_of_new_rows(
    count: int, slices: Sequence[LatestSlice], locked: Collection[GroupId], sizes: FileSizes
) -> list[tuple[LatestSlice | None, int]]:
    """The files of so many new rows of a partition, in their order: (slice that is filled, or None for a new group; how
    many of the rows)."""
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
    files: list[tuple[LatestSlice | None, int]] = []
    for item in small[: sizes.small_files]:
        room = (sizes.max_file_bytes - item.size_bytes) // max(1, sizes.row_bytes)
        if room > 0 and count > 0:
            files.append((item, min(room, count)))
            count -= files[-1][1]
    while count > 0:
        files.append((None, min(sizes.rows_of_file, count)))
        count -= files[-1][1]
    return files


def place_new_rows(
    partition: str,
    rows: np.ndarray,
    slices: Sequence[LatestSlice],
    locked: Collection[GroupId],
    sizes: FileSizes,
    new_file_id: Callable[[], str],
) -> list[GroupWrite]:
    """The new rows of a partition by file group, in their order."""
    writes: list[GroupWrite] = []
    begin = 0
    for item, count in files_of_new_rows(len(rows), slices, locked, sizes):
        writes.append(write_of_new_rows(partition, item, rows[begin : begin + count], new_file_id))
        begin += count
    return writes


def write_of_new_rows(
    partition: str, item: LatestSlice | None, rows: np.ndarray, new_file_id: Callable[[], str]
) -> GroupWrite:
    """New rows that fill a slice, or those of a new group."""
    if item is None:
        return GroupWrite(partition, new_file_id(), None, rows)
    return GroupWrite(partition, item.file_id, item, rows, rewrites=True)
