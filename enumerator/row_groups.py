"""Cuts a big log-free base file into runs of row groups, so that one huge file is not one straggler. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.proto.splits import RowGroupRun


def cut(row_group_bytes: Sequence[int], target_bytes: int) -> tuple[RowGroupRun, ...]:
    """Runs that cover all row groups in order, each of at least one; a run ends before it would exceed the target.

    `row_group_bytes` are sizes on storage. () if one run would hold them all: the file is then read whole.
    """
    runs: list[RowGroupRun] = []
    first = held = 0
    for index, size_bytes in enumerate(row_group_bytes):
        if index > first and held + size_bytes > target_bytes:
            runs.append(RowGroupRun(first, index, held))
            first, held = index, 0
        held += size_bytes
    if not runs:
        return ()
    return (*runs, RowGroupRun(first, len(row_group_bytes), held))
