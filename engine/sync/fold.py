"""Folds changes: of each key only the last change counts. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CHANGE_TYPE: Final = "_change_type"
CHANGE_SEQ: Final = "_change_seq"
_REMOVALS: Final = ("-U", "-D")


@dataclass(frozen=True, slots=True)
class Folded:
    """What changes did to a table."""

    keys: pa.Table
    """The keys of all rows that changed, each once: rows with these keys are removed first."""
    rows: Iterator[pa.RecordBatch]
    """The rows that are there after the changes, each key once. They can be read once; each batch is then released."""


def last_changes(batches: Iterable[pa.RecordBatch], key: Sequence[str], columns: Sequence[str]) -> Folded | None:
    """The effect of changes, rows with `_change_type` and `_change_seq` in any order; None: there are none. `columns`
    are those of `rows`.

    `_change_seq` orders the changes of a key. The old image of an update counts as a removal, so a row whose key
    columns change is removed under its old key. Keys may contain nulls and NaN, which are equal to themselves. Of
    removals only the keys are held in memory, of the other changes the columns, once.
    """
    narrow: list[pa.RecordBatch] = []
    there: list[pa.Array] = []
    kept: deque[pa.RecordBatch] = deque()
    for batch in batches:
        there.append(pc.invert(pc.is_in(batch.column(CHANGE_TYPE), value_set=pa.array(_REMOVALS))))
        kept.append(batch.select(list(columns)).filter(there[-1]))
        narrow.append(batch.select([*key, CHANGE_SEQ]))
    if not narrow:
        return None
    changes = pa.Table.from_batches(narrow)
    indices = pc.sort_indices(changes, sort_keys=[(name, "ascending") for name in changes.column_names])
    ordered = changes.select(list(key)).take(indices)
    is_end = ends_of_runs(ordered)
    is_last = np.zeros(changes.num_rows, np.bool_)
    is_last[indices.filter(is_end).to_numpy()] = True
    return Folded(ordered.filter(is_end), _filtered(kept, pa.array(is_last).filter(pa.concat_arrays(there))))


def _filtered(kept: deque[pa.RecordBatch], is_last: pa.Array) -> Iterator[pa.RecordBatch]:
    start = 0
    while kept:
        batch = kept.popleft()
        rows = batch.filter(is_last.slice(start, batch.num_rows))
        start += batch.num_rows
        if rows.num_rows:
            yield rows


def ends_of_runs(ordered: pa.Table) -> pa.Array:
    """For each row of a sorted table whether the next row differs from it."""
    rows = ordered.num_rows
    if rows == 0:
        return pa.array([], pa.bool_())
    differs = pa.repeat(False, rows - 1)
    for column in ordered.columns:
        values = column.combine_chunks()
        differs = pc.or_(differs, _differ(values.slice(0, rows - 1), values.slice(1)))
    return pa.concat_arrays([differs, pa.array([True])])


def _differ(ones: pa.Array, others: pa.Array) -> pa.Array:
    both_null = pc.and_(pc.is_null(ones), pc.is_null(others))
    equal = pc.or_(pc.fill_null(pc.equal(ones, others), False), both_null)
    if pa.types.is_floating(ones.type):
        equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(ones), pc.is_nan(others)), False))
    return pc.invert(equal)
