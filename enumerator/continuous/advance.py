"""One look at a table for a group: what is new behind its progress, checked, cut to the limits, and planned.

Shell: reads the table, asks the pure parts. Not here: decisions (`checks`, `rounds`), when to look (`table_watch`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC
from typing import Final

from penstock.enumerator.clocks import wall_ms
from penstock.enumerator.continuous.consistency import (
    newest_active,
    on_layout,
    refuse_archived_late,
    refuse_invalidated,
    refuse_late,
    refuse_newer_position,
    remembered,
    vanished,
)
from penstock.enumerator.continuous.lag import instant_ms
from penstock.enumerator.continuous.round_limits import data_instants_behind, next_end, reshaped_in
from penstock.enumerator.continuous.types import Advance, Following, Issued, NextRound, NothingNew, Progress
from penstock.enumerator.log import log_event
from penstock.enumerator.planning.archived_timeline import with_archive
from penstock.enumerator.planning.commit_order import cut_at, horizon, is_earliest
from penstock.enumerator.planning.discovery import complete_from, pending_clusterings, read_timeline
from penstock.enumerator.planning.plan import Planning, plan_request
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.errors import ConfigurationError, InvariantViolation, PositionExpired, StorageError
from penstock.proto.model.positions import CommitRange, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, Changes, Incremental, PlanRequest
from penstock.proto.model.splits import Plan
from penstock.table.hudi_table import HudiTable

_LOOKS: Final = 3
"""How often a round is planned again because the timeline grew behind its back."""


def advance(
    table: HudiTable,
    name: str,
    following: Following,
    *,
    hollow_after_ms: int | None = None,
    clock_ms: Callable[[], int] = wall_ms,
    planned: Planning = plan_request,
) -> Advance:
    """The next round behind the progress, or that nothing is new. Looks at the table as it is now.

    The round's range never passes `following.upto`, and reaches it in a last round, maybe of no splits, once a service
    that completed there or behind it shows that nothing comes before it any more; nor does it pass on layout 1 a
    pending instant that may still bring rows; with
    `hollow_after_ms` one whose file is older than that by the wall clock is passed, with a WARNING, and is LateInstant
    should it complete after all. Limits are kept but for a first file group that is larger, and for rows whose state
    at the limits' end was cleaned, where a later end still answers exactly (WARNING). Errors: LateInstant,
    DataInvalidated, PositionExpired (the range behind the progress cannot be answered any more), those of planning;
    StorageError as it comes. `planned` plans the round.
    """
    for _ in range(_LOOKS):
        table = table.refreshed()
        passed_over = _hollow(table, hollow_after_ms, clock_ms())
        active = read_timeline(table, passed_over)
        progress = _checked(table, active, following.progress)
        facts = reaching_back(table, active, progress.position, following.request)
        changes = isinstance(following.request.query, Changes)
        end = next_end(facts, progress.position, following.limits, progress.ahead, changes=changes)
        if following.upto is not None:
            end = min(end, max(following.upto, progress.position))
            if end == progress.position and _is_settled(active, following.upto):
                end = max(end, following.upto)
        if end == progress.position:
            return NothingNew()
        found = _planned(table, name, following, progress, facts, end, passed_over, planned)
        end = found.commit_range.upto
        again = read_timeline(table, passed_over)
        if _inside(active, end, again) == _inside(again, end, active):
            _tell_passed_over(name, passed_over, found.commit_range)
            return NextRound(
                commit_range=found.commit_range,
                plan=found,
                progress=remembered(active, end, progress, table.properties.layout),
                without=progress.ahead,
                reshaped=reshaped_in(facts, found.commit_range),
                commits=_commits_in(facts, found.commit_range, progress.ahead),
                issued=_issued(table, end, clock_ms()),
            )
    raise StorageError(
        f"the timeline of table {facts.table} changed behind each of {_LOOKS} looks at it; asking again may help"
    )


def _is_settled(facts: TimelineFacts, upto: Position) -> bool:
    """Whether the timeline shows that nothing completes at or below `upto` any more: something, be it a service, has
    completed there or behind it, and on layout 1 no pending instant below may still bring rows."""
    hole = horizon(facts.timeline, facts.pending_clusterings)
    if hole is not None and hole.requested_time <= upto.order_key:
        return False
    return newest_active(facts) >= upto.order_key


def _issued(table: HudiTable, end: Position, now_ms: int) -> Issued | None:
    """Known where the timeline is in UTC."""
    zone = UTC if table.properties.timezone.upper() == "UTC" else None
    issued_ms = instant_ms(end.order_key, zone)
    return None if issued_ms is None else Issued(instant_ms=issued_ms, delay_ms=max(0, now_ms - issued_ms))


def start_progress(table: HudiTable, position: Position | None) -> Progress:
    """The progress of a group that starts behind `position`, None for the newest one there is.

    ConfigurationError for a position behind everything the table holds, or at or behind a pending instant of layout 1
    that may still bring rows; StateVersionError for one inside an instant that cannot be cut there.
    """
    table = table.refreshed()
    facts = read_timeline(table)
    newest = next_end(facts, Position(InstantTime("0")), NO_LIMITS)
    if position is None:
        position = newest
    elif is_earliest(position):
        pass
    elif position > max(newest, Position(InstantTime(newest_active(facts) or "0"))) and not _is_archived(
        table, facts, position
    ):
        raise ConfigurationError(
            f"position {position} lies behind everything that table {facts.table} holds (its newest is {newest}): give "
            "that or an earlier one, or `latest`"
        )
    hole = horizon(facts.timeline, facts.pending_clusterings)
    if hole is not None and position.order_key >= hole.requested_time:
        raise ConfigurationError(
            f"position {position} of table {facts.table} lies at or behind instant {hole.requested_time} "
            f"({hole.action}, {hole.state}), which is not completed and may still bring rows: give one before it"
        )
    cut_at(position, facts.timeline, facts.commits, facts.table, facts.complete_from)
    start = Progress(position, table_id=table.properties.name)
    return remembered(facts, position, start, table.properties.layout)


def check_progress(table: HudiTable, progress: Progress) -> Progress:
    """The progress on the table's layout, if what it consumed is still the table's, remembering what of that is active
    now: LateInstant, DataInvalidated and ConfigurationError as for `advance`."""
    facts = read_timeline(table)
    known = _checked(table, facts, progress)
    return remembered(facts, known.position, known, table.properties.layout)


def _checked(table: HudiTable, facts: TimelineFacts, progress: Progress) -> Progress:
    """The progress on the table's layout, or the error that says why it cannot go on."""
    layout, table_id = table.properties.layout, table.properties.name
    if progress.layout == 0:
        return remembered(facts, progress.position, replace(progress, table_id=table_id), layout)
    gone = vanished(facts, progress)
    reaches = is_earliest(progress.position) or progress.position.order_key <= newest_active(facts)
    if gone or not reaches:
        archived = _archived(table, facts, gone)
        refuse_invalidated(facts, progress, gone, archived, table_id)
        refuse_newer_position(facts, progress, reaches or _is_archived(table, facts, progress.position), table_id)
        if gone and progress.layout == layout and _may_be_late(table, facts, progress, gone):
            refuse_archived_late(facts, with_archive(facts, table.archive()), progress, gone)
    if progress.layout != layout:
        progress = on_layout(with_archive(facts, table.archive()), progress, layout)
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
    """Whether the archive has to be read for late instants: a history tells of each write when it completed."""
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
    """Requested times of archived writes; the whole archive is read only if the history does not hold all of `gone`."""
    completions = table.archived_completions()
    if gone and all(item in completions for item in gone):
        return completions.keys()
    return table.archive().commits.keys() if complete_from(table, facts.timeline) else ()


