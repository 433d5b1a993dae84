"""What is searched: small scopes of one group and of one plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.state_space.group_table import FIRST, LATE, SECOND, Scope, SplitRows
from tests.state_space.group_world import FAULTS, LOSSES

_A: Final = SplitRows("a", (1, 5))
_B: Final = SplitRows("b", (3,))
_C: Final = SplitRows("a", (7,))
_LATE: Final = SplitRows("a", (6,))

TWO_SPLITS: Final = Scope(
    "two splits of a row",
    {FIRST: (SplitRows("a", (1,)),), LATE: (_LATE,), SECOND: (_C,)},
    frozenset(FAULTS),
    most_faults=2,
)
"""Two commits of one file group, each of a row."""
THREE_SPLITS: Final = Scope(
    "three splits", {FIRST: (_A, _B), LATE: (_LATE,), SECOND: (_C,)}, frozenset(FAULTS), most_faults=1
)
"""The first commit has a second file group, and a split of two rows, which may be committed one by one."""
ONE_AT_A_TIME: Final = replace(THREE_SPLITS, name="three splits, one at a time", most_splits=1)
REPLACED: Final = replace(THREE_SPLITS, name="three splits, the second commit replaces", reshaped=frozenset({SECOND}))
TIMED: Final = replace(THREE_SPLITS, name="three splits with a watermark", is_timed=True)
WITH_END: Final = replace(THREE_SPLITS, name="three splits with an end", has_end=True)
LOST: Final = replace(
    THREE_SPLITS,
    name="three splits, onLostRange=earliest",
    faults=frozenset({*FAULTS, *LOSSES}),
    goes_on_after_loss=True,
)
PARTS: Final = replace(
    THREE_SPLITS,
    name="three splits, a lease ends and a restart",
    faults=frozenset({"lease expired", "restart"}),
    most_faults=2,
)
"""A lease that ends and a restart, around commits of a part of a split."""

IN_CI: Final = (TWO_SPLITS, THREE_SPLITS, ONE_AT_A_TIME, REPLACED, TIMED, WITH_END, LOST, PARTS)
FOUR_KINDS: Final = frozenset({"lease expired", "restart", "answer lost", "request doubled"})
"""Faults of processes and of the network."""
LONG: Final = (
    replace(TWO_SPLITS, name="two splits", commits={FIRST: (_A,), LATE: (_LATE,), SECOND: (_C,)}),
    replace(TWO_SPLITS, name="two splits of a row, four kinds", faults=FOUR_KINDS, most_faults=4),
    replace(TWO_SPLITS, most_faults=3),
    *(replace(each, most_faults=2) for each in (THREE_SPLITS, ONE_AT_A_TIME, REPLACED, TIMED, WITH_END, LOST)),
)
WITHOUT_FAULTS: Final = replace(THREE_SPLITS, name="three splits without faults", most_faults=0)
