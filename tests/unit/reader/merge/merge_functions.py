"""Functions that the tests of mergers register by name; those of bad results have one defect each."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

DELETED = "_penstock_deleted"
not_a_function = 7


def newest(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    return newer


def summed(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    """Adds `n` and deletes a row whose sum is below zero; a delete deletes."""
    total = pc.add(older.column("n"), newer.column("n"))
    gone = pc.or_(newer.column(DELETED), pc.less(total, 0).fill_null(True))
    return replaced(replaced(newer, "n", total), DELETED, gone)


def replaced(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    columns = [column if each == name else batch.column(each) for each in batch.schema.names]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def raises(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    raise ZeroDivisionError("of the user's")


def no_batch(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> object:
    return newer.to_pylist()


def fewer_rows(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    return newer.slice(1)


def other_type(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    return replaced(newer, "n", newer.column("n").cast(pa.float64()))


def missing_column(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    return newer.select(newer.schema.names[:-1])


def null_mark(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    return replaced(newer, DELETED, pa.nulls(newer.num_rows, pa.bool_()))


def other_key(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    return replaced(newer, "_hoodie_record_key", pa.array(["x"] * newer.num_rows))


def other_instant(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    return replaced(newer, "_hoodie_commit_time", pa.array(["20200101000000000"] * newer.num_rows))


def shifted_rows(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    return newer.take(pa.array([*range(1, newer.num_rows), 0]))
