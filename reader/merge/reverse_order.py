"""The merge function of Hudi's `ReverseOrderHoodieRecordPayload`: the lowest ordering value wins. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.arrow_arrays import arrow_array


def reverse_order(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    """The record with the lower ordering value, of equal ones the newer. Several fields compare as a tuple.

    A null of the older record counts as higher, and one of the newer record as lower, so that the newer one wins: Hudi
    1.2.0 fails on such values. The newer one wins without ordering fields, too.
    """
    rows = newer.num_rows
    higher, equal = (pa.array([start] * rows, pa.bool_()) for start in (False, True))
    for name in ordering:
        new, old = newer.column(name), older.column(name)
        higher = pc.or_(higher, pc.and_(equal, pc.greater(new, old).fill_null(False)))
        equal = pc.and_(equal, pc.equal(new, old).fill_null(False))
    take_older = higher.to_numpy(zero_copy_only=False)
    both = pa.Table.from_batches([newer, older])
    places = arrow_array(take_older * rows + np.arange(rows)) if rows else pa.array([], pa.int64())
    return both.take(places).combine_chunks().to_batches()[0] if rows else newer
