"""Event-time bounds from statistics: those in Parquet footers (of base files and of log blocks), and those in the
metadata table.

All here decides, `read_footer` aside, which is the I/O. Bounds may be wide, never narrow: whatever the statistics leave
open is UnknownBounds. A log record may carry any event time, so a slice has bounds only if every one of its files has.
Not here: which files a split reads (`file_times`, `split_times`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.errors import CorruptFile, StorageError
from penstock.proto.model.splits import EventTimeBounds, FileRef, NoEventTimes, UnknownBounds
from penstock.table.metadata.column_stats import ColumnStats
from penstock.table.parquet.checks import ParquetError, check_rows, check_statistics, is_storage_failure
from penstock.table.parquet.legacy_calendar import legacy_calendar, widened_bounds
from penstock.table.schema.avro import AvroType, Primitive
from penstock.table.storage.filesystem import Storage, redacted_uri

_DAY_US: Final = 86_400_000_000
_INT64_MAX: Final = 2**63 - 1
_SURELY_MICROS: Final = 10**14
"""In micros less than this is before March 1973, in millis more is behind the year 5138."""

_UNITS: Final = {"milliseconds": ("millis", 1000), "microseconds": ("micros", 1)}

UNIT_US: Final = {"s": 1_000_000, "ms": 1000, "us": 1}
"""Microseconds in a unit of plain numbers (`PlanRequest.event_time_unit`)."""

SplitBounds = EventTimeBounds | NoEventTimes | UnknownBounds


@dataclass(frozen=True, slots=True)
class EventTimeColumn:
    """The table's column, its type there, and the unit of plain numbers ('' where none was given)."""

    name: str
    type: AvroType
    unit: str = ""


def together(parts: Iterable[SplitBounds]) -> SplitBounds:
    """The bounds of all rows of all parts: unknown if those of one are, none if no part has any."""
    low = high = None
    for part in parts:
        match part:
            case UnknownBounds():
                return part
            case EventTimeBounds(low_us, high_us):
                low = low_us if low is None else min(low, low_us)
                high = high_us if high is None else max(high, high_us)
    return NoEventTimes() if low is None or high is None else EventTimeBounds(low, high)


def read_footer(storage: Storage, file: FileRef) -> pq.FileMetaData:
    """The footer of a base file. CorruptFile if there is no file or no footer that can be read."""
    where = f"base file {file.path} of table {redacted_uri(storage.base_path)}"
    try:
        with storage.open_input(file.path) as source:
            check_statistics(source)
            footer = pq.read_metadata(source)
            check_rows(footer)
            return footer
    except FileNotFoundError as error:
        raise CorruptFile(f"{where} is missing, although it was there when the folder was listed") from error
    except (pa.ArrowException, ParquetError, OSError) as error:
        detail = str(error).partition("\n")[0][:200]
        if is_storage_failure(error):
            raise StorageError(f"footer of {where} cannot be read: {detail}; asking again may help") from error
        raise CorruptFile(
            f"{where} has no readable Parquet footer: {detail}; expected {file.size_bytes} bytes"
        ) from error


def row_group_sizes(footer: pq.FileMetaData, file_bytes: int) -> tuple[int, ...]:
    """Bytes on storage of each row group of a file of so many."""
    groups = (footer.row_group(index) for index in range(footer.num_row_groups))
    stated = (
        sum(max(group.column(column).total_compressed_size, 0) for column in range(group.num_columns))
        for group in groups
    )
    return tuple(min(size_bytes, file_bytes) for size_bytes in stated)


def event_time_bounds(
    footer: pq.FileMetaData, row_groups: Iterable[int], column: str, column_type: AvroType, unit: str = ""
) -> SplitBounds:
    """Lowest and highest event time in some row groups of a file, nulls left out; see `row_group_times`."""
    times = row_group_times(footer, EventTimeColumn(column, column_type, unit))
    return together(times[index] for index in row_groups)


