"""The life of a consumer group: creation, rounds, moves, end and deletion. Pure decisions; see `decide`.

The states of a group and the events that change its state or its generation (`TRANSITIONS` has the same as data):

                 CreateGroup                 Discovered (at upto, open rounds)
    ABSENT ---------------------> FOLLOWING ------------------------------> DRAINING
      ^                           |   |   ^                                     |
      |                CannotGoOn |   |   | RangeLost                           | CommitSplits (last round)
      |                           v   |   | Reset                               v
      | Delete, Tick        STOPPED   +------ Discovered, NothingFound -----> ENDED
      | (no readers)                          (at upto, no open round)

* Reset leads from every state but ABSENT to FOLLOWING, under a new generation; RangeLost does from FOLLOWING.
* Delete, and Tick after `group_expiry_ms`, lead from every state to ABSENT; both need a group without readers.
* Every other event leaves the state as it is. Results of a discovery that began before the group moved, stopped or
  ended are ignored.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from typing import Any, Final

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
    Record,
    RoundPlanned,
    TableSeen,
    WatermarkMoved,
)
from penstock.enumerator.core.results import CoordinatorSettings, Decision, changes
from penstock.enumerator.core.rounds import NO_ROWS, advanced, after_silence
from penstock.enumerator.core.state import Group, State
from penstock.proto.errors import ConfigurationError, TooManyGroups
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.positions import CommitRange, Position


class GroupState(enum.Enum):
    """The state of a consumer group."""

    ABSENT = enum.auto()
    """The group does not exist."""
    FOLLOWING = enum.auto()
    """Discovery plans rounds, unless back-pressure pauses it."""
    DRAINING = enum.auto()
    """Everything up to `upto` is planned; rounds are open."""
    ENDED = enum.auto()
    """Everything up to `upto` is finished."""
    STOPPED = enum.auto()
    """An error stopped discovery; readers receive the error."""


TRANSITIONS: Final[Mapping[GroupState, Mapping[type[ev.Event[Any]], frozenset[GroupState]]]] = {
    GroupState.ABSENT: {
        ev.CreateGroup: frozenset({GroupState.FOLLOWING}),
    },
    GroupState.FOLLOWING: {
        ev.Discovered: frozenset({GroupState.DRAINING, GroupState.ENDED}),
        ev.NothingFound: frozenset({GroupState.ENDED}),
        ev.CannotGoOn: frozenset({GroupState.STOPPED}),
        ev.RangeLost: frozenset({GroupState.FOLLOWING}),
        ev.Reset: frozenset({GroupState.FOLLOWING}),
        ev.Delete: frozenset({GroupState.ABSENT}),
        ev.Tick: frozenset({GroupState.ABSENT}),
    },
    GroupState.DRAINING: {
        ev.CommitSplits: frozenset({GroupState.ENDED}),
        ev.Reset: frozenset({GroupState.FOLLOWING}),
        ev.Delete: frozenset({GroupState.ABSENT}),
        ev.Tick: frozenset({GroupState.ABSENT}),
    },
    GroupState.ENDED: {
        ev.Reset: frozenset({GroupState.FOLLOWING}),
        ev.Delete: frozenset({GroupState.ABSENT}),
        ev.Tick: frozenset({GroupState.ABSENT}),
    },
    GroupState.STOPPED: {
        ev.Reset: frozenset({GroupState.FOLLOWING}),
        ev.Delete: frozenset({GroupState.ABSENT}),
        ev.Tick: frozenset({GroupState.ABSENT}),
    },
}
"""By state and event: the states that the event may lead to. Events that are not listed change neither the state nor
the generation."""


def state_of(group: Group | None) -> GroupState:
    """The state of a group; None is a group that does not exist."""
    if group is None:
        return GroupState.ABSENT
    if group.stopped is not None:
        return GroupState.STOPPED
    if group.ended:
        return GroupState.DRAINING if group.rounds else GroupState.ENDED
    return GroupState.FOLLOWING


def create(state: State, event: ev.CreateGroup, settings: CoordinatorSettings) -> Decision[None]:
    """Creates the group, unless it exists. TooManyGroups."""
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
        at_newest=event.at_newest and not event.scope.over_tables,
        at_snapshot=event.at_snapshot,
    )
    return changes(created)


def _check_room(state: State, event: ev.CreateGroup, settings: CoordinatorSettings) -> None:
    of_table = len(state.names.of_table.get(event.key.table, ()))
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
    """Deletes the group. ConfigurationError while it has readers."""
    if group.readers:
        some = ", ".join(sorted(group.readers)[:5])
        raise ConfigurationError(f"{group.key} has {len(group.readers)} readers ({some}): stop them first")
    return changes(GroupDeleted(group.key))


def moved(group: Group, number: int, progress: Progress, cause: Moved, *, at_snapshot: bool = False) -> GroupMoved:
    """Moves the group: it continues after `progress`, under a new generation."""
    before = group.progress.position
    return GroupMoved(
        key=group.key, number=number, progress=progress, cause=cause, before=before, at_snapshot=at_snapshot
    )


def round_id(key: GroupKey, number: int, commit_range: CommitRange) -> str:
    """The plan id of a group's round: a digest of its identity, so that it is the same after a restart."""
    identity = "\x00".join((key.table, key.group, str(number), str(commit_range.after), str(commit_range.upto)))
    return "r" + hashlib.sha256(identity.encode()).hexdigest()[:31]


