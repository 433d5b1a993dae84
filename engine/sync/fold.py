"""Folds changes: of each key only the last change counts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
    rows: pa.Table
    """The rows that are there after the changes, each key once."""


def last_changes(changes: pa.Table, key: Sequence[str], columns: Sequence[str]) -> Folded:
    """The effect of `changes`, rows with `_change_type` and `_change_seq` in any order. `columns` are those of `rows`.

    `_change_seq` orders the changes of a key. The old image of an update counts as a removal, so a row whose key
    columns change is removed under its old key. Keys may contain nulls and NaN, which are equal to themselves.
    """
    narrow = changes.select([*key, CHANGE_SEQ])
    indices = pc.sort_indices(narrow, sort_keys=[(name, "ascending") for name in narrow.column_names])
    ordered = narrow.select(list(key)).take(indices)
    is_last = _ends_of_runs(ordered)
    last = indices.filter(is_last)
    is_there = pc.invert(pc.is_in(changes[CHANGE_TYPE].take(last), value_set=pa.array(_REMOVALS)))
    return Folded(ordered.filter(is_last), changes.select(list(columns)).take(last.filter(is_there)))


def _ends_of_runs(ordered: pa.Table) -> pa.Array:
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
