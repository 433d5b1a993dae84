"""Summaries and descriptions of groups, and the status of the server, for operators. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.enumerator.continuous.types import ReaderPlace
from penstock.enumerator.core.group_lifecycle import GroupState, needs_discovery, state_of
from penstock.enumerator.core.over_tables import watermark_of
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.state import Group
from penstock.enumerator.groups.activity import Activity
from penstock.proto.model.groups import (
    GroupDescription,
    GroupStatus,
    GroupSummary,
    ReaderState,
    ResetOutcome,
    ServerStatus,
    TableStatus,
)
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import Incremental


def summary_of(group: Group, settings: CoordinatorSettings, *, waiting: bool, over: str = "") -> GroupSummary:
    """The group in a list. `waiting`: its table does not exist yet. `over`: see `GroupSummary`."""
    return GroupSummary(
        table=group.key.table,
        group=group.key.group,
        state=_state_of(group, settings, waiting=waiting),
        committed=group.committed,
        planned=group.progress.position,
        readers=len(group.readers),
        over=over,
    )


def _state_of(group: Group, settings: CoordinatorSettings, *, waiting: bool) -> str:
    state = state_of(group)
    if state is GroupState.STOPPED:
        return "stopped"
    if state is not GroupState.FOLLOWING:
        return "running" if state is GroupState.DRAINING else "ended"
    if waiting:
        return "waiting"
    return "running" if needs_discovery(group, settings) else "paused"


def description_of(
    group: Group, settings: CoordinatorSettings, now_ms: int, *, waiting: bool, over: str = ""
) -> GroupDescription:
    """The full description of the group. It has no lag: that needs the table."""
    code, text = group.stopped or ("", "")
    readers = tuple(
        ReaderState(
            reader_id=reader_id,
            epoch=reader.epoch,
            held_splits=len(reader.held),
            lease_left_ms=max(0, (reader.until_ms or now_ms) - now_ms),
        )
        for reader_id, reader in sorted(group.readers.items())
    )
    return GroupDescription(
        summary=summary_of(group, settings, waiting=waiting, over=over),
        scope=group.scope,
        limits=group.limits,
        rounds=len(group.rounds),
        pending_splits=group.pending,
        held_splits=sum(len(open_round.holders) for open_round in group.rounds.values()),
        readers=readers,
        error_code=code,
        error=text,
        kafka=group.progress.kafka,
        watermark_us=group.watermark.at_us,
        snapshot=None if group.progress.snapshot is None else group.progress.snapshot.place,
        snapshot_at=start_position(group),
    )


def place_of(group: Group) -> ReaderPlace:
    """How far the group is in its table."""
    return ReaderPlace(
        progress=group.progress,
        committed=group.committed,
        starts_at=start_position(group),
        name=("group", group.key.group),
    )


def start_position(group: Group) -> Position | None:
    """The position of the state of the table with which the group starts: of its snapshot, or the end of its first
    round of rows from EARLIEST, which are the state there. None if it starts with no state, has committed the state, or
    has planned nothing of it.

    The last round of a snapshot, which may be open after all others are planned, ends at the position of the snapshot.
    """
    if group.progress.snapshot is not None:
        return group.progress.snapshot.at
    in_snapshot = group.committed.is_earliest and group.committed != EARLIEST
    of_rows = group.committed == EARLIEST and isinstance(group.scope.request.query, Incremental)
    if not in_snapshot and not of_rows:
        return None
    ends = (open_round.commit_range.upto for open_round in group.rounds.values())
    return next((end for end in ends if not end.is_earliest), None)


def with_held_splits(description: GroupDescription, tables: Sequence[Group]) -> GroupDescription:
    """The description of a group over tables, whose readers hold splits in the groups of its tables."""
    held: Counter[str] = Counter()
    for group in tables:
        for reader_id, reader in group.readers.items():
            held[reader_id] += len(reader.held)
    readers = tuple(replace(reader, held_splits=held[reader.reader_id]) for reader in description.readers)
    return replace(description, readers=readers)


def with_watermark(description: GroupDescription, tables: Iterable[Group]) -> GroupDescription:
    """The description of a group over these tables, with the lowest of their watermarks."""
    return replace(description, watermark_us=watermark_of(tables))


def reset_outcome(group: Group, position: Position, *, dry_run: bool) -> ResetOutcome:
    """The effect of a reset to the position."""
    dropped = sum(len(open_round.facts) - open_round.done for open_round in group.rounds.values())
    return ResetOutcome(before=group.committed, after=position, dropped_splits=dropped, dry_run=dry_run)


def status_of(
    groups: Sequence[tuple[GroupDescription, GroupKey]],
    activity: Activity,
    tables: Mapping[str, tuple[str, str]],
    version: str = "",
) -> ServerStatus:
    """The status. `tables`: code and text of the error by served table; ('', '') if it can be opened."""
    now_ms, activities = activity.now_ms(), activity.groups()
    recent_tables = activity.tables()
    statuses: list[GroupStatus] = []
    for described, key in groups:
        status = GroupStatus(
            summary=described.summary,
            pending_splits=described.pending_splits,
            held_splits=described.held_splits,
            error_code=described.error_code,
            watermark_us=described.watermark_us,
            alignment=described.alignment,
        )
        recent = activities.get((key.table, key.group))
        if recent is not None:
            rows_s, bytes_s = recent.rates(now_ms)
            issued_s = None if recent.gauges is None else recent.gauges.issued_instant_s
            status = replace(
                status,
                lag=recent.lag,
                issued_ms=None if issued_s is None else round(issued_s * 1000),
                rows=recent.rows,
                size_bytes=recent.size_bytes,
                finished_splits=recent.finished,
                expired_splits=recent.expired,
                fenced=recent.fenced,
                rows_per_second=rows_s,
                bytes_per_second=bytes_s,
                lag_age_ms=None if recent.lag is None else max(0, now_ms - recent.lag_at_ms),
            )
        statuses.append(status)
    return ServerStatus(
        version=version,
        now_ms=now_ms,
        uptime_ms=max(0, now_ms - activity.started_ms),
        tables=tuple(
            TableStatus(name, _watermark_ms(recent_tables, name), *trouble) for name, trouble in tables.items()
        ),
        groups=tuple(statuses),
    )


def _watermark_ms(recent_tables: Mapping[str, tuple[object, tuple[tuple[int, int], ...]]], table: str) -> int | None:
    marks = recent_tables[table][1] if table in recent_tables else ()
    return marks[-1][1] if marks else None
