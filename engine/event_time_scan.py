"""Reads the event times of a split whose files have no statistics of them: an `EventTimeScan` for planning.

`enumerator.planning.annotate` decides when a split is read.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat, ChangesOf
from penstock.proto.model.hybrid import KafkaAccess
from penstock.proto.model.splits import EventTimeBounds, NoEventTimes, Scan, Split
from penstock.table.arrow_compute import pc

_DAY_US: Final = 86_400_000_000
_UNITS_US: Final = {"s": 1_000_000, "ms": 1000, "us": 1}
_HIGHEST_US: Final = 2**63 - 1


def scan_event_time(
    scan: Scan,
    split: Split,
    column: str,
    unit: str,
    access: KafkaAccess | None = None,
    *,
    mergers: tuple[tuple[str, str], ...] = (),
) -> EventTimeBounds | NoEventTimes:
    """The lowest and highest event time of the split's rows, of changes of both sides of each; see `EventTimeScan`.

    Reads the one column of the table, in bulk; a timestamp without zone is taken as UTC, a date as its midnight. A time
    that 64 bits of microseconds cannot hold is the nearest that they can. `mergers` are the functions of the option
    `mergers`. ConfigurationError for plain numbers without a unit; errors as for `read_split`.
    """
    from penstock.engine.kafka_access import topic_reading  # late: a planner that never reads loads no kernels
    from penstock.reader.read_split import ReadOptions, read_split

    rows = scan.rows
    if isinstance(rows, ChangesOf):
        rows = replace(rows, format=ChangeFormat.ROWS)
    low = high = None
    factor = 1
    one_column = replace(scan, columns=(column,), where="", rows=rows)
    options = ReadOptions(mergers=mergers)
    with closing(read_split(one_column, split, options=options, topics=topic_reading(scan, access))) as parts:
        for part in parts:
            values = part.batch.column(0)
            factor = _factor_us(values.type, column, unit)
            ends = pc.min_max(values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())).as_py()
            if ends["min"] is not None:
                low = ends["min"] if low is None else min(low, ends["min"])
                high = ends["max"] if high is None else max(high, ends["max"])
    if low is None or high is None:
        return NoEventTimes()
    return EventTimeBounds(_fitting(low * factor), _fitting(high * factor))


def _factor_us(kind: pa.DataType, column: str, unit: str) -> int:
    """Microseconds in one of the column's values."""
    if pa.types.is_date32(kind):
        return _DAY_US
    if pa.types.is_timestamp(kind) and kind.unit in _UNITS_US:
        return _UNITS_US[kind.unit]
    if pa.types.is_int64(kind) and unit in _UNITS_US:
        return _UNITS_US[unit]
    raise ConfigurationError(
        f"event-time column {column!r} is {kind}, unit {unit!r}: expected a timestamp, a date, or whole numbers with "
        f"eventTimeUnit ({', '.join(_UNITS_US)})"
    )


def _fitting(time_us: int) -> int:
    return max(-_HIGHEST_US, min(_HIGHEST_US, time_us))
