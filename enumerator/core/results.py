"""What deciding takes beside state and event, and what it gives. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.enumerator.core.records import Record
from penstock.proto.model.groups import EndOfGroup, Joined, NothingYet
from penstock.proto.model.positions import Position

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How long leases and plans last, when readers come back, when discovery pauses, how many groups there may be, and
    after how long without readers a group is deleted (None: never)."""

    lease_ms: int = 45_000
    retry_ms: int = 500
    max_pending_splits: int = 100_000
    max_rounds: int = 200
    plan_ttl_ms: int = DAY_MS
    max_plans: int = 2_000
    max_held_splits: int = 2_000_000
    max_groups_of_table: int = 1_000
    max_groups_of_principal: int = 1_000
    group_expiry_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GrantedSplit:
    """A split to be handed out: where it is, from which ordinal on it is to be read, the end of its round's range."""

    plan_id: str
    index: int
    start: int
    position: Position


@dataclass(frozen=True, slots=True)
class SplitsGranted:
    """The answer to a request for splits of a group: these."""

    splits: tuple[GrantedSplit, ...]


@dataclass(frozen=True, slots=True)
class PlanHeld:
    """The plan that was opened, or that an earlier call of the same request id opened."""

    plan_id: str


@dataclass(frozen=True, slots=True)
class Entry:
    """There is an answer to (plan, slot, index) now: `HeldPlan.assigner` has it. `replayed` if it was told before."""

    plan_id: str
    slot: int
    index: int
    replayed: bool


@dataclass(frozen=True, slots=True)
class Reported:
    """The report was taken; `is_first` of its entry."""

    is_first: bool


@dataclass(frozen=True, slots=True)
class Committed:
    """What of the call was new: these splits, (plan id, index), are finished now and were not before."""

    finished: tuple[tuple[str, int], ...]


Answer = Joined | SplitsGranted | NothingYet | EndOfGroup | PlanHeld | Entry | Reported | Committed | None


@dataclass(frozen=True, slots=True)
class Step:
    """What was decided, in order, and what the caller is told once it is remembered."""

    records: tuple[Record, ...] = ()
    answer: Answer = None