def row_group_times(footer: pq.FileMetaData, column: EventTimeColumn) -> tuple[SplitBounds, ...]:
    """Lowest and highest event time in each row group of a file, nulls left out.

    Timestamps with and without zone are taken as UTC, a date as its midnight, plain numbers in the column's unit.
    NoEventTimes: no rows, nulls alone by the count of them, or a file that lacks the column (its rows read as nulls).
    Unknown: plain numbers without a unit, INT96, a file that states another unit than the table (old writers marked
    millis as micros), a row group without statistics. Bounds before 1900 in a file of the legacy calendar are wide.
    """
    groups = range(footer.num_row_groups)
    if _lacks(footer, column.name):
        return tuple(NoEventTimes() for _ in groups)
    place = _column_place(footer, column.name)
    if place is None or footer.schema.column(place).max_repetition_level:
        return tuple(UnknownBounds() for _ in groups)
    factor = _factor_us(footer, place, column)
    wide = tells_moments(column.type) and legacy_calendar(footer.metadata) is not None
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
    """Lowest and highest event time in a slice, from the statistics of the column in each of its files.

    Unknown if a file has none, or none that can be relied on: of another unit than the table's, deleted, or of a size
    that another unit would explain (old writers' statistics say micros of millis, or nothing). A file without any
    value of the column (nulls, deletes alone) does not count: NoEventTimes if that is all of them. Their bounds are
    passed over: a base file's are 0 (`HoodieMetadataColumnStats`). Bounds before 1900 are wide: of which
    calendar they are (`table.parquet.legacy_calendar`) is not recorded.
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
        parts.append(_bounds(*widened_bounds(low, high, _DAY_US)) if tells_moments(column_type) else _bounds(low, high))
    return together(parts)


def tells_moments(column_type: AvroType) -> bool:
    """Whether values of the type are dates or instants: what they mean depends on the calendar of the file."""
    match column_type:
        case Primitive("int", "date") | Primitive("long", "timestamp-millis" | "timestamp-micros"):
            return True
        case _:
            return False


def stated_us(value: object, logical: str, column_type: AvroType, unit: str = "") -> int | None:
    """A bound of a metadata table in microseconds; None if its unit is not beyond doubt. `unit` is that of plain
    numbers."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    match column_type:
        case Primitive("int", "date"):
            return value * _DAY_US if logical == "date" else None
        case Primitive("long", ""):
            return value * UNIT_US[unit] if unit and not logical else None
        case Primitive("long", of_table):
            named = of_table.removeprefix("local-").removeprefix("timestamp-")
            stated = logical.removeprefix("local-")
            if stated not in ("", f"timestamp-{named}"):
                return None
            if named == "micros":
                return value if abs(value) >= _SURELY_MICROS else None
            return value * 1000 if named == "millis" and abs(value) < _SURELY_MICROS else None
        case _:
            return None


def _column_place(footer: pq.FileMetaData, column: str) -> int | None:
    """The index of the top-level leaf column of this name."""
    schema = footer.schema
    return next((index for index in range(len(schema)) if schema.column(index).path == column), None)


def _lacks(footer: pq.FileMetaData, column: str) -> bool:
    """Whether no column of the file, nested ones included, has this name at its top."""
    schema = footer.schema
    return all(schema.column(index).path.partition(".")[0] != column for index in range(len(schema)))


def _factor_us(footer: pq.FileMetaData, place: int, column: EventTimeColumn) -> int | None:
    """What one unit of the stored number is in microseconds; None if file and table do not agree on it."""
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
    """(Avro's name of the unit, microseconds in it) that the file states for a timestamp column."""
    if leaf.physical_type != "INT64" or leaf.logical_type.type != "TIMESTAMP":
        return None
    text = leaf.logical_type.to_json()
    return next((unit for name, unit in _UNITS.items() if f'"{name}"' in text), None)


def _is_plain(leaf: pq.ColumnSchema) -> bool:
    """Whether the file holds signed whole numbers that state no unit."""
    if leaf.physical_type not in ("INT32", "INT64"):
        return False
    match leaf.logical_type.type:
        case "NONE":
            return True
        case "INT":
            return '"isSigned":true' in leaf.logical_type.to_json().replace(" ", "")
        case _:
            return False
