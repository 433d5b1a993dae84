"""Equality of two tables' rows as multisets, by column name and by the meaning of values."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections import Counter
from collections.abc import Collection, Sequence

import pyarrow as pa

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def difference(actual: pa.Table, rows: pa.Table) -> str:
    """Empty if the rows are equal, otherwise the differences.

    Timestamps compare as UTC micros, decimals by value, maps as sets of entries, floats to 12 digits. Columns that are
    text in the expected rows compare as text, because partition columns may keep another type.
    """
    if sorted(actual.column_names) != sorted(rows.column_names):
        return f"columns: want {sorted(rows.column_names)}, got {sorted(actual.column_names)}"
    names = rows.column_names
    as_text = {name for name in names if pa.types.is_string(rows.schema.field(name).type)}
    expected_rows, actual_rows = _rows(rows, names, as_text), _rows(actual, names, as_text)
    missing, extra = list((expected_rows - actual_rows).elements()), list((actual_rows - expected_rows).elements())
    if not missing and not extra:
        return ""
    return (
        f"want {rows.num_rows} rows, got {actual.num_rows}: {len(missing)} missing, e.g. {missing[:1]}; "
        f"{len(extra)} extra, e.g. {extra[:1]}"
    )


def _rows(table: pa.Table, names: Sequence[str], as_text: Collection[str]) -> Counter[tuple[str, ...]]:
    if not names:
        return Counter({(): table.num_rows})
    columns = []
    for name in names:
        values = _microseconds(table.column(name)).to_pylist()
        if name in as_text:
            values = [value if value is None or isinstance(value, str) else str(value) for value in values]
        columns.append([json.dumps(_canonical(value), sort_keys=True) for value in values])
    return Counter(zip(*columns, strict=True))


def _microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column


def _canonical(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case dt.datetime():
            moment = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
            return f"T{(moment - _EPOCH) // dt.timedelta(microseconds=1)}"
        case dt.date() | dt.time():
            return f"D{value.isoformat()}"
        case decimal.Decimal():
            return f"N{value.normalize():f}"
        case float():
            return "nan" if math.isnan(value) else float(f"{value:.12g}")
        case bytes():
            return f"B{value.hex()}"
        case dict():
            return {key: _canonical(inner) for key, inner in value.items()}
        case list() if value and all(isinstance(item, tuple) for item in value):
            return sorted(json.dumps([_canonical(key), _canonical(inner)]) for key, inner in value)
        case list():
            return [_canonical(item) for item in value]
    raise AssertionError(f"no canonical form for {type(value)}")


def canonical_texts(table: pa.Table) -> list[str]:
    """A text for each row that is equal for equal rows; columns by name."""
    columns = {name: _microseconds(table.column(name)).to_pylist() for name in table.column_names}
    return [
        json.dumps({name: _canonical(values[row]) for name, values in columns.items()}, sort_keys=True)
        for row in range(table.num_rows)
    ]
