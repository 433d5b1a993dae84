"""The value that a segment of a partition path stands for, as its column's type. Pure.

Source: Hudi `HoodieSparkUtils.parsePartitionColumnValues` (the path's value, unescaped, cast to the column's type).
Not here: which segment belongs to which column (`table.partition_values`).
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from typing import Final

import pyarrow as pa

from penstock.proto.errors import CorruptFile, SchemaMismatch

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_NO_NUMBER: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""As Java prints them."""

_DATE: Final = re.compile(r"([0-9]{4}|\+[1-9][0-9]{4,6}|-(?!0000)(?:[0-9]{4}|[1-9][0-9]{4,6}))-([0-9]{2})-([0-9]{2})")
"""As Java prints it: a year behind 9999 has a sign."""

_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_ERA_YEARS: Final = 400
_ERA_DAYS: Final = 146_097
_MOMENT: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})(?:[ T](?P<time>[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2})"
    r"(?:\.(?P<fraction>[0-9]{1,9}))?)?Z?"
)
_EPOCH: Final = re.compile(r"-?[0-9]{7,20}")
_TRUTH: Final = {"true": True, "false": False}


def partition_scalar(text: str | None, kind: pa.DataType, where: str) -> pa.Scalar:
    """The value that a path's segment stands for, as a column's type; None is null. Errors begin with `where`.

    A timestamp's text is UTC. One that the writer left as a number is null, as it is for Hudi.
    """
    if text is None:
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind) and (moment := _MOMENT.fullmatch(text)):
        return _timestamp(moment, kind, where)
    if pa.types.is_timestamp(kind) and kind.tz and _EPOCH.fullmatch(text):
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_nested(kind):
        raise SchemaMismatch(f"{where}: partition value {text[:80]!r} as {kind}: Hudi does not read such a path either")
    try:
        value = _parsed(text, kind)
        if value is not None:
            return pa.scalar(value, kind)
    except (ValueError, OverflowError, pa.ArrowInvalid):
        pass
    raise CorruptFile(
        f"{where}: partition value {text[:80]!r} is no {kind}: the folder or the table's schema is not what wrote "
        "the rows"
    )


def _timestamp(moment: re.Match[str], kind: pa.TimestampType, where: str) -> pa.Scalar:
    date, time, fraction = (moment[name] or "" for name in ("date", "time", "fraction"))
    try:
        year, month, day = (int(part) for part in date.split("-"))
        hour, minute, second = (int(part) for part in (time or "0:0:0").split(":"))
        clock = datetime.time(hour, minute, second, int(fraction[:6].ljust(6, "0")))
        found = datetime.datetime.combine(datetime.date(year, month, day), clock)
    except ValueError:
        raise CorruptFile(f"{where}: partition value {moment[0][:80]!r} is no {kind}") from None
    return pa.scalar(found.replace(tzinfo=datetime.UTC) if kind.tz else found, kind)


def _parsed(text: str, kind: pa.DataType) -> str | bytes | bool | int | float | decimal.Decimal | None:
    """The value of a text that is exactly one of the type's; None if it is not."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        return text.encode()
    if pa.types.is_boolean(kind):
        return _TRUTH.get(text.lower())
    if pa.types.is_integer(kind):
        return int(text) if _INTEGER.fullmatch(text) else None
    if pa.types.is_date32(kind):
        date = _DATE.fullmatch(text)
        return None if date is None else _days(*map(int, date.groups()))
    if pa.types.is_floating(kind) and text in _NO_NUMBER:
        return _NO_NUMBER[text]
    if not _NUMBER.fullmatch(text):
        return None
    return decimal.Decimal(text) if pa.types.is_decimal(kind) else float(text)


def _days(year: int, month: int, day: int) -> int:
    """Since 1970, of any year of the calendar, which repeats itself every 400 years. ValueError if there is no such
    day."""
    eras, of_era = divmod(year, _ERA_YEARS)
    alike = datetime.date(_ERA_YEARS + of_era, month, day)
    return alike.toordinal() - _EPOCH_DAY + (eras - 1) * _ERA_DAYS
