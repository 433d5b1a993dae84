"""The value that a segment of a partition path stands for, as its column's type. Pure.

Source: Hudi `HoodieSparkUtils.parsePartitionColumnValues` (the path's value, unescaped, cast to the column's type).
Not here: which segment belongs to which column (`table.partition_values`).
"""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Final

import pyarrow as pa

from penstock.proto.errors import CorruptFile, UnsupportedFeature

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TRUTH: Final = {"true": True, "false": False}


def partition_scalar(text: str | None, kind: pa.DataType, where: str) -> pa.Scalar:
    """The value that a path's segment stands for, as a column's type; None is null. Errors begin with `where`."""
    if text is None:
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_binary(kind) or pa.types.is_nested(kind):
        raise UnsupportedFeature(f"{where}: partition value {text[:80]!r} as {kind} (its text has no one meaning)")
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


def _parsed(text: str, kind: pa.DataType) -> str | bool | int | float | decimal.Decimal | datetime.date | None:
    """The value of a text that is exactly one of the type's; None if it is not."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_boolean(kind):
        return _TRUTH.get(text.lower())
    if pa.types.is_integer(kind):
        return int(text) if _INTEGER.fullmatch(text) else None
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat(text) if _DATE.fullmatch(text) else None
    if not _NUMBER.fullmatch(text):
        return None
    return decimal.Decimal(text) if pa.types.is_decimal(kind) else float(text)
