"""Whether two tables hold the same rows: as multisets, by column name, in any order.

Belongs here: what makes two rows equal. Not here: where the rows come from, or what is printed about them.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RowDifference:
    """What one table has and the other has not. Rows are (column, canonical value) pairs, sorted by column."""

    columns: tuple[str, ...] = ()
    missing: tuple[tuple[tuple[str, object], ...], ...] = ()
    unexpected: tuple[tuple[tuple[str, object], ...], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the tables are equal."""
        return not (self.columns or self.missing or self.unexpected)

    def text(self, examples: int = 3) -> str:
        """The difference in words, with at most so many rows of each side."""
        parts = []
        if self.columns:
            parts.append(f"columns on one side only: {', '.join(self.columns)}")
        for side, rows in (("missing", self.missing), ("unexpected", self.unexpected)):
            if rows:
                shown = "; ".join(", ".join(f"{name}={value!r}" for name, value in row) for row in rows[:examples])
                parts.append(f"{len(rows)} {side} rows, e.g. {shown}")
        return " | ".join(parts) or "no difference"


def compare_rows(got: pa.Table, want: pa.Table) -> RowDifference:
    """How `got` differs from `want`: every row counts as often as it is there; row and column order do not matter.

    Values are compared by meaning: timestamps as instants, decimals by value, maps as sets of entries.
    """
    names = sorted(want.column_names)
    apart = tuple(sorted(set(names) ^ set(got.column_names)))
    if apart:
        return RowDifference(columns=apart)
    actual, expected = _counted(got, names), _counted(want, names)
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
