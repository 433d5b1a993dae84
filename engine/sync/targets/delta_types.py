"""The types of Delta Lake for columns of Hudi tables, and the names that it can hold. Pure."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_TYPES: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.time64("us"): "long",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
}
_REFUSED: Final = frozenset(" ,;{}()\n\t=`\"'\\")
"""Characters that Delta Lake does not allow in names of columns (without a mapping of columns), and quotes."""
OPERATION: Final = "_penstock_operation"
"""A column of the rows of a merge, which no table may have."""


def delta_type(arrow_type: pa.DataType) -> str | None:
    """The type as Delta Lake names it; None: it has none."""
    if arrow_type in _TYPES:
        return _TYPES[arrow_type]
    if pa.types.is_decimal(arrow_type):
        return f"decimal({arrow_type.precision},{arrow_type.scale})"
    if pa.types.is_list(arrow_type):
        element = delta_type(arrow_type.value_type)
        return element and f"array<{element}>"
    if pa.types.is_map(arrow_type):
        key, value = delta_type(arrow_type.key_type), delta_type(arrow_type.item_type)
        return f"map<{key},{value}>" if key and value else None
    if pa.types.is_struct(arrow_type):
        fields = [f"{one.name}:{delta_type(one.type)}" for one in arrow_type.fields]
        return (
            None if names_problem(pa.schema(list(arrow_type.fields))) or not fields else f"struct<{','.join(fields)}>"
        )
    return None


def stored_type(arrow_type: pa.DataType) -> pa.DataType:
    """The Arrow type of the files: a time of day is a number of microseconds, as Spark reads it from Hudi."""
    if arrow_type == pa.time64("us"):
        return pa.int64()
    if pa.types.is_list(arrow_type):
        return pa.list_(pa.field("element", stored_type(arrow_type.value_type)))
    if pa.types.is_map(arrow_type):
        return pa.map_(arrow_type.key_type, stored_type(arrow_type.item_type))
    if pa.types.is_struct(arrow_type):
        return pa.struct([pa.field(one.name, stored_type(one.type)) for one in arrow_type.fields])
    return arrow_type


def stored_columns(columns: pa.Schema) -> pa.Schema:
    """The columns of the files."""
    return pa.schema([pa.field(one.name, stored_type(one.type)) for one in columns])


def names_problem(columns: pa.Schema) -> str:
    """Why Delta Lake cannot hold these columns, or these fields of a struct; '': it can."""
    names: dict[str, str] = {}
    for one in columns:
        other = names.setdefault(one.name.casefold(), one.name)
        if other != one.name:
            return f"columns {other} and {one.name} are one name in Delta Lake"
        if not one.name or _REFUSED.intersection(one.name) or one.name == OPERATION:
            return f"column {one.name!r}: Delta Lake does not allow this name"
        if delta_type(one.type) is None:
            return f"column {one.name}: Delta Lake has no type for {one.type}"
    return ""
