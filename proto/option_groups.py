"""The options that consumer groups alone have: a part of the one registry (`options`).

Standard library only, no I/O.
"""

from __future__ import annotations

from typing import Final

from penstock.proto.option_entries import GROUPS, Option
from penstock.proto.option_types import Choice, Number, Text

GROUP_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        name="maxFilesPerTrigger",
        type=Number(0, 2**63 - 1),
        default=0,
        doors=GROUPS,
        doc="At most so many files a round of a consumer group, which may end inside a commit; 0: no cap. The caps of "
        "a round count when the group is made, and a round holds at least one file group.",
    ),
    Option(
        name="maxBytesPerTrigger",
        type=Number(0, 2**63 - 1),
        default=0,
        doors=GROUPS,
        doc="At most so many bytes on storage a round of a consumer group; 0: no cap.",
    ),
    Option(
        name="maxRowsPerTrigger",
        type=Number(0, 2**63 - 1),
        default=0,
        doors=GROUPS,
        doc="At most so many rows, as commits tell them, a round of a consumer group; 0: no cap.",
    ),
    Option(
        name="group",
        type=Text("name"),
        doors=GROUPS,
        doc="The consumer group: what its readers commit is never handed out again. At most 200 letters, digits and "
        "`. _ - : @ /`.",
    ),
    Option(
        name="readerId",
        type=Text("name"),
        doors=GROUPS,
        doc="The reader within its group, one running reader a name: who joins under a name fences who had it before, "
        "and goes on with what that one held. Characters as of `group`.",
    ),
    Option(
        name="onLostRange",
        type=Choice(("fail", "earliest", "snapshot")),
        doors=GROUPS,
        doc="What a consumer group does when the range behind its position can no longer be answered exactly, for "
        "files or instants were cleaned away. Not given, or `fail`: it stops and says what is lost. `earliest`: it "
        "goes on with what is still there, and reports the gap. `snapshot`: it hands out the table's rows anew, and "
        "goes on behind them (rows alone, not changes).",
    ),
    Option(
        name="maxSplits",
        type=Number(1, 1000),
        default=4,
        doors=GROUPS,
        doc="Splits that a reader takes from its group at a time.",
    ),
)
