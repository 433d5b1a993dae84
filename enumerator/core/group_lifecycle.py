"""Where groups stand: creating, moving and deleting them, rounds that were found. Pure decisions; see `step`."""

from __future__ import annotations

import hashlib

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import (
    GroupCreated,
    GroupDeleted,
    GroupEnded,
    GroupKey,
    GroupMoved,
    GroupStopped,
    Moved,
    RoundPlanned,
    TableSeen,
)
from penstock.enumerator.core.results import CoordinatorSettings, Decision, changes
from penstock.enumerator.core.state import Group, State
from penstock.proto.errors import ConfigurationError, TooManyGroups
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.positions import CommitRange


def create(state: State, event: ev.CreateGroup, settings: CoordinatorSettings) -> Decision[None]:
    """The group, unless it is there. TooManyGroups."""
    if event.key in state.groups:
        return changes()
    _check_room(state, event, settings)
    created = GroupCreated(
        key=event.key,
        number=state.last_number + 1,
        scope=event.scope,
        limits=event.limits,
        progress=event.progress,
        principal=event.principal,
    )
    return changes(created)


def _check_room(state: State, event: ev.CreateGroup, settings: CoordinatorSettings) -> None:
    of_table = sum(key.table == event.key.table for key in state.groups)
    if of_table >= settings.max_groups_of_table:
        raise TooManyGroups(
            f"{event.key}: the table has {of_table} consumer groups, and limits.groupsPerTable allows "
            f"{settings.max_groups_of_table}: delete groups that nobody reads (`penstock groups delete`), or raise it"
        )
    of_principal = sum(group.principal == event.principal for group in state.groups.values()) if event.principal else 0
    if of_principal >= settings.max_groups_of_principal:
        raise TooManyGroups(
            f"{event.key}: its principal has created {of_principal} consumer groups that are there, and "
            f"limits.groupsPerPrincipal allows {settings.max_groups_of_principal}: delete groups that nobody reads "
            "(`penstock groups delete`), or raise it"
        )


def delete(group: Group) -> Decision[None]:
    """The group is forgotten; ConfigurationError while it has readers."""
    if group.readers:
        some = ", ".join(sorted(group.readers)[:5])
        raise ConfigurationError(f"{group.key} has {len(group.readers)} readers ({some}): stop them first")
    return changes(GroupDeleted(group.key))


def moved(group: Group, number: int, progress: Progress, cause: Moved) -> GroupMoved:
    """The group starts again elsewhere, under a new generation."""
    return GroupMoved(key=group.key, number=number, progress=progress, cause=cause, behind=group.progress.position)


def round_id(key: GroupKey, number: int, commit_range: CommitRange) -> str:
    """The plan id of a group's round: of what it is, so that it is the same after a restart."""
    told = "\x00".join((key.table, key.group, str(number), str(commit_range.after), str(commit_range.upto)))
    return "r" + hashlib.sha256(told.encode()).hexdigest()[:31]


def moves_back(group: Group, progress: Progress, *, of_round: bool) -> bool:
    """Whether a lost range would move a group with onLostRange=earliest to a position at or before its own: what lies
    there was planned already, so nothing of it is lost. After the loss of an open round (`of_round`) the group begins
    where it committed, at the earliest. A snapshot begins the table anew, by definition."""
    if group.scope.on_lost_range is not OnLostRange.EARLIEST:
        return False
    if of_round:
        return progress.position < group.committed
    return progress.position <= group.progress.position


def wants_more(group: Group, settings: CoordinatorSettings) -> bool:
    """Whether the next round of the group is to be looked for; back-pressure pauses that and moves nothing."""
    return (
        group.stopped is None
        and not group.ended
        and group.pending < settings.max_pending_splits
        and len(group.rounds) < settings.max_rounds
    )


def found(state: State, event: ev.Discovered | ev.NothingFound | ev.CannotGoOn | ev.RangeLost) -> Decision[None]:
    """What was found counts only where the group still stands: anything else was overtaken."""
    group = state.groups.get(event.key)
    if group is None or group.number != event.number or group.progress.position != event.start:
        return changes()
    if group.stopped is not None or group.ended:
        return changes()
    match event:
        case ev.NothingFound():
            at_end = group.scope.upto is not None and event.start >= group.scope.upto
            return changes(GroupEnded(key=group.key) if at_end else TableSeen(key=group.key, position=event.start))
        case ev.CannotGoOn(code=code, text=text):
            return changes(GroupStopped(key=group.key, code=code, text=text))
        case ev.RangeLost(progress=progress, plan_id=plan_id):
            if (plan_id and plan_id not in group.rounds) or moves_back(group, progress, of_round=bool(plan_id)):
                return changes()
            return changes(moved(group, state.last_number + 1, progress, Moved.LOST_RANGE))
        case ev.Discovered():
            planned = RoundPlanned(
                key=group.key,
                plan_id=round_id(group.key, group.number, event.commit_range),
                commit_range=event.commit_range,
                progress=event.progress,
                facts=event.facts,
                reshaped=event.reshaped,
                commits=event.commits,
            )
            at_end = group.scope.upto is not None and event.commit_range.upto >= group.scope.upto
            return changes(planned, GroupEnded(key=group.key)) if at_end else changes(planned)
