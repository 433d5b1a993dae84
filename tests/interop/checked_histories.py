"""Coverage of the histories of a run and the number of comparisons, reported at its end, also after failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pytest

from tests.interop.history_actions import Action, Shape, Write
from tests.interop.history_options import VALUES, Options

OPERATIONS = (
    *("insert", "upsert", "bulk_insert", "delete", "insert_overwrite", "insert_overwrite_table"),
    *("PartialUpdate", "DropPartition", "Service", "LogCompaction", "Savepoint", "Restore", "Upgrade", "EmptyCommit"),
    *("Crash", "Race", "Rollback"),
)


@dataclass(frozen=True, slots=True)
class CheckedHistory:
    """One history that was compared."""

    release: str
    actions: int
    done: int
    compared: int
    differs: bool
    failures: tuple[str, ...]
    met: Counter[tuple[str, str, str]]

    @classmethod
    def of(cls, history_checker: Any) -> CheckedHistory:
        """The history that a checker compared."""
        history = history_checker.played_history.history
        return cls(
            history.shape.release,
            len(history.actions),
            history_checker.done,
            history_checker.compared,
            bool(history_checker.problems),
            tuple(history_checker.failures),
            met(history.shape, history.actions[: history_checker.done]),
        )


CHECKED_HISTORIES = pytest.StashKey[list[CheckedHistory]]()


def met(shape: Shape, actions: Sequence[Action]) -> Counter[tuple[str, str, str]]:
    """(option, value, operation) -> how often the operation ran on a table with that value."""
    values = [(name, getattr(shape, name)) for name in (one.name for one in fields(Shape)) if name != "options"]
    values += [(one.name, getattr(shape.options, one.name)) for one in fields(Options) if one.name != "columns"]
    values += [("columns", name) for name in shape.options.columns]
    operations = [action.operation if isinstance(action, Write) else type(action).__name__ for action in actions]
    return Counter((name, str(value), operation) for name, value in values for operation in operations)


def coverage(checked_histories: Sequence[CheckedHistory]) -> Iterator[str]:
    """A table of the coverage: one row per value of each option, one column per operation."""
    counts = sum((one.met for one in checked_histories), Counter())
    known = {(name, str(value)) for name, values in VALUES.items() for value in values}
    rows = sorted(known | {(name, value) for name, value, _ in counts})
    yield f"histories met {'':33}" + " ".join(f"{operation[:8]:>8}" for operation in OPERATIONS)
    for name, value in rows:
        numbers = [counts[name, value, operation] for operation in OPERATIONS]
        yield f"histories met {name + '=' + (value or 'none'):33}" + " ".join(
            f"{number or '-':>8}" for number in numbers
        )


def lines(checked_histories: Sequence[CheckedHistory]) -> Iterator[str]:
    """One line per release, then the first actions that Hudi could not run."""
    for release in sorted({one.release for one in checked_histories}):
        of_it = [one for one in checked_histories if one.release == release]
        yield (
            f"histories of Hudi {release}: {len(of_it)} read, {sum(one.differs for one in of_it)} differ, "
            f"{sum(one.done for one in of_it)} of {sum(one.actions for one in of_it)} actions, "
            f"{sum(one.compared for one in of_it)} answers compared"
        )
    if checked_histories:
        yield from coverage(checked_histories)
    for one in checked_histories:
        if one.done < one.actions and not one.differs and one.failures:
            yield f"histories: cut short: {one.failures[0][:400]}"
