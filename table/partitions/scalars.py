"""Casts the text of a partition path's segment to the type of its column. Pure.

Source: Hudi `HoodieSparkUtils.parsePartitionColumnValues` (Spark casts the unescaped text to the column's type).
`table.partitions.values` assigns segments to columns.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from typing import Final

import pyarrow as pa

from penstock.proto.errors import CorruptFile, SchemaMismatch
from penstock.table.arrow_arrays import arrow_scalar

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""In the spelling of Java."""

_DATE: Final = re.compile(
    r"(?P<year>[+-]?[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T].*)?)?)?", re.S
)
_TIMESTAMP: Final = re.compile(
    r"(?P<year>[+-]?[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T](?P<hour>[0-9]{1,2})"
    r"(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?(?P<zone>[^0-9.].*)?)?)?)?)?)?"
)
"""The forms that Spark casts to a date and a timestamp (`SparkDateTimeUtils.stringToDate`, `stringToTimestamp`). A year
alone is valid, so some numbers are years."""

_TIME_OF_TODAY: Final = re.compile(r"T.*|[0-9]{1,2}:.*")
"""A time without a date. Spark adds the current date."""

_TRIMMED: Final = "".join(map(chr, [*range(0x21), 0x7F]))
"""Characters that Spark trims before a cast (`UTF8String.isWhitespaceOrISOControl`)."""

_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_ERA_YEARS: Final = 400
_ERA_DAYS: Final = 146_097
_DAY_SECONDS: Final = 86_400
_TRUTH: Final = {"true": True, "false": False}


def partition_scalar(text: str | None, kind: pa.DataType, where: str) -> pa.Scalar:
    """The value of a segment's text as the column's type; None is null. Errors begin with `where`.

    Dates and timestamps have the result of Spark's cast: a year alone is its first day, and text that Spark cannot cast
    is null (also a timestamp that the writer stored as a number with few or many digits). Timestamps are in UTC.
    SchemaMismatch for types on which Hudi fails (nested types, times, local timestamps that are not complete), and for
    timestamps with a zone or without a date; CorruptFile for text that is not a value of any other type.
    """
    if text is None:
        return arrow_scalar(None, kind)
    if pa.types.is_time(kind) or pa.types.is_nested(kind):
        raise _refused(text, kind, where)
    try:
        if pa.types.is_date32(kind):
            return arrow_scalar(_date(text.strip(_TRIMMED)), pa.int32()).cast(kind)
        if pa.types.is_timestamp(kind):
            return arrow_scalar(_timestamp(text.strip(_TRIMMED), kind, where), pa.int64()).cast(kind)
        value = _parsed(text, kind)
        if value is not None:
            return arrow_scalar(value, kind)
    except (ValueError, OverflowError, pa.ArrowInvalid):
        pass
    raise CorruptFile(
        f"{where}: partition value {text[:80]!r} is not a valid {kind}: the folder, or the table's schema, is not "
        "the one that the rows were written with"
    )


def _refused(text: str, kind: pa.DataType, where: str) -> SchemaMismatch:
    return SchemaMismatch(f"{where}: partition value {text[:80]!r} as {kind}: Hudi does not read such a path either")


def _date(text: str) -> int | None:
    """Days since 1970; None if Spark casts the text to null."""
    match = _DATE.fullmatch(text)
    days = None if match is None else _day_of(match)
    return days if days is not None and -(1 << 31) <= days < 1 << 31 else None


def _timestamp(text: str, kind: pa.TimestampType, where: str) -> int | None:
    """Microseconds since 1970; None if Spark casts the text to null."""
    match = _TIMESTAMP.fullmatch(text)
    if _TIME_OF_TODAY.fullmatch(text) or (match and match["zone"] not in (None, "Z")):
        raise SchemaMismatch(
            f"{where}: partition value {text[:80]!r} as {kind}: timestamps with a zone or without a date are not "
            "read; write timestamps in UTC"
        )
    micros = None if match is None else _micros_of(match)
    if kind.tz is None and (match is None or match["day"] is None or micros is None):
        raise _refused(text, kind, where)
    return micros


def _day_of(match: re.Match[str]) -> int | None:
    try:
        return _days(int(match["year"]), int(match["month"] or 1), int(match["day"] or 1))
    except ValueError:
        return None


def _micros_of(match: re.Match[str]) -> int | None:
    days = _day_of(match)
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    seconds = days * _DAY_SECONDS + hour * 3600 + minute * 60 + second
    micros = seconds * 1_000_000 + int((match["fraction"] or "")[:6].ljust(6, "0"))
    return micros if -(1 << 63) <= micros < 1 << 63 else None


def _parsed(text: str, kind: pa.DataType) -> str | bytes | bool | int | float | decimal.Decimal | None:
    """The value of the text, if it is exactly one of the type; else None."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        return text.encode()
    if pa.types.is_boolean(kind):
        return _TRUTH.get(text.lower())
    if pa.types.is_integer(kind):
        return int(text) if _INTEGER.fullmatch(text) else None
    if pa.types.is_floating(kind) and text in _NOT_FINITE:
        return _NOT_FINITE[text]
    if not _NUMBER.fullmatch(text):
        return None
    return decimal.Decimal(text) if pa.types.is_decimal(kind) else float(text)


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01, for any year: the calendar repeats every 400 years. ValueError for an invalid date."""
    eras, of_era = divmod(year, _ERA_YEARS)
    alike = datetime.date(_ERA_YEARS + of_era, month, day)
    return alike.toordinal() - _EPOCH_DAY + (eras - 1) * _ERA_DAYS
