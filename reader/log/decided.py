"""A log whose winners are decided, and whose rows may not be decoded yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.proto.value_classes import dataclass
from penstock.reader.log.first_pass import DataBlock
from penstock.reader.merge.fold import RecordKind
from penstock.reader.merge.keys import RecordTable
from penstock.reader.merge.log_rows import LogRows
from penstock.reader.merge.stream import LogWinners

NeededNumbers = Callable[[RecordTable], np.ndarray | None]
"""Which numbers of a log's table (bool by number) rows are needed of; None for all."""
Decode = Callable[[Sequence[DataBlock], np.ndarray], Iterator[pa.RecordBatch]]
"""The full rows of these records (ascending places in arrival order) of these blocks."""


@dataclass(frozen=True, slots=True)
class DecidedLog:
    """The winners of a log. It holds no bytes of the log."""

    winners: LogWinners
    """The winners; without rows if these are not decoded yet."""
    undecoded: tuple[Sequence[DataBlock], np.ndarray] | None = None
    """The data blocks and the records of the rows (ascending places in arrival order) that are not decoded yet."""

    def with_rows(self, needed: np.ndarray | None, decode: Decode, may_be_encoded: tuple[str, ...]) -> LogWinners:
        """The winners with the rows of these numbers, None for all. The others count as deletes, and have no row."""
        winners = self.winners
        has_row = winners.row_of >= 0
        if needed is None or needed[has_row].all():
            if self.undecoded is None:
                return winners
            return replace(winners, rows=LogRows(decode(*self.undecoded), may_be_encoded))
        kept = needed & has_row
        places = np.unique(winners.row_of[kept])
        row_of = np.full(len(has_row), -1, np.int64)
        row_of[kept] = np.searchsorted(places, winners.row_of[kept])
        if self.undecoded is None:
            # Held rows are encoded already.
            rows = LogRows(winners.rows.take(places, max(1, len(places)), 1 << 62))
        else:
            blocks, arrivals = self.undecoded
            rows = LogRows(decode(blocks, arrivals[places]), may_be_encoded)
        kinds = np.where(needed, winners.kinds, np.uint8(RecordKind.DELETE))
        return replace(winners, rows=rows, row_of=row_of, kinds=kinds)
