"""Casts a widened column back to its type in the fixed schema of a stream, exactly or with an error. Pure.

`changes` decides which types may be cast back.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from penstock.proto.errors import SchemaMismatch


def narrowed(column: pa.Array, target: pa.DataType, name: str, table: str) -> pa.Array:
    """The column in the target type, with equal values. For a float that became a double, both promotions of Hudi are
    accepted: the value itself, or its decimal text parsed as a double (0.1f as 0.1).

    SchemaMismatch names the column, the table and the first value that the target type cannot represent.
    """
    if str(column.type) == str(target):
        return column
    if pat.is_struct(target):
        return _narrowed_struct(column, target, name, table)
    try:
        if pat.is_decimal128(column.type) and pat.is_floating(target):
            return _floats_of_decimals(column, target, name, table)
        cast = column.cast(target)
        if pat.is_decimal(column.type) and pat.is_integer(target):
            return cast  # exact or an error; casting back would need more digits than the column's type has
        different = pc.fill_null(pc.not_equal(_comparable(column, target), _back(cast, column.type)), False)
        if pat.is_float64(column.type) and pat.is_float32(target):
            parsed = cast.cast(pa.string()).cast(pa.float64())
            different = pc.and_(different, pc.fill_null(pc.not_equal(column, parsed), False))
    except pa.ArrowInvalid as error:
        raise _unfit(column, target, name, table, str(error).splitlines()[0][:200]) from error
    if cast.null_count != column.null_count:
        raise _unfit(column, target, name, table, "a value became null")
    if pc.any(different).as_py():
        value = column.filter(different)[0].as_py()
        raise _unfit(column, target, name, table, f"value {str(value)[:80]!r}")
    return cast


def _narrowed_struct(column: pa.Array, target: pa.DataType, name: str, table: str) -> pa.Array:
    """Narrows each field of the target; drops the others."""
    children_by_name = dict(zip([field.name for field in column.type], column.flatten(), strict=True))
    fields = list(target)
    children = [narrowed(children_by_name[field.name], field.type, f"{name}.{field.name}", table) for field in fields]
    return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())


def _floats_of_decimals(column: pa.Array, target: pa.DataType, name: str, table: str) -> pa.Array:
    """Casts through text, as Hudi created the decimals: Arrow's own cast is inexact in the last digit."""
    cast = column.cast(pa.string()).cast(target)
    different = pc.fill_null(pc.not_equal(column, cast.cast(pa.string()).cast(column.type)), False)
    if pc.any(different).as_py():
        raise _unfit(column, target, name, table, f"value {str(column.filter(different)[0].as_py())[:80]!r}")
    return cast


def _comparable(column: pa.Array, target: pa.DataType) -> pa.Array:
    """The column for the comparison with the values that were cast back: text of numbers as doubles, NaN as null."""
    if pat.is_string(column.type) and (pat.is_floating(target) or pat.is_decimal128(target)):
        column = column.cast(pa.float64())
    if pat.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return column


def _back(cast: pa.Array, source: pa.DataType) -> pa.Array:
    return _comparable(cast.cast(source), cast.type)


def _unfit(column: pa.Array, target: pa.DataType, name: str, table: str, what: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"table {table}, column {name}: it was widened to {column.type} since the stream's schema was fixed as "
        f"{target}, and a row does not fit {target} ({what}); start the query again with a new load(), which uses "
        "the table's new schema and continues from the checkpoint"
    )
