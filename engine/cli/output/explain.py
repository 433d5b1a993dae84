"""Explains a plan: the meaning of its range, its instants, and the reason for each split.

Reads the timeline of the table and the commit metadata of the instants in the range.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import assert_never

from penstock.engine.cli.output.pruning import Pruning, pruning_of
from penstock.enumerator.planning.plan import pruned_plan
from penstock.proto.model.changes import (
    ChangesOf,
    ChangeSource,
    ChangeStep,
    ComparedStates,
    GroupChanges,
    LoggedImages,
    StoredKinds,
)
from penstock.proto.model.queries import (
    Changes,
    Incremental,
    PlanRequest,
    Query,
    ReadOptimized,
    Snapshot,
    SnapshotAsOf,
    SnapshotPart,
    TopicRanges,
)
from penstock.proto.model.splits import AllRows, Plan, RowGroupRun, RowsOf, Split
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedInstant:
    """An instant of the plan's range."""

    requested_time: str
    """The requested time of the instant."""
    order_key: str
    """The order key; '' for an archived instant."""
    action: str
    """The action; '' for an archived instant."""
    what: str
    """The operation and the rows that it wrote, in words."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a plan."""

    meaning: str
    """The range in words."""
    instants: tuple[ExplainedInstant, ...]
    """The selected instants, by order key."""
    why: Mapping[str, str]
    """The reason for each split, by split id."""
    ruled_out: tuple[Split, ...] = ()
    """The splits that the filter excludes."""
    pruning: Pruning | None = None
    """What the filter excludes, by reason; None without a filter of rows of the table."""


def explained(table: str, planned: Plan, request: PlanRequest, whole: Collection[Split] = ()) -> Explanation:
    """Explains a plan of `table` (path or URI) by the current table. `whole`: the splits without a filter."""
    query = request.query
    opened = open_table(table)
    timeline = opened.timeline()
    wrote: dict[tuple[str, str], list[str]] = {}
    instants = [_instant(opened, timeline, time, wrote) for time in sorted(_selected(planned, timeline))]
    instants.sort(key=lambda item: (item.order_key or item.requested_time, item.requested_time))
    why = {split.split_id: _why(split, planned, wrote) for split in planned.splits}
    ruled_out = tuple(split for split in whole if split.split_id not in why)
    pruning = None
    if request.where and request.hybrid is None and not isinstance(query, Changes | SnapshotPart | TopicRanges):
        pruning = pruning_of(whole, planned.splits, pruned_plan(opened, table, request).ruled_out)
    meaning = _meaning(planned, query, opened.properties.layout)
    return Explanation(meaning, tuple(instants), why, ruled_out, pruning)


def _meaning(planned: Plan, query: Query, layout: int) -> str:
    key = "completion time, timeline layout 2" if layout == 2 else "requested time, timeline layout 1"
    span = f"({planned.commit_range.after}, {planned.commit_range.upto}]"
    match query:
        case Incremental():
            return (
                f"range (after, upto] = {span} by order key ({key}): the begin is exclusive, the end inclusive. Rows "
                "of the table as of the range's end whose last write is an instant of the range; what is overwritten "
                "or deleted inside the range shows in its last state, once"
            )
        case Changes():
            return (
                f"changes of (after, upto] = {span} by order key ({key}): the begin is exclusive, the end inclusive. "
                "Each change of each instant of the range, once, also where a later one takes it back"
            )
        case Snapshot():
            return f"snapshot: every completed instant, {span} by order key ({key})"
        case SnapshotAsOf(instant=instant, base_files_only=base_files_only):
            what = "read-optimized, the newest base file of each file group," if base_files_only else "snapshot"
            return f"{what} as of requested time {instant} (inclusive), as Hudi's as.of.instant: {span}"
        case ReadOptimized():
            return f"read-optimized: the newest base file of each file group, no log file: {span}"
        case SnapshotPart(at=at, first=first, end=end):
            return f"splits {first} to {end - 1}, in event-time order, of the snapshot at {at} by order key ({key})"
        case TopicRanges(ranges=ranges):
            listed = ", ".join(f"{part.topic}-{part.partition} {part.first} to {part.end - 1}" for part in ranges[:10])
            more = f", and {len(ranges) - 10} more" if len(ranges) > 10 else ""
            return f"records of the topic that the table is filled from, by partition and offset: {listed}{more}"
        case _:
            assert_never(query)


def _selected(planned: Plan, timeline: Timeline) -> set[str]:
    match planned.scan.rows:
        case RowsOf(instants=instants):
            return {str(time) for time in instants}
        case ChangesOf():
            steps = (
                step for split in planned.splits if isinstance(split.part, GroupChanges) for step in split.part.steps
            )
            return {str(step.instant) for step in steps}
        case AllRows():
            times = (str(item.requested_time) for item in timeline.completed_writes)
            return {time for time in times if planned.scan.visible.holds(time)}


def _instant(
    opened: HudiTable, timeline: Timeline, time: str, wrote: dict[tuple[str, str], list[str]]
) -> ExplainedInstant:
    """Describes an instant, and adds it to `wrote` for each file group that it wrote to."""
    write: Instant | None = timeline.completed_write(time)
    if write is None:
        what = "archived: no longer in the active timeline"
        return ExplainedInstant(requested_time=time, order_key="", action="", what=what)
    commit = opened.commit(write)
    for stat in commit.stats:
        if stat.path:
            wrote.setdefault((stat.partition, stat.file_id), []).append(time)
    kind = "service, adds no rows" if commit.is_service else f"{sum(stat.num_writes for stat in commit.stats)} rows"
    what = f"{commit.operation or 'unrecorded operation'} ({kind})"
    if commit.replaced:
        what += f", ends {len(commit.replaced)} file groups"
    key = str(timeline.order_key(write))
    return ExplainedInstant(requested_time=time, order_key=key, action=write.action.value, what=what)


def _why(split: Split, planned: Plan, wrote: Mapping[tuple[str, str], list[str]]) -> str:
    if isinstance(split.part, GroupChanges):
        steps = [f"{step.instant}: {source_text(step)}" for step in split.part.steps]
        return "; ".join(steps[:5]) + (f"; and {len(steps) - 5} more commits" if len(steps) > 5 else "")
    logs = f"{len(split.logs)} log file{'s' if len(split.logs) != 1 else ''}"
    slice_text = (
        f"base file of {split.base_instant or 'its instant'} and {logs}" if split.base else f"{logs}, no base file"
    )
    if isinstance(split.part, RowGroupRun):
        slice_text += f", row groups {split.part.first} to {split.part.end - 1} of it"
    if isinstance(planned.scan.rows, AllRows):
        return f"the file group's slice: {slice_text}"
    writers = wrote.get((split.partition, split.file_group), [])
    if not writers:
        return f"may hold rows that instants of the range wrote elsewhere and a service moved: {slice_text}"
    shown = ", ".join(writers[:5]) + (f" and {len(writers) - 5} more" if len(writers) > 5 else "")
    return f"written by {shown}: {slice_text}"


def source_text(step: ChangeStep) -> str:
    """The source of the changes of one commit in a file group, in words."""
    source: ChangeSource = step.source
    match source:
        case LoggedImages(files=files):
            return f"logged by the writer in {len(files)} file{'s' if len(files) != 1 else ''}"
        case StoredKinds():
            return "the records' stored kinds"
        case ComparedStates(before=None):
            return "every row of the new file group"
        case ComparedStates(after=None):
            return "every row of the group that it replaced"
        case ComparedStates():
            return "the group before and after, compared"
