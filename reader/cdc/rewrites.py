"""Base files that successive commits rewrote. Each is read once for the keys of its commit, and once for rows.

The state after one commit is the state before the next one. One read of its file therefore returns the rows that the
commit wrote, and the rows that the next commit replaced, whose keys are read ahead from the next file. Memory is
bounded: if the keys or rows of the next commit take more than `SELECTION_BYTES`, the file is read again for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import PenstockError
from penstock.proto.model.changes import ComparedStates
from penstock.proto.model.files import SliceFiles
from penstock.reader.cdc import base_rows
from penstock.reader.cdc.states import IDENTITY, FoundRows, RowsOfKeys, States, rows_of_keys
from penstock.reader.merge.keys import RecordTable, number_keys
from penstock.reader.split.read_schema import COMMIT_TIME
from penstock.reader.values.record_keys import RECORD_KEY


@dataclass(frozen=True, slots=True)
class OwnKeys:
    """The keys of the rows that a commit wrote."""

    table: RecordTable
    """The keys."""
    numbers: np.ndarray
    """The number of each row's key, in the order of the rows."""


@dataclass(frozen=True, slots=True)
class StateAfter:
    """What a step needs of the state after its commit."""

    own: OwnKeys
    """The keys of the commit's rows."""
    written: pa.Table | None
    """The commit's rows; None if there are none."""
    same_keys: FoundRows
    """All rows with these keys, with the columns `IDENTITY`."""


class Rewrites:
    """The rewritten base files of one split, for the steps in their order."""

    def __init__(self) -> None:
        self._keys: dict[int, OwnKeys] = {}
        self._replaced: dict[int, FoundRows] = {}

    def after(self, states: States, files: SliceFiles, columns: Sequence[str]) -> StateAfter:
        """The state after a step whose commit wrote a new base file. `columns` include `IDENTITY`."""
        own = self._keys.pop(states.number, None) or _numbered(states, _own_keys(states, files))
        next_keys = self._next_keys(states, files)
        replaced = None if next_keys is None else RowsOfKeys(next_keys.table)
        same_keys = RowsOfKeys(own.table)
        written: list[pa.RecordBatch] = []
        for batch in states.after(files, columns):
            mine = batch.filter(pc.equal(batch.column(COMMIT_TIME), states.step.instant))
            if mine.num_rows:
                written.append(mine)
            same_keys.add(batch.select(IDENTITY))
            if replaced is not None:
                replaced.add(batch)
                if replaced.size_bytes > base_rows.SELECTION_BYTES:
                    replaced = None
        if next_keys is not None and replaced is not None:
            self._keys[states.number + 1] = next_keys
            self._replaced[states.number + 1] = replaced.result()
        return StateAfter(own, pa.Table.from_batches(written) if written else None, same_keys.result())

    def replaced(self, states: States, files: SliceFiles, columns: Sequence[str], keys: RecordTable) -> FoundRows:
        """The rows right before the step that have `keys`, those of `after`."""
        known = self._replaced.pop(states.number, None)
        return rows_of_keys(states.before(files, columns), keys) if known is None else known

    def _next_keys(self, states: States, files: SliceFiles) -> OwnKeys | None:
        """The keys of the next step's commit, if it rewrote this file; None if they take too much memory."""
        following = states.ahead(states.number + 1)
        if following is None or files.logs or not isinstance(following.step.source, ComparedStates):
            return None
        before, after = following.step.source.before, following.step.source.after
        if before != files or files.base is None or after is None or after.base is None:
            return None
        if after.base.path == files.base.path:
            return None
        try:
            keys = _within(_own_keys(following, after), base_rows.SELECTION_BYTES)
        except PenstockError:  # the step itself raises it
            return None
        return None if keys is None else _numbered(states, keys)


def _own_keys(states: States, files: SliceFiles) -> Iterator[pa.Array]:
    """The keys of the commit's rows in the state after it, in their order."""
    for batch in states.after(files, (RECORD_KEY, COMMIT_TIME)):
        yield batch.column(RECORD_KEY).filter(pc.equal(batch.column(COMMIT_TIME), states.step.instant))


def _within(keys: Iterator[pa.Array], most_bytes: int) -> list[pa.Array] | None:
    """All keys; None if they take more than `most_bytes`."""
    held: list[pa.Array] = []
    for part in keys:
        held.append(part)
        most_bytes -= part.nbytes
        if most_bytes < 0:
            return None
    return held


def _numbered(states: States, keys: Iterable[pa.Array]) -> OwnKeys:
    return OwnKeys(*number_keys(list(keys), compiled=states.context.options.matching))
