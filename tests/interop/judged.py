"""How far histories went and how much was compared: said at the end of a run, whether it failed or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True, slots=True)
class Judged:
    """One history that was read."""

    release: str
    actions: int
    done: int
    compared: int
    differs: bool
    failures: tuple[str, ...]

    @classmethod
    def of(cls, witness: Any) -> Judged:
        """What a witness saw."""
        history = witness.tale.history
        return cls(
            history.shape.release,
            len(history.actions),
            witness.done,
            witness.compared,
            bool(witness.problems),
            tuple(witness.failures),
        )


JUDGED = pytest.StashKey[list[Judged]]()


def lines(judged: Sequence[Judged]) -> Iterator[str]:
    """A line for each release, then the first actions that Hudi itself could not do."""
    for release in sorted({one.release for one in judged}):
        of_it = [one for one in judged if one.release == release]
        yield (
            f"histories of Hudi {release}: {len(of_it)} read, {sum(one.differs for one in of_it)} differ, "
            f"{sum(one.done for one in of_it)} of {sum(one.actions for one in of_it)} actions, "
            f"{sum(one.compared for one in of_it)} answers compared"
        )
    for one in judged:
        if one.done < one.actions and not one.differs and one.failures:
            yield f"histories: cut short: {one.failures[0][:400]}"
