"""Decodes and merges column and partition statistics of the metadata table. Pure.

Source: Hudi `HoodieMetadataColumnStats`, `HoodieMetadataPayload.mergeColumnStatsRecords`, `ValueType`.

Special cases: a base file reports 0, 0.0, false or the epoch day as both bounds of a column with only nulls. Value
counts include nulls. A file with only deletes has no values. Before version 9 the unit of a long is not recorded, and
in version 9 it may be wrong for files of older writers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.proto.value_classes import dataclass
from penstock.table.schema.decimals import scaled
from penstock.table.timeline.fields import Fields

COLUMN_STATS: Final = "column_stats"

StatValue = bool | int | float | str | bytes | Decimal
"""A bound. Dates are days; times and timestamps are the stored number."""

_LOGICAL: Final = {
    10: "decimal",
    11: "uuid",
    12: "date",
    13: "time-millis",
    14: "time-micros",
    15: "timestamp-millis",
    16: "timestamp-micros",
    17: "timestamp-nanos",
    18: "local-timestamp-millis",
    19: "local-timestamp-micros",
    20: "local-timestamp-nanos",
}
"""Ordinal of Hudi `ValueType` -> logical type, which the wrapper does not determine."""

_BY_WRAPPER: Final = {
    "DateWrapper": "date",
    "LocalDateWrapper": "date",
    "DecimalWrapper": "decimal",
    "TimeMicrosWrapper": "time-micros",
    "TimestampMicrosWrapper": "timestamp-micros",
}
_V1_SCALE: Final = 15
_DECIMAL_BYTES: Final = 16
"""Bytes of the longest decimal, with 38 digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """The statistics of one column in one file or partition."""

    file_name: str
    """Name of the file; for partition statistics, path of the partition."""
    column: str
    """Column name; a dotted path for a nested column."""
    low: StatValue | None
    """Lower bound; None if unknown, or if all values are null."""
    high: StatValue | None
    """Upper bound; None if unknown, or if all values are null."""
    logical: str
    """Avro logical type that the statistics record; '' for none, and then the unit of a long is unknown."""
    value_count: int | None
    """Number of values, nulls included; None if not recorded."""
    null_count: int | None
    """Number of nulls; None if not recorded."""
    is_deleted: bool
    """Whether the record is a tombstone."""
    is_tight: bool
    """Whether both bounds are values of the column."""

    @property
    def holds_nulls_alone(self) -> bool:
        """Whether the column has no value except nulls, or no row at all (a file with only deletes)."""
        return self.value_count is not None and self.value_count == self.null_count


def combined_stats(versions: Sequence[Fields | None]) -> ColumnStats | None:
    """Merges the records of one key, oldest first; None if the key was deleted or has no record.

    A tombstone or a record with tight bounds replaces the earlier ones. Otherwise bounds widen and counts add up.
    CorruptFile for an inconsistent record.
    """
    merged: ColumnStats | None = None
    for record in versions:
        if record is None or record.values.get("ColumnStatsMetadata") is None:
            merged = None
            continue
        newer = _stats(record.nested("ColumnStatsMetadata", record.values["ColumnStatsMetadata"]))
        replaces = merged is None or merged.is_deleted or newer.is_deleted or newer.is_tight
        merged = newer if merged is None or replaces else _widened(merged, newer)
    return merged


def _stats(record: Fields) -> ColumnStats:
    ordinal, extra = 0, ""
    if record.values.get("valueType") is not None:
        kind = record.nested("valueType", record.values["valueType"])
        ordinal, extra = kind.number("typeOrdinal"), kind.text("additionalInfo")
    low, low_logical = _value(record, "minValue", ordinal, extra)
    high, high_logical = _value(record, "maxValue", ordinal, extra)
    stats = ColumnStats(
        file_name=record.text("fileName"),
        column=record.text("columnName"),
        low=low,
        high=high,
        logical=low_logical or high_logical,
        value_count=_count(record, "valueCount"),
        null_count=_count(record, "nullCount"),
        is_deleted=record.flag("isDeleted"),
        is_tight=record.flag("isTightBound"),
    )
    if low is None or high is None or type(low) is not type(high) or stats.holds_nulls_alone:
        return replace(stats, low=None, high=None)
    return stats


def _count(record: Fields, name: str) -> int | None:
    value = record.number(name)
    return None if record.values.get(name) is None or value < 0 else value


def _value(record: Fields, name: str, ordinal: int, extra: str) -> tuple[StatValue | None, str]:
    """A wrapped value, and its logical type according to the record."""
    wrapped = record.values.get(name)
    if wrapped is None:
        return None, ""
    match wrapped:
        case (str(full_name), {"value": bool() | int() | float() | str() | bytes() as value}):
            wrapper = full_name.rpartition(".")[2]
        case (str(_), {"wrappedValues": _}):
            return None, ""
        case _:
            raise CorruptFile(f"{record.where}, field {record.path}{name}: got {str(wrapped)[:80]!r}, expected a value")
    logical = _LOGICAL.get(ordinal, "") or _BY_WRAPPER.get(wrapper, "")
    if logical != "decimal":
        return value, logical
    scale = _scale(extra) if ordinal == 10 else _V1_SCALE
    if not isinstance(value, bytes) or scale is None or not 0 < len(value) <= _DECIMAL_BYTES:
        return None, logical
    return scaled(int.from_bytes(value, "big", signed=True), scale), logical


def _scale(extra: str) -> int | None:
    """The scale in `precision,scale`."""
    text = extra.rpartition(",")[2].strip()
    return int(text) if text.isdecimal() and len(text) <= 2 else None


def _widened(older: ColumnStats, newer: ColumnStats) -> ColumnStats:
    """The union of both. Bounds of different types, or unknown on one side, become unknown. Nulls add no bounds."""
    counts = (_sum(older.value_count, newer.value_count), _sum(older.null_count, newer.null_count))
    both = replace(newer, value_count=counts[0], null_count=counts[1])
    if older.holds_nulls_alone:
        return both
    if newer.holds_nulls_alone:
        return replace(both, low=older.low, high=older.high, logical=older.logical)
    known = None not in (older.low, older.high, newer.low, newer.high)
    if not known or type(older.low) is not type(newer.low) or older.logical != newer.logical:
        return replace(both, low=None, high=None)
    return replace(both, low=min(older.low, newer.low), high=max(older.high, newer.high))  # type: ignore[type-var]


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
