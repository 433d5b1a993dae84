"""The columns of changes, in either format. Pure; for those who plan them and those who read them.

Source of the Hudi format: `HoodieCDCUtils`, `CDCRelation` (all columns text).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat

CHANGE_TYPE: Final = "_change_type"
CHANGE_INSTANT: Final = "_change_instant"
CHANGE_SEQ: Final = "_change_seq"
"""`_change_type` is +I, -U, +U or -D; `_change_instant` the commit's requested time; `_change_seq` text whose order is
the order of changes: by order key, within a commit deletes first, the old row of an update before the new one."""

HUDI_COLUMNS: Final = ("op", "ts_ms", "before", "after")


def change_schema(table: pa.Schema, change_format: ChangeFormat) -> pa.Schema:
    """The columns that a query of changes can return; `table` are the table's own.

    ConfigurationError if the table has a column of a change's name.
    """
    if change_format is ChangeFormat.HUDI:
        return pa.schema([pa.field(name, pa.string()) for name in HUDI_COLUMNS])
    own = [pa.field(name, pa.string()) for name in (CHANGE_TYPE, CHANGE_INSTANT, CHANGE_SEQ)]
    taken = [field.name for field in own if field.name.lower() in {name.lower() for name in table.names}]
    if taken:
        raise ConfigurationError(
            f"changes as rows: the table has a column {taken[0]} of its own, and that is a column of changes too; use "
            "cdcFormat=hudi"
        )
    return pa.schema([*table, *own])
