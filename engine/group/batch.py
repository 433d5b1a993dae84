"""The batches that a reader of a consumer group returns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa

from penstock.proto.model.positions import Position

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedBatch:
    """Rows of one split, read by a reader of a consumer group.

    Every row of a split has an ordinal, counted from 0. The batch covers the ordinals `first_ordinal` to
    `next_ordinal` - 1, without the rows that `where` and other filters dropped.
    """

    batch: pa.RecordBatch
    """The rows, with the schema of their table."""
    table: str
    """The name of the table."""
    watermark: datetime | None
    """The watermark of the group in this table, UTC: no row that is not committed yet, also of this batch, has an event
    time at or before it, whichever reader reads it, except rows later than `maxOutOfOrderness` allows. It never
    decreases, unless the group is reset. None: it has none, or it is not known yet."""
    split_id: str
    """The id of the split."""
    plan_id: str
    """The id of the plan that contains the split."""
    first_ordinal: int
    """The ordinal of the first row that the batch covers."""
    next_ordinal: int
    """The ordinal after the last row that the batch covers."""
    position: Position
    """The group's position in the table once this split and all splits before it are finished."""
    end_of_split: bool
    """Whether this is the last batch of the split."""
    start: int
    """The ordinal at which this reader began the split; above 0 if earlier rows were committed before."""
    sequence: int
    """The number of the batch since the last `join`, counted from 1."""
    join: int
    """The number of the `join`, counted from 1."""


def moment_of(watermark_us: int | None) -> datetime | None:
    """A watermark as a time. One after the year 9999 is the last time that Python has; None for one before year 1."""
    if watermark_us is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=watermark_us)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if watermark_us > 0 else None
