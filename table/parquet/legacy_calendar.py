"""Detects Parquet files with dates and timestamps in Spark 2's hybrid calendar (Julian before 1582-10-15). Pure.

Also widens their statistics. `reader.base.legacy_calendar` rebases the values. Source: Spark
`DataSourceUtils.datetimeRebaseSpec` and `int96RebaseSpec`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.proto.value_classes import dataclass

_VERSION: Final = b"org.apache.spark.version"
_ZONE: Final = b"org.apache.spark.timeZone"
_DATETIME: Final = b"org.apache.spark.legacyDateTime"
_INT96: Final = b"org.apache.spark.legacyINT96"

_FIRST_SAME_DAY: Final = -25567
"""1900-01-01: from midnight UTC on, values are the same in both calendars, in every zone."""

_MOST_DAYS_BACK: Final = 12
_MOST_DAYS_ON: Final = 2
"""Limits by which rebasing moves a value: back by at most ten days, plus 25 hours between zone offsets. A value may
move forward by more, but only long before 1900."""


@dataclass(frozen=True, slots=True)
class LegacyCalendar:
    """The columns of a file that use the hybrid calendar."""

    datetimes: bool
    """Whether dates and timestamps do."""
    int96: bool
    """Whether INT96 timestamps do."""
    zone: str
    """Time zone of the writer; '' if not recorded."""


def legacy_calendar(metadata: Mapping[bytes, bytes] | None) -> LegacyCalendar | None:
    """The legacy calendar according to a footer's key-value metadata; None for a file with Gregorian dates only.

    A file without Spark's version is always Gregorian.
    """
    if not metadata or (version := metadata.get(_VERSION)) is None:
        return None
    datetimes = version < b"3.0.0" or _DATETIME in metadata
    int96 = version < b"3.1.0" or _INT96 in metadata
    if not datetimes and not int96:
        return None
    return LegacyCalendar(datetimes, int96, metadata.get(_ZONE, b"").decode("utf-8", "replace"))


def widened_bounds(low: int, high: int, day: int) -> tuple[int, int]:
    """Bounds of dates or timestamps after rebasing, for stored values within `low` and `high` in either calendar.

    `day`: number of units in a day.
    """
    if low >= _FIRST_SAME_DAY * day:
        return low, high
    return low - _MOST_DAYS_BACK * day, max(high, (_FIRST_SAME_DAY + _MOST_DAYS_ON) * day)
