"""A split of changes, read: step after step, from whatever tells a step's changes, in the scan's format.

Belongs here: the walk through the steps, ordinals, filters. Not here: sources of changes, formats (one file each).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import pyarrow as pa

from penstock.proto.errors import InvariantViolation
from penstock.proto.model.changes import (
    ChangeFormat,
    ChangeStep,
    ComparedStates,
    GroupChanges,
    LoggedImages,
    StoredKinds,
)
from penstock.proto.model.splits import Scan, Split
from penstock.reader.cdc.compared import compared_changes
from penstock.reader.cdc.hudi_format import hudi_rows
from penstock.reader.cdc.images import Batch, StoredBatch
from penstock.reader.cdc.logged import LoggedChanges
from penstock.reader.cdc.rows_format import change_rows
from penstock.reader.cdc.shape import ChangeShape, change_shape
from penstock.reader.cdc.states import ReadSlice, States
from penstock.reader.cdc.stored import stored_changes
from penstock.reader.emit import SplitBatch
from penstock.reader.filter import kept_rows
from penstock.reader.report import SplitTally
from penstock.table.storage.filesystem import Storage


def read_changes(
    scan: Scan,
    split: Split,
    start: int,
    storage: Storage,
    tally: SplitTally,
    read_slice: ReadSlice,
    *,
    batch_rows: int,
    compiled: bool,
) -> Generator[SplitBatch, None, None]:
    """The changes of a split in their order; ordinals count rows before `scan.where`.

    Errors as for `read_split`; those about columns and filter before the first batch is asked for.
    """
    shape = change_shape(scan, event_time=tally.event_time)
    if not isinstance(split.part, GroupChanges):
        raise InvariantViolation(
            f"split {split.split_id} of table {scan.table} holds no changes, its scan asks for them"
        )
    steps = split.part.steps

    def batches() -> Generator[SplitBatch, None, None]:
        ordinal = 0
        for step in steps:
            states = States(
                scan=scan,
                split=split,
                step=step,
                storage=storage,
                tally=tally,
                read_slice=read_slice,
                compiled=compiled,
            )
            for rows in _rows(states, shape, batch_rows):
                for first in range(0, rows.num_rows, batch_rows):
                    part = rows.slice(first, batch_rows)
                    with tally.phase("emit"):
                        answer = _emitted(part, ordinal, start, split, shape)
                    ordinal += part.num_rows
                    if answer is not None:
                        tally.handed_on(answer[1])
                        yield answer[0]

    tally.begin(split.size_bytes)
    return batches()


def _rows(states: States, shape: ChangeShape, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The finished changes of one step."""
    first = 0
    for batch in states.tally.timed("merge", _changes(states, shape, batch_rows)):
        count = len(batch.kinds)
        if not count:
            continue
        with states.tally.phase("emit"):
            if shape.format is ChangeFormat.HUDI:
                rows = hudi_rows(batch, states.step, shape.carried, compiled=states.compiled)
            else:
                rows = change_rows(batch, states.step, first, shape.carried)
        yield rows
        first += count


def _changes(states: States, shape: ChangeShape, batch_rows: int) -> Iterator[Batch]:
    step: ChangeStep = states.step
    match step.source:
        case LoggedImages() as source:
            logged = LoggedChanges(
                states=states, source=source, columns=shape.images, shape=shape.table, format=shape.format
            )
            yield from logged.batches()
        case ComparedStates() as source:
            yield from compared_changes(states, source, shape.images, shape.table.record, batch_rows)
        case StoredKinds() as source:
            stored: Iterator[StoredBatch] = stored_changes(states, source, shape.images)
            yield from stored


def _emitted(
    rows: pa.RecordBatch, ordinal: int, start: int, split: Split, shape: ChangeShape
) -> tuple[SplitBatch, pa.RecordBatch] | None:
    """The rows from ordinal `start` on that the filter keeps, if any; the second batch has all carried columns."""
    next_ordinal = ordinal + rows.num_rows
    if next_ordinal <= start:
        return None
    if ordinal < start:
        rows, ordinal = rows.slice(start - ordinal), start
    kept: np.ndarray | None = None if shape.predicate is None else kept_rows(shape.predicate, rows)
    if kept is not None:
        if not len(kept):
            return None
        rows = rows.take(pa.array(kept))
    return SplitBatch(split.split_id, ordinal, next_ordinal, rows.select(shape.output.names), kept), rows
