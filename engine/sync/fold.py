"""Folds changes: of each key only the last change counts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

CHANGE_TYPE = "_change_type"
CHANGE_SEQ = "_change_seq"
_ORDINAL = "_penstock_ordinal"
_REMOVALS = ("-U", "-D")


@dataclass(frozen=True, slots=True)
class Folded:
    """What changes did to a table."""

    keys: pa.Table
    """The keys of all rows that changed, each once: rows with these keys are removed first."""
    rows: pa.Table
    """The rows that are there after the changes, each key once."""


def last_changes(changes: pa.Table, key: Sequence[str], columns: Sequence[str]) -> Folded:
    """The effect of `changes`, rows with `_change_type` and `_change_seq` in any order. `columns` are those of `rows`.

    `_change_seq` orders the changes of a key. The old image of an update counts as a removal, so a row whose key
    columns change is removed under its old key. Keys may contain nulls, which are equal to each other.
    """
    order = [(name, "ascending") for name in (*key, CHANGE_SEQ)]
    narrow = changes.select([*key, CHANGE_SEQ])
    indices = pc.sort_indices(narrow, sort_keys=order)
    ordered = narrow.select(list(key)).take(indices)
    is_last = _ends_of_runs(ordered)
    last = indices.filter(is_last)
    kept = pc.invert(pc.is_in(changes[CHANGE_TYPE].take(last), value_set=pa.array(_REMOVALS)))
    return Folded(ordered.filter(is_last), changes.select(list(columns)).take(last.filter(kept)))


def _ends_of_runs(ordered: pa.Table) -> pa.Array:
    """For each row of a sorted table whether the next row differs from it."""
    rows = ordered.num_rows
    if rows == 0:
        return pa.array([], pa.bool_())
    differs = pa.array([False] * 0, pa.bool_())
    for index, column in enumerate(ordered.columns):
        one, other = column.slice(0, rows - 1), column.slice(1)
        both_null = pc.and_(pc.is_null(one), pc.is_null(other))
        equal = pc.or_(pc.fill_null(pc.equal(one, other), False), both_null)
        changed = pc.invert(equal)
        differs = changed if index == 0 else pc.or_(differs, changed)
    chunks = differs.chunks if isinstance(differs, pa.ChunkedArray) else [differs]
    return pa.concat_arrays([*chunks, pa.array([True])])
