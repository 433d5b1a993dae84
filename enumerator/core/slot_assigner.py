"""Assigns splits to slots: an append-only list per slot, from its own share first, then by work stealing.

Pure: a state machine over indices of the plan's splits, without a clock or a lock. Repeated scans, retries, speculative
attempts and `take(1)` in Spark get the same splits: the list of a slot is written once and then replayed, and a slot
that never ran keeps its share. A `HeldPlan` has the lists of its slots.
"""

from __future__ import annotations

import enum
import heapq
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.core.split_facts import SplitFacts
from penstock.proto.errors import ConfigurationError, InvariantViolation, UnknownSplit
from penstock.proto.model.reports import SplitReport

MAX_AUTO_SLOTS: Final = 1000
SLOT_BYTES: Final = 128 << 20
"""Bytes of a slot, if the planner chooses the number of slots."""
OPEN_COST_BYTES: Final = 4 << 20
"""The weight of opening a split, so that many tiny splits count."""
TASK_COST_BYTES: Final = 16 << 20
"""Least bytes of a slot: to start a task takes about as long as to read this many bytes."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """An entry of a slot's list."""

    split: int
    """Index of the split in the plan."""
    replayed: bool
    """Whether an earlier call received it."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """The end of a slot's list, which does not grow any more."""

    replayed: bool
    """Whether an earlier call received it."""


Assignment = Assigned | Sealed


