"""Literals of a filter, and comparisons of a column's type with a literal: by value, never by truncation. Pure."""

from __future__ import annotations

import datetime
import math
import re
import struct
from decimal import Decimal
from enum import StrEnum
from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError
from penstock.proto.value_classes import dataclass
from penstock.table.arrow_arrays import arrow_scalar

_MAX_EXPONENT: Final = 400
_SHOWN_CHARS: Final = 60
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?(?: ?(Z|UTC|[+-]\d\d:\d\d))?", re.IGNORECASE
)
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
_DAY_US: Final = 86_400_000_000
_MAX_SINGLE: Final = 3.4028234663852886e38


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
class DoubleLiteral:
    """A floating-point number, such as 1.5D or CAST('Infinity' AS DOUBLE)."""

    value: float
    """The number, never NaN."""

    @property
    def is_single(self) -> bool:
        """Whether it is a single-precision number."""
        return (abs(self.value) <= _MAX_SINGLE and _single(self.value) == self.value) or math.isinf(self.value)


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


@dataclass(frozen=True, slots=True)
class TimeLiteral:
    """TIME 'HH:MM[:SS[.ffffff]]'."""

    text: str
    """The text between the quotes."""


@dataclass(frozen=True, slots=True)
class BinaryLiteral:
    """X'…': bytes."""

    value: bytes
    """The bytes."""


Literal = (
    NumberLiteral
    | DoubleLiteral
    | TextLiteral
    | BinaryLiteral
    | BooleanLiteral
    | DateLiteral
    | TimeLiteral
    | TimestampLiteral
)


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


@dataclass(frozen=True, slots=True)
class RangeComparison:
    """A test whether a value is in a closed range, or outside of it if `negated`."""

    low: pa.Scalar
    """The lowest value of the range."""
    high: pa.Scalar
    """The highest value of the range."""
    negated: bool
    """Whether the values outside of the range match."""


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


def double(text: str, *, single: bool = False) -> DoubleLiteral:
    """The double nearest to `text`, or with `single` the nearest single-precision number. ConfigurationError for text
    that is not a number, and for NaN."""
    try:
        value = float(text) if "_" not in text else math.nan
        value = _single(value) if single and math.isfinite(value) else value
    except (ValueError, OverflowError):
        value = math.nan
    if math.isnan(value):
        raise ConfigurationError(f"not a number in the filter: {text[:_SHOWN_CHARS]!r}; isnan(column) tests for NaN")
    return DoubleLiteral(value)


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def comparison(
    operand: str, kind: pa.DataType, op: Op, literal: Literal
) -> Comparison | ConstantComparison | RangeComparison:
    """The comparison `operand op literal` for values of type `kind`; `operand` is for error texts.

    Integers and decimals compare exactly with any number; `double` and `float` as doubles, with the double nearest to
    the literal. Decimals compare with a double by their nearest doubles, as in Spark. ConfigurationError if the literal
    does not match the type.
    """
    match literal:
        case DoubleLiteral(value) if pa.types.is_floating(kind):
            return Comparison(op, arrow_scalar(value, pa.float64()))
        case DoubleLiteral(value) if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            if math.isinf(value):
                return ConstantComparison(op is Op.NE or op in ((Op.LT, Op.LE) if value > 0 else (Op.GT, Op.GE)))
            if pa.types.is_decimal(kind):
                return _nearest_doubles(kind, op, value)
            return comparison(operand, kind, op, NumberLiteral(Decimal(value)))
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
                raise ConfigurationError(f"{value} is beyond what {operand} ({kind}) can hold")
            return Comparison(op, arrow_scalar(nearest, pa.float64()))
        case TextLiteral(text) if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return Comparison(op, arrow_scalar(text, kind))
        case BooleanLiteral(value) if pa.types.is_boolean(kind) and op in (Op.EQ, Op.NE):
            return Comparison(op, arrow_scalar(value, kind))
        case DateLiteral(text) | TextLiteral(text) if pa.types.is_date(kind):
            return Comparison(op, arrow_scalar(_days(text), pa.int32()).cast(pa.date32()).cast(kind))
        case TimestampLiteral(text) | DateLiteral(text) | TextLiteral(text) if pa.types.is_timestamp(kind):
            micros = arrow_scalar(_micros(operand, text, zoned=kind.tz is not None), pa.timestamp("us", kind.tz))
            return Comparison(op, micros)
        case BinaryLiteral(value) if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return Comparison(op, arrow_scalar(value, kind))
        case TimeLiteral(text) | TextLiteral(text) if pa.types.is_time(kind):
            return Comparison(op, arrow_scalar(_time_of_day(text), pa.time64("us")))
    raise ConfigurationError(
        f"{operand} is {kind}: {op} {_spelled(literal)} does not match this type; {_expected(kind)}"
    )


