"""Plan the next round of a group or stream: read the table, check the progress, apply the limits, plan the range."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC
from typing import Final

from penstock.enumerator.clocks import wall_ms
from penstock.enumerator.continuous.consistency import (
    missing_instants,
    moved_to_layout,
    newest_active,
    progress_at,
    refuse_archived_late,
    refuse_invalidated,
    refuse_late,
    refuse_newer_position,
)
from penstock.enumerator.continuous.round_limits import data_instants_after, next_end, reshaped_in
from penstock.enumerator.continuous.types import Advance, Following, Issued, NextRound, NothingNew, Progress
from penstock.enumerator.log import log_event
from penstock.enumerator.planning.archived_timeline import with_archive
from penstock.enumerator.planning.commit_order import cut_at, horizon
from penstock.enumerator.planning.discovery import complete_from, pending_clusterings, read_timeline
from penstock.enumerator.planning.plan import Planning, plan_request
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.errors import (
    ConfigurationError,
    DataInvalidated,
    InvariantViolation,
    LateInstant,
    PositionExpired,
    StorageError,
)
from penstock.proto.model.positions import CommitRange, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, Changes, Incremental, PlanRequest
from penstock.proto.model.splits import Plan
from penstock.table.hudi_table import HudiTable
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.zones import instant_ms

_MAX_ATTEMPTS: Final = 3
"""How often a round is planned if the timeline changes during planning."""


def advance(
    table: HudiTable,
    name: str,
    following: Following,
    *,
    hollow_after_ms: int | None = None,
    clock_ms: Callable[[], int] = wall_ms,
    planned: Planning = plan_request,
) -> Advance:
    """The next round after the progress on the table as it is now, or NothingNew. A pinned table is taken as it is.

    Where the range ends:

    * It never passes `following.upto`. It reaches it in a last round, which may have no splits, once an instant that
      completed there or later shows that nothing before it can complete any more.
    * On layout 1 it never passes a pending instant that may still add rows. With `hollow_after_ms`, a pending instant
      whose file is older by the wall clock is passed with a WARNING; it is a LateInstant if it completes later.
    * It keeps the limits, with two exceptions: a first file group that is larger, and a range of rows whose state at
      the limit was cleaned while a later end can still be answered exactly (WARNING).

    `planned` plans the round. LateInstant and DataInvalidated, if two listings of the timeline in a row show it;
    PositionExpired if the range after the progress can no longer be answered; StorageError; errors of planning.
    """
    for attempt in range(_MAX_ATTEMPTS):
        if attempt or not table.is_pinned:
            table = table.unpinned().refreshed().pinned()
        try:
            passed_over, active, progress = _checked_timeline(table, following.progress, hollow_after_ms, clock_ms())
        except (DataInvalidated, LateInstant):  # the listing may be stale
            table = table.unpinned().refreshed().pinned()
            passed_over, active, progress = _checked_timeline(table, following.progress, hollow_after_ms, clock_ms())
        facts = reaching_back(table, active, progress.position, following.request)
        changes = isinstance(following.request.query, Changes)
        end = next_end(facts, progress.position, following.limits, progress.ahead, changes=changes)
        if following.upto is not None:
            end = min(end, max(following.upto, progress.position))
            if end == progress.position and _is_settled(active, following.upto):
                end = max(end, following.upto)
        if end == progress.position:
            return NothingNew()
        plan = _planned_round(table, name, following, progress, facts, end, passed_over, planned)
        end = plan.commit_range.upto
        before, again = table.timeline(), table.unpinned().timeline()
        if again is before or _inside(before, end, again) == _inside(again, end, before):
            _log_passed_over(name, passed_over, plan.commit_range)
            return NextRound(
                commit_range=plan.commit_range,
                plan=plan,
                progress=progress_at(active, end, progress, table.properties.layout, facts),
                without=progress.ahead,
                reshaped=reshaped_in(facts, plan.commit_range),
                commits=_commits_in(facts, plan.commit_range, progress.ahead),
                issued=_issued(table, end, clock_ms()),
                is_last=again is before and hollow_after_ms is None and _is_last(facts, end, following),
            )
    raise StorageError(
        f"the timeline of table {facts.table} changed during each of {_MAX_ATTEMPTS} attempts to plan; a "
        "retry may succeed"
    )


def _checked_timeline(
    table: HudiTable, progress: Progress, hollow_after_ms: int | None, now_ms: int
) -> tuple[tuple[str, ...], TimelineFacts, Progress]:
    """The instants that are passed over, the active timeline without them, and the progress on it. Errors of
    `_checked`."""
    passed_over = _hollow(table, hollow_after_ms, now_ms)
    active = read_timeline(table, passed_over)
    return passed_over, active, _checked(table, active, progress)


def _is_last(facts: TimelineFacts, end: Position, following: Following) -> bool:
    """Whether a round after `end` would have nothing, whatever its limits."""
    changes = isinstance(following.request.query, Changes)
    return following.upto is None and next_end(facts, end, NO_LIMITS, changes=changes) == end


def _is_settled(facts: TimelineFacts, upto: Position) -> bool:
    """Whether the timeline shows that nothing can complete at or before `upto` any more.

    An instant, possibly a service, has completed there or later; and on layout 1 no pending instant before it may still
    add rows.
    """
    pending = horizon(facts.timeline, facts.pending_clusterings)
    if pending is not None and pending.requested_time <= upto.order_key:
        return False
    return newest_active(facts) >= upto.order_key


def _issued(table: HudiTable, end: Position, now_ms: int) -> Issued | None:
    """The time of the round's newest instant; None unless the timeline is in UTC."""
    zone = UTC if table.properties.timezone.upper() == "UTC" else None
    issued_ms = instant_ms(end.order_key, zone)
    return None if issued_ms is None else Issued(instant_ms=issued_ms, delay_ms=max(0, now_ms - issued_ms))


