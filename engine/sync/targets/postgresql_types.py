"""The types of PostgreSQL for columns of Hudi tables, and the names that it can hold. Pure."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.engine.sync.targets.json_text import has_json

_TYPES: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.time64("us"): "time without time zone",
    pa.timestamp("us"): "timestamp without time zone",
    pa.timestamp("us", "UTC"): "timestamp with time zone",
}
MAX_NAME_BYTES: Final = 63
"""PostgreSQL cuts longer names without an error (NAMEDATALEN)."""
MAX_COLUMNS: Final = 1_600
"""The most columns of a table of PostgreSQL."""
_SYSTEM_COLUMNS: Final = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})


def postgresql_type(arrow_type: pa.DataType) -> str | None:
    """The type as `format_type` of PostgreSQL prints it; None: PostgreSQL has none."""
    if arrow_type in _TYPES:
        return _TYPES[arrow_type]
    if pa.types.is_decimal(arrow_type):
        return f"numeric({arrow_type.precision},{arrow_type.scale})"
    return "jsonb" if pa.types.is_nested(arrow_type) and has_json(arrow_type) else None


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def name_problem(name: str) -> str:
    """Why PostgreSQL cannot hold a table or column of this name; '': it can."""
    size = len(name.encode())
    if size > MAX_NAME_BYTES:
        return f"the name has {size} bytes, PostgreSQL holds {MAX_NAME_BYTES}"
    return "the name is empty or has a NUL character" if not name or "\0" in name else ""


def column_problem(columns: pa.Schema) -> str:
    """Why PostgreSQL cannot hold these columns; '': it can."""
    if len(columns) > MAX_COLUMNS:
        return f"{len(columns)} columns: PostgreSQL holds {MAX_COLUMNS}"
    for one in columns:
        problem = name_problem(one.name)
        if one.name in _SYSTEM_COLUMNS:
            problem = "PostgreSQL has a system column of this name"
        if postgresql_type(one.type) is None:
            problem = f"PostgreSQL has no type for {one.type}"
        if problem:
            return f"column {one.name}: {problem}"
    return ""
