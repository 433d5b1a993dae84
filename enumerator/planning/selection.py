"""What a query selects: the view of the table, the instants of its range, the file groups those touched.

Pure, from the timeline and commit metadata alone, so that discovery knows which partitions to list. Not here: files
(`discovery`), splits (`planner`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from penstock.enumerator.planning.commit_order import (
    Cut,
    completed_in_order,
    cut_at,
    horizon,
    is_earliest,
    newest_position,
    resolved_range,
)
from penstock.proto.errors import InvariantViolation, PositionExpired
from penstock.proto.model.changes import ChangesOf
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import (
    Changes,
    Incremental,
    Latest,
    Query,
    ReadOptimized,
    Snapshot,
    SnapshotAsOf,
    SnapshotPart,
    TopicRanges,
)
from penstock.proto.model.splits import AllRows, RowsOf
from penstock.table.files.slices import Everything, GroupId, OrderedBefore, OrderedUpTo, RequestedUpTo, View
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Instant
from penstock.table.timeline.service_plans import CleanMetadata

RESCALE = "BUCKET_RESCALE"
_STAMPING = frozenset({"LOG_COMPACT", RESCALE})
"""Services that write their own instant into the rows they move (Hudi 1.2.0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFacts:
    """The active timeline with what its files say. `table` is for error texts.

    `commits` holds the metadata of every completed write instant by requested time. `pending_clusterings` are the
    requested times of pending replacecommits with a clustering plan (layout 1). Every instant with an order key above
    `complete_from` is known ('' if all are, or nothing was archived).

    Facts that hold archived instants too (`history.with_archive`) have their cleans in `archived_cleans`, in `undone`
    the requested times of what was rolled back and so is in no timeline, say with which write the archive begins
    (requested time, order key), and in `oldest_known` before which requested time instants were lost even to the
    archive ('' if none were).
    """

    table: str
    timeline: Timeline
    commits: Mapping[str, CommitMetadata]
    pending_clusterings: frozenset[str]
    complete_from: str
    archive_begins: tuple[str, str] | None = None
    archived_cleans: tuple[tuple[str, CleanMetadata], ...] = ()
    rolled_back: frozenset[str] = frozenset()
    oldest_known: str = ""

    def is_data(self, instant: Instant) -> bool:
        """Whether a completed write instant holds data of its own."""
        return not self.commits[instant.requested_time].is_service


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to read: a view, the file groups (None: all), which rows of them.

    `instants` are the requested times of the data instants of a range. `groups` maps a file group to the order key its
    split gets: the newest data instant of the range that wrote rows into it, or into a group that was clustered into
    it; of changes, the newest that wrote into it or replaced it. A range that starts or ends inside an instant has it
    among `instants`, and where it is cut in `starts_at` and `ends_at`.
    """

    view: View
    commit_range: CommitRange
    instants: frozenset[InstantTime] = frozenset()
    rows: AllRows | RowsOf | ChangesOf = field(default_factory=AllRows)
    groups: Mapping[GroupId, InstantTime] | None = None
    base_files_only: bool = False
    starts_at: Cut | None = None
    ends_at: Cut | None = None

    def holds(self, instant: str, group: GroupId) -> bool:
        """Whether what the instant did to the group is of the range."""
        if self.starts_at is not None and self.starts_at.instant == instant and group in self.starts_at.before:
            return False
        if self.ends_at is not None and self.ends_at.instant == instant and group in self.ends_at.behind:
            return False
        return instant in self.instants

    def view_of(self, group: GroupId) -> View:
        """The view of one group: behind the cut it is as of before the instant that the range ends in."""
        if self.ends_at is not None and group in self.ends_at.behind:
            return OrderedBefore(self.ends_at.order_key, self.ends_at.instant)
        return self.view


def select(query: Query, facts: TimelineFacts) -> tuple[Selection, ...]:
    """What the query selects, in order of preference: all give the same rows, a later one is for when files that an
    earlier one needs were cleaned.

    ConfigurationError and StateVersionError as for `order.resolved_range`; PositionExpired where the answer depends
    on instants that the facts do not hold (`reaches_back`).
    """
    if reaches_back(query, facts):
        raise PositionExpired(
            f"{_shown(query)} of table {facts.table} depends on archived instants that are gone: its timeline, with "
            f"what was archived, is complete from {facts.oldest_known or facts.complete_from} on; ask for that or a "
            "later one, or read from `earliest`"
        )
    match query:
        case Snapshot():
            return (Selection(view=Everything(), commit_range=_up_to_newest(facts)),)
        case ReadOptimized():
            return (Selection(view=Everything(), commit_range=_up_to_newest(facts), base_files_only=True),)
        case SnapshotAsOf(instant):
            return (Selection(view=RequestedUpTo(instant), commit_range=_up_to_instant(instant, facts)),)
        case Incremental():
            return _incremental(query, facts)
        case Changes():
            return (_changes(query, facts),)
        case SnapshotPart():
            raise InvariantViolation("a part of a snapshot is planned from the whole, which is a range")
        case TopicRanges():
            raise InvariantViolation("ranges of a topic select nothing of a table")


def _incremental(query: Incremental, facts: TimelineFacts) -> tuple[Selection, ...]:
    """The state at the end of the range strictly, and with the services behind it let in.

    `Latest` means the table as it is now, so services come first there.
    """
    commit_range = resolved_range(facts.timeline, facts.pending_clusterings, facts.is_data, query)
    order_key = commit_range.upto.order_key
    if commit_range.upto == commit_range.after:
        nothing = Selection(view=OrderedUpTo(order_key), commit_range=commit_range, rows=RowsOf(frozenset()), groups={})
        return (nothing,)
    cuts = _cuts(commit_range, facts)
    services = _services_behind(commit_range.upto, facts, cuts[1])
    views = [OrderedUpTo(order_key), OrderedUpTo(order_key, services)] if services else [OrderedUpTo(order_key)]
    if isinstance(query.upto, Latest):
        views.reverse()
    return tuple(_range_selection(view, commit_range, facts, query.without, cuts) for view in views)


def _cuts(commit_range: CommitRange, facts: TimelineFacts) -> tuple[Cut | None, Cut | None]:
    """Where the range's two ends cut instants."""
    ends = (commit_range.after, commit_range.upto)
    start, end = (cut_at(item, facts.timeline, facts.commits, facts.table, facts.complete_from) for item in ends)
    return start, end


def _instants_inside(
    commit_range: CommitRange, facts: TimelineFacts, without: frozenset[InstantTime]
) -> frozenset[InstantTime]:
    """The data instants that the range holds, in part or as a whole."""
    return frozenset(
        item.requested_time
        for item in completed_in_order(facts.timeline, facts.pending_clusterings)
        if commit_range.touches(facts.timeline.order_key(item))
        and facts.is_data(item)
        and item.requested_time not in without
    )


def _changes(query: Changes, facts: TimelineFacts) -> Selection:
    """Every group that a data instant of the range wrote into or replaced."""
    commit_range = resolved_range(facts.timeline, facts.pending_clusterings, facts.is_data, query)
    completed = completed_in_order(facts.timeline, facts.pending_clusterings)
    upto = commit_range.upto.order_key
    known = tuple(item.requested_time for item in completed if facts.timeline.order_key(item) <= upto)
    start, end = _cuts(commit_range, facts)
    groups: dict[GroupId, InstantTime] = {}
    found = Selection(
        view=OrderedUpTo(upto),
        commit_range=commit_range,
        instants=_instants_inside(commit_range, facts, query.without),
        rows=ChangesOf(query.format, known),
        groups=groups,
        starts_at=start,
        ends_at=end,
    )
    for item in completed:
        if item.requested_time in found.instants:
            for group in groups_of(facts.commits[item.requested_time]):
                if found.holds(item.requested_time, group):
                    groups[group] = facts.timeline.order_key(item)
    return found


def asks_ancestors(selection: Selection) -> bool:
    """Whether what services rewrote may have to tell who wrote a row of the range."""
    return isinstance(selection.rows, RowsOf) and (
        bool(selection.rows.log_compactions) or (selection.starts_at is not None and bool(selection.starts_at.before))
    )


def groups_of(commit: CommitMetadata) -> list[GroupId]:
    """The file groups that an instant wrote into or replaced, sorted by partition and file id."""
    return sorted({*commit.replaced, *((stat.partition, stat.file_id) for stat in commit.stats)})


def _up_to_newest(facts: TimelineFacts) -> CommitRange:
    newest = newest_position(facts.timeline, facts.pending_clusterings, facts.is_data)
    return CommitRange(EARLIEST, newest)


def _up_to_instant(instant: str, facts: TimelineFacts) -> CommitRange:
    """From the start to the greatest order key of a data instant that the time-travel query shows."""
    shown = (item for item in facts.timeline.completed_writes if item.requested_time <= instant and facts.is_data(item))
    newest = max((facts.timeline.order_key(item) for item in shown), default=None)
    return CommitRange(EARLIEST, EARLIEST if newest is None else Position(newest))


def _services_behind(upto: Position, facts: TimelineFacts, cut: Cut | None) -> frozenset[str]:
    """Requested times of the services between `upto` and the next data instant, pending ones of layout 1 included.

    What they rewrote had completed by `upto`, so letting them in changes files, not rows; the cleaner may have taken
    the files they replaced. One that replaced a group behind the cut moved rows that are not of the range's end.
    """
    timeline = facts.timeline
    hole = horizon(timeline, facts.pending_clusterings)
    behind = [item for item in timeline.completed_writes if timeline.order_key(item) > upto.order_key]
    ends = [timeline.order_key(item) for item in behind if facts.is_data(item) or _is_rescale(item, facts)]
    if cut is not None:
        moved = (item for item in behind if not cut.behind.isdisjoint(facts.commits[item.requested_time].replaced))
        ends += map(timeline.order_key, moved)
    end = min([*ends, *([hole.requested_time] if hole else [])], default=None)
    services = (
        item for item in behind if _keeps_commit_times(item, facts) and (end is None or timeline.order_key(item) < end)
    )
    return frozenset(item.requested_time for item in services)


def _keeps_commit_times(instant: Instant, facts: TimelineFacts) -> bool:
    """Whether a service keeps its rows' `_hoodie_commit_time`. A log compaction need not, and takes no file away."""
    return not facts.is_data(instant) and facts.commits[instant.requested_time].operation not in _STAMPING


def _is_rescale(instant: Instant, facts: TimelineFacts) -> bool:
    return facts.commits[instant.requested_time].operation == RESCALE


def _stamping_services(commit_range: CommitRange, facts: TimelineFacts) -> frozenset[InstantTime]:
    """Those that can have moved rows of the range: what they rewrote had completed before them."""
    return frozenset(
        item.requested_time
        for item in facts.timeline.completed_writes
        if facts.commits[item.requested_time].operation in _STAMPING
        and facts.timeline.order_key(item) > commit_range.after.order_key
    )


def _range_selection(
    view: OrderedUpTo,
    commit_range: CommitRange,
    facts: TimelineFacts,
    without: frozenset[InstantTime],
    cuts: tuple[Cut | None, Cut | None],
) -> Selection:
    """From the start on a range is the snapshot at its end: every group, every row."""
    instants = _instants_inside(commit_range, facts, without)
    found = Selection(view=view, commit_range=commit_range, instants=instants, starts_at=cuts[0], ends_at=cuts[1])
    if is_earliest(commit_range.after) and not without:
        return found
    completed = completed_in_order(facts.timeline, facts.pending_clusterings)
    return replace(
        found,
        rows=RowsOf(instants, _stamping_services(commit_range, facts)),
        groups=_touched_groups(completed, view, found, facts),
    )


def _touched_groups(
    completed: Iterable[Instant], view: OrderedUpTo, found: Selection, facts: TimelineFacts
) -> dict[GroupId, InstantTime]:
    """The groups that hold rows of the range as the view shows them, walking its instants in order-key order.

    A data instant adds the groups it wrote rows into and takes away those it replaced; clustering and bucket rescale
    hand rows on to the groups they wrote in the same partition; compaction changes nothing.
    """
    touched: dict[GroupId, InstantTime] = {}
    for instant in completed:
        commit = facts.commits[instant.requested_time]
        order_key = facts.timeline.order_key(instant)
        if order_key > view.order_key and instant.requested_time not in view.services:
            continue
        if commit.is_service:
            _hand_on(touched, commit, facts)
        elif found.commit_range.touches(order_key):
            for group in commit.replaced:
                touched.pop(group, None)
            for stat in commit.stats:
                group = (stat.partition, stat.file_id)
                if stat.path and not _only_deletes(stat) and found.holds(instant.requested_time, group):
                    touched[group] = order_key
    return touched


def _hand_on(touched: dict[GroupId, InstantTime], commit: CommitMetadata, facts: TimelineFacts) -> None:
    """Rows of replaced groups go on to the groups that the clustering or rescale wrote in their partition."""
    inherited: dict[str, InstantTime] = {}
    for group in commit.replaced:
        order_key = touched.pop(group, None)
        if order_key is not None:
            inherited[group[0]] = max(inherited.get(group[0], order_key), order_key)
    for stat in commit.stats:
        if stat.path and stat.partition in inherited:
            touched[stat.partition, stat.file_id] = inherited[stat.partition]


def _only_deletes(stat: WriteStat) -> bool:
    """Whether the file holds no row of its instant: a delete block alone, or a base file that was left empty."""
    return stat.num_writes == 0 and stat.num_deletes > 0


def reaches_back(query: Query, facts: TimelineFacts) -> bool:
    """Whether the answer may depend on instants before those that the facts hold: archived ones, or lost ones.

    From the start to a known place is the state there, whatever made it. Errors as for `order.resolved_range`.
    """
    if not facts.complete_from:
        return False
    known_from = Position(InstantTime(facts.complete_from))
    match query:
        case Snapshot() | ReadOptimized() | SnapshotPart() | TopicRanges():
            return False
        case SnapshotAsOf(instant):
            return instant < (facts.oldest_known or facts.timeline.first_active)
        case Incremental(after, upto, without):
            if not is_earliest(after) or without:
                return after != upto and after < known_from
            commit_range = resolved_range(facts.timeline, facts.pending_clusterings, facts.is_data, query)
            return commit_range.upto != after and commit_range.upto < known_from
        case Changes(after=after, upto=upto):
            return after != upto and after < known_from


def _shown(query: Query) -> str:
    match query:
        case Incremental(after=after, upto=upto) | Changes(after=after, upto=upto):
            return f"range ({after}, {'latest' if isinstance(upto, Latest) else upto}]"
        case SnapshotAsOf(instant):
            return f"state as of {instant}"
        case other:
            return type(other).__name__