def start_progress(table: HudiTable, position: Position | None) -> Progress:
    """The progress of a group that starts after `position`; None starts after the newest position.

    ConfigurationError for a position after everything in the table, or on layout 1 at or after a pending instant that
    may still add rows; StateVersionError for a position at which its instant cannot be cut.
    """
    table = table.refreshed()
    facts = read_timeline(table)
    newest = next_end(facts, Position(InstantTime("0")), NO_LIMITS)
    if position is None:
        position = newest
    elif position.is_earliest:
        pass
    elif position > max(newest, Position(InstantTime(newest_active(facts) or "0"))) and not _is_archived(
        table, facts, position
    ):
        raise ConfigurationError(
            f"position {position} is after everything in table {facts.table} (its newest is {newest}): give "
            "that or an earlier one, or `latest`"
        )
    pending = horizon(facts.timeline, facts.pending_clusterings)
    if pending is not None and position.order_key >= pending.requested_time:
        raise ConfigurationError(
            f"position {position} of table {facts.table} is at or after instant {pending.requested_time} "
            f"({pending.action}, {pending.state}), which is not completed and may still add rows: give one before it"
        )
    cut_at(position, facts.timeline, facts.commits, facts.table, facts.complete_from)
    start = Progress(position, table_id=table.properties.name)
    return progress_at(facts, position, start, table.properties.layout)


def check_progress(table: HudiTable, progress: Progress) -> Progress:
    """The progress on the table's layout, with the consumed instants that are active now.

    LateInstant and DataInvalidated as for `advance`, if the table no longer holds what was consumed.
    """
    try:
        return _progress_now(table, progress)
    except (DataInvalidated, LateInstant):
        return _progress_now(table.unpinned(), progress)  # the listing may be stale


def _progress_now(table: HudiTable, progress: Progress) -> Progress:
    facts = read_timeline(table)
    checked = _checked(table, facts, progress)
    return progress_at(facts, checked.position, checked, table.properties.layout)


def _checked(table: HudiTable, facts: TimelineFacts, progress: Progress) -> Progress:
    """The progress on the table's layout, or an error if it is no longer valid."""
    layout, table_id = table.properties.layout, table.properties.name
    if progress.layout == 0:
        return progress_at(facts, progress.position, replace(progress, table_id=table_id), layout)
    gone = missing_instants(facts, progress)
    reaches = progress.position.is_earliest or progress.position.order_key <= newest_active(facts)
    if gone or not reaches:
        archived = _archived(table, facts, gone)
        refuse_invalidated(facts, progress, gone, archived, table_id)
        refuse_newer_position(facts, progress, reaches or _is_archived(table, facts, progress.position), table_id)
        if gone and progress.layout == layout and _may_be_late(table, facts, progress, gone):
            refuse_archived_late(facts, with_archive(facts, table.archive()), progress, gone)
    if progress.layout != layout:
        progress = moved_to_layout(with_archive(facts, table.archive()), progress, layout)
        log_event(
            "progress moved to another timeline layout",
            table=facts.table,
            layout=layout,
            position=progress.position,
            ahead=len(progress.ahead),
        )
    refuse_late(facts, progress)
    return progress


def _may_be_late(table: HudiTable, facts: TimelineFacts, progress: Progress, gone: Collection[InstantTime]) -> bool:
    """Whether the archive must be read to find late instants. The history of layout 2 holds every completion time."""
    completions = table.archived_completions()
    if not all(item in completions for item in gone):
        return True
    first, known = min(gone), progress.consumed | progress.ahead
    return any(
        first < requested
        and requested not in known
        and completion <= progress.position.order_key
        and facts.timeline.completed_write(requested) is None
        for requested, completion in completions.items()
    )


