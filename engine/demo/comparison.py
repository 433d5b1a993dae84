"""Compares the rows of two tables as multisets, by column name, in any order."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RowDifference:
    """The difference between two tables. Rows are (column, canonical value) pairs, sorted by column."""

    columns: tuple[str, ...] = ()
    """Columns that only one of the tables has. Rows are compared only if there are none."""
    missing: tuple[tuple[tuple[str, object], ...], ...] = ()
    """Expected rows that the actual table lacks."""
    unexpected: tuple[tuple[tuple[str, object], ...], ...] = ()
    """Rows of the actual table that were not expected."""

    @property
    def is_empty(self) -> bool:
        """Whether the tables are equal."""
        return not (self.columns or self.missing or self.unexpected)

    def text(self, examples: int = 3) -> str:
        """The difference as one line, with at most `examples` rows of each side."""
        parts = []
        if self.columns:
            parts.append(f"columns on one side only: {', '.join(self.columns)}")
        for side, rows in (("missing", self.missing), ("unexpected", self.unexpected)):
            if rows:
                shown = "; ".join(", ".join(f"{name}={value!r}" for name, value in row) for row in rows[:examples])
                parts.append(f"{len(rows)} {side} rows, e.g. {shown}")
        return " | ".join(parts) or "no difference"


def compare_rows(actual_rows: pa.Table, expected_rows: pa.Table) -> RowDifference:
    """The difference of the actual rows from the expected ones. Repeated rows count; the order of rows and columns does
    not.

    Values are compared by meaning: timestamps as instants, decimals by value, maps as sets of entries.
    """
    names = sorted(expected_rows.column_names)
    different_columns = tuple(sorted(set(names) ^ set(actual_rows.column_names)))
    if different_columns:
        return RowDifference(columns=different_columns)
    actual, expected = _counted(actual_rows, names), _counted(expected_rows, names)
    missing = tuple(tuple(zip(names, row, strict=True)) for row in (expected - actual).elements())
    unexpected = tuple(tuple(zip(names, row, strict=True)) for row in (actual - expected).elements())
    return RowDifference(missing=missing, unexpected=unexpected)


def _counted(table: pa.Table, names: Sequence[str]) -> Counter[tuple[object, ...]]:
    columns = [[_canonical(value) for value in table.column(name).to_pylist()] for name in names]
    return Counter(zip(*columns, strict=True))


def _canonical(value: object) -> object:
    match value:
        case dt.datetime():
            return value.replace(tzinfo=None) if value.tzinfo is None else value.astimezone(dt.UTC)
        case decimal.Decimal():
            return value.normalize()
        case float() if value != value:
            return "NaN"
        case dict():
            return tuple(sorted((name, _canonical(inner)) for name, inner in value.items()))
        case list() if value and all(isinstance(entry, tuple) for entry in value):
            return tuple(sorted((repr(_canonical(key)), _canonical(inner)) for key, inner in value))
        case list():
            return tuple(_canonical(entry) for entry in value)
        case _:
            return value