def choose_slots(splits: int, size_bytes: int, requested: int, cpus: int) -> int:
    """How many slots a plan gets: none without splits, never more than splits.

    `requested` 0 lets us choose: one for each CPU (at least two) as long as each holds TASK_COST_BYTES, and as many
    more as SLOT_BYTES a slot asks for; at most MAX_AUTO_SLOTS.
    """
    if requested < 0:
        raise ConfigurationError(f"slots: got {requested}, expected 0 (let the planner choose) or more")
    if requested > 0:
        return min(requested, splits)
    worth = (size_bytes + splits * OPEN_COST_BYTES) // TASK_COST_BYTES
    return min(splits, max(1, min(max(2, cpus), worth), -(-size_bytes // SLOT_BYTES)), MAX_AUTO_SLOTS)


def shares(sizes_bytes: Sequence[int], slots: int) -> tuple[tuple[int, ...], ...]:
    """Each slot's reserved share: indices of splits, ascending (plan order) inside each slot.

    Longest first onto the slot with the least so far, ties to the lower index and slot: no slot is above 4/3 of the
    best possible balance. Same sizes, same shares. With at least as many splits as slots no share is empty, since a
    split weighs at least one byte.
    """
    members: list[list[int]] = [[] for _ in range(slots)]
    lightest = [(0, slot) for slot in range(slots)]
    for split in sorted(range(len(sizes_bytes)), key=lambda i: (-sizes_bytes[i], i)):
        weight, slot = lightest[0]
        members[slot].append(split)
        heapq.heapreplace(lightest, (weight + max(1, sizes_bytes[split]), slot))
    return tuple(tuple(sorted(share)) for share in members)


class SlotAssigner:
    """The assigner of a plan: reserved shares, then stealing from slots that have started.

    A slot has started once it was asked at all. It takes its own share in plan order; then, from the started slot with
    the most bytes left, the first split in plan order; when no started slot has any left, its list is sealed. A split
    taken is in exactly one list. The share of a slot that never started stays its own, however long the others wait
    for it: a `take(1)` does not end up owning the table.
    """

    def __init__(self, sizes_bytes: Sequence[int], slots: int) -> None:
        if slots < 0 or (sizes_bytes and not slots):
            raise InvariantViolation(f"{slots} slots for {len(sizes_bytes)} splits")
        self._sizes = tuple(max(1, size) for size in sizes_bytes)
        self._pending = [deque(share) for share in shares(self._sizes, slots)]
        self._pending_bytes = [sum(self._sizes[split] for split in share) for share in self._pending]
        self._lists: list[list[int]] = [[] for _ in range(slots)]
        self._started = [False] * slots
        self._sealed = [False] * slots
        self._open_slots = slots
        self._steal_candidates: list[tuple[int, int]] = []
        """Heap of (-bytes left, slot) of started slots; entries that are out of date stay until they are at the top."""

    @property
    def slots(self) -> int:
        """How many slots there are; they are numbered from 0."""
        return len(self._lists)

    def length(self, slot: int) -> int:
        """How many splits the slot's list holds."""
        self._check_slot(slot)
        return len(self._lists[slot])

    def entry(self, slot: int, index: int) -> Assignment | None:
        """Entry `index` of the slot's list; None if the list ends before it and may grow. UnknownSplit as in `next`."""
        self._check_slot(slot)
        splits = self._lists[slot]
        if 0 <= index < len(splits):
            return Assigned(splits[index], replayed=True)
        if index != len(splits):
            raise UnknownSplit(
                f"slot {slot} has {len(splits)} splits so far: got index {index}, expected 0 to {len(splits)}; "
                "entries are asked for one after the other"
            )
        return Sealed(replayed=True) if self._sealed[slot] else None

    def upcoming(self, slot: int) -> Assignment:
        """What `next` will append to the slot's list, which is not sealed. Changes nothing that `next` depends on."""
        owner = self._owner(slot)
        return Sealed(replayed=False) if owner is None else Assigned(self._pending[owner][0], replayed=False)

    def _owner(self, slot: int) -> int | None:
        """The slot whose share has the slot's next split: its own, else the most loaded one."""
        return slot if self._pending[slot] else self._most_loaded()

    def next(self, slot: int, index: int) -> Assignment:
        """Entry `index` of the slot's list, which grows by one if `index` is its length.

        The answer to a (slot, index) never changes. UnknownSplit for a slot that does not exist, or an index after the
        end of the list.
        """
        before = self.entry(slot, index)
        if before is not None:
            return before
        if not self._started[slot]:
            self._started[slot] = True
            self._offer(slot)
        owner = self._owner(slot)
        if owner is None:
            self._sealed[slot] = True
            self._open_slots -= 1
            return Sealed(replayed=False)
        split = self._pending[owner].popleft()
        self._pending_bytes[owner] -= self._sizes[split]
        self._offer(owner)
        self._lists[slot].append(split)
        return Assigned(split, replayed=False)

    def holds(self, slot: int, index: int) -> bool:
        """Whether the slot's list has an entry `index`; the end of the list is not an entry."""
        self._check_slot(slot)
        return 0 <= index < len(self._lists[slot])

    def finished(self) -> bool:
        """Whether every slot's list is sealed, and so every split assigned."""
        return self._open_slots == 0

    def _check_slot(self, slot: int) -> None:
        if not 0 <= slot < len(self._lists):
            raise UnknownSplit(f"no slot {slot}: the plan has {len(self._lists)} slots, numbered from 0")

    def _offer(self, slot: int) -> None:
        """Makes the rest of the share of this slot available to started slots."""
        if self._pending[slot]:
            heapq.heappush(self._steal_candidates, (-self._pending_bytes[slot], slot))

    def _most_loaded(self) -> int | None:
        while self._steal_candidates:
            weight, slot = self._steal_candidates[0]
            if self._pending[slot] and -weight == self._pending_bytes[slot]:
                return slot
            heapq.heappop(self._steal_candidates)
        return None


# --- held plans


class QueryKind(enum.Enum):
    """The kind of query of a held plan. The values are persisted: kinds are added, their values never change."""

    SNAPSHOT = "Snapshot"
    """The newest state of the table."""
    SNAPSHOT_AS_OF = "SnapshotAsOf"
    """The state of the table at an instant."""
    SNAPSHOT_PART = "SnapshotPart"
    """A part of the snapshot with which a stream begins."""
    READ_OPTIMIZED = "ReadOptimized"
    """Base files only."""
    INCREMENTAL = "Incremental"
    """Rows that a range of commits wrote."""
    CHANGES = "Changes"
    """Changes of a range of commits (CDC)."""
    TOPIC_RANGES = "TopicRanges"
    """Ranges of offsets of a Kafka topic."""
    OTHER = "Other"
    """A kind that this release does not have, in a record of another release."""


@dataclass(frozen=True, slots=True)
class PlanQuery:
    """The query of a held plan."""

    kind: QueryKind
    """The kind of query."""
    of_stream: bool = False
    """Whether the plan is a batch of a stream."""

    def __str__(self) -> str:
        return self.kind.value + (_OF_STREAM if self.of_stream else "")

    @classmethod
    def parse(cls, name: str) -> PlanQuery:
        """The inverse of `str`: the form of records and log lines. QueryKind.OTHER for a kind of another release."""
        kinds = {kind.value: kind for kind in QueryKind}
        return cls(kinds.get(name.removesuffix(_OF_STREAM), QueryKind.OTHER), name.endswith(_OF_STREAM))


_OF_STREAM: Final = "Stream"
"""Follows the kind in records and log lines if the plan is a batch of a stream."""


@dataclass(slots=True)
class HeldPlan:
    """A plan of the plan API."""

    plan_id: str
    """Its id."""
    request_id: str
    """Id of the request that opened it; '' if it had none."""
    table: str
    """Name of the table."""
    query: PlanQuery
    """Its query."""
    facts: SplitFacts
    """Sizes of its splits."""
    assigner: SlotAssigner
    """The lists of its slots."""
    asked: array[int] = field(default_factory=lambda: array("I"))
    """The slots whose lists grew or were sealed, in order."""
    reports: dict[tuple[int, int], SplitReport] = field(default_factory=dict)
    """Reports of readers by (slot, index)."""
    used_ms: int = 0
    """When it was last used."""
    stream: str = ""
    """Id of the stream whose batch it is, or ''."""
    digest: str = ""
    """Digest of the content of its request; '' in a state of a release that kept none."""

    @property
    def is_settled(self) -> bool:
        """Whether every list is sealed and every split is reported."""
        return self.assigner.finished() and len(self.reports) == len(self.facts)
