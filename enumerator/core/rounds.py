"""An open round of a group: which splits are pending, held or done, and which must wait for earlier splits; and the
watermark of the group, below every event time that may still be committed: of splits that are pending, of splits that
readers hold, and of known commits that are not planned yet. All its inputs are durable.

Pure; only `apply` changes a round. A round may have a million splits: arrays hold what all splits have, dictionaries
only what held, returned and partly finished splits have.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.enumerator.core.split_facts import Numbers, SplitFacts
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.streams.watermark import next_watermark
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.positions import CommitRange
from penstock.proto.model.streams import END_OF_TIME_US, EventTimeRule, Watermark

PENDING: Final = 0
"""No reader holds the split."""
HELD: Final = 1
"""A reader holds the split."""
DONE: Final = 2
"""The split is finished."""
NO_ROWS: Final = EventTimeSpan()


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
    by_low: Numbers | None = None
    """Indices of the splits, sorted by the lower bound of their event times; None if the bounds are not known."""
    low_cursor: int = 0
    """The first place in `by_low` whose split is not finished."""

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
            by_low=None if facts.lows_us is None else np.argsort(facts.lows_us, kind="stable").astype(np.int64),
        )

    @property
    def is_finished(self) -> bool:
        """Whether every split is done."""
        return self.done == len(self.facts)

    @property
    def pending(self) -> int:
        """How many splits nobody holds."""
        return len(self.facts) - self.done - len(self.holders)

    def remaining_span(self) -> EventTimeSpan:
        """The span of the event times of all splits that are not finished. Its upper bound is not given."""
        if self.is_finished:
            return EventTimeSpan()
        lows = self.facts.lows_us
        if self.by_low is None or lows is None:
            return EventTimeSpan(is_unbounded=True)
        low_us = int(lows[self.by_low[self.low_cursor]])
        return EventTimeSpan(is_unbounded=True) if low_us == np.iinfo(np.int64).min else EventTimeSpan(low_us=low_us)

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
        if self.by_low is not None:
            while self.low_cursor < len(self.by_low) and self.status[self.by_low[self.low_cursor]] == DONE:
                self.low_cursor += 1


# --- the watermark of a group: the algorithm is that of streams (`streams.watermark`)


def span_to_come(rounds: Iterable[Round], coming: EventTimeSpan) -> EventTimeSpan:
    """The span of all rows that are not committed: of unfinished splits of the open rounds, and of `coming`, the known
    commits that are not planned."""
    span = coming
    for open_round in rounds:
        span |= open_round.remaining_span()
    return span


def advanced(
    before: Watermark,
    rule: EventTimeRule | None,
    rounds: Iterable[Round],
    coming: EventTimeSpan,
    planned: EventTimeSpan = NO_ROWS,
) -> Watermark:
    """The watermark after a change of the open rounds or of `coming`. `planned`: the span of a round that is new.

    It never decreases. Without a rule it stays the same.
    """
    return before if rule is None else next_watermark(before, planned, span_to_come(rounds, coming), rule)


def after_silence(
    watermark: Watermark, timeout_us: int, quiet_since_us: int | None, now_us: int
) -> tuple[Watermark, int]:
    """The watermark of an idle group, advanced by each whole timeout since the group became idle, and the time from
    which the next timeout counts. The times are of one process: a restart begins again."""
    since_us = now_us if quiet_since_us is None else quiet_since_us
    passed = max(0, now_us - since_us) // timeout_us
    since_us += passed * timeout_us
    if watermark.at_us is None or not passed:
        return watermark, since_us
    at_us = max(watermark.at_us, min(watermark.at_us + passed * timeout_us, END_OF_TIME_US))
    return Watermark(at_us, watermark.high_us), since_us
