"""The selection of a query: the view of the table, the instants of its range, and the file groups they touched.

Pure: computed from the timeline and commit metadata only. Discovery uses the selection to list only the partitions
that a query needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from penstock.enumerator.planning.commit_order import (
    Cut,
    completed_from,
    completed_in_order,
    cut_at,
    horizon,
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
from penstock.proto.value_classes import dataclass
from penstock.table.files.slices import Everything, GroupId, OrderedBefore, OrderedUpTo, RequestedUpTo, View
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Instant
from penstock.table.timeline.services.plans import CleanMetadata

RESCALE = "BUCKET_RESCALE"
_STAMPING = frozenset({"LOG_COMPACT", RESCALE})
"""Operations of services that write their own instant into the rows they move (Hudi 1.2.0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFacts:
    """The timeline and its metadata: the active timeline, or the active and the archived one
    (`archived_timeline.with_archive`)."""

    table: str
    """The table's URI, for error messages."""
    timeline: Timeline
    """The instants."""
    commits: Mapping[str, CommitMetadata]
    """Requested time -> metadata of a completed write instant."""
    pending_clusterings: frozenset[str]
    """Requested times of the pending replacecommits that have a clustering plan (layout 1)."""
    complete_from: str
    """Every instant with an order key above this one is known; '' if all instants are."""
    archive_begins: tuple[str, str] | None = None
    """(Requested time, order key) of the first archived write; None without archived instants."""
    archived_cleans: tuple[tuple[str, CleanMetadata], ...] = ()
    """(Requested time, metadata) of archived cleans."""
    rolled_back: frozenset[str] = frozenset()
    """Requested times of instants that were rolled back and are in no timeline."""
    oldest_known: str = ""
    """Instants requested before this time are lost even from the archive; '' if none are."""

    def is_data(self, instant: Instant) -> bool:
        """Whether a completed write instant holds data of its own."""
        return not self.commits[instant.requested_time].is_service


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The view, the file groups and the rows that a query reads."""

    view: View
    """The instants that are visible."""
    commit_range: CommitRange
    """The range of positions that the answer covers."""
    instants: frozenset[InstantTime] = frozenset()
    """Requested times of the range's data instants, those at its ends that it covers in part included."""
    rows: AllRows | RowsOf | ChangesOf = field(default_factory=AllRows)
    """The rows of the files that are returned."""
    groups: Mapping[GroupId, InstantTime] | None = None
    """File group -> order key of its split; None for all groups. The key is that of the range's newest data instant
    that wrote rows into the group or into a group that was clustered into it; for changes, of the newest one that wrote
    into it or replaced it."""
    base_files_only: bool = False
    """Whether log files are ignored (read optimized)."""
    starts_at: Cut | None = None
    """The cut of the instant inside which the range starts."""
    ends_at: Cut | None = None
    """The cut of the instant inside which the range ends."""

    def holds(self, instant: str, group: GroupId) -> bool:
        """Whether the range covers the instant's write into the group."""
        if self.starts_at is not None and self.starts_at.instant == instant and group in self.starts_at.before:
            return False
        if self.ends_at is not None and self.ends_at.instant == instant and group in self.ends_at.after:
            return False
        return instant in self.instants

    def view_of(self, group: GroupId) -> View:
        """The view of one group. A group after the cut at the range's end is read as of before that instant."""
        if self.ends_at is not None and group in self.ends_at.after:
            return OrderedBefore(self.ends_at.order_key, self.ends_at.instant)
        return self.view


def select(query: Query, facts: TimelineFacts) -> tuple[Selection, ...]:
    """The query's selections in order of preference.

    All give the same rows; a later one applies if files that an earlier one needs were cleaned. ConfigurationError and
    StateVersionError as for `commit_order.resolved_range`; PositionExpired if the answer depends on instants that the
    facts lack (`reaches_back`).
    """
    if reaches_back(query, facts):
        raise PositionExpired(
            f"{_description(query)} of table {facts.table} depends on archived instants that are gone: its timeline, "
            f"with what was archived, is complete from {facts.oldest_known or facts.complete_from} on; ask for that or "
            "a later one, or read from `earliest`"
        )
    match query:
        case Snapshot():
            return (Selection(view=Everything(), commit_range=_up_to_newest(facts)),)
        case ReadOptimized():
            return (Selection(view=Everything(), commit_range=_up_to_newest(facts), base_files_only=True),)
        case SnapshotAsOf(instant, base_files_only):
            commit_range = _up_to_instant(instant, facts)
            view = RequestedUpTo(instant)
            return (Selection(view=view, commit_range=commit_range, base_files_only=base_files_only),)
        case Incremental():
            return _incremental(query, facts)
        case Changes():
            return (_changes(query, facts),)
        case SnapshotPart():
            raise InvariantViolation("a part of a snapshot is planned from the whole, which is a range")
        case TopicRanges():
            raise InvariantViolation("ranges of a topic select nothing of a table")


def _incremental(query: Incremental, facts: TimelineFacts) -> tuple[Selection, ...]:
    """Two selections: the state exactly at the end of the range, and that state with the services after it.

    `Latest` means the table as it is now, so there the selection with services is preferred.
    """
    commit_range = resolved_range(facts.timeline, facts.pending_clusterings, facts.is_data, query)
    order_key = commit_range.upto.order_key
    if commit_range.upto == commit_range.after:
        empty = Selection(view=OrderedUpTo(order_key), commit_range=commit_range, rows=RowsOf(frozenset()), groups={})
        return (empty,)
    cuts = _cuts(commit_range, facts)
    services = _services_after(commit_range.upto, facts, cuts[1])
    views = [OrderedUpTo(order_key), OrderedUpTo(order_key, services)] if services else [OrderedUpTo(order_key)]
    if isinstance(query.upto, Latest):
        views.reverse()
    return tuple(_range_selection(view, commit_range, facts, query.without, cuts) for view in views)


def _cuts(commit_range: CommitRange, facts: TimelineFacts) -> tuple[Cut | None, Cut | None]:
    """The cuts of the instants at the range's two ends."""
    ends = (commit_range.after, commit_range.upto)
    start, end = (cut_at(item, facts.timeline, facts.commits, facts.table, facts.complete_from) for item in ends)
    return start, end


def _instants_inside(
    commit_range: CommitRange, facts: TimelineFacts, without: frozenset[InstantTime]
) -> frozenset[InstantTime]:
    """The data instants that the range covers, in part or as a whole."""
    return frozenset(
        item.requested_time
        for item in completed_from(facts.timeline, facts.pending_clusterings, commit_range.after.order_key)
        if commit_range.touches(facts.timeline.order_key(item))
        and facts.is_data(item)
        and item.requested_time not in without
    )


def _changes(query: Changes, facts: TimelineFacts) -> Selection:
    """The selection of every group that a data instant of the range wrote into or replaced."""
    commit_range = resolved_range(facts.timeline, facts.pending_clusterings, facts.is_data, query)
    completed = completed_in_order(facts.timeline, facts.pending_clusterings)
    upto = commit_range.upto.order_key
    known = tuple(item.requested_time for item in completed if facts.timeline.order_key(item) <= upto)
    start, end = _cuts(commit_range, facts)
    groups: dict[GroupId, InstantTime] = {}
    selection = Selection(
        view=OrderedUpTo(upto),
        commit_range=commit_range,
        instants=_instants_inside(commit_range, facts, query.without),
        rows=ChangesOf(query.format, known),
        groups=groups,
        starts_at=start,
        ends_at=end,
    )
    for item in completed:
        if item.requested_time in selection.instants:
            for group in groups_of(facts.commits[item.requested_time]):
                if selection.holds(item.requested_time, group):
                    groups[group] = facts.timeline.order_key(item)
    return selection


def needs_lineage(selection: Selection) -> bool:
    """Whether row lineage may be needed to find the instant that wrote a row of the range."""
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
    """From EARLIEST to the greatest order key of a data instant that is visible to the time-travel query."""
    visible = (
        item for item in facts.timeline.completed_writes if item.requested_time <= instant and facts.is_data(item)
    )
    newest = max((facts.timeline.order_key(item) for item in visible), default=None)
    return CommitRange(EARLIEST, EARLIEST if newest is None else Position(newest))


def _services_after(upto: Position, facts: TimelineFacts, cut: Cut | None) -> frozenset[str]:
    """Requested times of the services between `upto` and the next data instant, pending ones of layout 1 included.

    The instants they rewrote had completed by `upto`, so including them changes files, not rows. The cleaner may have
    removed the files they replaced. A service that replaced a group after the cut moved rows that are not part of the
    state at the range's end, so the services end before it.
    """
    timeline = facts.timeline
    pending = horizon(timeline, facts.pending_clusterings)
    later = [item for item in timeline.writes_from(upto.order_key) if timeline.order_key(item) > upto.order_key]
    ends = [timeline.order_key(item) for item in later if facts.is_data(item) or _is_rescale(item, facts)]
    if cut is not None:
        moved = (item for item in later if not cut.after.isdisjoint(facts.commits[item.requested_time].replaced))
        ends += map(timeline.order_key, moved)
    end: InstantTime | None = min([*ends, *([pending.requested_time] if pending else [])], default=None)
    services = (
        item for item in later if _keeps_commit_times(item, facts) and (end is None or timeline.order_key(item) < end)
    )
    return frozenset(item.requested_time for item in services)


def _keeps_commit_times(instant: Instant, facts: TimelineFacts) -> bool:
    """Whether a service keeps its rows' `_hoodie_commit_time`. A log compaction may not, and it removes no file."""
    return not facts.is_data(instant) and facts.commits[instant.requested_time].operation not in _STAMPING


def _is_rescale(instant: Instant, facts: TimelineFacts) -> bool:
    return facts.commits[instant.requested_time].operation == RESCALE


def _stamping_services(commit_range: CommitRange, facts: TimelineFacts) -> frozenset[InstantTime]:
    """The services that may have written their instant into rows of the range: those that completed after its start."""
    return frozenset(
        item.requested_time
        for item in facts.timeline.writes_from(commit_range.after.order_key)
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
    """The selection of a range. A range from EARLIEST is the snapshot at its end: every group, every row."""
    instants = _instants_inside(commit_range, facts, without)
    selection = Selection(view=view, commit_range=commit_range, instants=instants, starts_at=cuts[0], ends_at=cuts[1])
    if commit_range.after.is_earliest and not without:
        return selection
    completed = completed_from(facts.timeline, facts.pending_clusterings, commit_range.after.order_key)
    return replace(
        selection,
        rows=RowsOf(instants, _stamping_services(commit_range, facts)),
        groups=_touched_groups(completed, view, selection, facts),
    )


def _touched_groups(
    completed: Iterable[Instant], view: OrderedUpTo, selection: Selection, facts: TimelineFacts
) -> dict[GroupId, InstantTime]:
    """The groups that hold rows of the range in the view.

    Instants are applied in order-key order. A data instant adds the groups that it wrote rows into and removes those
    that it replaced. Clustering and bucket rescale move rows to the groups that they wrote in the same partition.
    Compaction changes nothing.
    """
    touched: dict[GroupId, InstantTime] = {}
    for instant in completed:
        commit = facts.commits[instant.requested_time]
        order_key = facts.timeline.order_key(instant)
        if order_key > view.order_key and instant.requested_time not in view.services:
            continue
        if commit.is_service:
            _move_rows(touched, commit, facts)
        elif selection.commit_range.touches(order_key):
            for group in commit.replaced:
                touched.pop(group, None)
            for stat in commit.stats:
                group = (stat.partition, stat.file_id)
                if stat.path and not _only_deletes(stat) and selection.holds(instant.requested_time, group):
                    touched[group] = order_key
    return touched


def _move_rows(touched: dict[GroupId, InstantTime], commit: CommitMetadata, facts: TimelineFacts) -> None:
    """Move rows of replaced groups to the groups that the clustering or rescale wrote in their partition."""
    inherited: dict[str, InstantTime] = {}
    for group in commit.replaced:
        order_key = touched.pop(group, None)
        if order_key is not None:
            inherited[group[0]] = max(inherited.get(group[0], order_key), order_key)
    for stat in commit.within(inherited).stats:
        if stat.path and stat.partition in inherited:
            touched[stat.partition, stat.file_id] = inherited[stat.partition]


def _only_deletes(stat: WriteStat) -> bool:
    """Whether the file holds no row of its instant: a log with a delete block only, or an empty base file."""
    return stat.num_writes == 0 and stat.num_deletes > 0


def reaches_back(query: Query, facts: TimelineFacts) -> bool:
    """Whether the answer may depend on archived or lost instants that the facts lack.

    A range from EARLIEST to a known position does not: it is the state there. Errors as for
    `commit_order.resolved_range`.
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
            if not after.is_earliest or without:
                return after != upto and after < known_from
            commit_range = resolved_range(facts.timeline, facts.pending_clusterings, facts.is_data, query)
            return commit_range.upto != after and commit_range.upto < known_from
        case Changes(after=after, upto=upto):
            return after != upto and after < known_from


def _description(query: Query) -> str:
    match query:
        case Incremental(after=after, upto=upto) | Changes(after=after, upto=upto):
            return f"range ({after}, {'latest' if isinstance(upto, Latest) else upto}]"
        case SnapshotAsOf(instant):
            return f"state as of {instant}"
        case other:
            return type(other).__name__
