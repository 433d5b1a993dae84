"""The operations of rows, in tables whose files store them: a changelog.

Source: Hudi `HoodieOperation`, `hoodie.allow.operation.metadata.field`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import SchemaMismatch
from penstock.table.schema.avro import OPERATION

STORES_OPERATIONS: Final = "hoodie.allow.operation.metadata.field"
"""Hudi's write option. Hudi does not store it; `create_table` keeps it among the table's properties."""
OPERATIONS: Final = ("I", "-U", "U", "D")
"""The names: inserted, row before an update, row after it, deleted."""
INSERTED: Final = "I"
_MINUS: Final = ("-U", "D")


def operations_of(rows: pa.Table) -> pa.ChunkedArray | None:
    """The operation of each row, if files store it."""
    return rows.column(OPERATION) if OPERATION in rows.schema.names else None


def has_operations(rows: pa.Table) -> bool:
    """Whether there are rows, and each has an operation."""
    stored = operations_of(rows)
    return stored is not None and len(stored) > 0 and not stored.null_count


def removes_row(rows: pa.Table) -> np.ndarray:
    """Which rows have an operation that removes a row."""
    stored = operations_of(rows)
    return np.zeros(len(rows), bool) if stored is None else np.asarray(pc.is_in(stored, value_set=pa.array(_MINUS)))


def counted(rows: pa.Table) -> Mapping[str, int]:
    """How many rows each operation has."""
    counts = pc.value_counts(operations_of(rows))
    return {one["values"]: one["counts"] for one in counts.to_pylist()}


def with_operations(
    rows: pa.Table, marked: np.ndarray, where: str, first_row: int, *, default: str = "", required: bool
) -> pa.Table:
    """The rows with checked operations; `default` for those without one, if it is not ''.

    marked: which rows have a delete marker. SchemaMismatch, beginning with `where`, for another text than one of
    OPERATIONS, for a row without one if it is `required`, and for a marked row whose operation does not remove a row.
    `first_row`: the number of the first row in error texts.
    """
    stored = rows.column(OPERATION)
    if default:
        stored = stored.fill_null(default)
    known = np.asarray(pc.is_in(stored, value_set=pa.array([*OPERATIONS, *([] if required else [None])], pa.string())))
    if not known.all():
        place = int(np.flatnonzero(~known)[0])
        raise SchemaMismatch(
            f"{where}: row {first_row + place} has {OPERATION} {stored[place].as_py()!r}, expected one of "
            f"{', '.join(OPERATIONS)}: the table stores the operation of each row; nothing was written"
        )
    rows = rows.set_column(rows.schema.get_field_index(OPERATION), rows.schema.field(OPERATION), stored)
    differs = marked & ~removes_row(rows) & np.asarray(pc.is_valid(stored))
    if differs.any():
        place = int(np.flatnonzero(differs)[0])
        raise SchemaMismatch(
            f"{where}: row {first_row + place} has a delete marker and {OPERATION} {stored[place].as_py()!r}, expected "
            f"{' or '.join(_MINUS)} for a deleted row; nothing was written"
        )
    return rows
