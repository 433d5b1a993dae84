"""The functions that stand for the Java classes of `generators/`: what a user of such tables writes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

DELETED = "_penstock_deleted"


def counting(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    """`CountingPayload`: counts are added, a missing note is the older one, a count below zero deletes."""
    total = pc.add(older.column("n"), newer.column("n"))
    changed = {
        "n": total,
        "note": pc.coalesce(newer.column("note"), older.column("note")),
        DELETED: pc.or_(newer.column(DELETED), pc.less(total, 0).fill_null(True)),
    }
    columns = [changed.get(name, newer.column(name)) for name in newer.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=newer.schema)


def lowest(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    """`LowestMerger`: the record with the lower ordering value, of equal ones the newer."""
    (field,) = ordering
    takes_newer = pc.less_equal(newer.column(field), older.column(field))
    columns = [pc.if_else(takes_newer, new, old) for new, old in zip(newer.columns, older.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=newer.schema)
