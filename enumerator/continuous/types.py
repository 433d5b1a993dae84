"""What following a table takes and gives. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.proto.model.positions import CommitRange, InstantTime, Position
from penstock.proto.model.queries import PlanRequest, RoundLimits
from penstock.proto.model.splits import Plan
from penstock.proto.model.streams import Progress as Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """What to look for behind a progress: `request.query` says of which kind, its bounds are ignored. `drained`:
    whatever was planned before is done."""

    request: PlanRequest
    progress: Progress
    limits: RoundLimits
    upto: Position | None = None
    drained: bool = True


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
    """One round: its plan, and the progress once it is consumed. `without` are instants that the plan leaves out.

    `reshaped` are partitions in which an instant of the range, or a service up to its end, replaced file groups: rows
    may have moved between groups there, so what comes later waits for what came before. `commits` counts its data
    instants, those that it holds in part included. `issued`: the time of the newest of them, and when it was planned.
    `lost_records`: of a topic, passed over because they had expired.
    """

    commit_range: CommitRange
    plan: Plan
    progress: Progress
    without: frozenset[InstantTime] = frozenset()
    reshaped: frozenset[str] = frozenset()
    commits: int = 0
    issued: Issued | None = None
    lost_records: int = 0


Advance = NothingNew | NextRound
