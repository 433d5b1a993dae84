"""Readers of a group over a scripted table, and the invariants of split assignment under lost and repeated calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from penstock.enumerator.core.state import Group
from penstock.proto.model.groups import AssignedSplit, Assignments, EndOfGroup, Member, SplitProgress
from penstock.proto.model.splits import Split
from tests.unit.enumerator.scripted_service import World


@dataclass
class CheckedGroup:
    """A simulation that checks split assignment.

    Each split is finished once, by its holder. Splits of a file group are finished in the order of commits. No two
    readers hold splits of a file group while the earlier one is open.
    """

    world: World
    finished: list[str] = field(default_factory=list)

    @property
    def group(self) -> Group:
        [group] = self.world.service.coordinator.read(lambda state: list(state.groups.values()))
        return group

    def finish(self, member: Member, splits: tuple[AssignedSplit, ...]) -> None:
        """Commits the splits and records which of them became finished."""
        before = self.open_splits()
        done = tuple(SplitProgress(ref=one.ref, ordinal=5, finished=True) for one in splits)
        try:
            self.world.service.commit_splits(member, done)
        finally:
            self.finished += sorted(before - self.open_splits())

    def open_splits(self) -> set[str]:
        """Ids of planned splits that are not finished."""
        plan_store = self.world.service.coordinator.plan_store
        return {
            split.split_id
            for plan_id, one in self.group.rounds.items()
            for split in plan_store.splits(
                plan_id, [index for index in range(len(one.facts)) if one.status[index] != 2]
            )
        }

    def check_holders(self) -> None:
        """Each split has one holder. No reader holds a split of a file group while another holds an earlier one."""
        holders: dict[str, set[str]] = {}
        for plan_id, one in self.group.rounds.items():
            splits: list[Split] = self.world.service.coordinator.plan_store.splits(plan_id, list(one.holders))
            for split, holder in zip(splits, one.holders.values(), strict=True):
                holders.setdefault(split.file_group, set()).add(holder)
        assert all(len(readers) == 1 for readers in holders.values()), holders

    def check_end(self, commits: int, splits: int) -> None:
        """Every split of `commits` rounds was finished once, those of a file group in order."""
        assert Counter(self.finished) == Counter(f"{n}/{s}" for n in range(1, commits + 1) for s in range(splits))
        for group in range(splits):
            mine = [int(name.split("/")[0]) for name in self.finished if name.endswith(f"/{group}")]
            assert mine == sorted(mine)


def assigned_splits(answer: object) -> tuple[AssignedSplit, ...]:
    """The splits of an answer; empty for other answers."""
    return answer.splits if isinstance(answer, Assignments) else ()


def is_end(answer: object) -> bool:
    return isinstance(answer, EndOfGroup)
