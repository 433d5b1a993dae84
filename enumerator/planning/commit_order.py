"""The order in which commits are consumed: order keys, the horizon, positions and ranges of positions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby, islice

from penstock.proto.errors import ConfigurationError, PositionExpired, StateVersionError
from penstock.proto.model.positions import EARLIEST, WHOLE_INSTANT, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Latest, RangeQuery
from penstock.proto.value_classes import dataclass
from penstock.table.files.slices import GroupId
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Action, Instant

IsData = Callable[[Instant], bool]
"""Whether a completed write instant holds data of its own. Compaction, clustering and other services do not.

The commit metadata decides this. The action cannot: on a merge-on-read table a bulk insert may complete as `commit`, as
a compaction does.
"""


def horizon(timeline: Timeline, pending_clusterings: Collection[str]) -> Instant | None:
    """On layout 1, the earliest pending instant that may still add rows: no position may pass it.

    None if there is none, and on layout 2, whose completion times increase. Pending compaction, log compaction and
    clustering do not limit positions. `pending_clusterings` are the requested times of pending replacecommits with a
    plan, and of other pending instants to be ignored.
    """
    if timeline.layout != 1:
        return None
    data = (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)
    pending = (
        item for item in timeline.pending if item.action in data and item.requested_time not in pending_clusterings
    )
    return min(pending, key=lambda item: item.requested_time, default=None)


def completed_in_order(timeline: Timeline, pending_clusterings: Collection[str]) -> tuple[Instant, ...]:
    """Completed write instants below the horizon, services included, by order key, then requested time."""
    return tuple(_below_horizon(timeline, pending_clusterings, timeline.writes_in_order))


def completed_from(timeline: Timeline, pending_clusterings: Collection[str], order_key: str) -> Sequence[Instant]:
    """The instants of `completed_in_order` with this or a later order key, in the same order."""
    return _below_horizon(timeline, pending_clusterings, timeline.writes_from(order_key))


def _below_horizon(
    timeline: Timeline, pending_clusterings: Collection[str], instants: Sequence[Instant]
) -> Sequence[Instant]:
    limit = horizon(timeline, pending_clusterings)
    return instants if limit is None else [item for item in instants if item.requested_time < limit.requested_time]


def newest_position(
    timeline: Timeline,
    pending_clusterings: Collection[str],
    is_data: IsData,
    after: Position | None = None,
    max_commits: int = 0,
) -> Position:
    """The newest position that may be consumed: after the newest data instant below the horizon, or EARLIEST.

    If only services are active, all data instants were archived; the position is then after the newest service. The
    result is never before `after`, and is `after` itself if nothing is new. A `max_commits` above 0 limits the number
    of data instants, counted in order-key order; the rest of an instant that `after` lies inside counts as one.
    """
    start = EARLIEST if after is None else after
    later = [
        item
        for item in completed_from(timeline, pending_clusterings, start.order_key)
        if not start.holds(timeline.order_key(item))
    ]
    if max_commits > 0:
        newest = max(islice(filter(is_data, later), max_commits), key=timeline.order_key, default=None)
    else:
        newest = next(filter(is_data, reversed(later)), None)
    if newest is None and later and start.is_earliest:
        newest = later[-1]  # the services rearranged rows of archived instants
    return start if newest is None else Position(timeline.order_key(newest))


def resolved_range(
    timeline: Timeline, pending_clusterings: Collection[str], is_data: IsData, query: RangeQuery
) -> CommitRange:
    """The query's range of positions.

    `Latest` resolves to the newest position, or to `after` if that is later. An explicit `upto` may be after the newest
    instant; ConfigurationError if it is at or after the horizon, or before `after`.
    """
    after = query.after
    match query.upto:
        case Latest():
            return CommitRange(after, newest_position(timeline, pending_clusterings, is_data, after))
        case Position() as upto:
            pending = horizon(timeline, pending_clusterings)
            if pending is not None and upto.order_key >= pending.requested_time:
                raise ConfigurationError(
                    f"range ({after}, {upto}] reaches instant {pending.requested_time} ({pending.action}, "
                    f"{pending.state}), which is not completed and may still add rows: give an `upto` before it, or "
                    "`latest`, or let the writer finish or roll it back"
                )
            return CommitRange(after, upto)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A position inside an instant, which divides the file groups of the instant's write stats."""

    instant: InstantTime
    """The requested time of the instant."""
    order_key: InstantTime
    """Its order key."""
    before: frozenset[GroupId]
    """The file groups before the position."""
    after: frozenset[GroupId]
    """The file groups after the position."""


def stat_groups(commit: CommitMetadata) -> Iterator[tuple[GroupId, tuple[WriteStat, ...]]]:
    """The file groups of a commit's write stats, sorted, each with its write stats."""
    ordered = sorted(commit.stats, key=lambda stat: (stat.partition, stat.file_id))
    for group, stats in groupby(ordered, key=lambda stat: (stat.partition, stat.file_id)):
        yield group, tuple(stats)


def may_be_cut(commit: CommitMetadata) -> bool:
    """Whether positions may lie inside a commit whose order key is unique: it is not a service and replaces nothing."""
    return not commit.replaced and not commit.is_service


def cut_at(
    position: Position, timeline: Timeline, commits: Mapping[str, CommitMetadata], table: str, complete_from: str = ""
) -> Cut | None:
    """The cut of the instant that the position lies inside; None for a position after a whole instant.

    StateVersionError for a position at which no instant can be cut, with the nearest valid one; PositionExpired if the
    instant is unknown and may have been archived.
    """
    if position.index == WHOLE_INSTANT:
        return None
    instants = [item for item in timeline.completed_writes if timeline.order_key(item) == position.order_key]
    if not instants:
        if complete_from and position.order_key <= complete_from:
            raise PositionExpired(
                f"position {position} of table {table} lies inside an instant that was archived and is no longer "
                "known; ask for a later range, or read from `earliest`"
            )
        raise _no_boundary(position, table, f"no completed write has order key {position.order_key}", None)
    instant = instants[0]
    commit = commits[instant.requested_time]
    if len(instants) > 1 or not may_be_cut(commit):
        reason = f"instant {instant.requested_time} ({commit.operation or instant.action}) is never cut"
        raise _no_boundary(position, table, reason, Position(position.order_key))
    return _cut_at_boundary(position, instant, commit, table)


def _cut_at_boundary(position: Position, instant: Instant, commit: CommitMetadata, table: str) -> Cut:
    before: set[GroupId] = set()
    after: set[GroupId] = set()
    boundaries, count = [0], 0
    for group, stats in stat_groups(commit):
        (before if count < position.index else after).add(group)
        count += len(stats)
        boundaries.append(count)
    if position.index not in boundaries:
        nearest = min(boundaries, key=lambda index: (abs(index - position.index), index))
        reason = f"instant {instant.requested_time} has no boundary between file groups there"
        raise _no_boundary(position, table, reason, Position(position.order_key, nearest))
    return Cut(
        instant=instant.requested_time,
        order_key=position.order_key,
        before=frozenset(before),
        after=frozenset(after),
    )


def _no_boundary(position: Position, table: str, reason: str, nearest: Position | None) -> StateVersionError:
    instead = "give a position after a whole instant" if nearest is None else f"the nearest position is {nearest}"
    return StateVersionError(f"position {position} of table {table} is not valid: {reason}; {instead}")
