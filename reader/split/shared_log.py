"""What reads of several states of one file group share of its logs: bytes, decoded blocks and winners.

A read of changes merges the same log files once for each state. With a `SharedLog` in its context, each file is read
once, each block is decoded once for the same columns, and a state that is read twice in succession is folded once. What
exceeds the limit is read and decoded again, as without it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from penstock.proto.errors import PenstockError
from penstock.proto.model.files import FileRef
from penstock.table.arrow_arrays import arrow_array

_Winners = TypeVar("_Winners")
_Numbered = TypeVar("_Numbered")

SHARED_BYTES: Final = 64 << 20
"""The most bytes of files, and the most bytes of decoded blocks, that are kept."""
_STATES: Final = 2
"""How many folded states are kept: those before and after a commit."""


class SharedLog:
    """For one thread, and for reads with the same table, schema and options. Files must not change."""

    def __init__(self, most_bytes: int = SHARED_BYTES) -> None:
        self._files: dict[FileRef, pa.Buffer] = {}
        self._blocks: dict[Hashable, list[pa.RecordBatch] | None] = {}
        self._winners: dict[Hashable, Any] = {}
        self._numbered: tuple[Hashable, Any] | None = None
        self._bounds: dict[Hashable, tuple[np.ndarray, np.ndarray]] = {}
        self._file_bytes = self._block_bytes = most_bytes

    def data(self, file: FileRef) -> pa.Buffer | None:
        """The bytes of a whole file, if they are kept."""
        return self._files.get(file)

    def keep_data(self, file: FileRef, data: pa.Buffer) -> None:
        """Keeps the bytes of a whole file, if they fit."""
        if data.size <= self._file_bytes:
            self._file_bytes -= data.size
            self._files[file] = data

    def bounds(
        self, block: Hashable, find: Callable[[], tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The places of a block's records, found once if they fit."""
        known = self._bounds.get(block)
        if known is None:
            known = find()
            size = sum(array.nbytes for array in known)
            if size <= self._block_bytes:
                self._block_bytes -= size
                self._bounds[block] = known
        return known

    def records(self, block: Hashable, decode: Callable[[], Iterable[pa.RecordBatch]]) -> list[pa.RecordBatch] | None:
        """All records of a block, decoded once; None if they do not fit, or if not all of them can be decoded."""
        if block not in self._blocks:
            self._blocks[block] = kept = self._fitting(decode)
            self._block_bytes -= sum(batch.nbytes for batch in kept or ())
        return self._blocks[block]

    def winners(self, state: Hashable, fold: Callable[[], _Winners]) -> _Winners:
        """The winners of a state, folded once if the state is one of the last two."""
        if state not in self._winners:
            while len(self._winners) >= _STATES:
                del self._winners[next(iter(self._winners))]
            self._winners[state] = fold()
        winners: _Winners = self._winners[state]
        return winners

    def numbered(self, blocks: Hashable, number: Callable[[], _Numbered]) -> _Numbered:
        """The numbered keys of these blocks, numbered once if the last call was for the same blocks."""
        if self._numbered is None or self._numbered[0] != blocks:
            self._numbered = blocks, number()
        numbered: _Numbered = self._numbered[1]
        return numbered

    def _fitting(self, decode: Callable[[], Iterable[pa.RecordBatch]]) -> list[pa.RecordBatch] | None:
        batches, size = [], 0
        try:
            for batch in decode():
                size += batch.nbytes
                if size > self._block_bytes:
                    return None
                batches.append(batch)
        except PenstockError:  # of a record that no state may need
            return None
        return batches


def rows_at(batches: Iterable[pa.RecordBatch], places: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The rows at these ascending places of successive batches."""
    first = 0
    for batch in batches:
        begin, end = np.searchsorted(places, (first, first + batch.num_rows))
        if end - begin == batch.num_rows:
            yield batch
        elif begin < end:
            yield batch.take(arrow_array(places[begin:end] - first))
        first += batch.num_rows
