"""Event-time bounds of splits, from the statistics in base files' Parquet footers, or, of a slice with logs, from those
in the metadata table.

`event_time_bounds` and `slice_bounds` decide and are pure; `read_footer` is the I/O. Bounds may be wide, never narrow:
whatever the statistics leave open is UnknownBounds. A log record may carry any event time, so a slice has bounds only
if every one of its files has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.errors import CorruptFile, StorageError
from penstock.proto.splits import EventTimeBounds, FileRef, UnknownBounds
from penstock.table.metadata.column_stats import ColumnStats
from penstock.table.parquet_checks import ParquetError, check_statistics, tells_storage
from penstock.table.schema.avro import AvroType, Primitive
from penstock.table.storage import Storage, shown_uri

_DAY_US: Final = 86_400_000_000
_INT64_MAX: Final = 2**63 - 1
_SURELY_MICROS: Final = 10**14
"""In micros less than this is before March 1973, in millis more is behind the year 5138."""

_UNITS: Final = {"milliseconds": ("millis", 1000), "microseconds": ("micros", 1)}


def read_footer(storage: Storage, file: FileRef) -> pq.FileMetaData:
    """The footer of a base file. CorruptFile if there is no file or no footer that can be read."""
    where = f"base file {file.path} of table {shown_uri(storage.base_path)}"
    try:
        with storage.open_input(file.path) as source:
            check_statistics(source)
            return pq.read_metadata(source)
    except FileNotFoundError as error:
        raise CorruptFile(f"{where} is missing, although it was there when the folder was listed") from error
    except (pa.ArrowException, ParquetError, OSError) as error:
        detail = str(error).partition("\n")[0][:200]
        if tells_storage(error):
            raise StorageError(f"footer of {where} cannot be read: {detail}; asking again may help") from error
        raise CorruptFile(
            f"{where} has no readable Parquet footer: {detail}; expected {file.size_bytes} bytes"
        ) from error


def row_group_sizes(footer: pq.FileMetaData) -> tuple[int, ...]:
    """Bytes on storage of each row group."""
    groups = (footer.row_group(index) for index in range(footer.num_row_groups))
    return tuple(
        sum(max(group.column(column).total_compressed_size, 0) for column in range(group.num_columns))
        for group in groups
    )


def event_time_bounds(
    footer: pq.FileMetaData, row_groups: Iterable[int], column: str, column_type: AvroType
) -> EventTimeBounds | UnknownBounds:
    """Lowest and highest event time in some row groups of a file, nulls left out.

    `column` is the table's column and `column_type` its type there. Timestamps with and without zone are taken as
    UTC, a date as its midnight. Unknown: a plain long (its unit cannot be told), INT96, a file that lacks the column
    or states another unit than the table (old writers marked millis as micros), a row group without statistics or
    with nulls alone. Row groups without rows do not count.
    """
    place = _column_place(footer, column)
    factor = None if place is None else _factor_us(footer, place, column_type)
    if place is None or factor is None:
        return UnknownBounds()
    lows: list[int] = []
    highs: list[int] = []
    for index in row_groups:
        group = footer.row_group(index)
        if group.num_rows == 0:
            continue
        statistics = group.column(place).statistics
        if statistics is None or not statistics.has_min_max:
            return UnknownBounds()
        lows.append(int(statistics.min_raw) * factor)
        highs.append(int(statistics.max_raw) * factor)
    if not lows or not -_INT64_MAX <= min(lows) <= max(highs) <= _INT64_MAX:
        return UnknownBounds()
    return EventTimeBounds(min(lows), max(highs))


def slice_bounds(stats: Iterable[ColumnStats | None], column_type: AvroType) -> EventTimeBounds | UnknownBounds:
    """Lowest and highest event time in a slice, from the statistics of the column in each of its files.

    Unknown if a file has none, or none that can be relied on: of another unit than the table's, deleted, or of a size
    that another unit would explain (old writers' statistics say micros of millis, or nothing). A file without any
    value of the column (nulls, deletes alone) does not count.
    """
    lows: list[int] = []
    highs: list[int] = []
    for item in stats:
        if item is None or item.is_deleted:
            return UnknownBounds()
        if item.holds_nulls_alone:
            continue
        low, high = (stated_us(value, item.logical, column_type) for value in (item.low, item.high))
        if low is None or high is None:
            return UnknownBounds()
        lows.append(low)
        highs.append(high)
    if not lows or not -_INT64_MAX <= min(lows) <= max(highs) <= _INT64_MAX:
        return UnknownBounds()
    return EventTimeBounds(min(lows), max(highs))


def stated_us(value: object, logical: str, column_type: AvroType) -> int | None:
    """A bound of a metadata table in microseconds; None if its unit is not beyond doubt."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    match column_type:
        case Primitive("int", "date"):
            return value * _DAY_US if logical == "date" else None
        case Primitive("long", of_table) if of_table:
            unit = of_table.removeprefix("local-").removeprefix("timestamp-")
            stated = logical.removeprefix("local-")
            if stated not in ("", f"timestamp-{unit}"):
                return None
            if unit == "micros":
                return value if abs(value) >= _SURELY_MICROS else None
            return value * 1000 if unit == "millis" and abs(value) < _SURELY_MICROS else None
        case _:
            return None


def _column_place(footer: pq.FileMetaData, column: str) -> int | None:
    """The index of the top-level leaf column of this name."""
    schema = footer.schema
    return next((index for index in range(len(schema)) if schema.column(index).path == column), None)


def _factor_us(footer: pq.FileMetaData, place: int, column_type: AvroType) -> int | None:
    """What one unit of the stored number is in microseconds; None if file and table do not agree on it."""
    leaf = footer.schema.column(place)
    if leaf.max_repetition_level:
        return None
    match column_type:
        case Primitive("int", "date"):
            return _DAY_US if leaf.physical_type == "INT32" and leaf.logical_type.type == "DATE" else None
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
