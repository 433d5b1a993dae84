"""Converts dates and timestamps of the hybrid calendar to the proleptic Gregorian one with the same fields. Pure.

`penstock.table.parquet.legacy_calendar` decides which files need it, `legacy_zones` has the zones' offsets. Source:
Spark `RebaseDateTime`: the fields that `java.util.Calendar` shows for a stored value become a date, or a timestamp in
the zone, of `java.time`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.reader.base.legacy_zones import UnknownZone, ZoneOffsets, zone_offsets
from penstock.reader.values.leaves import with_leaves, with_values
from penstock.table.parquet.legacy_calendar import LegacyCalendar

_FIRST_GREGORIAN_DAY: Final = -141427
_FIRST_SAME_SECOND: Final = -2_208_988_800
"""1582-10-15, and 1900-01-01T00:00Z: from there on dates, and timestamps in any zone, are equal in both calendars."""

_DAYS_FROM_MARCH_OF_0: Final = 719_470
"""Days from 0000-03-01 to 1970-01-01 in the hybrid calendar."""

_FOUR_YEARS: Final = 1461
_DAY_S: Final = 86_400
_IN_A_SECOND: Final = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_INT96: Final = "INT96"


class CalendarRebase:
    """Converts batches of one file with such columns."""

    def __init__(self, calendar: LegacyCalendar, schema: pa.Schema, physical: Sequence[str]) -> None:
        """`schema` is the file's own, `physical` are the physical types of its leaves in order."""
        self._zone = calendar.zone
        leaves = iter(physical)
        columns = {field.name: tuple(_flags(field.type, leaves, calendar)) for field in schema}
        self._columns: Mapping[str, tuple[bool, ...]] = {name: flags for name, flags in columns.items() if any(flags)}

    def rebased(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with unchanged types and nulls. UnknownZone if a timestamp before 1900 needs the offsets of an
        unknown zone."""
        columns = [self._column(batch, place) for place in range(batch.num_columns)]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _column(self, batch: pa.RecordBatch, place: int) -> pa.Array:
        column = batch.column(place)
        flags = self._columns.get(batch.schema.field(place).name)
        if flags is None:
            return column
        remaining = iter(flags)
        return with_leaves(column, lambda leaf: self._leaf(leaf) if next(remaining) else leaf)

    def _leaf(self, array: pa.Array) -> pa.Array:
        if pa.types.is_date32(array.type):
            if not _has_below(array.view(pa.int32()), _FIRST_GREGORIAN_DAY):
                return array
            return with_values(array, np.int32, rebased_days)
        unit = _IN_A_SECOND[array.type.unit]
        if not _has_below(array.view(pa.int64()), _FIRST_SAME_SECOND * unit):
            return array
        if not self._zone:
            raise UnknownZone("no time zone")
        offsets = zone_offsets(self._zone)
        return with_values(array, np.int64, lambda values: rebased_instants(values, unit, offsets))


def rebased_days(days: np.ndarray) -> np.ndarray:
    """Days since 1970-01-01 of the dates with the same year, month and day. A February 29 that only the Julian calendar
    has becomes March 1."""
    days = days.astype(np.int64)
    return np.where(days < _FIRST_GREGORIAN_DAY, days + _days_apart(days), days)


def rebased_instants(values: np.ndarray, unit: int, zone: ZoneOffsets) -> np.ndarray:
    """Timestamps with the same local fields in the zone; `unit` is the number of units per second."""
    seconds = values // unit
    local_day = (seconds + zone.raw) // _DAY_S
    diffs = zone.diffs[np.searchsorted(zone.switches, seconds, side="right")]
    moved = np.where(local_day < _FIRST_GREGORIAN_DAY, _days_apart(local_day) * _DAY_S, 0) + diffs
    return np.where(seconds < _FIRST_SAME_SECOND, values + moved * unit, values)


def _days_apart(days: np.ndarray) -> np.ndarray:
    """How many days later the Gregorian calendar has the dates that the Julian one has on these days.

    In years that begin with March, both calendars agree on the day of the year, so only the leap days at the ends of
    centuries differ.
    """
    since = days + _DAYS_FROM_MARCH_OF_0
    fours, day = since // _FOUR_YEARS, since % _FOUR_YEARS
    year: np.ndarray = 4 * fours + (day - day // (_FOUR_YEARS - 1)) // 365
    apart: np.ndarray = 2 - year // 100 + year // 400
    return apart


def _flags(kind: pa.DataType, physical: Iterator[str], calendar: LegacyCalendar) -> Iterator[bool]:
    """For each leaf of a column whether its values are of the hybrid calendar. Timestamps without a zone never are."""
    if pa.types.is_map(kind):
        yield from _flags(kind.key_type, physical, calendar)
        yield from _flags(kind.item_type, physical, calendar)
    elif pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from _flags(kind.field(place).type, physical, calendar)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _flags(kind.value_type, physical, calendar)
    elif next(physical, "") == _INT96:
        yield calendar.int96
    else:
        is_instant = pa.types.is_timestamp(kind) and kind.tz is not None
        yield calendar.datetimes and (is_instant or pa.types.is_date32(kind))


def _has_below(numbers: pa.Array, limit: int) -> bool:
    lowest = pc.min(numbers).as_py()
    return lowest is not None and lowest < limit