def _is_archived(table: HudiTable, facts: TimelineFacts, position: Position) -> bool:
    """Whether an archived write reaches the position in commit order."""
    if not complete_from(table, facts.timeline):
        return False
    timeline = facts.timeline.with_archived(table.archive().instants)
    return any(timeline.order_key(item) >= position.order_key for item in timeline.completed_writes)


def reaching_back(table: HudiTable, facts: TimelineFacts, after: Position, request: PlanRequest) -> TimelineFacts:
    """The facts with archived instants, if any may lie behind the position."""
    if not facts.complete_from or after >= Position(InstantTime(facts.complete_from)):
        return facts
    if is_earliest(after) and isinstance(request.query, Incremental):
        return facts
    if not is_earliest(after) and after.order_key >= newest_active(facts):
        return facts
    whole = with_archive(facts, table.archive())
    if whole.complete_from and after < Position(InstantTime(whole.complete_from)):
        raise PositionExpired(
            f"position {after} of table {facts.table} lies before instants that are gone even from the archive: its "
            f"timeline is complete from {whole.oldest_known or whole.complete_from} on; begin there, or read a snapshot"
        )
    return whole


def _planned(
    table: HudiTable,
    name: str,
    following: Following,
    progress: Progress,
    facts: TimelineFacts,
    end: Position,
    passed_over: Collection[str],
    planned: Planning,
) -> Plan:
    """The plan up to `end`, or for rows up to the next end behind it that can still be answered."""
    position, query = progress.position, following.request.query
    if isinstance(query, Changes):
        asked: PlanRequest = replace(following.request, query=Changes(query.format, position, end, progress.ahead))
        return planned(table, name, asked, passed_over)
    if not isinstance(query, Incremental):
        raise ConfigurationError(f"following table {name} by {type(query).__name__}: expected a range or changes")
    lost: PositionExpired | None = None
    for place, later in enumerate(_later_ends(facts, end, following.upto)):
        rows = Incremental(position, later, progress.ahead)
        try:
            plan = planned(table, name, replace(following.request, query=rows), passed_over)
        except PositionExpired as error:
            lost = lost or error
            continue
        if place:
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
    """`end`, then ends behind it in growing steps, the last one there is at the end."""
    behind = [Position(key) for key, _ in data_instants_behind(facts, end, upto)]
    behind = [item for item in behind if upto is None or item <= upto]
    steps = [step for step in (0, 1, 3, 7, 15, 31, 63, 127) if step < len(behind)]
    return [end, *(behind[step] for step in steps if step < len(behind) - 1), *behind[-1:]]


