"""Which readers hold the cleaner of a table, and for how long. Pure.

A reader that is behind needs the files of the instants that it has not read, and the state of the table before them.
While it holds the cleaner, no clean deletes them. The hold has a bound, or a reader that never comes back would keep
all files for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from penstock.proto.model.positions import WHOLE_INSTANT, InstantTime, Position
from penstock.proto.options.hold_bound import HoldBound
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Instant
from penstock.table.timeline.zones import instant_ms

_NONE: Final[Mapping[InstantTime, InstantTime]] = MappingProxyType({})


class ReaderKind(StrEnum):
    """What a reader is."""

    GROUP = "group"
    """A consumer group of a server."""
    STREAM = "stream"
    """A stream that reads through a server."""
    CHECKPOINT = "checkpoint"
    """A Spark query, by its checkpoint."""


class HoldState(StrEnum):
    """What a reader does to the cleaner."""

    CAUGHT_UP = "caught up"
    """It has read everything, and needs no older file."""
    HOLDS = "holds"
    """It is behind: the cleaner keeps what it needs."""
    EXCEEDED = "exceeded"
    """It is behind for longer than the bound: the cleaner goes on, and the reader will lose its range."""


@dataclass(frozen=True, slots=True)
class ReaderPosition:
    """A reader, and how far it is."""

    kind: ReaderKind
    """What it is."""
    name: str
    """Its name, or the path of its checkpoint."""
    position: Position | None
    """Everything up to it is read; None if the reader needs nothing of the table any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerHold:
    """A reader that was named to hold the cleaner, and whether it does."""

    kind: ReaderKind
    """What it is: a group, a stream, or a Spark query by its checkpoint."""
    name: str
    """Its name, or the path of its checkpoint."""
    position: str
    """Everything up to this position is read; '' if the reader needs nothing of the table any more."""
    state: HoldState
    """What it does to the cleaner."""
    keeps_from: str
    """Requested time of the first write that it has not read; '' if it has read everything."""
    unread_commits: int
    """Writes that it has not read."""
    unread_seconds: float | None
    """Seconds since the oldest of them completed; None without one, or if its time is unknown."""
    at_most: str
    """The bound, such as `172800s` or `200 commits`."""


def hold_of(
    timeline: Timeline,
    reader: ReaderPosition,
    bound: HoldBound,
    is_data: Callable[[Instant], bool],
    now: datetime,
    zone: tzinfo,
    archived: Mapping[InstantTime, InstantTime] = _NONE,
) -> CleanerHold:
    """What a reader does to the cleaner.

    is_data: whether a completed write has rows of its own; compactions and clusterings have none. now: aware of its
    zone. zone: that of the timeline. archived: requested time -> order key of the archived writes with rows.

    A reader that has finished nothing has not read any of the known writes. Inside of a snapshot whose position a
    server of an older version does not tell, it is never beyond the bound: which writes are later is not known.
    """
    after = reader.position
    unread: list[tuple[InstantTime, InstantTime]] = []
    if after is not None:
        active = (item for item in timeline.completed_writes if _is_after(timeline, item, after) and is_data(item))
        unread = [(item.requested_time, timeline.order_key(item)) for item in active]
        unread += [(time, key) for time, key in archived.items() if not after.holds(key)]
    unread = sorted(set(unread))
    times = [_first_known(instant_ms(key, zone), instant_ms(time, zone)) for time, key in unread]
    oldest_ms = min((time for time in times if time is not None), default=None)
    seconds = None if oldest_ms is None else max(now.timestamp() - oldest_ms / 1000, 0.0)
    state = HoldState.CAUGHT_UP
    if after is not None and unread:
        is_bounded = not after.is_earliest or after.index == WHOLE_INSTANT
        state = HoldState.EXCEEDED if is_bounded and _is_exceeded(bound, len(unread), seconds) else HoldState.HOLDS
    return CleanerHold(
        kind=reader.kind,
        name=reader.name,
        position="" if after is None else str(after),
        state=state,
        keeps_from=str(unread[0][0]) if unread else "",
        unread_commits=len(unread),
        unread_seconds=seconds,
        at_most=bound.text,
    )


def oldest_held(pairs: Iterable[tuple[ReaderPosition, CleanerHold]]) -> Position | None:
    """The position of the reader that is furthest behind, of those within the bound; None without one."""
    held = (reader.position for reader, hold in pairs if hold.state is not HoldState.EXCEEDED)
    return min((position for position in held if position is not None), default=None)


def is_unbounded(hold: CleanerHold) -> bool:
    """Whether the reader holds the cleaner and the bound does not count: it is inside of a snapshot of a server of an
    older version."""
    instant, inside, _ = hold.position.partition("+")
    return hold.state is HoldState.HOLDS and bool(inside) and not instant.strip("0")


def hold_text(hold: CleanerHold) -> str:
    """One line for an operator."""
    who = f"{hold.kind} {hold.name}"
    if hold.state is HoldState.CAUGHT_UP:
        return f"{who} has read everything"
    age = "" if hold.unread_seconds is None else f", the oldest for {hold.unread_seconds:.0f} s"
    behind = f"{hold.unread_commits} writes not read from {hold.keeps_from} on{age}"
    if is_unbounded(hold):
        return (
            f"{who} reads a snapshot whose position its server does not tell, and holds the cleaner without a bound: "
            "all files are kept; leave it out if it is gone"
        )
    if hold.state is HoldState.HOLDS and hold.unread_seconds is None and not hold.at_most.endswith("commits"):
        return f"{who} holds the cleaner without a bound: {behind}, and the time of these writes is unknown"
    if hold.state is HoldState.HOLDS:
        return f"{who} holds the cleaner: {behind}; at most {hold.at_most}"
    return f"{who} will lose its range: {behind}, more than {hold.at_most}"


def _is_exceeded(bound: HoldBound, commits: int, seconds: float | None) -> bool:
    """Whether a reader is beyond the bound; not if it is a time and that of the unread writes is unknown."""
    if bound.commits is not None:
        return commits > bound.commits
    return seconds is not None and bound.seconds is not None and seconds > bound.seconds


def _first_known(*times: int | None) -> int | None:
    return next((time for time in times if time is not None), None)


def _is_after(timeline: Timeline, item: Instant, position: Position) -> bool:
    return not position.holds(timeline.order_key(item))
