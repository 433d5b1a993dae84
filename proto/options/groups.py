"""The options that consumer groups alone have: a part of the one registry (`options`).

Standard library only, no I/O.
"""

from __future__ import annotations

from typing import Final

from penstock.proto.options.entry import GROUPS, Option
from penstock.proto.options.types import Number, Text

GROUP_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        name="group",
        type=Text("name"),
        entry_points=GROUPS,
        doc="The consumer group: what its readers commit is never handed out again. At most 200 letters, digits and "
        "`. _ - : @ /`.",
    ),
    Option(
        name="readerId",
        type=Text("name"),
        entry_points=GROUPS,
        doc="The reader within its group, one running reader a name: who joins under a name fences who had it before, "
        "and goes on with what that one held. Characters as of `group`.",
    ),
    Option(
        name="maxSplits",
        type=Number(1, 1000),
        default=4,
        entry_points=GROUPS,
        doc="Splits that a reader takes from its group at a time.",
    ),
)
