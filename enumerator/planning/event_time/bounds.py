"""Event-time bounds from Parquet footers, from the metadata table's statistics, and from partition paths. Pure.

Bounds may be too wide but never too narrow: statistics that leave a doubt give UnknownBounds. Any log record may carry
any event time, so a slice has bounds only if every one of its files has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.errors import PenstockError
from penstock.proto.model.splits import EventTimeBounds, NoEventTimes, Scan, Split, UnknownBounds
from penstock.proto.value_classes import dataclass
from penstock.table.metadata.column_stats import ColumnStats
from penstock.table.parquet.legacy_calendar import legacy_calendar, widened_bounds
from penstock.table.partitions.scalars import partition_scalar
from penstock.table.schema.avro import AvroType, Primitive

_DAY_US: Final = 86_400_000_000
_INT64_MAX: Final = 2**63 - 1
_SURELY_MICROS: Final = 10**14
"""A smaller number is before March 1973 in microseconds; a greater one is after the year 5138 in milliseconds."""

_UNITS: Final = {"milliseconds": ("millis", 1000), "microseconds": ("micros", 1)}

UNIT_US: Final = {"s": 1_000_000, "ms": 1000, "us": 1}
"""Microseconds in a unit of plain numbers (`PlanRequest.event_time_unit`)."""

SplitBounds = EventTimeBounds | NoEventTimes | UnknownBounds


@dataclass(frozen=True, slots=True)
class EventTimeColumn:
    """The event-time column of a request."""

    name: str
    """The column's name in the table."""
    type: AvroType
    """Its type in the table's schema."""
    unit: str = ""
    """The unit (s, ms, us) of plain numbers; '' if the request has none."""


def union_of_bounds(parts: Iterable[SplitBounds]) -> SplitBounds:
    """The bounds of all rows of all parts: unknown if those of one part are, none if no part has any."""
    low = high = None
    for part in parts:
        match part:
            case UnknownBounds():
                return part
            case EventTimeBounds(low_us, high_us):
                low = low_us if low is None else min(low, low_us)
                high = high_us if high is None else max(high, high_us)
    return NoEventTimes() if low is None or high is None else EventTimeBounds(low, high)


def row_group_sizes(footer: pq.FileMetaData, file_bytes: int) -> tuple[int, ...]:
    """The bytes on storage of each row group, each at most the size of the file."""
    groups = (footer.row_group(index) for index in range(footer.num_row_groups))
    stated = (
        sum(max(group.column(column).total_compressed_size, 0) for column in range(group.num_columns))
        for group in groups
    )
    return tuple(min(size_bytes, file_bytes) for size_bytes in stated)


def row_group_bounds(footer: pq.FileMetaData, column: EventTimeColumn) -> tuple[SplitBounds, ...]:
    """The lowest and highest event time in each row group of a file; nulls do not count.

    Timestamps with and without zone are read as UTC, a date as its midnight, plain numbers in the column's unit.
    NoEventTimes: there are no rows, the null count equals the row count, or the file lacks the column (its rows read as
    nulls). Unknown: plain numbers without a unit, INT96, a unit in the file that differs from the table's (old writers
    recorded milliseconds as microseconds), a row group without statistics. Bounds before 1900 in a file of the legacy
    calendar are widened.
    """
    groups = range(footer.num_row_groups)
    if _lacks(footer, column.name):
        return tuple(NoEventTimes() for _ in groups)
    place = _column_place(footer, column.name)
    if place is None or footer.schema.column(place).max_repetition_level:
        return tuple(UnknownBounds() for _ in groups)
    factor = _factor_us(footer, place, column)
    wide = depends_on_calendar(column.type) and legacy_calendar(footer.metadata) is not None
    return tuple(_of_row_group(footer.row_group(index), place, factor, wide) for index in groups)


def _of_row_group(group: pq.RowGroupMetaData, place: int, factor: int | None, wide: bool) -> SplitBounds:
    if group.num_rows == 0:
        return NoEventTimes()
    chunk = group.column(place)
    statistics = chunk.statistics
    if statistics is None:
        return UnknownBounds()
    if statistics.has_null_count and statistics.null_count == chunk.num_values == group.num_rows:
        return NoEventTimes()
    if factor is None or not statistics.has_min_max:
        return UnknownBounds()
    low, high = int(statistics.min_raw) * factor, int(statistics.max_raw) * factor
    return _bounds(*widened_bounds(low, high, _DAY_US)) if wide else _bounds(low, high)


def _bounds(low: int, high: int) -> EventTimeBounds | UnknownBounds:
    return EventTimeBounds(low, high) if -_INT64_MAX <= low <= high <= _INT64_MAX else UnknownBounds()


