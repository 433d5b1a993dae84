"""Arrow scalars as literals of a filter. Each literal has exactly the value and the type of its scalar."""

from __future__ import annotations

import datetime
import math
from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError

_EPOCH: Final = datetime.datetime.fromisoformat("1970-01-01T00:00:00")
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def literal_text(scalar: pa.Scalar) -> str:
    """The literal. ConfigurationError for null, NaN, and a type or value that has no literal."""
    kind = scalar.type
    if scalar.is_valid:
        if pa.types.is_boolean(kind):
            return str(scalar.as_py()).upper()
        if pa.types.is_integer(kind):
            return str(scalar.as_py())
        if pa.types.is_float64(kind) or pa.types.is_float32(kind):
            return _double(scalar.as_py())
        if pa.types.is_decimal(kind):
            return format(scalar.as_py(), "f")
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return quoted(scalar.as_py())
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
            content = scalar.as_py()
            return f"X'{content.hex()}'" if content else "CAST('' AS BINARY)"  # old versions of sqlglot refuse X''
        if pa.types.is_date32(kind):
            return f"DATE '{_moment(scalar.value * 86_400, 0)[:10]}'"
        if pa.types.is_timestamp(kind):
            return _timestamp(scalar)
        if pa.types.is_time(kind):
            return _time(scalar)
    raise ConfigurationError(
        f"a literal of type {kind} cannot be in a filter: null, or a type that filters do not compare"
    )


def quoted(text: str) -> str:
    """The text as a literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _double(value: float) -> str:
    if math.isnan(value):
        raise ConfigurationError("NaN cannot be in a filter: use is_nan")
    if math.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
    return f"{value!r}D"


def _timestamp(scalar: pa.TimestampScalar) -> str:
    per_second = _PER_SECOND[scalar.type.unit]
    seconds, rest = divmod(scalar.value, per_second)
    micros, finer = divmod(rest * 10**6, per_second)
    if finer:
        raise ConfigurationError(f"a literal of type {scalar.type} cannot be in a filter: give whole microseconds")
    return f"TIMESTAMP '{_moment(seconds, micros)}{'Z' if scalar.type.tz else ''}'"


def _moment(seconds: int, micros: int) -> str:
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds, microseconds=micros)
    except OverflowError:
        raise ConfigurationError("a time in the filter is not in the years 1 to 9999") from None
    return moment.isoformat(sep=" ", timespec="microseconds")


def _time(scalar: pa.Scalar) -> str:
    per_second = _PER_SECOND[scalar.type.unit]
    micros, finer = divmod(scalar.value * 10**6, per_second)
    if finer:
        raise ConfigurationError(f"a literal of type {scalar.type} cannot be in a filter: give whole microseconds")
    return f"TIME '{(_EPOCH + datetime.timedelta(microseconds=micros)).time().isoformat(timespec='microseconds')}'"
