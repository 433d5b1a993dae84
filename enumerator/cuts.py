"""Positions inside an instant: which file groups lie before one, and which behind it.

Pure. A position (c, k) counts the write stats of instant c, sorted by partition and file id: at it the file groups of
the first k are as of c, all others as before c. Not here: how far a round may go (`watch.rounds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from penstock.proto.errors import PositionExpired, StateVersionError
from penstock.proto.positions import WHOLE_INSTANT, InstantTime, Position
from penstock.table.commits import CommitMetadata, WriteStat
from penstock.table.instants import Instant
from penstock.table.slices import GroupId
from penstock.table.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A place inside an instant: the file groups of its write stats `before` and `behind`."""

    instant: InstantTime
    order_key: InstantTime
    before: frozenset[GroupId]
    behind: frozenset[GroupId]


def stat_groups(commit: CommitMetadata) -> Iterator[tuple[GroupId, tuple[WriteStat, ...]]]:
    """The file groups of a commit's write stats in order, each with its own."""
    ordered = sorted(commit.stats, key=lambda stat: (stat.partition, stat.file_id))
    for group, stats in groupby(ordered, key=lambda stat: (stat.partition, stat.file_id)):
        yield group, tuple(stats)


def may_be_cut(commit: CommitMetadata) -> bool:
    """Whether positions may lie inside a commit that shares its order key with no other: it replaces nothing."""
    return not commit.replaced and not commit.is_service


def cut_at(
    position: Position, timeline: Timeline, commits: Mapping[str, CommitMetadata], table: str, complete_from: str = ""
) -> Cut | None:
    """Where the position cuts its instant; None if it stands behind a whole one.

    StateVersionError for a position at which no instant can be cut, naming the nearest that can be; PositionExpired if
    its instant is not known and may have been archived.
    """
    if position.index == WHOLE_INSTANT:
        return None
    found = [item for item in timeline.completed_writes if timeline.order_key(item) == position.order_key]
    if not found:
        if complete_from and position.order_key <= complete_from:
            raise PositionExpired(
                f"position {position} of table {table} lies inside an instant that was archived and is not known any "
                "more; ask for a later range, or read from `earliest`"
            )
        raise _no_border(position, table, f"no completed write has order key {position.order_key}", None)
    instant = found[0]
    commit = commits[instant.requested_time]
    if len(found) > 1 or not may_be_cut(commit):
        reason = f"instant {instant.requested_time} ({commit.operation or instant.action}) is never cut"
        raise _no_border(position, table, reason, Position(position.order_key))
    return _at_border(position, instant, commit, table)


def _at_border(position: Position, instant: Instant, commit: CommitMetadata, table: str) -> Cut:
    before: set[GroupId] = set()
    behind: set[GroupId] = set()
    borders, count = [0], 0
    for group, stats in stat_groups(commit):
        (before if count < position.index else behind).add(group)
        count += len(stats)
        borders.append(count)
    if position.index not in borders:
        nearest = min(borders, key=lambda border: (abs(border - position.index), border))
        reason = f"instant {instant.requested_time} has no border between file groups there"
        raise _no_border(position, table, reason, Position(position.order_key, nearest))
    return Cut(
        instant=instant.requested_time,
        order_key=position.order_key,
        before=frozenset(before),
        behind=frozenset(behind),
    )


def _no_border(position: Position, table: str, reason: str, nearest: Position | None) -> StateVersionError:
    instead = "give a position behind a whole instant" if nearest is None else f"the nearest position is {nearest}"
    return StateVersionError(f"position {position} of table {table} is none: {reason}; {instead}")
