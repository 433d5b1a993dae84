"""The end of the next round under limits, from the timeline and commit metadata. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from penstock.enumerator.planning.commit_order import (
    completed_from,
    may_be_cut,
    newest_position,
    stat_groups,
)
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.model.positions import CommitRange, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, RoundLimits
from penstock.proto.value_classes import dataclass
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Instant


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of written data."""

    files: int = 0
    """Files."""
    size_bytes: int = 0
    """Bytes on storage."""
    rows: int = 0
    """Rows, deletes included, because they are read too."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.files + other.files, self.size_bytes + other.size_bytes, self.rows + other.rows)

    def exceeds(self, limits: RoundLimits) -> bool:
        """Whether the amount is more than a round may hold."""
        return (
            0 < limits.max_files < self.files
            or 0 < limits.max_bytes < self.size_bytes
            or 0 < limits.max_rows < self.rows
        )


def amount_of(stats: tuple[WriteStat, ...]) -> Amount:
    """The sum of these write stats. Negative counts, which some writers record for unknown, count as 0."""
    return Amount(
        len(stats),
        sum(max(stat.file_size_bytes, 0) for stat in stats),
        sum(max(stat.num_writes, 0) + max(stat.num_deletes, 0) for stat in stats),
    )


def next_end(
    facts: TimelineFacts,
    after: Position,
    limits: RoundLimits = NO_LIMITS,
    ahead: frozenset[InstantTime] = frozenset(),
    *,
    changes: bool = False,
) -> Position:
    """The end of the next round after `after`; `after` itself if nothing new is completed.

    Data instants are counted by order key, never by requested time, up to the horizon. Instants in `ahead` do not
    count. A round holds at least one file group, however large.

    A round may end inside an instant only if the instant replaces no file group and its order key is unique; otherwise
    it holds the whole instant. With `changes`, it also holds an instant as a whole that may have moved keys between
    file groups, so that the delete of a key never comes in a later round than its insert. A round that starts inside an
    instant ends inside or after it.
    """
    newest = newest_position(facts.timeline, facts.pending_clusterings, facts.is_data, after)
    of_key = Counter(map(facts.timeline.order_key, facts.timeline.writes_from(after.order_key)))
    end, amount, commits = after, Amount(), 0
    for order_key, instants in data_instants_after(facts, after):
        if after.is_earliest and order_key < facts.complete_from:
            end = Position(order_key)  # the state there depends on archived instants: the first round ends later
            continue
        counted = [item for item in instants if item.requested_time not in ahead]
        if counted and 0 < limits.max_commits <= commits:
            return end
        pieces = list(_pieces(facts, counted, order_key, after))
        total, stop = _within(pieces, amount, limits)
        if stop is not None and amount.files and stop == pieces[0][0]:
            return end
        if stop is not None and of_key[order_key] == 1 and _ends_inside(facts, instants[0], changes=changes):
            return Position(order_key, stop)
        if stop is not None and amount.files:
            return end
        if stop is not None or after.order_key == order_key:
            return Position(order_key)
        end, amount, commits = Position(order_key), total, commits + len(counted)
    return max(end, newest)


_Piece = tuple[int, tuple[WriteStat, ...]]
"""(Index of the first write stat, write stats) of one instant in one file group."""


def _ends_inside(facts: TimelineFacts, instant: Instant, *, changes: bool) -> bool:
    commit = facts.commits[instant.requested_time]
    return may_be_cut(commit) and not (changes and may_move_keys(commit))


def may_move_keys(commit: CommitMetadata) -> bool:
    """Whether the commit may have deleted a key from one file group and inserted it into another, as a global index
    that updates partition paths does. Its write stats then hold deletes and inserts."""
    return any(stat.num_deletes > 0 for stat in commit.stats) and any(stat.num_inserts > 0 for stat in commit.stats)


def _within(pieces: list[_Piece], amount: Amount, limits: RoundLimits) -> tuple[Amount, int | None]:
    """(The amount with all pieces that fit the limits, the index of the first piece that does not; None if all fit)."""
    for index, stats in pieces:
        more = amount + amount_of(stats)
        if amount.files and more.exceeds(limits):
            return amount, index
        amount = more
    return amount, None


def _pieces(facts: TimelineFacts, instants: list[Instant], order_key: InstantTime, after: Position) -> Iterator[_Piece]:
    """The pieces that the instants wrote after `after`, in order."""
    for item in instants:
        index = 0
        for _, stats in stat_groups(facts.commits[item.requested_time]):
            if Position(order_key, index) >= after or after.order_key != order_key:
                yield index, stats
            index += len(stats)


def data_instants_after(
    facts: TimelineFacts, after: Position, upto: Position | None = None
) -> Iterator[tuple[InstantTime, tuple[Instant, ...]]]:
    """Data instants with writes in (after, upto], below the horizon, grouped by order key in order."""
    by_key: dict[InstantTime, list[Instant]] = {}
    for item in completed_from(facts.timeline, facts.pending_clusterings, after.order_key):
        order_key = facts.timeline.order_key(item)
        inside = not after.holds(order_key) and (upto is None or upto.touches(order_key))
        if inside and facts.is_data(item):
            by_key.setdefault(order_key, []).append(item)
    for order_key, instants in by_key.items():
        yield order_key, tuple(instants)


def amount_after(facts: TimelineFacts, after: Position, ahead: frozenset[InstantTime]) -> tuple[int, Amount]:
    """(The number of data instants after `after` below the horizon, in part included; the amount they wrote there)."""
    commits, amount = 0, Amount()
    for order_key, instants in data_instants_after(facts, after):
        counted = [item for item in instants if item.requested_time not in ahead]
        commits += len(counted)
        for _, stats in _pieces(facts, counted, order_key, after):
            amount += amount_of(stats)
    return commits, amount


def reshaped_in(facts: TimelineFacts, commit_range: CommitRange) -> frozenset[str]:
    """Partitions in which an instant of the range, services included, replaced file groups.

    On layout 1 the order key of a clustering is its requested time, so a clustering that completes after the position
    has passed it is in no range. A range that writes into groups created by such a clustering counts as holding it.
    """
    partitions: set[str] = set()
    late: dict[tuple[str, str], None] = {}
    written: Counter[tuple[str, str]] = Counter()
    timeline, may_be_late = facts.timeline, facts.timeline.layout == 1
    for item in timeline.completed_writes if may_be_late else timeline.writes_from(commit_range.after.order_key):
        commit, order_key = facts.commits[item.requested_time], timeline.order_key(item)
        if commit_range.touches(order_key):
            partitions.update(partition for partition, _ in commit.replaced)
            written.update((stat.partition, stat.file_id) for stat in commit.stats if not commit.is_service)
        elif may_be_late and commit.is_service and commit.replaced and order_key < str(commit_range.upto.order_key):
            late.update(dict.fromkeys((stat.partition, stat.file_id) for stat in commit.stats))
    if commit_range.after.is_earliest:
        return frozenset(partitions)
    return frozenset(partitions | {group[0] for group in late if group in written})
