"""A small Parquet file whose footer and page headers a kernel has accepted."""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.proto.value_classes import dataclass
from penstock.table.parquet.pages import ChunkPages

_MOST_LEAVES: Final = 512
_MOST_DEPTH: Final = 40


@dataclass(frozen=True, slots=True, eq=False)
class AcceptedFile:
    """What the kernel found. Every check of `table.parquet` accepts the file too, for all columns."""

    rows: int
    """The most rows of a row group."""
    size_bytes: int
    """The most bytes that the rows of one row group take while they are decoded; see `fits_one_read`."""
    schema: bytes
    """The footer's bytes up to the end of the schema."""
    facts: np.ndarray
    """The facts of the last row group, as in `kernels.parquet`."""

    def pages(self) -> dict[int, ChunkPages]:
        """The result of `check_pages` for all columns of the last row group."""
        rows = self.facts.tolist()
        return {
            leaf: ChunkPages(dictionary, bool(all_indices), bool(first_indices), per_value, largest, bool(front_coded))
            for leaf, (dictionary, all_indices, first_indices, per_value, largest, front_coded, *_) in enumerate(rows)
        }


def accepted_file(data: bytes, length: int) -> AcceptedFile | None:
    """The facts of a whole file, whose footer has `length` bytes.

    None if the kernel does not accept it, which does not mean that it is damaged.
    """
    from penstock.reader.kernels import parquet

    content = np.frombuffer(data, np.uint8)
    facts = np.empty((_MOST_LEAVES, parquet.FACTS), np.int64)
    scratch = np.empty((_MOST_DEPTH, parquet.SCRATCH), np.int64)
    leaves, rows, size_bytes, schema_end = parquet.check_file(content, length, facts, scratch)
    if rows == parquet.NOT_ACCEPTED:
        return None
    return AcceptedFile(rows, size_bytes, data[len(data) - 8 - length : schema_end], facts[:leaves])
