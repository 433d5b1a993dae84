"""An open round of a group: which splits are pending, held or done, and which must wait for earlier splits.

Pure; only `apply` changes a round. A round may have a million splits: arrays hold what all splits have, dictionaries
only what held, returned and partly finished splits have.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.enumerator.core.split_facts import Numbers, SplitFacts
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.positions import CommitRange

PENDING: Final = 0
"""No reader holds the split."""
HELD: Final = 1
"""A reader holds the split."""
DONE: Final = 2
"""The split is finished."""


@dataclass(slots=True)
class Round:
    """An open round of a group."""

    number: int
    """Number of the round in its group; increases with each round."""
    plan_id: str
    """Plan id of the round."""
    commit_range: CommitRange
    """Range of the round."""
    facts: SplitFacts
    """Sizes and order of the splits."""
    reshaped: frozenset[int]
    """Hashes of the partitions whose file groups the round replaces."""
    commits: int
    """Number of commits in the range."""
    status: npt.NDArray[np.uint8]
    """PENDING, HELD or DONE, by split."""
    by_lane: Numbers
    """Indices of the splits, sorted by lane."""
    contended: npt.NDArray[np.bool_]
    """By split: whether it may have to wait for a split of an earlier round."""
    cursor: int = 0
    """The first split that was not yet considered for any reader."""
    skipped: list[int] = field(default_factory=list)
    """Pending splits before the cursor, ascending."""
    holders: dict[int, str] = field(default_factory=dict)
    """Reader id by held split."""
    ordinals: dict[int, int] = field(default_factory=dict)
    """Committed ordinal by partly finished split."""
    done: int = 0
    """Number of finished splits."""

    @classmethod
    def of(
        cls,
        number: int,
        plan_id: str,
        commit_range: CommitRange,
        facts: SplitFacts,
        reshaped: frozenset[int],
        commits: int,
        earlier: Sequence[Round],
    ) -> Round:
        """A new round after the open rounds `earlier`."""
        contended = np.zeros(len(facts), dtype=np.bool_)
        for older in earlier:
            contended |= np.isin(facts.lanes, older.facts.lanes)
        barriers = {partition for older in earlier for partition in older.reshaped} | reshaped
        if barriers:
            contended |= np.isin(facts.partitions, np.array(sorted(barriers), dtype=np.int64))
        return cls(
            number=number,
            plan_id=plan_id,
            commit_range=commit_range,
            facts=facts,
            reshaped=reshaped,
            commits=commits,
            status=np.zeros(len(facts), dtype=np.uint8),
            by_lane=np.argsort(facts.lanes, kind="stable").astype(np.int64),
            contended=contended,
        )

    @property
    def is_finished(self) -> bool:
        """Whether every split is done."""
        return self.done == len(self.facts)

    @property
    def pending(self) -> int:
        """How many splits nobody holds."""
        return len(self.facts) - self.done - len(self.holders)

    def pending_in_order(self) -> Iterator[int]:
        """Pending splits, ascending."""
        yield from tuple(self.skipped)
        for index in range(self.cursor, len(self.facts)):
            if self.status[index] == PENDING:
                yield index

    def first_with_others(self, reader_id: str) -> dict[int, int]:
        """By partition that this round reshaped: the first split that another reader holds."""
        first: dict[int, int] = {}
        for index, holder in self.holders.items() if self.reshaped else ():
            partition = int(self.facts.partitions[index])
            if holder != reader_id and partition in self.reshaped:
                first[partition] = min(index, first.get(partition, index))
        return first

    def open_in_lane(self, lane: int, reader_id: str, chosen: Collection[int]) -> bool:
        """Whether a split of the lane is not done, not the reader's own and not among those chosen for it."""
        lanes = self.facts.lanes
        first = int(np.searchsorted(lanes, lane, sorter=self.by_lane))
        for place in range(first, len(lanes)):
            index = int(self.by_lane[place])
            if lanes[index] != lane:
                return False
            if index not in chosen and self._is_open(index, reader_id):
                return True
        return False

    def open_in_partition(self, partition: int, reader_id: str, chosen: Collection[int]) -> bool:
        """As `open_in_lane`, for a partition."""
        if self.is_finished:
            return False
        there = np.flatnonzero((self.facts.partitions == partition) & (self.status != DONE))
        return any(index not in chosen and self._is_open(index, reader_id) for index in there.tolist())

    def _is_open(self, index: int, reader_id: str) -> bool:
        return self.status[index] == PENDING or (self.status[index] == HELD and self.holders[index] != reader_id)

    # --- changes, called by `apply` only

    def assign(self, index: int, reader_id: str) -> None:
        """The reader holds the split. The cursor moves after it, past pending splits that were considered."""
        if self.status[index] == HELD and self.holders[index] == reader_id:
            return
        if self.status[index] != PENDING:
            raise InvariantViolation(f"split {index} of round {self.plan_id} is not pending: {self.status[index]}")
        if index >= self.cursor:
            passed = np.flatnonzero(self.status[self.cursor : index] == PENDING) + self.cursor
            self.skipped.extend(int(place) for place in passed)
            self.cursor = index + 1
        else:
            del self.skipped[bisect.bisect_left(self.skipped, index)]
        self.status[index] = HELD
        self.holders[index] = reader_id

    def give_back(self, index: int) -> None:
        """The split is pending again."""
        del self.holders[index]
        self.status[index] = PENDING
        bisect.insort(self.skipped, index)

    def finish(self, index: int) -> None:
        """The split is done, whichever reader holds it. Does nothing if it is done already."""
        if self.status[index] == DONE:
            return
        self.holders.pop(index, None)
        if self.status[index] == PENDING and index < self.cursor:
            del self.skipped[bisect.bisect_left(self.skipped, index)]
        self.status[index] = DONE
        self.ordinals.pop(index, None)
        self.done += 1
