"""Parquet files whose dates and timestamps are of the hybrid calendar (Julian before 1582-10-15) of Spark 2.

Pure. Belongs here: which files these are, and what their statistics still tell. Not here: what their values become
(`penstock.reader.base.legacy_calendar`). Source: Spark `DataSourceUtils.datetimeRebaseSpec` and `int96RebaseSpec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_VERSION: Final = b"org.apache.spark.version"
_ZONE: Final = b"org.apache.spark.timeZone"
_DATETIME: Final = b"org.apache.spark.legacyDateTime"
_INT96: Final = b"org.apache.spark.legacyINT96"

_FIRST_SAME_DAY: Final = -25567
"""1900-01-01: from its midnight in UTC on, values mean the same in both calendars, in every zone."""

_MOST_DAYS_BACK: Final = 12
_MOST_DAYS_ON: Final = 2
"""The calendars differ by ten days at most where values move back, and a zone's offsets by 25 hours. Forward a value
may move by more, but then long before 1900."""


@dataclass(frozen=True, slots=True)
class LegacyCalendar:
    """Which columns of a file are of the hybrid calendar: dates and timestamps, timestamps of 96 bits, or both."""

    datetimes: bool
    int96: bool
    zone: str
    """In which the writer took timestamps apart; '' where it did not say."""


def legacy_calendar(metadata: Mapping[bytes, bytes] | None) -> LegacyCalendar | None:
    """What a Parquet footer's key-value metadata says of the calendar; None for proleptic Gregorian alone. A file
    without Spark's version counts as such, whatever else it says."""
    if not metadata or (version := metadata.get(_VERSION)) is None:
        return None
    datetimes = version < b"3.0.0" or _DATETIME in metadata
    int96 = version < b"3.1.0" or _INT96 in metadata
    if not datetimes and not int96:
        return None
    return LegacyCalendar(datetimes, int96, metadata.get(_ZONE, b"").decode("utf-8", "replace"))


def widened_bounds(low: int, high: int, day: int) -> tuple[int, int]:
    """Bounds of the values that rows show, of dates or timestamps whose stored ones lie within `low` and `high` and may
    be of either calendar. `day`: how many units a day has."""
    if low >= _FIRST_SAME_DAY * day:
        return low, high
    return low - _MOST_DAYS_BACK * day, max(high, (_FIRST_SAME_DAY + _MOST_DAYS_ON) * day)
