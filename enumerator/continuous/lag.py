"""How far a group is behind its table, and what is left before the cleaner takes what it has not read.

Pure. Times of instants are wall clock in the timeline's zone; the shell (`retention`) says which that is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.enumerator.continuous.round_limits import amount_behind, data_instants_behind
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.model.positions import InstantTime, Position
from penstock.table.timeline.instants import Instant
from penstock.table.timeline.service_plans import CleanMetadata

if TYPE_CHECKING:
    from penstock.proto.model.groups import GroupLag

BY_HOURS = "KEEP_LATEST_BY_HOURS"


@dataclass(frozen=True, slots=True)
class Retention:
    """What the newest completed clean said. `cleaned_at` is its requested time."""

    cleaned_at: str
    clean: CleanMetadata


@dataclass(frozen=True, slots=True)
class Loss:
    """Data commits, and seconds, until the cleaner overtakes the next instant; None: unknown."""

    commits: int | None = None
    seconds: float | None = None


def lag_of(
    facts: TimelineFacts,
    committed: Position,
    ahead: frozenset[InstantTime],
    *,
    now_ms: int,
    completed_ms: Callable[[Instant], int | None],
    retention: Retention | None = None,
    zone: tzinfo | None = None,
) -> GroupLag:
    """The lag of a group that committed up to a position.

    `completed_ms` tells when an instant completed, in UTC milliseconds, None if nobody knows. `zone` is that of the
    timeline, None if unknown: then no seconds of loss are told.
    """
    from penstock.proto.model.groups import GroupLag  # late: streams without a group ask this module too

    commits, amount = amount_behind(facts, committed, ahead)
    behind = [item for _, instants in data_instants_behind(facts, committed) for item in instants]
    behind = [item for item in behind if item.requested_time not in ahead]
    completions = [known for item in behind if (known := completed_ms(item)) is not None]
    seconds = max(now_ms - min(completions), 0) / 1000 if completions else 0.0
    loss = loss_of(facts, behind, retention, now_ms=now_ms, zone=zone)
    return GroupLag(
        commits=commits,
        size_bytes=amount.size_bytes,
        seconds=seconds,
        loss_commits=loss.commits,
        loss_seconds=loss.seconds,
    )


def loss_of(
    facts: TimelineFacts, behind: list[Instant], retention: Retention | None, *, now_ms: int, zone: tzinfo | None
) -> Loss:
    """What is left for a group whose uncommitted data instants are `behind`; for one that is caught up, what would be
    left for the newest instant.

    The cleaner keeps what the commits from `earliestCommitToRetain` on need (Hudi `CleanPlanner`). Keeping a number of
    commits, each new one moves that by one: the commits left are those from it up to the next instant, and the seconds
    those times the mean time between the table's commits. Keeping hours, it moves with the clock. Nothing is known
    without a clean, or of a cleaner that keeps file versions.
    """
    earliest = retention.clean.earliest_to_retain if retention is not None else ""
    data = sorted(item.requested_time for item in facts.timeline.completed_writes if facts.is_data(item))
    if retention is None or not earliest or not data:
        return Loss()
    following = min((item.requested_time for item in behind), default=data[-1])
    kept = sum(earliest <= requested <= following for requested in data)
    if retention.clean.policy == BY_HOURS:
        return Loss(kept, _hours_left(following, retention, now_ms, zone))
    times = [at for requested in data if (at := instant_ms(requested, zone)) is not None]
    if len(times) < 2 or len(times) < len(data):
        return Loss(kept)
    mean_ms = sum(later - earlier for earlier, later in pairwise(times)) / (len(times) - 1)
    return Loss(kept, kept * mean_ms / 1000)


def _hours_left(following: str, retention: Retention, now_ms: int, zone: tzinfo | None) -> float | None:
    """The next instant is cleaned once it is older than what the clean kept."""
    ends = (retention.cleaned_at, retention.clean.earliest_to_retain, following)
    cleaned_ms, earliest_ms, following_ms = (instant_ms(text, zone) for text in ends)
    if cleaned_ms is None or earliest_ms is None or following_ms is None:
        return None
    return max(following_ms + (cleaned_ms - earliest_ms) - now_ms, 0) / 1000


def instant_ms(text: str, zone: tzinfo | None) -> int | None:
    """UTC milliseconds of an instant of 14 or 17 digits in the timeline's zone; None for another text or no zone."""
    if zone is None or len(text) not in (14, 17) or not text.isdigit():
        return None
    try:
        wall = datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=zone)
    except ValueError:
        return None
    return int(wall.timestamp()) * 1000 + int(text[14:] or "0")
