"""Literals of a filter, and comparisons of a column's type with a literal: by value, never by truncation. Pure."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError

_MAX_EXPONENT: Final = 400
_SHOWN_CHARS: Final = 60
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?(?: ?(Z|UTC|[+-]\d\d:\d\d))?", re.IGNORECASE
)
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
_DAY_US: Final = 86_400_000_000


class Op(StrEnum):
    """A comparison of a column (left) with a value (right)."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    """An exact number as written."""

    value: Decimal
    """The number."""


@dataclass(frozen=True, slots=True)
class TextLiteral:
    """A quoted text."""

    value: str
    """The text without its quotes."""


@dataclass(frozen=True, slots=True)
class BooleanLiteral:
    """TRUE or FALSE."""

    value: bool
    """The truth value."""


@dataclass(frozen=True, slots=True)
class DateLiteral:
    """DATE 'YYYY-MM-DD'."""

    text: str
    """The text between the quotes."""


@dataclass(frozen=True, slots=True)
class TimestampLiteral:
    """TIMESTAMP 'YYYY-MM-DD HH:MM:SS[.ffffff][zone]'; UTC without a zone."""

    text: str
    """The text between the quotes."""


Literal = NumberLiteral | TextLiteral | BooleanLiteral | DateLiteral | TimestampLiteral


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with a value of its own type."""

    op: Op
    """The operator."""
    value: pa.Scalar
    """The value."""


@dataclass(frozen=True, slots=True)
class ConstantComparison:
    """A comparison with the same result for every value of the type."""

    result: bool
    """The result."""


def number(text: str) -> NumberLiteral:
    """The exact number in `text`. ConfigurationError for text that is not a number, or one too long or too large."""
    try:
        value = Decimal(text)
    except ArithmeticError:
        raise ConfigurationError(f"not a number in the filter: {text[:_SHOWN_CHARS]!r}") from None
    if not value.is_finite() or abs(value.adjusted()) > _MAX_EXPONENT:
        raise ConfigurationError(
            f"number {text[:_SHOWN_CHARS]!r} in the filter: more than {_MAX_EXPONENT} digits or an exponent beyond "
            f"{_MAX_EXPONENT}"
        )
    return NumberLiteral(value)


def comparison(column: str, kind: pa.DataType, op: Op, literal: Literal) -> Comparison | ConstantComparison:
    """The comparison `column op literal` for a column of type `kind`.

    Integers and decimals compare exactly with any number; `double` and `float` as doubles, with the double nearest to
    the literal. ConfigurationError if the literal does not match the type.
    """
    match literal:
        case NumberLiteral(value) if pa.types.is_integer(kind):
            bits = kind.bit_width - (0 if pa.types.is_unsigned_integer(kind) else 1)
            low = 0 if pa.types.is_unsigned_integer(kind) else -(2**bits)
            return _on_lattice(kind, 0, range(low, 2**bits), op, value)
        case NumberLiteral(value) if pa.types.is_decimal(kind):
            most = 10**kind.precision
            return _on_lattice(kind, kind.scale, range(1 - most, most), op, value)
        case NumberLiteral(value) if pa.types.is_floating(kind):
            nearest = float(value)
            if math.isinf(nearest):
                raise ConfigurationError(f"{value} is beyond what column {column!r} ({kind}) can hold")
            return Comparison(op, pa.scalar(nearest, pa.float64()))
        case TextLiteral(text) if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return Comparison(op, pa.scalar(text, kind))
        case BooleanLiteral(value) if pa.types.is_boolean(kind) and op in (Op.EQ, Op.NE):
            return Comparison(op, pa.scalar(value, kind))
        case DateLiteral(text) | TextLiteral(text) if pa.types.is_date(kind):
            return Comparison(op, pa.scalar(_days(text), pa.int32()).cast(pa.date32()).cast(kind))
        case TimestampLiteral(text) | DateLiteral(text) | TextLiteral(text) if pa.types.is_timestamp(kind):
            micros = pa.scalar(_micros(column, text, zoned=kind.tz is not None), pa.timestamp("us", kind.tz))
            return Comparison(op, micros)
        case TextLiteral(text) if pa.types.is_time(kind):
            return Comparison(op, pa.scalar(_time_of_day(text), pa.time64("us")))
    raise ConfigurationError(
        f"column {column!r} is {kind}: {op} {_spelled(literal)} does not match this type; {_expected(kind)}"
    )


