"""The order in which commits are consumed: order keys, the horizon, data instants, positions, ranges.

Pure. Belongs here: where a position may stand and which instants lie between two of them. Not here: the files those
instants wrote (`discovery`, `planner`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice

from penstock.proto.errors import ConfigurationError, PositionExpired, StateVersionError
from penstock.proto.model.positions import EARLIEST, WHOLE_INSTANT, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Latest, RangeQuery
from penstock.table.files.slices import GroupId
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Action, Instant

IsData = Callable[[Instant], bool]
"""Whether a completed write instant holds data: compaction, clustering and other services do not.

The action does not tell (a bulk insert may complete as `commit` on a merge-on-read table, as compaction does); the
commit's metadata does.
"""


def horizon(timeline: Timeline, pending_clusterings: Collection[str]) -> Instant | None:
    """Layout 1: the earliest pending instant that may still bring rows, so that no position may pass it.

    None if there is none, and on layout 2, whose completion times grow. Pending compaction, log compaction and
    clustering hold nothing back; `pending_clusterings` are requested times of pending replacecommits with a plan, and
    of what else is passed over.
    """
    if timeline.layout != 1:
        return None
    data = (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)
    holding = (
        item for item in timeline.pending if item.action in data and item.requested_time not in pending_clusterings
    )
    return min(holding, key=lambda item: item.requested_time, default=None)


def completed_in_order(timeline: Timeline, pending_clusterings: Collection[str]) -> tuple[Instant, ...]:
    """Completed write instants below the horizon, services too, by order key, then requested time."""
    hole = horizon(timeline, pending_clusterings)
    below = (item for item in timeline.completed_writes if hole is None or item.requested_time < hole.requested_time)
    return tuple(sorted(below, key=lambda item: (timeline.order_key(item), item.requested_time)))


def is_earliest(position: Position) -> bool:
    """Whether the position stands before every instant (all zeros, however many)."""
    return not position.order_key.strip("0")


def newest_position(
    timeline: Timeline,
    pending_clusterings: Collection[str],
    is_data: IsData,
    after: Position | None = None,
    max_commits: int = 0,
) -> Position:
    """The newest position that may be consumed: behind the newest data instant below the horizon, or EARLIEST.

    If nothing but services is active, all data instants were archived: then behind the newest service.
    With `after` it is never behind that, and `after` itself if nothing new is there; a `max_commits` above 0 stops
    behind so many data instants, counted in order-key order; the rest of one that `after` lies inside counts as one.
    """
    start = EARLIEST if after is None else after
    ahead = [
        item for item in completed_in_order(timeline, pending_clusterings) if Position(timeline.order_key(item)) > start
    ]
    if max_commits > 0:
        newest = max(islice(filter(is_data, ahead), max_commits), key=timeline.order_key, default=None)
    else:
        newest = next(filter(is_data, reversed(ahead)), None)
    if newest is None and ahead and is_earliest(start):
        newest = ahead[-1]  # the rows that services rearranged are of archived instants
    return start if newest is None else Position(timeline.order_key(newest))


def resolved_range(
    timeline: Timeline, pending_clusterings: Collection[str], is_data: IsData, query: RangeQuery
) -> CommitRange:
    """The range that a query stands for.

    `Latest` is the newest position, and `after` itself if that is ahead of it. An explicit `upto` may lie behind the
    newest instant; ConfigurationError if it lies at or behind the horizon, or before `after`.
    """
    after = query.after
    match query.upto:
        case Latest():
            return CommitRange(after, newest_position(timeline, pending_clusterings, is_data, after))
        case Position() as upto:
            hole = horizon(timeline, pending_clusterings)
            if hole is not None and upto.order_key >= hole.requested_time:
                raise ConfigurationError(
                    f"range ({after}, {upto}] reaches instant {hole.requested_time} ({hole.action}, {hole.state}), "
                    "which is not completed and may still bring rows: give an `upto` before it, or `latest`, or let "
                    "the writer finish or roll it back"
                )
            return CommitRange(after, upto)


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