def moves_back(group: Group, progress: Progress, *, of_round: bool) -> bool:
    """Whether a lost range would move a group with onLostRange=earliest to a position at or before its own.

    The range up to its position is planned already, so nothing of it is lost. After the loss of an open round
    (`of_round`) the group continues at the committed position at the earliest. onLostRange=snapshot reads
    the whole table again.
    """
    if group.scope.on_lost_range is not OnLostRange.EARLIEST:
        return False
    if of_round:
        return progress.position < group.committed
    return progress.position <= group.progress.position


def needs_discovery(group: Group, settings: CoordinatorSettings) -> bool:
    """Whether discovery should plan the next round of the group, or read its start. Back-pressure pauses discovery; the
    position stays. A group over tables has no rounds."""
    return (
        not group.scope.over_tables
        and state_of(group) is GroupState.FOLLOWING
        and group.pending < settings.max_pending_splits
        and len(group.rounds) < settings.max_rounds
    )


def started(state: State, event: ev.Started) -> Decision[None]:
    """The group begins after `progress`, which discovery read. Ignored if it has begun."""
    group = state.groups.get(event.key)
    if group is None or group.number != event.number or not (group.at_newest or group.at_snapshot):
        return changes()
    return changes(moved(group, state.last_number + 1, event.progress, Moved.STARTED))


def discovered(
    state: State, event: ev.Discovered | ev.NothingFound | ev.CannotGoOn | ev.RangeLost, now_ms: int
) -> Decision[None]:
    """Applies the result of a discovery. Ignores it if the group moved, stopped or ended after the discovery began."""
    group = state.groups.get(event.key)
    if group is None or group.number != event.number or group.progress.position != event.start:
        return changes()
    if state_of(group) is not GroupState.FOLLOWING:
        return changes()
    match event:
        case ev.NothingFound():
            if group.scope.upto is not None and event.start >= group.scope.upto:
                return changes(GroupEnded(key=group.key))
            return changes(*_nothing_new(group, event.start, now_ms))
        case ev.CannotGoOn(code=code, text=text):
            return changes(GroupStopped(key=group.key, code=code, text=text))
        case ev.RangeLost(progress=progress, plan_id=plan_id):
            if (plan_id and plan_id not in group.rounds) or moves_back(group, progress, of_round=bool(plan_id)):
                return changes()
            return changes(moved(group, state.last_number + 1, progress, Moved.LOST_RANGE))
        case ev.Discovered():
            next_round = RoundPlanned(
                key=group.key,
                plan_id=round_id(group.key, group.number, event.commit_range),
                commit_range=event.commit_range,
                progress=event.progress,
                facts=event.facts,
                reshaped=event.reshaped,
                commits=event.commits,
                coming=event.coming,
            )
            at_end = group.scope.upto is not None and event.commit_range.upto >= group.scope.upto
            return changes(next_round, GroupEnded(key=group.key)) if at_end else changes(next_round)


def _nothing_new(group: Group, start: Position, now_ms: int) -> tuple[Record, ...]:
    """The records after a discovery that found nothing new: no known commit is still to come, and the watermark of a
    group with an idle timeout and without unfinished splits may advance with time."""
    if group.scope.rule is None:
        return (TableSeen(key=group.key, position=start),)
    watermark = advanced(group.watermark, group.scope.rule, group.rounds.values(), NO_ROWS)
    quiet_since_us, timeout_us = None, group.scope.idle_timeout_us
    if timeout_us is not None and not group.rounds:
        watermark, quiet_since_us = after_silence(watermark, timeout_us, group.quiet_since_us, now_ms * 1000)
    seen = TableSeen(key=group.key, position=start, quiet_since_us=quiet_since_us)
    if (watermark, NO_ROWS) == (group.watermark, group.coming):
        return (seen,)
    return (WatermarkMoved(key=group.key, watermark=watermark, coming=NO_ROWS), seen)
