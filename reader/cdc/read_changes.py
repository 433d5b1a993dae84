"""Reads a split of changes step by step, from each step's source, in the scan's format.

This module computes ordinals and applies filters. Sources of changes and formats have one module each.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial

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
from penstock.proto.model.positions import COMPLETION_TIME
from penstock.proto.model.splits import Split
from penstock.reader.cdc.base_rows import SharedBases
from penstock.reader.cdc.compared import compared_changes
from penstock.reader.cdc.formats import change_rows, hudi_rows
from penstock.reader.cdc.images import Batch, StoredBatch
from penstock.reader.cdc.logged import LoggedChanges
from penstock.reader.cdc.read_schema import ChangesReadSchema
from penstock.reader.cdc.rewrites import Rewrites
from penstock.reader.cdc.states import ReadSlice, States
from penstock.reader.cdc.stored import stored_changes
from penstock.reader.split.context import SplitContext
from penstock.reader.split.emit import SplitBatch
from penstock.reader.split.filter import kept_rows
from penstock.reader.split.shared_log import SharedLog
from penstock.reader.values.struct_offsets import without_struct_offsets
from penstock.table.schema.completion import COMPLETION_TYPE


def read_changes(
    context: SplitContext, changes: ChangesReadSchema, start: int, read_slice: ReadSlice
) -> Generator[SplitBatch, None, None]:
    """The changes of a split in their order. Ordinals count rows before `scan.where` is applied.

    `context.schema` has the columns of images, `changes` those of the finished change. Errors as for `read_split`.
    """
    split, tally, batch_rows = context.split, context.tally, context.options.batch_rows
    if not isinstance(split.part, GroupChanges):
        raise InvariantViolation(
            f"split {split.split_id} of table {context.scan.table} holds no changes, its scan asks for them"
        )
    steps = split.part.steps
    rewrites = Rewrites()
    states_of = partial(
        States,
        context=replace(context, shared_log=SharedLog()),
        read_slice=read_slice,
        bases=SharedBases(steps),
        keys_of=partial(_looked_up_keys, form=changes.format),
    )

    def batches() -> Generator[SplitBatch, None, None]:
        ordinal = 0
        for number, step in enumerate(steps):
            for rows in _rows(states_of(step=step, number=number), changes, rewrites):
                for first in range(0, rows.num_rows, batch_rows):
                    part = rows.slice(first, batch_rows)
                    with tally.phase("emit"):
                        finished = _finished(part, ordinal, start, split, changes)
                    ordinal += part.num_rows
                    if finished is not None:
                        tally.count_batch(finished[1])
                        yield finished[0]

    tally.begin(split.size_bytes)
    return batches()


def _rows(states: States, changes: ChangesReadSchema, rewrites: Rewrites) -> Iterator[pa.RecordBatch]:
    """The finished changes of one step."""
    first = 0
    for batch in states.context.tally.timed("merge", _changes(states, changes, rewrites)):
        count = len(batch.kinds)
        if not count:
            continue
        with states.context.tally.phase("emit"):
            if changes.format is ChangeFormat.HUDI:
                rows = hudi_rows(batch, states.step, changes.carried, compiled=states.context.options.by_kernels)
            else:
                rows = change_rows(batch, states.step, first, changes.carried)
            if changes.completion is not None:
                completed = changes.completion.of_commit(states.step.instant, rows.num_rows)
                rows = rows.append_column(pa.field(COMPLETION_TIME, COMPLETION_TYPE), completed)
        yield rows
        first += count


def _changes(states: States, changes: ChangesReadSchema, rewrites: Rewrites) -> Iterator[Batch]:
    step: ChangeStep = states.step
    match step.source:
        case LoggedImages() as source:
            logged = LoggedChanges(states=states, source=source, columns=changes.images, format=changes.format)
            yield from logged.batches()
        case ComparedStates() as source:
            yield from compared_changes(states, source, changes.images, rewrites)
        case StoredKinds() as source:
            stored: Iterator[StoredBatch] = stored_changes(states, source, changes.images)
            yield from stored


def _looked_up_keys(states: States, *, form: ChangeFormat) -> list[pa.Array]:
    """The record keys that a step looks up in base files. Errors as for reading the step."""
    match states.step.source:
        case LoggedImages() as source:
            return list(LoggedChanges(states=states, source=source, columns=(), format=form).keys())
        case ComparedStates(after=after) if after is not None:
            touched = states.touched(after)
            return [] if touched is None else [touched.keys]
    return []


def _finished(
    rows: pa.RecordBatch, ordinal: int, start: int, split: Split, changes: ChangesReadSchema
) -> tuple[SplitBatch, pa.RecordBatch] | None:
    """The rows from ordinal `start` on that the filter keeps, if any; the second batch has all carried columns."""
    next_ordinal = ordinal + rows.num_rows
    if next_ordinal <= start:
        return None
    if ordinal < start:
        rows, ordinal = rows.slice(start - ordinal), start
    kept: np.ndarray | None = None if changes.predicate is None else kept_rows(changes.predicate, rows)
    if kept is not None:
        if not len(kept):
            return None
        rows = rows.take(pa.array(kept))
    batch = without_struct_offsets(rows.select(changes.output.names))
    return SplitBatch(split.split_id, ordinal, next_ordinal, batch, kept), rows
