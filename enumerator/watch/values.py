"""What following a table takes and gives. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.proto.positions import CommitRange, InstantTime, Position
from penstock.proto.queries import PlanRequest, RoundLimits
from penstock.proto.splits import Plan


@dataclass(frozen=True, slots=True)
class Progress:
    """What was consumed of a table, and what must be remembered so that nothing is missed or doubled.

    `layout` is the timeline layout that `position` belongs to. `consumed` are the requested times of the data instants
    at or behind the position that were active when it moved there: one that is seen completed later is late, one that
    is gone without having been archived was rolled back; one that the position lies inside is among them, and if all
    were archived the newest is kept. `ahead` are consumed instants whose order key lies beyond the position (after an
    upgrade mapped it): they are left out of ranges until it passes them. `table_id` is the table's name in its
    properties, for error texts: another table in its place is told by its instants. `layout` 0: not looked up yet, the
    next look fills in all but the position.
    """

    position: Position
    layout: int = 0
    consumed: frozenset[InstantTime] = field(default_factory=frozenset)
    ahead: frozenset[InstantTime] = field(default_factory=frozenset)
    table_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What to look for behind a progress: `request.query` says of which kind, its bounds are ignored."""

    request: PlanRequest
    progress: Progress
    limits: RoundLimits
    upto: Position | None = None


@dataclass(frozen=True, slots=True)
class NothingNew:
    """Nothing completed behind the position; it does not move. `seen_ms` is the clock when the table was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """An instant's time in UTC milliseconds since 1970, and how long behind it the wall clock was."""

    instant_ms: int
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRound:
    """One round: its plan, and the progress once it is consumed.

    `reshaped` are partitions in which an instant of the range, or a service up to its end, replaced file groups: rows
    may have moved between groups there, so what comes later waits for what came before. `commits` counts its data
    instants, those that it holds in part included. `issued`: the time of the newest of them, and when it was planned.
    """

    commit_range: CommitRange
    plan: Plan
    progress: Progress
    reshaped: frozenset[str] = frozenset()
    commits: int = 0
    issued: Issued | None = None


Advance = NothingNew | NextRound
