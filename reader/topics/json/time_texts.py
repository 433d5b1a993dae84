"""Dates and times as text, in the forms that Hudi accepts. Pure.

Source: Hudi `TimeLogicalTypeProcessor` and related classes: ISO dates; times HH:MM[:SS[.fraction]]; both with T or a
blank between them, where an instant may have an offset (none: UTC). Digits of the fraction below the unit are cut off
towards 1970, as in Hudi.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.reader.topics.record.decoded import Unfit

_DATE: Final = r"(\d{4}|\+\d{5,9}|-\d{4,9})-(\d\d)-(\d\d)"
_TIME: Final = r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?"
_OFFSET: Final = r"(?:([Zz])|([+-])(\d\d):(\d\d)(?::(\d\d))?)?"
_DATES: Final = re.compile(_DATE, re.ASCII)
_TIMES: Final = re.compile(_TIME, re.ASCII)
_LOCALS: Final = re.compile(_DATE + "[T ]" + _TIME, re.ASCII)
_INSTANTS: Final = re.compile(_DATE + "[Tt ]" + _TIME + _OFFSET, re.ASCII)

_DAYS_OF_MONTH: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAY_S: Final = 86_400
_OFFSET_LIMIT_S: Final = 18 * 3600


def date_days(text: str) -> int:
    """Days since 1970-01-01. Unfit for text that is not a date."""
    match = _DATES.fullmatch(text)
    if match is None:
        raise Unfit(f"the text {text[:60]!r}, expected a date like 2024-07-13 or a number of days")
    return _days(match[1], match[2], match[3], text)


def time_nanos(text: str) -> int:
    """Nanoseconds since midnight. Unfit for text that is not a time of day."""
    match = _TIMES.fullmatch(text)
    if match is None:
        raise Unfit(f"the text {text[:60]!r}, expected a time like 11:36:01.951 or a number")
    return _nanos(match[1], match[2], match[3], match[4], text)


def instant_nanos(text: str, *, local: bool) -> int:
    """Nanoseconds since 1970-01-01T00:00 UTC, or (`local`) without a zone. Unfit for text that is not a timestamp."""
    match = (_LOCALS if local else _INSTANTS).fullmatch(text)
    if match is None:
        form = "2024-07-13T11:36:01.951" if local else "2024-07-13T11:36:01.951Z"
        raise Unfit(f"the text {text[:60]!r}, expected a timestamp like {form} or a number")
    days = _days(match[1], match[2], match[3], text)
    nanos = _nanos(match[4], match[5], match[6], match[7], text)
    return (days * _DAY_S - (0 if local else _offset_s(match, text))) * 10**9 + nanos


def _offset_s(match: re.Match[str], text: str) -> int:
    if match[9] is None:
        return 0
    hours, minutes, seconds = int(match[10]), int(match[11]), int(match[12] or 0)
    offset = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or offset > _OFFSET_LIMIT_S:
        raise Unfit(f"the text {text[:60]!r}: its offset is out of range")
    return -offset if match[9] == "-" else offset


def _days(year_text: str, month_text: str, day_text: str, text: str) -> int:
    year, month, day = int(year_text), int(month_text), int(day_text)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS_OF_MONTH[month - 1] or (month == 2 and day == 29 and not leap):
        raise Unfit(f"the text {text[:60]!r}: there is no such day")
    shifted = year - (month <= 2)  # years that begin in March, so that the leap day is their last
    era_day = 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400
    return era_day + (153 * ((month + 9) % 12) + 2) // 5 + day - 1 - 719_468


def _nanos(hour_text: str, minute_text: str, second_text: str | None, fraction: str | None, text: str) -> int:
    hour, minute, second = int(hour_text), int(minute_text), int(second_text or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise Unfit(f"the text {text[:60]!r}: there is no such time of day")
    return ((hour * 60 + minute) * 60 + second) * 10**9 + int((fraction or "").ljust(9, "0"))