def _on_lattice(kind: pa.DataType, scale: int, units: range, op: Op, value: Decimal) -> Comparison | ConstantComparison:
    """Compares on the multiples of 10^-scale that the type can represent: exact for any digits of the literal."""
    exact = Fraction(value) * 10**scale
    floor = math.floor(exact)
    if exact.denominator != 1:
        if op in (Op.EQ, Op.NE):
            return ConstantComparison(op is Op.NE)
        op = Op.LE if op in (Op.LT, Op.LE) else Op.GT
    if floor in units:
        unscaled = Decimal((0 if floor >= 0 else 1, tuple(int(digit) for digit in str(abs(floor))), -scale))
        return Comparison(op, pa.scalar(floor if pa.types.is_integer(kind) else unscaled, kind))
    beyond_above = floor >= units.stop
    return ConstantComparison(op is Op.NE or op in ((Op.LT, Op.LE) if beyond_above else (Op.GT, Op.GE)))


def _days(text: str) -> int:
    match = _DAY.fullmatch(text.strip())
    try:
        if match:
            return datetime.date(*(int(part) for part in match.groups())).toordinal() - _EPOCH
    except ValueError:
        pass
    raise ConfigurationError(f"not a date: {text[:_SHOWN_CHARS]!r}, expected 'YYYY-MM-DD'")


def _clock_us(hours: str | None, minutes: str | None, seconds: str | None, fraction: str | None) -> int | None:
    hour, minute, second = int(hours or 0), int(minutes or 0), int(seconds or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + int((fraction or "0").ljust(6, "0"))


def _micros(column: str, text: str, *, zoned: bool) -> int:
    match = _MOMENT.fullmatch(text.strip())
    clock = _clock_us(*match.groups()[1:5]) if match else None
    if match is None or clock is None:
        raise ConfigurationError(
            f"not a timestamp: {text[:_SHOWN_CHARS]!r}, expected 'YYYY-MM-DD[ HH:MM[:SS[.ffffff]]][zone]', "
            "the zone Z or ±HH:MM (UTC without one)"
        )
    zone = (match[6] or "").upper()
    if zone and not zoned:
        raise ConfigurationError(f"column {column!r} holds local timestamps: {text[:_SHOWN_CHARS]!r} must have no zone")
    shift_min = 0
    if zone not in ("", "Z", "UTC"):
        shift_min = int(zone[1:3]) * 60 + int(zone[4:6])
        if shift_min > 18 * 60 or int(zone[4:6]) > 59:
            raise ConfigurationError(f"not a zone: {zone!r} in {text[:_SHOWN_CHARS]!r}, expected up to ±18:00")
        shift_min = -shift_min if zone[0] == "-" else shift_min
    return _days(match[1]) * _DAY_US + clock - shift_min * 60_000_000


def _time_of_day(text: str) -> int:
    match = _TIME.fullmatch(text.strip())
    clock = _clock_us(*match.groups()) if match else None
    if clock is None:
        raise ConfigurationError(f"not a time of day: {text[:_SHOWN_CHARS]!r}, expected 'HH:MM[:SS[.ffffff]]'")
    return clock


def _spelled(literal: Literal) -> str:
    match literal:
        case NumberLiteral(value):
            return str(value)[:_SHOWN_CHARS]
        case BooleanLiteral(value):
            return str(value).upper()
        case TextLiteral(text):
            return repr(text[:_SHOWN_CHARS])
        case DateLiteral(text):
            return f"DATE {text[:_SHOWN_CHARS]!r}"
        case TimestampLiteral(text):
            return f"TIMESTAMP {text[:_SHOWN_CHARS]!r}"


def _expected(kind: pa.DataType) -> str:
    """The comparisons that a column of this type allows, for an error text."""
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        return "compare it with a number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "compare it with a quoted text"
    if pa.types.is_boolean(kind):
        return "compare it with = or != TRUE or FALSE"
    if pa.types.is_date(kind):
        return "compare it with DATE 'YYYY-MM-DD'"
    if pa.types.is_timestamp(kind):
        return "compare it with TIMESTAMP 'YYYY-MM-DD HH:MM:SS'"
    if pa.types.is_time(kind):
        return "compare it with 'HH:MM:SS'"
    return "only IS [NOT] NULL is possible"
