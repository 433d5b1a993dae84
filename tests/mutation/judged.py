"""Mutants that no test can detect, because the program is the same, each with the reason."""

from __future__ import annotations

from typing import Final, NamedTuple


class Equivalent(NamedTuple):
    """A change that is no change of the behavior. Numbers of mutants change with the code, so the lines identify it."""

    function: str
    """Module and function, as in mutmut's name without the number."""
    removed: str
    """The changed lines, joined by a space."""
    added: str
    """What is there instead."""
    reason: str
    """Why no test can detect it."""


CORE: Final = "penstock.enumerator.core."
EQUIVALENT: Final = (
    Equivalent(
        CORE + "over_tables.x_add",
        "number=0,",
        "number=1,",
        "an example from which `_of_tables` takes all but the number",
    ),
    Equivalent(
        CORE + "over_tables.x_joined",
        "records.append(_bind(group.key, join.epoch + 1 + len(records), join))",
        "records.append(_bind(group.key, join.epoch + 2 + len(records), join))",
        "epochs must be new and rise; no decision depends on a gap between them",
    ),
    Equivalent(
        CORE + "state.x__commit",
        "group.readers[holder].held.pop((plan_id, index), None)",
        "group.readers[holder].held.pop((plan_id, index), )",
        "the holder of a split always holds it, so that the default is not used",
    ),
    Equivalent(
        CORE + "slot_assigner.xǁSlotAssignerǁnext",
        "self._started[slot] = True",
        "self._started[slot] = None",
        "each call offers the slot's share again, and a second offer of the same share changes no answer",
    ),
)