def slice_bounds(stats: Iterable[ColumnStats | None], column_type: AvroType, unit: str = "") -> SplitBounds:
    """The lowest and highest event time in a slice, from the column's statistics in each of its files.

    Unknown if a file has no statistics, or unreliable ones: deleted ones, those of another unit than the table's, or
    values that another unit would explain (old writers recorded milliseconds as microseconds, or no unit). A file with
    only nulls or deletes does not count, and its bounds are ignored, because Hudi records 0 for a base file
    (`HoodieMetadataColumnStats`): NoEventTimes if all files are of this kind. Bounds before 1900 are widened, because
    the calendar (`table.parquet.legacy_calendar`) is not recorded.
    """
    parts: list[SplitBounds] = []
    for item in stats:
        if item is None or item.is_deleted:
            return UnknownBounds()
        if item.holds_nulls_alone:
            continue
        low, high = (stated_us(value, item.logical, column_type, unit) for value in (item.low, item.high))
        if low is None or high is None:
            return UnknownBounds()
        parts.append(
            _bounds(*widened_bounds(low, high, _DAY_US)) if depends_on_calendar(column_type) else _bounds(low, high)
        )
    return union_of_bounds(parts)


def depends_on_calendar(column_type: AvroType) -> bool:
    """Whether values of the type are dates or points in time, whose meaning depends on the calendar of the file."""
    match column_type:
        case Primitive("int", "date") | Primitive("long", "timestamp-millis" | "timestamp-micros"):
            return True
        case _:
            return False


def stated_us(value: object, logical: str, column_type: AvroType, unit: str = "") -> int | None:
    """A bound of the metadata table in microseconds; None if its unit is in doubt. `unit` is that of plain numbers."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    match column_type:
        case Primitive("int", "date"):
            return value * _DAY_US if logical == "date" else None
        case Primitive("long", ""):
            return value * UNIT_US[unit] if unit and not logical else None
        case Primitive("long", of_table):
            table_unit = of_table.removeprefix("local-").removeprefix("timestamp-")
            stated = logical.removeprefix("local-")
            if stated not in ("", f"timestamp-{table_unit}"):
                return None
            if table_unit == "micros":
                return value if abs(value) >= _SURELY_MICROS else None
            return value * 1000 if table_unit == "millis" and abs(value) < _SURELY_MICROS else None
        case _:
            return None


def _column_place(footer: pq.FileMetaData, column: str) -> int | None:
    """The index of the top-level leaf column of this name."""
    schema = footer.schema
    return next((index for index in range(len(schema)) if schema.column(index).path == column), None)


def _lacks(footer: pq.FileMetaData, column: str) -> bool:
    """Whether the file has no top-level column of this name."""
    schema = footer.schema
    return all(schema.column(index).path.partition(".")[0] != column for index in range(len(schema)))


def _factor_us(footer: pq.FileMetaData, place: int, column: EventTimeColumn) -> int | None:
    """The microseconds in one unit of the stored number; None if the file and the table disagree about the unit."""
    leaf = footer.schema.column(place)
    match column.type:
        case Primitive("int", "date"):
            return _DAY_US if leaf.physical_type == "INT32" and leaf.logical_type.type == "DATE" else None
        case Primitive("long", ""):
            return UNIT_US[column.unit] if column.unit and _is_plain(leaf) else None
        case Primitive("long", logical):
            stated = _stated_unit(leaf)
            if stated is None:
                return None
            unit, factor = stated
            return factor if logical in (f"timestamp-{unit}", f"local-timestamp-{unit}") else None
        case _:
            return None


def _stated_unit(leaf: pq.ColumnSchema) -> tuple[str, int] | None:
    """(Avro's name of the unit, microseconds in it) of a timestamp column, as the file states it."""
    if leaf.physical_type != "INT64" or leaf.logical_type.type != "TIMESTAMP":
        return None
    text = leaf.logical_type.to_json()
    return next((unit for name, unit in _UNITS.items() if f'"{name}"' in text), None)


def _is_plain(leaf: pq.ColumnSchema) -> bool:
    """Whether the file holds signed whole numbers without a unit."""
    if leaf.physical_type not in ("INT32", "INT64"):
        return False
    match leaf.logical_type.type:
        case "NONE":
            return True
        case "INT":
            return '"isSigned":true' in leaf.logical_type.to_json().replace(" ", "")
        case _:
            return False


def path_bounds(scan: Scan, split: Split, column: EventTimeColumn, kind: pa.DataType) -> SplitBounds:
    """The bounds of a split from its partition path: one value, or none for the null partition.

    `kind` is the column's Arrow type. Unknown for plain numbers without a unit, and for a path that the reader refuses
    with an error of its own.
    """
    if len(split.partition_values) != len(scan.partition_fields):
        return UnknownBounds()
    text = dict(zip(scan.partition_fields, split.partition_values, strict=True))[column.name]
    try:
        value = partition_scalar(text, kind, f"table {scan.table}")
    except PenstockError:
        return UnknownBounds()
    if not value.is_valid:
        return NoEventTimes()
    factor = _DAY_US if pa.types.is_date32(kind) else 1 if pa.types.is_timestamp(kind) else UNIT_US.get(column.unit)
    if factor is None:
        return UnknownBounds()
    time_us = int(value.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).as_py()) * factor
    return EventTimeBounds(time_us, time_us) if abs(time_us) <= _INT64_MAX else UnknownBounds()
