"""The batches that a reader of a consumer group returns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from penstock.proto.model.positions import Position


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
    """The watermark of the table in this group, UTC; None if it has none."""
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
