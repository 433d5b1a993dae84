"""The options of merging: a part of the registry (`penstock.proto.options.registry`)."""

from __future__ import annotations

from typing import Final

from penstock.proto.options.entry import EVERYWHERE, Option
from penstock.proto.options.types import Functions, Text

MERGE_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        name="deleteField",
        type=Text("column"),
        default="",
        entry_points=EVERYWHERE,
        doc="With `deleteMarker`: a log record whose value in this column is the marker is a delete. The "
        "table's own properties take precedence.",
    ),
    Option(
        name="deleteMarker",
        type=Text("value"),
        default="",
        entry_points=EVERYWHERE,
        doc="The value of `deleteField` that marks a delete.",
    ),
    Option(
        name="mergers",
        type=Functions(),
        default=(),
        entry_points=EVERYWHERE,
        doc="The Python functions that merge records of tables with a custom merger or payload class "
        "(docs/reference/semantics.md): `module:function` for each merge strategy id or payload class. In Python also "
        "a mapping. They are imported where rows are read, in Spark on the executors. Without an entry here, an "
        "installed entry point of the group `penstock.mergers` with that name is used. The module is only ever chosen "
        "by this option or by what is installed, never by a table.",
    ),
)
