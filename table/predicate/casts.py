"""Which casts a filter may have: those that Spark evaluates in every mode without an error. Pure."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

_INTEGERS: Final = {"TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64()}
_TEXTS: Final = {"TEXT", "VARCHAR", "STRING"}
_PLAIN_SCALE: Final = 6
"""Java writes decimals with more digits after the point with an exponent, unless Spark is in ANSI mode."""


def cast_type(source: pa.DataType, target: exp.DataType) -> pa.DataType | None:
    """The type of `CAST(value AS target)` for values of type `source`; None if it may fail, or depends on the mode, the
    time zone or the version of Spark."""
    name = target.this.name
    if name in _TEXTS and not target.expressions:
        return pa.string() if _has_one_text(source) else None
    if name in _INTEGERS:
        return _INTEGERS[name] if _fits_integer(source, _INTEGERS[name]) else None
    if name in ("DOUBLE", "FLOAT"):
        known = pa.types.is_integer(source) or pa.types.is_floating(source) or pa.types.is_decimal(source)
        return (pa.float64() if name == "DOUBLE" else _single(source)) if known else None
    if name == "DECIMAL":
        return _decimal(source, target)
    if name == "DATE":
        return pa.date32() if pa.types.is_date(source) or pa.types.is_timestamp(source) else None
    return None


def _has_one_text(source: pa.DataType) -> bool:
    if pa.types.is_decimal(source):
        return bool(0 <= source.scale <= _PLAIN_SCALE)
    return bool(
        pa.types.is_string(source)
        or pa.types.is_large_string(source)
        or pa.types.is_integer(source)
        or pa.types.is_boolean(source)
    )


def _fits_integer(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_boolean(source):
        return True
    return bool(pa.types.is_signed_integer(source) and source.bit_width <= target.bit_width)


def _single(source: pa.DataType) -> pa.DataType | None:
    """FLOAT; None for decimals, which Spark rounds twice."""
    return None if pa.types.is_decimal(source) else pa.float32()


def _decimal(source: pa.DataType, target: exp.DataType) -> pa.DataType | None:
    numbers = [str(parameter.this.this) for parameter in target.expressions]
    if not all(number.isdecimal() for number in numbers) or len(numbers) > 2:
        return None
    precision, scale = [*map(int, numbers), *(10, 0)[len(numbers) :]]
    if pa.types.is_signed_integer(source):
        digits, own_scale = len(str(2 ** (source.bit_width - 1))), 0
    elif pa.types.is_decimal(source):
        digits, own_scale = source.precision - source.scale, source.scale
    else:
        return None
    fits = 0 <= own_scale <= scale <= precision <= 38 and digits <= precision - scale
    return pa.decimal128(precision, scale) if fits else None
