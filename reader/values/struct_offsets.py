"""Copies structs that other libraries do not import: slices with a struct in a struct.

A slice of an array has an offset, also in Arrow's C data interface. If a struct has an offset, and a struct as a field,
arrow-rs (the library of Delta Lake) aborts the process, and DuckDB refuses the rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.table.arrow_arrays import arrow_array


def without_struct_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, in which no column that has a struct in a struct has an array with an offset. Other columns, and those
    without an offset, are not copied. Dictionaries, unions and extension types are not looked into: the reader returns
    none that has a struct."""
    copied = {
        place: column.take(arrow_array(np.arange(len(column))))
        for place, column in enumerate(batch.columns)
        if _has_struct_in_struct(column.type) and _has_offset(column)
    }
    if not copied:
        return batch
    columns = [copied.get(place, column) for place, column in enumerate(batch.columns)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _has_struct_in_struct(kind: pa.DataType) -> bool:
    if not kind.num_fields or pa.types.is_union(kind):
        return False
    fields = [kind.field(place).type for place in range(kind.num_fields)]
    if pa.types.is_struct(kind) and any(map(pa.types.is_struct, fields)):
        return True
    return any(map(_has_struct_in_struct, fields))


def _has_offset(array: pa.Array) -> bool:
    if array.offset:
        return True
    if pa.types.is_struct(array.type):
        return any(_has_offset(array.field(place)) for place in range(array.type.num_fields))
    return array.type.num_fields == 1 and _has_offset(array.values)
