"""Readers of a group over a scripted table, and what must hold of what they are handed, whatever happens to calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from penstock.enumerator.core.state import Group
from penstock.proto.model.groups import AssignedSplit, Assignments, EndOfGroup, Member, SplitProgress
from penstock.proto.model.splits import Split
from tests.unit.enumerator.test_service import World


@dataclass
class Checked:
    """A world whose splits' fates are checked: each is finished once, by whoever holds it, those of a file group in the
    order of commits, and no two readers hold splits of a file group of which the earlier is not done."""

    world: World
    finished: list[str] = field(default_factory=list)

    @property
    def group(self) -> Group:
        [group] = self.world.service.coordinator.read(lambda state: list(state.groups.values()))
        return group

    def finish(self, member: Member, splits: tuple[AssignedSplit, ...]) -> None:
        """Commits them, and takes down what that finished."""
        before = self.open_splits()
        done = tuple(SplitProgress(ref=one.ref, ordinal=5, finished=True) for one in splits)
        try:
            self.world.service.commit_splits(member, done)
        finally:
            self.finished += sorted(before - self.open_splits())

    def open_splits(self) -> set[str]:
        """Ids of planned splits that are not done."""
        plan_store = self.world.service.coordinator.plan_store
        return {
            split.split_id
            for plan_id, one in self.group.rounds.items()
            for split in plan_store.splits(
                plan_id, [index for index in range(len(one.facts)) if one.status[index] != 2]
            )
        }

    def check_holders(self) -> None:
        """A split has one holder; of a file group nobody holds a later split while another's earlier one is open."""
        holders: dict[str, set[str]] = {}
        for plan_id, one in self.group.rounds.items():
            splits: list[Split] = self.world.service.coordinator.plan_store.splits(plan_id, list(one.holders))
            for split, holder in zip(splits, one.holders.values(), strict=True):
                holders.setdefault(split.file_group, set()).add(holder)
        assert all(len(readers) == 1 for readers in holders.values()), holders

    def check_end(self, commits: int, splits: int) -> None:
        """All of `commits` rounds was finished once, those of a file group in order."""
        assert Counter(self.finished) == Counter(f"{n}/{s}" for n in range(1, commits + 1) for s in range(splits))
        for group in range(splits):
            mine = [int(name.split("/")[0]) for name in self.finished if name.endswith(f"/{group}")]
            assert mine == sorted(mine)


def assigned_splits(answer: object) -> tuple[AssignedSplit, ...]:
    """The splits of an answer, if it has some."""
    return answer.splits if isinstance(answer, Assignments) else ()


def is_end(answer: object) -> bool:
    return isinstance(answer, EndOfGroup)
