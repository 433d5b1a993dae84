"""The event time of splits whose event-time column takes its value from the partition path: one for all rows. Pure.

Not here: what a segment of a path means (`table.partition_scalars`).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.enumerator.bounds import UNIT_US, SplitBounds
from penstock.proto.errors import PenstockError
from penstock.proto.splits import EventTimeBounds, NoEventTimes, Scan, Split, UnknownBounds
from penstock.table.partition_scalars import partition_scalar

_DAY_US: Final = 86_400_000_000
_INT64_MAX: Final = 2**63 - 1


def path_times(scan: Scan, split: Split, column: str, kind: pa.DataType, unit: str) -> SplitBounds:
    """The bounds of a split by its path: one value, or none for the null partition; unknown for plain numbers without
    a unit, and for a path that reading refuses, whose error comes then."""
    if len(split.partition_values) != len(scan.partition_fields):
        return UnknownBounds()
    text = dict(zip(scan.partition_fields, split.partition_values, strict=True))[column]
    try:
        value = partition_scalar(text, kind, f"table {scan.table}")
    except PenstockError:
        return UnknownBounds()
    if not value.is_valid:
        return NoEventTimes()
    factor = _DAY_US if pa.types.is_date32(kind) else 1 if pa.types.is_timestamp(kind) else UNIT_US.get(unit)
    if factor is None:
        return UnknownBounds()
    time_us = int(value.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).as_py()) * factor
    return EventTimeBounds(time_us, time_us) if abs(time_us) <= _INT64_MAX else UnknownBounds()
