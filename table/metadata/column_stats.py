"""Column and partition statistics of the metadata table: decoded, combined, their traps disarmed. Pure.

Source: Hudi `HoodieMetadataColumnStats`, `HoodieMetadataPayload.mergeColumnStatsRecords`, `ValueType`. Not here: what
a bound means for an event-time column (enumerator).

Traps: a base file reports 0, 0.0, false or the epoch day as both bounds of a column that holds nulls alone; counts of
values include nulls; a file that holds deletes alone has no values; before version 9 a long says nothing of its unit,
and in version 9 the unit may be wrong for files of older writers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.table.timeline.fields import Fields

COLUMN_STATS: Final = "column_stats"
PARTITION_STATS: Final = "partition_stats"

StatValue = bool | int | float | str | bytes | Decimal
"""A bound: dates as days, times and timestamps as the number in the file."""

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
"""What the ordinals of Hudi `ValueType` say beyond the wrapper."""

_BY_WRAPPER: Final = {
    "DateWrapper": "date",
    "LocalDateWrapper": "date",
    "DecimalWrapper": "decimal",
    "TimeMicrosWrapper": "time-micros",
    "TimestampMicrosWrapper": "timestamp-micros",
}
_V1_SCALE: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """What is known of one column in one file (or partition; then `file_name` is its path).

    `low` and `high` are None where no bound is known, and always where there are nulls alone. `logical` is the Avro
    logical type that the statistics state, '' for none: then a long may be anything. Counts are None if not recorded;
    `value_count` includes nulls.
    """

    file_name: str
    column: str
    low: StatValue | None
    high: StatValue | None
    logical: str
    value_count: int | None
    null_count: int | None
    is_deleted: bool
    is_tight: bool

    @property
    def holds_nulls_alone(self) -> bool:
        """Whether there is no value at all: nulls alone, or (a file of deletes) not even them."""
        return self.value_count is not None and self.value_count == self.null_count


def combined_stats(versions: Sequence[Fields | None]) -> ColumnStats | None:
    """The statistics under one key, from its records, oldest first; None if the key was deleted or never there.

    A tombstone or a tight bound stands for itself; else bounds widen and counts add up. CorruptFile for a record that
    contradicts itself.
    """
    found: ColumnStats | None = None
    for record in versions:
        if record is None or record.values.get("ColumnStatsMetadata") is None:
            found = None
            continue
        newer = _stats(record.nested("ColumnStatsMetadata", record.values["ColumnStatsMetadata"]))
        replaces = found is None or found.is_deleted or newer.is_deleted or newer.is_tight
        found = newer if found is None or replaces else _widened(found, newer)
    return found


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
    """A wrapped value and the logical type it is stated to be of."""
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
    if not isinstance(value, bytes) or scale is None:
        return None, logical
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale), logical


def _scale(extra: str) -> int | None:
    """The scale in `precision,scale`."""
    text = extra.rpartition(",")[2].strip()
    return int(text) if text.isdecimal() and len(text) <= 2 else None


def _widened(older: ColumnStats, newer: ColumnStats) -> ColumnStats:
    """Both together. Bounds of two kinds, or not known on one side, are not known; nulls alone add nothing to them."""
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