def _on_lattice(kind: pa.DataType, scale: int, units: range, op: Op, value: Decimal) -> Comparison | ConstantComparison:
    """Compares on the multiples of 10^-scale that the type can represent: exact for any digits of the literal."""
    from fractions import Fraction  # late: compared with few literals

    exact = Fraction(value) * 10**scale
    floor = math.floor(exact)
    if exact.denominator != 1:
        if op in (Op.EQ, Op.NE):
            return ConstantComparison(op is Op.NE)
        op = Op.LE if op in (Op.LT, Op.LE) else Op.GT
    if floor in units:
        return Comparison(op, arrow_scalar(floor, kind) if pa.types.is_integer(kind) else _unscaled(kind, floor))
    beyond_above = floor >= units.stop
    return ConstantComparison(op is Op.NE or op in ((Op.LT, Op.LE) if beyond_above else (Op.GT, Op.GE)))


def _nearest_doubles(kind: pa.DataType, op: Op, value: float) -> Comparison | ConstantComparison | RangeComparison:
    """Compares the doubles nearest to decimals with a double. The decimals of one double are a range."""
    low, high = _decimals_of(kind.scale, value)
    most = 10**kind.precision - 1
    if op in (Op.EQ, Op.NE):
        low, high = max(low, -most), min(high, most)
        if low > high:
            return ConstantComparison(op is Op.NE)
        if low < high:
            return RangeComparison(_unscaled(kind, low), _unscaled(kind, high), negated=op is Op.NE)
        return Comparison(op, _unscaled(kind, low))
    # below the range: <; in it: <= and >=; `low > high` if no decimal has this double
    limit = low - 1 if op in (Op.LT, Op.GE) else high
    op = Op.LE if op in (Op.LT, Op.LE) else Op.GT
    if not -most <= limit <= most:
        return ConstantComparison(op is (Op.LE if limit > 0 else Op.GT))
    return Comparison(op, _unscaled(kind, limit))


def _decimals_of(scale: int, value: float) -> tuple[int, int]:
    """The lowest and the highest multiple of 10^-scale whose nearest double is `value`; (n + 1, n) if there is none,
    where n is the highest multiple below it."""
    from fractions import Fraction  # late: compared with few literals

    unit = 10**scale
    below, above = math.nextafter(value, -math.inf), math.nextafter(value, math.inf)
    exact = Fraction(value)
    half_below = (exact + Fraction(below)) / 2 if math.isfinite(below) else exact
    half_above = (exact + Fraction(above)) / 2 if math.isfinite(above) else exact
    low, high = math.ceil(half_below * unit), math.floor(half_above * unit)
    low += not _has_double(low, unit, value)
    high -= not _has_double(high, unit, value)
    return (low, high) if low <= high else (math.floor(exact * unit) + 1, math.floor(exact * unit))


def _has_double(multiple: int, unit: int, value: float) -> bool:
    """Whether `value` is the double nearest to multiple / unit; true for one beyond the ends of a range."""
    return multiple / unit == value  # the division of integers rounds correctly


def _unscaled(kind: pa.DataType, unscaled: int) -> pa.Scalar:
    """The decimal unscaled * 10^-scale."""
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return arrow_scalar(Decimal((0 if unscaled >= 0 else 1, digits, -kind.scale)), kind)


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


def _micros(operand: str, text: str, *, zoned: bool) -> int:
    match = _MOMENT.fullmatch(text.strip())
    clock = _clock_us(*match.groups()[1:5]) if match else None
    if match is None or clock is None:
        raise ConfigurationError(
            f"not a timestamp: {text[:_SHOWN_CHARS]!r}, expected 'YYYY-MM-DD[ HH:MM[:SS[.ffffff]]][zone]', "
            "the zone Z or ±HH:MM (UTC without one)"
        )
    zone = (match[6] or "").upper()
    if zone and not zoned:
        raise ConfigurationError(f"{operand} holds local timestamps: {text[:_SHOWN_CHARS]!r} must have no zone")
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
        case DoubleLiteral(value):
            return f"{value}D"
        case BinaryLiteral(value):
            return f"X{value.hex()[:_SHOWN_CHARS].upper()!r}"
        case BooleanLiteral(value):
            return str(value).upper()
        case TextLiteral(text):
            return repr(text[:_SHOWN_CHARS])
        case DateLiteral(text):
            return f"DATE {text[:_SHOWN_CHARS]!r}"
        case TimeLiteral(text):
            return f"TIME {text[:_SHOWN_CHARS]!r}"
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
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "compare it with X'…'"
    if pa.types.is_time(kind):
        return "compare it with 'HH:MM:SS'"
    return "only IS [NOT] NULL is possible"
