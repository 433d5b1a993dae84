"""The columns that rows have between the steps of a write, beside those of the data."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

RESERVED: Final = "_penstock_"
"""The beginning of their names: no column of a data frame has it, in any case of letters."""
PARTITION: Final = "_penstock_partition"
"""Partition path."""
SLOT: Final = "_penstock_slot"
"""The bucket, the place of the slice that has the key, or `group_plan.NEW`."""
ROW: Final = "_penstock_row"
"""The number of the row in the data frame (`monotonically_increasing_id`): of equal rows of a key the later one
wins."""
ROWS_OF_PARTITION: Final = 1 << 33
"""The rows of partition n of the data frame are numbered from n times this. Spark has no partition with more rows."""
DATA: Final = "_penstock_data"
"""Whether the row is no delete."""
SPREAD_OF_KEY: Final = "_penstock_spread"
"""The hash of the key, below `group_plan.SPREAD`; 0 with a bucket index."""
KEY: Final = "_penstock_key"
"""The record key, if it is searched for."""
COPIES: Final = "_penstock_copies"
"""Whether the base file of the slice has the key in several rows."""
ALL_TAGS: Final = "_penstock_tags"
"""The tags of a row, as one column."""
GROUP: Final = "_penstock_group"
"""The number of the file group."""
GROUPS: Final = "_penstock_groups"
"""The groups of a route (`Route`)."""
LIMITS: Final = "_penstock_limits"
"""The limits between them."""

TAGS: Final = pa.schema(
    [
        pa.field(PARTITION, pa.string()),
        pa.field(SLOT, pa.int32()),
        pa.field(DATA, pa.bool_()),
        pa.field(SPREAD_OF_KEY, pa.int32()),
    ]
)
"""The tags of a row. KEY is the last of them, if keys are searched."""
TAG_TYPES: Final = f"{PARTITION} string, {SLOT} int, {DATA} boolean, {SPREAD_OF_KEY} int"
"""The same for Spark."""
STORED_KEYS: Final = pa.schema(
    [
        pa.field(PARTITION, pa.string()),
        pa.field(KEY, pa.string()),
        pa.field(SLOT, pa.int32()),
        pa.field(COPIES, pa.bool_()),
    ]
)
"""The keys that the table has."""
STORED_KEY_TYPES: Final = f"{PARTITION} string, {KEY} string, {SLOT} int, {COPIES} boolean"
"""The same for Spark."""
