"""Merge functions of Hudi's payload classes that order records in a way that no merge mode has. Pure.

Values compare as in `ordering`, several fields as a tuple. A null ordering value of the older record lets the newer one
win; Hudi fails on null values of log records. The last column marks deletes (`mergers.DELETED`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.reader.merge.ordering import OrderingValues
from penstock.reader.values.field_paths import field_values
from penstock.table.arrow_arrays import arrow_array, numpy_array


def reverse_order(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    """The record with the lower ordering value, of equal ones the newer (Hudi 1.2.0
    `ReverseOrderHoodieRecordPayload`)."""
    above, _ = _compared(newer, older, ordering)
    return _chosen(older, newer, above)


def first_value_in_log(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    """Of two records of a log the one with the higher ordering value. Of equal ones, as they are without ordering
    fields, the older wins, but a newer delete wins (Hudi 0.15.0 `FirstValueAvroPayload.preCombine`, and
    `HoodieMergedLogRecordScanner` for deletes).

    If the field is in a struct, records have the ordering value 0 (`SpillableMapUtils.getPreCombineVal` looks for a
    column): the older record wins. A newer delete wins, unless its own value is an int below 0.
    """
    if not set(ordering) <= set(older.schema.names):
        return _chosen(older, newer, ~_are_deletes(newer) | _below_zero(newer, ordering))
    above, equal = _compared(older, newer, ordering)
    return _chosen(older, newer, above | (equal & ~_are_deletes(newer)))


def first_value_with_base(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    """Of a base row and the result of its log the one with the higher ordering value, of equal ones the base row. A
    delete wins, and so does the log without ordering fields (`FirstValueAvroPayload.needUpdatingPersistedRecord`)."""
    above, equal = _compared(older, newer, ordering)
    return _chosen(older, newer, (above | equal) & bool(ordering) & ~_are_deletes(newer))


def _are_deletes(batch: pa.RecordBatch) -> np.ndarray:
    return numpy_array(batch.columns[-1])


def _below_zero(batch: pa.RecordBatch, ordering: tuple[str, ...]) -> np.ndarray:
    """Whether the ordering value is an int below 0. Hudi does not compare a value of another class with its int 0."""
    values = field_values(batch, ordering[0])  # table version 6 has one ordering field
    if not pa.types.is_int32(values.type):
        return np.zeros(batch.num_rows, bool)
    return numpy_array(values.fill_null(0)) < 0


def _compared(some: pa.RecordBatch, others: pa.RecordBatch, ordering: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Whether the ordering value of a row is above that of the other batch's, and whether they are equal; both false
    if one is null."""
    rows = np.arange(some.num_rows)
    above, equal = np.zeros(len(rows), bool), np.ones(len(rows), bool)
    for name in ordering:
        left, right = field_values(some, name), field_values(others, name)
        values, known = OrderingValues(right), numpy_array(left.is_valid()) & numpy_array(right.is_valid())
        above |= equal & known & values.exceeded_by(left, rows)
        equal &= known & values.equalled_by(left, rows)
    return above, equal


def _chosen(older: pa.RecordBatch, newer: pa.RecordBatch, takes_older: np.ndarray) -> pa.RecordBatch:
    rows = newer.num_rows
    if not rows:
        return newer
    both = pa.Table.from_batches([newer, older])
    return both.take(arrow_array(takes_older * rows + np.arange(rows))).combine_chunks().to_batches()[0]
