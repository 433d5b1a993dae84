"""The types of DuckDB for columns of Hudi tables, and the quoting of its SQL. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

_TYPES: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "REAL",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.time64("us"): "TIME",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
}
MAX_PRECISION: Final = 38


def duckdb_type(arrow_type: pa.DataType) -> str | None:
    """The type in SQL; None: DuckDB has none."""
    if arrow_type in _TYPES:
        return _TYPES[arrow_type]
    for is_kind, text_of in _NESTED:
        if is_kind(arrow_type):
            return text_of(arrow_type)
    return None


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def _decimal(arrow_type: pa.DataType) -> str | None:
    return f"DECIMAL({arrow_type.precision}, {arrow_type.scale})" if arrow_type.precision <= MAX_PRECISION else None


def _list(arrow_type: pa.DataType) -> str | None:
    element = duckdb_type(arrow_type.value_type)
    return None if element is None else f"{element}[]"


def _map(arrow_type: pa.DataType) -> str | None:
    key, value = duckdb_type(arrow_type.key_type), duckdb_type(arrow_type.item_type)
    return None if key is None or value is None else f"MAP({key}, {value})"


def _struct(arrow_type: pa.DataType) -> str | None:
    fields = [(one.name, duckdb_type(one.type)) for one in arrow_type.fields]
    names = [name.casefold() for name, _ in fields]
    if not fields or len(set(names)) < len(names) or any(text is None for _, text in fields):
        return None
    return f"STRUCT({', '.join(f'{quoted(name)} {text}' for name, text in fields)})"


_NESTED: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], str | None]], ...]] = (
    (pa.types.is_decimal, _decimal),
    (pa.types.is_list, _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
)
