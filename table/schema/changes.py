"""The columns of change queries in both formats. Pure.

Source of the Hudi format: `HoodieCDCUtils`, `CDCRelation` (all columns are strings).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat

CHANGE_TYPE: Final = "_change_type"
CHANGE_INSTANT: Final = "_change_instant"
CHANGE_SEQ: Final = "_change_seq"
"""`_change_type` is +I, -U, +U or -D. `_change_instant` is the commit's requested time. `_change_seq` is a text that
sorts in the order of changes: by order key, within a commit deletes first, the old row of an update before the new
one."""

HUDI_COLUMNS: Final = ("op", "ts_ms", "before", "after")


def change_schema(table: pa.Schema, change_format: ChangeFormat) -> pa.Schema:
    """The columns that a change query can return; `table` has the table's own.

    ConfigurationError if the table has a column with the name of a change column.
    """
    if change_format is ChangeFormat.HUDI:
        return pa.schema([pa.field(name, pa.string()) for name in HUDI_COLUMNS])
    own = [pa.field(name, pa.string()) for name in (CHANGE_TYPE, CHANGE_INSTANT, CHANGE_SEQ)]
    duplicates = [field.name for field in own if field.name.lower() in {name.lower() for name in table.names}]
    if duplicates:
        raise ConfigurationError(
            f"changes as rows: the table has a column {duplicates[0]}, which is also a change column; use "
            "cdcFormat=hudi"
        )
    return pa.schema([*table, *own])
