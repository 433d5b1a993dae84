"""The options of consumer groups only: a part of the registry (`penstock.proto.options.registry`)."""

from __future__ import annotations

from typing import Final

from penstock.proto.options.entry import GROUPS, Option
from penstock.proto.options.types import Number, Text

GROUP_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        name="group",
        type=Text("name"),
        entry_points=GROUPS,
        doc="The consumer group. What its readers commit is never assigned again. At most 200 letters, digits "
        "and `. _ - : @ /`.",
    ),
    Option(
        name="readerId",
        type=Text("name"),
        entry_points=GROUPS,
        doc="The reader's id within its group, unique per running reader. A new reader with the same id "
        "fences the old one and takes over its splits. Characters as in `group`.",
    ),
    Option(
        name="maxSplits",
        type=Number(1, 1000),
        default=4,
        entry_points=GROUPS,
        doc="The maximum number of splits that a reader requests from its group at a time.",
    ),
)