def _archived(table: HudiTable, facts: TimelineFacts, gone: Collection[InstantTime]) -> Collection[str]:
    """Requested times of archived writes. The whole archive is read only if the history lacks one of `gone`."""
    completions = table.archived_completions()
    if gone and all(item in completions for item in gone):
        return completions.keys()
    return table.archive().commits.keys() if complete_from(table, facts.timeline) else ()


def _is_archived(table: HudiTable, facts: TimelineFacts, position: Position) -> bool:
    """Whether an archived write is at or after the position in commit order."""
    if not complete_from(table, facts.timeline):
        return False
    timeline = facts.timeline.with_archived(table.archive().instants)
    return any(timeline.order_key(item) >= position.order_key for item in timeline.completed_writes)


def reaching_back(table: HudiTable, facts: TimelineFacts, after: Position, request: PlanRequest) -> TimelineFacts:
    """The facts, with archived instants if any may be after the position."""
    if not facts.complete_from or after >= Position(InstantTime(facts.complete_from)):
        return facts
    if after.is_earliest and isinstance(request.query, Incremental):
        return facts
    if not after.is_earliest and after.order_key >= newest_active(facts):
        return facts
    whole = with_archive(facts, table.archive())
    if whole.complete_from and after < Position(InstantTime(whole.complete_from)):
        raise PositionExpired(
            f"position {after} of table {facts.table} is before instants that are gone even from the archive: its "
            f"timeline is complete from {whole.oldest_known or whole.complete_from} on; start there, or read a snapshot"
        )
    return whole


def _planned_round(
    table: HudiTable,
    name: str,
    following: Following,
    progress: Progress,
    facts: TimelineFacts,
    end: Position,
    passed_over: Collection[str],
    planned: Planning,
) -> Plan:
    """The plan up to `end`, or for rows up to the first later end that can still be answered."""
    position, query = progress.position, following.request.query
    if isinstance(query, Changes):
        changes = Changes(query.format, position, end, progress.ahead)
        return planned(table, name, replace(following.request, query=changes), passed_over)
    if not isinstance(query, Incremental):
        raise ConfigurationError(f"following table {name} by {type(query).__name__}: expected a range or changes")
    lost: PositionExpired | None = None
    for attempt, later in enumerate(_later_ends(facts, end, following.upto)):
        rows = Incremental(position, later, progress.ahead)
        try:
            plan = planned(table, name, replace(following.request, query=rows), passed_over)
        except PositionExpired as error:
            lost = lost or error
            continue
        if attempt:
            log_event(
                "round beyond its limits",
                level=logging.WARNING,
                table=name,
                after=position,
                limit=end,
                upto=later,
                reason=str(lost)[:300],
            )
        return plan
    if lost is None:
        raise InvariantViolation(f"table {name}: no end of a round was tried")
    raise lost


def _later_ends(facts: TimelineFacts, end: Position, upto: Position | None) -> list[Position]:
    """`end`, then later ends in growing steps, up to the last one."""
    later = [Position(key) for key, _ in data_instants_after(facts, end, upto)]
    later = [item for item in later if upto is None or item <= upto]
    steps = [step for step in (0, 1, 3, 7, 15, 31, 63, 127) if step < len(later)]
    return [end, *(later[step] for step in steps if step < len(later) - 1), *later[-1:]]


def _inside(timeline: Timeline, end: Position, other: Timeline) -> frozenset[str]:
    """Writes of the timeline up to `end`, without those that were archived in the meantime."""
    first = max(timeline.first_active, other.first_active)
    return frozenset(
        item.requested_time
        for item in timeline.completed_writes
        if end.touches(timeline.order_key(item)) and item.requested_time >= first
    )


def _commits_in(facts: TimelineFacts, commit_range: CommitRange, ahead: frozenset[InstantTime]) -> int:
    """The number of data instants in the range, those covered in part included."""
    inside = data_instants_after(facts, commit_range.after, commit_range.upto)
    return sum(item.requested_time not in ahead for _, instants in inside for item in instants)


def _log_passed_over(name: str, passed_over: Collection[str], commit_range: CommitRange) -> None:
    """Log the pending instants that this round passes."""
    for instant in passed_over:
        if commit_range.after.order_key < instant <= commit_range.upto.order_key:
            log_event("hollow instant passed over", level=logging.WARNING, table=name, instant=instant)


def _hollow(table: HudiTable, hollow_after_ms: int | None, now_ms: int) -> tuple[str, ...]:
    """Pending instants of layout 1 whose files are so old that their writer must have died."""
    if hollow_after_ms is None or table.properties.layout != 1:
        return ()
    timeline = table.timeline()
    hollow: list[str] = []
    clusterings = pending_clusterings(table, timeline)
    while (pending := horizon(timeline, clusterings.union(hollow))) is not None:
        info = table.storage.file_info(f"{table.properties.timeline_folder}/{pending.file_name}")
        if info is None or not info.modified_ns or now_ms - info.modified_ns // 1_000_000 < hollow_after_ms:
            break
        hollow.append(pending.requested_time)
    return tuple(hollow)
