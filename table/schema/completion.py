"""The column `_completion_time`, and the columns that a query can return and a read returns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import COMPLETION_TIME
from penstock.table.columns import resolve_columns
from penstock.table.schema.avro import META_COLUMNS, OPERATION
from penstock.table.schema.changes import change_schema

COMPLETION_TYPE: Final = pa.timestamp("us", tz="UTC")
"""Microseconds, as all timestamps of a read. Hudi records completion times in milliseconds."""


def returned_schema(table: pa.Schema, changes: ChangeFormat | None, *, completion_time: bool) -> pa.Schema:
    """The columns that a query can return, in order: those of the table, or of its `changes` in this format; and with
    `completion_time` the column of that name at the end.

    ConfigurationError if the table has a column with the name of one that is added.
    """
    returned = table if changes is None else change_schema(table, changes)
    if not completion_time:
        return returned
    if COMPLETION_TIME in (name.lower() for name in returned.names):
        raise ConfigurationError(
            f"option completionTime adds a column {COMPLETION_TIME}, and the table has one of its own: leave the option"
            " out"
        )
    return returned.append(pa.field(COMPLETION_TIME, COMPLETION_TYPE))


def returned_columns(names: Sequence[str], available: Sequence[str], *, meta: bool) -> tuple[str, ...]:
    """The columns that a read returns: `names` as of `resolve_columns`; if there are none, every column, without Hudi's
    meta columns unless `meta`."""
    columns = resolve_columns(names, available)
    if names or meta:
        return columns
    return tuple(name for name in columns if name not in (*META_COLUMNS, OPERATION))
