"""The sequential model of one split of a group, and the search for an order of calls that the model allows.

A split is held by one member at a time. It is handed out from the row after the last committed one, and never after it
was finished. A member that lost it to another reader does not hold it again. Leases end at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Session = tuple[str, int]
"""Reader id and epoch."""


@dataclass(frozen=True, slots=True)
class Step:
    """A call's effect on the split, somewhere between its question and its answer."""

    where: str
    from_ns: int
    until_ns: int
    session: Session
    is_commit: bool
    """Otherwise the split is handed out."""
    ordinal: int
    """The row that it starts at, or up to which it is committed."""
    is_finished: bool = False
    must_count: bool = True
    """Whether it certainly had its effect."""

    def __str__(self) -> str:
        what = f"commits up to row {self.ordinal}" if self.is_commit else f"receives it from row {self.ordinal} on"
        ending = ", the end" if self.is_finished else ""
        return f"{self.session[0]} (epoch {self.session[1]}) {what}{ending}{'' if self.must_count else ', perhaps'}"


@dataclass(frozen=True, slots=True)
class SplitState:
    """A split in the model."""

    holder: Session | None = None
    ordinal: int = 0
    done_by: str = ""
    lost: frozenset[Session] = frozenset()
    """Members that lost the split."""

    def after(self, step: Step) -> SplitState | None:
        """The state after the step; None: the model does not allow it."""
        return self._committed(step) if step.is_commit else self._handed_out(step)

    def _handed_out(self, step: Step) -> SplitState | None:
        if self.done_by or step.ordinal != self.ordinal or step.session in self.lost:
            return None
        if self.holder is None or self.holder == step.session:
            return SplitState(step.session, self.ordinal, "", self.lost)
        if self.holder[0] == step.session[0] and self.holder[1] > step.session[1]:
            return None
        return SplitState(step.session, self.ordinal, "", self.lost | {self.holder})

    def _committed(self, step: Step) -> SplitState | None:
        reader_id, epoch = step.session
        if self.done_by:
            return self if self.done_by == reader_id else None
        if self.holder is None or self.holder[0] != reader_id or self.holder[1] > epoch or step.session in self.lost:
            return None
        ordinal = max(self.ordinal, step.ordinal)
        return SplitState(step.session, ordinal, reader_id if step.is_finished else "", self.lost)


@dataclass(frozen=True, slots=True)
class Ordered:
    """The result of a search: the first steps of the longest order, its last state, and the steps that do not fit."""

    order: tuple[Step, ...]
    state: SplitState
    stuck: tuple[Step, ...]


def ordered(steps: Sequence[Step], initial: SplitState) -> Ordered:
    """Searches an order of all steps that must count, and of any of the others, that the model allows and in which no
    step comes before one that ended before it began."""
    all_steps = sorted(steps, key=lambda step: step.from_ns)
    everything = frozenset(range(len(all_steps)))
    best = Ordered((), initial, tuple(all_steps))
    stack: list[tuple[frozenset[int], SplitState, tuple[int, ...]]] = [(everything, best.state, ())]
    seen: set[tuple[frozenset[int], SplitState]] = set()
    while stack:
        left, state, order = stack.pop()
        if (left, state) in seen:
            continue
        seen.add((left, state))
        musts = [index for index in left if all_steps[index].must_count]
        if len(order) > len(best.order) or not musts:
            chosen = tuple(all_steps[index] for index in order)
            best = Ordered(chosen, state, tuple(all_steps[index] for index in sorted(musts)))
        if not musts:
            return best
        first_end = min(all_steps[index].until_ns for index in musts)
        for index in sorted(left, reverse=True):
            step = all_steps[index]
            if step.from_ns <= first_end and (after := state.after(step)) is not None:
                stack.append((left - {index}, after, (*order, index)))
    return best
