"""The lag of a group, and the time until the cleaner removes data that it has not read. Pure.

Times of instants are wall-clock times in the timeline's zone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.enumerator.continuous.round_limits import amount_after, data_instants_after
from penstock.enumerator.continuous.types import ReaderName, ReaderPlace
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.model.positions import Position
from penstock.table.timeline.instants import Instant
from penstock.table.timeline.services.plans import CleanMetadata
from penstock.table.timeline.services.recorded_holds import RecordedHold
from penstock.table.timeline.zones import instant_ms

if TYPE_CHECKING:
    from penstock.proto.model.groups import GroupLag

BY_HOURS = "KEEP_LATEST_BY_HOURS"


@dataclass(frozen=True, slots=True)
class Retention:
    """The newest completed clean."""

    cleaned_at: str
    """The requested time of the clean."""
    clean: CleanMetadata
    """Its metadata."""

    def hold_of(self, reader: ReaderName | None) -> RecordedHold | None:
        """The record of the clean that this reader holds the cleaner; None if it has none."""
        return next((hold for hold in self.clean.holds if (hold.kind, hold.name) == reader), None)


@dataclass(frozen=True, slots=True)
class Loss:
    """The margin until the cleaner reaches the next instant to read; None where unknown."""

    commits: int | None = None
    """In data commits."""
    seconds: float | None = None
    """In seconds."""


def lag_of(
    facts: TimelineFacts,
    reader: ReaderPlace,
    *,
    now_ms: int,
    completed_ms: Callable[[Instant], int | None],
    retention: Retention | None = None,
    zone: tzinfo | None = None,
    whole: TimelineFacts | None = None,
) -> GroupLag:
    """The lag of a reader.

    `completed_ms` is the completion time of an instant in UTC milliseconds, None if unknown. `zone` is that of the
    timeline; without it the seconds until loss are unknown. `whole` are the facts with the archived instants, which
    count for the bound of a reader that holds the cleaner, not for its lag. While a reader reads the state of the table
    with which it starts, it does not need the older instants, which count for its lag.
    """
    from penstock.proto.model.groups import GroupLag  # late import: streams without a group use this module too

    ahead = reader.progress.ahead
    commits, amount = amount_after(facts, reader.committed, ahead)

    def unread_after(known: TimelineFacts, position: Position) -> tuple[list[Instant], float]:
        """The data instants after a position, and the age of the oldest in seconds."""
        after = [item for _, instants in data_instants_after(known, position) for item in instants]
        unread = [item for item in after if item.requested_time not in ahead]
        completions = [known_ms for item in unread if (known_ms := completed_ms(item)) is not None]
        return unread, max(now_ms - min(completions), 0) / 1000 if completions else 0.0

    _, seconds = unread_after(facts, reader.committed)
    unread, unread_seconds = unread_after(whole or facts, reader.needed)
    loss = loss_of(facts, unread, retention, now_ms=now_ms, zone=zone)
    held = None
    if retention is not None and unread:
        held = held_loss(loss, retention.hold_of(reader.name), len(unread), unread_seconds)
    loss = held or loss
    return GroupLag(
        commits=commits,
        size_bytes=amount.size_bytes,
        seconds=seconds,
        loss_commits=loss.commits,
        loss_seconds=loss.seconds,
        holds_cleaner=held is not None,
    )


def held_loss(loss: Loss, hold: RecordedHold | None, unread: int, seconds: float) -> Loss | None:
    """The margin of a reader that holds the cleaner; None if it does not, or is beyond its bound. `loss` is the margin
    without the hold, `unread` the number of data instants that it has not read, `seconds` the age of the oldest."""
    if hold is None:
        return None
    if hold.commits is not None:
        left = hold.commits - unread + 1
        return Loss(commits=max(left, loss.commits or 0)) if left > 0 else None
    rest = (hold.seconds or 0.0) - seconds
    return Loss(seconds=max(rest, loss.seconds or 0.0)) if rest >= 0 else None


def loss_of(
    facts: TimelineFacts, unread: list[Instant], retention: Retention | None, *, now_ms: int, zone: tzinfo | None
) -> Loss:
    """The margin of a group whose uncommitted data instants are `unread`; for a group without lag, that of the newest
    instant.

    The cleaner keeps the files that commits from `earliestCommitToRetain` on need (Hudi `CleanPlanner`). If it keeps a
    number of commits, each new commit moves that limit by one: the margin is the commits from the limit up to the next
    instant, times the mean time between the table's commits. If it keeps hours, the limit moves with the clock. The
    margin is unknown without a clean, and for a cleaner that keeps file versions.
    """
    earliest = retention.clean.earliest_to_retain if retention is not None else ""
    data = sorted(item.requested_time for item in facts.timeline.completed_writes if facts.is_data(item))
    if retention is None or not earliest or not data:
        return Loss()
    following = min((item.requested_time for item in unread), default=data[-1])
    margin = sum(earliest <= requested <= following for requested in data)
    if retention.clean.policy == BY_HOURS:
        return Loss(margin, _hours_left(following, retention, now_ms, zone))
    times = [at for requested in data if (at := instant_ms(requested, zone)) is not None]
    if len(times) < 2 or len(times) < len(data):
        return Loss(margin)
    mean_ms = sum(later - earlier for earlier, later in pairwise(times)) / (len(times) - 1)
    return Loss(margin, margin * mean_ms / 1000)


def _hours_left(following: str, retention: Retention, now_ms: int, zone: tzinfo | None) -> float | None:
    """Seconds until the next instant is older than the period that the clean keeps."""
    ends = (retention.cleaned_at, retention.clean.earliest_to_retain, following)
    cleaned_ms, earliest_ms, following_ms = (instant_ms(text, zone) for text in ends)
    if cleaned_ms is None or earliest_ms is None or following_ms is None:
        return None
    return max(following_ms + (cleaned_ms - earliest_ms) - now_ms, 0) / 1000