def _inside(facts: TimelineFacts, end: Position, other: TimelineFacts) -> frozenset[str]:
    """Writes of the facts up to `end`; not those that left the timeline meanwhile from its old end."""
    first = max(facts.timeline.first_active, other.timeline.first_active)
    return frozenset(
        item.requested_time
        for item in facts.timeline.completed_writes
        if Position(facts.timeline.order_key(item), 0) < end and item.requested_time >= first
    )


def _commits_in(facts: TimelineFacts, commit_range: CommitRange, ahead: frozenset[InstantTime]) -> int:
    """Data instants of the range, in part included."""
    behind = data_instants_behind(facts, commit_range.after, commit_range.upto)
    return sum(item.requested_time not in ahead for _, instants in behind for item in instants)


def _tell_passed_over(name: str, passed_over: Collection[str], commit_range: CommitRange) -> None:
    """Told once a group: by the round that passes it."""
    for instant in passed_over:
        if commit_range.after.order_key < instant <= commit_range.upto.order_key:
            log_event("hollow instant passed over", level=logging.WARNING, table=name, instant=instant)


def _hollow(table: HudiTable, hollow_after_ms: int | None, now_ms: int) -> tuple[str, ...]:
    """Pending instants of layout 1 that are older than a writer can be, by the time of their files."""
    if hollow_after_ms is None or table.properties.layout != 1:
        return ()
    timeline = table.timeline()
    found: list[str] = []
    clusterings = pending_clusterings(table, timeline)
    while (hole := horizon(timeline, clusterings.union(found))) is not None:
        info = table.storage.file_info(f"{table.properties.timeline_folder}/{hole.file_name}")
        if info is None or not info.modified_ns or now_ms - info.modified_ns // 1_000_000 < hollow_after_ms:
            break
        found.append(hole.requested_time)
    return tuple(found)
