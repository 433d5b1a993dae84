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
PLANNER: Final = "penstock.enumerator.planning."
MERGE: Final = "penstock.reader.merge."
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
    Equivalent(
        PLANNER + "event_time.bounds.x_stated_us",
        "case _: return None",
        "",
        "a function without a return returns None",
    ),
    Equivalent(
        MERGE + "filling.x__gap_flags",
        "for answers, batch in zip(flags, batches, strict=True)",
        "for answers, batch in zip(flags, batches, strict=False)",
        "there is one flag for each batch",
    ),
    Equivalent(
        MERGE + "filling.x__gap_flags",
        "_truths(answers, batch.num_rows).to_numpy(zero_copy_only=False)",
        "_truths(answers, batch.num_rows).to_numpy(zero_copy_only=None)",
        "None is false, too",
    ),
    Equivalent(
        MERGE + "chains.x_chains",
        "deleted_at = np.full(count, -1, np.int64)",
        "deleted_at = np.full(count, -1, )",
        "NumPy's type of -1 is int64",
    ),
    Equivalent(
        MERGE + "keys.x__number_compiled",
        "slots = np.full(max(16, 1 << (2 * total - 1).bit_length() if total else 0), winners.EMPTY, np.int64)",
        "slots = np.full(max(16, 1 << (3 * total - 1).bit_length() if total else 0), winners.EMPTY, np.int64)",
        "a larger hash table has the same keys",
    ),
)
