"""How far one round goes: the next position under limits, counted in the order in which positions move.

Pure, from the timeline and commit metadata. Not here: what is read of a table (`advance`), what a range's splits are
(`penstock.enumerator.planning.slice_planner`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.enumerator.planning.commit_order import (
    completed_in_order,
    is_earliest,
    may_be_cut,
    newest_position,
    stat_groups,
)
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.model.positions import CommitRange, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, RoundLimits
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Instant


@dataclass(frozen=True, slots=True)
class Amount:
    """Files, bytes and rows of write stats. Deletes are rows too: they are read."""

    files: int = 0
    size_bytes: int = 0
    rows: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.files + other.files, self.size_bytes + other.size_bytes, self.rows + other.rows)

    def exceeds(self, limits: RoundLimits) -> bool:
        """Whether it is more than a round may hold."""
        return (
            0 < limits.max_files < self.files
            or 0 < limits.max_bytes < self.size_bytes
            or 0 < limits.max_rows < self.rows
        )


def amount_of(stats: tuple[WriteStat, ...]) -> Amount:
    """What these write stats tell; negative counts, which some writers leave for unknown, are none."""
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
    """Where the next round behind `after` ends; `after` itself if nothing new is completed.

    Walks data instants by order key, never by requested time, up to the horizon. At least one file group is taken,
    however large. A round ends inside an instant only if that replaces no file group and shares its order key with no
    other; otherwise the instant is taken as a whole; so is, with `changes`, one that may have moved keys between file
    groups, so that a key's delete never comes in a later round than its insert. A round that starts inside an instant
    ends in it or behind it. Instants of `ahead` count for nothing.
    """
    newest = newest_position(facts.timeline, facts.pending_clusterings, facts.is_data, after)
    of_key = Counter(map(facts.timeline.order_key, facts.timeline.completed_writes))
    end, held, commits = after, Amount(), 0
    for order_key, instants in data_instants_behind(facts, after):
        if is_earliest(after) and order_key < facts.complete_from:
            end = Position(order_key)  # the state there depends on archived instants: the first round begins later
            continue
        counted = [item for item in instants if item.requested_time not in ahead]
        if counted and 0 < limits.max_commits <= commits:
            return end
        places = list(_pieces(facts, counted, order_key, after))
        taken, stop = _within(places, held, limits)
        if stop is not None and held.files and stop == places[0][0]:
            return end
        if stop is not None and of_key[order_key] == 1 and _ends_inside(facts, instants[0], changes=changes):
            return Position(order_key, stop)
        if stop is not None and held.files:
            return end
        if stop is not None or after.order_key == order_key:
            return Position(order_key)
        end, held, commits = Position(order_key), taken, commits + len(counted)
    return max(end, newest)


_Piece = tuple[int, tuple[WriteStat, ...]]
"""What an instant wrote into a file group, and the index of the first of these write stats."""


def _ends_inside(facts: TimelineFacts, instant: Instant, *, changes: bool) -> bool:
    commit = facts.commits[instant.requested_time]
    return may_be_cut(commit) and not (changes and may_move_keys(commit))


def may_move_keys(commit: CommitMetadata) -> bool:
    """Whether a key may have been deleted from one file group and inserted into another (a global index that updates
    partition paths does so): its write stats tell deletes and inserts."""
    return any(stat.num_deletes > 0 for stat in commit.stats) and any(stat.num_inserts > 0 for stat in commit.stats)


def _within(pieces: list[_Piece], held: Amount, limits: RoundLimits) -> tuple[Amount, int | None]:
    """What is held with the pieces that the limits allow, and where the first lies that they do not."""
    for place, stats in pieces:
        more = held + amount_of(stats)
        if held.files and more.exceeds(limits):
            return held, place
        held = more
    return held, None


def _pieces(facts: TimelineFacts, instants: list[Instant], order_key: InstantTime, after: Position) -> Iterator[_Piece]:
    """The file groups that the instants wrote behind `after`, in order."""
    for item in instants:
        place = 0
        for _, stats in stat_groups(facts.commits[item.requested_time]):
            if Position(order_key, place) >= after or after.order_key != order_key:
                yield place, stats
            place += len(stats)


def data_instants_behind(
    facts: TimelineFacts, after: Position, upto: Position | None = None
) -> Iterator[tuple[InstantTime, tuple[Instant, ...]]]:
    """Data instants with anything in (after, upto], below the horizon, by order key: those that share one together."""
    found: dict[InstantTime, list[Instant]] = {}
    for item in completed_in_order(facts.timeline, facts.pending_clusterings):
        order_key = facts.timeline.order_key(item)
        behind = Position(order_key) > after and (upto is None or Position(order_key, 0) < upto)
        if behind and facts.is_data(item):
            found.setdefault(order_key, []).append(item)
    for order_key, instants in found.items():
        yield order_key, tuple(instants)


def amount_behind(facts: TimelineFacts, after: Position, ahead: frozenset[InstantTime]) -> tuple[int, Amount]:
    """How many data instants lie behind `after` below the horizon, in part included, and what they hold there."""
    commits, held = 0, Amount()
    for order_key, instants in data_instants_behind(facts, after):
        counted = [item for item in instants if item.requested_time not in ahead]
        commits += len(counted)
        for _, stats in _pieces(facts, counted, order_key, after):
            held += amount_of(stats)
    return commits, held


def reshaped_in(facts: TimelineFacts, commit_range: CommitRange) -> frozenset[str]:
    """Partitions in which file groups were replaced by an instant of the range, services included.

    On layout 1 a clustering takes its place in commit order when it is requested, so one that completed after the
    position had passed it is in no range: a range that writes into groups it made counts as if it held it.
    """
    partitions: set[str] = set()
    late: dict[tuple[str, str], None] = {}
    written: Counter[tuple[str, str]] = Counter()
    for item in facts.timeline.completed_writes:
        commit, order_key = facts.commits[item.requested_time], facts.timeline.order_key(item)
        if commit_range.touches(order_key):
            partitions.update(partition for partition, _ in commit.replaced)
            written.update((stat.partition, stat.file_id) for stat in commit.stats if not commit.is_service)
        elif (
            facts.timeline.layout == 1
            and commit.is_service
            and commit.replaced
            and order_key < str(commit_range.upto.order_key)
        ):
            late.update(dict.fromkeys((stat.partition, stat.file_id) for stat in commit.stats))
    if is_earliest(commit_range.after):
        return frozenset(partitions)
    return frozenset(partitions | {group[0] for group in late if group in written})
