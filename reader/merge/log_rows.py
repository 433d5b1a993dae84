"""Decoded log rows held until the base file has been read. They are the only part of a split that memory grows with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import InvariantViolation
from penstock.reader.values.dictionary_text import concatenated, encoded_constants, text_bytes
from penstock.reader.values.memory_pool import return_unused
from penstock.table.arrow_arrays import arrow_array
from penstock.table.arrow_compute import pc

_CHUNK_ROWS: Final = 1 << 16
_CHUNK_BYTES: Final = 4 << 20
_POOL: Final = pa.system_memory_pool()


class LogRows:
    """Rows 0, 1, … in arrival order, selected by ascending row numbers. Immutable."""

    def __init__(self, batches: Iterable[pa.RecordBatch], may_be_encoded: Collection[str] = ()) -> None:
        """Small batches are combined (a block may hold few records), up to 4 MiB or 64k rows; the memory that this
        frees is returned to the system at once.

        `may_be_encoded`: of these text columns, those with one value in all rows of a combined batch are kept as
        indices (`values.dictionary_text`).
        """
        self._chunks = [encoded_constants(batch, may_be_encoded) for batch in _combined_batches(batches)]
        self._starts = np.cumsum([0, *(chunk.num_rows for chunk in self._chunks)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def batches(self) -> list[pa.RecordBatch]:
        """All rows, in order, in batches as they are held."""
        return list(self._chunks)

    def take(self, rows: np.ndarray, batch_rows: int, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """These rows (ascending, repeats allowed) in batches of at most `batch_rows` rows and about `batch_bytes`
        bytes. Batches of adjacent rows share the memory of the held rows."""
        if len(rows) and not 0 <= int(rows[0]) <= int(rows[-1]) < len(self):
            raise InvariantViolation(f"log rows {rows[0]}..{rows[-1]} of {len(self)}")
        edges = np.searchsorted(rows, self._starts)
        for chunk, start, first, last in zip(self._chunks, self._starts, edges, edges[1:], strict=False):
            step = rows_within(chunk, batch_rows, batch_bytes)
            for begin in range(int(first), int(last), step):
                yield _rows_at(chunk, rows[begin : min(begin + step, int(last))] - start)


def _rows_at(batch: pa.RecordBatch, rows: np.ndarray) -> pa.RecordBatch:
    """The rows at these ascending places; a slice if they are adjacent."""
    if int(rows[-1] - rows[0]) == len(rows) - 1 and (np.diff(rows) == 1).all():
        return batch.slice(int(rows[0]), len(rows))
    return pc.take(batch, arrow_array(rows))


def rows_within(batch: pa.RecordBatch, most_rows: int, most_bytes: int) -> int:
    """How many rows of this batch's average row size make a batch; at least 1."""
    if not batch.num_rows:
        return max(1, most_rows)
    return max(1, min(most_rows, most_bytes * int(batch.num_rows) // max(1, text_bytes(batch))))


def _combined_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if waiting and (rows + batch.num_rows > _CHUNK_ROWS or size_bytes + batch.nbytes > _CHUNK_BYTES):
            yield _combined(waiting)
            waiting, rows, size_bytes = [], 0, 0
            return_unused()
        waiting.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
    if waiting:
        yield _combined(waiting)


def _combined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows as one batch, in memory that is returned to the system when it is freed: Arrow's own pool keeps its
    pages."""
    if len(batches) == 1:
        return batches[0]
    names = batches[0].schema.names
    columns = [concatenated([batch.column(place) for batch in batches], _POOL) for place in range(len(names))]
    return pa.RecordBatch.from_arrays(columns, names=names)
