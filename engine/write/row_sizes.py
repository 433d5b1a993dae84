"""The average size of a row in a table's base files, by its commits."""

from __future__ import annotations

from typing import Final

from penstock.engine.write.current_table import CurrentTable
from penstock.writer.index.new_groups import FileSizes, average_row_bytes

_COMMITS: Final = 32
"""How many commits are looked at, from the newest."""
_DEFAULT: Final = 1024
"""Hudi's `hoodie.copyonwrite.record.size.estimate`."""


def row_bytes(current: CurrentTable, sizes: FileSizes) -> int:
    """Bytes of a row (Hudi `AverageRecordSizeEstimator`)."""
    table = current.table
    written: list[tuple[int, int]] = []
    for instant in reversed(table.timeline().completed_writes[-_COMMITS:]):
        stats = [stat for stat in table.commit(instant).stats if not stat.file_name.startswith(".")]
        written.append((sum(stat.file_size_bytes for stat in stats), sum(stat.num_writes for stat in stats)))
    return average_row_bytes(written, sizes, _DEFAULT)
