"""Settings, answers and results of `decide`. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from penstock.enumerator.core.records import PlanQuery, Record
from penstock.enumerator.core.slot_assigner import Assignment
from penstock.enumerator.core.writes.decide import WriteLimits
from penstock.proto.model.positions import Position

A_co = TypeVar("A_co", covariant=True)
"""The answer of an event."""

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Limits and durations of the coordinator."""

    lease_ms: int = 45_000
    """How long a reader stays a member without a call."""
    retry_ms: int = 500
    """After how long a reader that received no split asks again."""
    max_pending_splits: int = 100_000
    """Pending splits of a group at which discovery pauses."""
    max_rounds: int = 200
    """Open rounds of a group at which discovery pauses."""
    plan_ttl_ms: int = DAY_MS
    """How long a plan that nobody uses is held."""
    max_plans: int = 2_000
    """Plans that are held."""
    max_held_splits: int = 2_000_000
    """Splits of all held plans."""
    max_groups_of_table: int = 1_000
    """Groups of one table."""
    max_groups_of_principal: int = 1_000
    """Groups that the readers of one principal created."""
    max_group_tables_of_principal: int = 10_000
    """Tables of the groups over tables that the readers of one principal created; a table counts for each group."""
    group_expiry_ms: int | None = None
    """After how long without readers a group is deleted; None: never."""
    writes: WriteLimits = field(default_factory=WriteLimits)
    """Limits and durations of writes."""


@dataclass(frozen=True, slots=True)
class GrantedSplit:
    """A split of a group that a reader received."""

    plan_id: str
    """Plan id of its round."""
    index: int
    """Its index in the round."""
    start: int
    """Ordinal of the first row that is not committed."""
    position: Position
    """End of the round's range."""
    table: str = ""
    """Its table, if the group is over tables; '' otherwise."""
    epoch: int = 0
    """The epoch of the member in the group of that table; 0 otherwise."""
    watermark_us: int | None = None
    """The watermark of the group of its table; None: unknown."""


@dataclass(frozen=True, slots=True)
class SplitsGranted:
    """Answer to a reader's request: splits, in the order to be read."""

    splits: tuple[GrantedSplit, ...]
    """The splits."""
    watermark_us: int | None = None
    """The watermark of the group; None: unknown, or the group is over tables."""


@dataclass(frozen=True, slots=True)
class PlanHeld:
    """The held plan; an earlier call with the same request id may have opened it."""

    plan_id: str
    """Its id."""
    slots: int
    """How many slots may pull from it."""
    splits: int
    """How many splits it has."""
    size_bytes: int
    """Size of its splits."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry `index` of the list of a slot."""

    assignment: Assignment
    """A split, or the end of the list; whether an earlier call received it."""
    table: str
    """Table of the plan."""
    query: PlanQuery
    """Query of the plan."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The report of an entry was accepted."""

    is_first: bool
    """Whether the entry had no report yet."""
    table: str
    """Table of the plan."""
    query: PlanQuery
    """Query of the plan."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit was accepted."""

    finished: tuple[tuple[str, int], ...]
    """Plan id and index of the splits that this commit finished."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[A_co]):
    """The result of `decide`."""

    records: tuple[Record, ...]
    """What changes, in order."""
    answer: A_co
    """Answer to the caller, once the records are durable."""


def changes(*records: Record) -> Decision[None]:
    """A decision without an answer."""
    return Decision(records, None)
