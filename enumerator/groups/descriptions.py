"""Summaries and descriptions of groups for operators. Pure."""

from __future__ import annotations

from penstock.enumerator.core.group_lifecycle import GroupState, needs_discovery, state_of
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.state import Group
from penstock.proto.model.groups import GroupDescription, GroupSummary, ReaderState, ResetOutcome
from penstock.proto.model.positions import Position


def summary_of(group: Group, settings: CoordinatorSettings, *, waiting: bool) -> GroupSummary:
    """The group in a list. `waiting`: its table does not exist yet."""
    return GroupSummary(
        table=group.key.table,
        group=group.key.group,
        state=_state_of(group, settings, waiting=waiting),
        committed=group.committed,
        planned=group.progress.position,
        readers=len(group.readers),
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


def description_of(group: Group, settings: CoordinatorSettings, now_ms: int, *, waiting: bool) -> GroupDescription:
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
        summary=summary_of(group, settings, waiting=waiting),
        scope=group.scope,
        limits=group.limits,
        rounds=len(group.rounds),
        pending_splits=group.pending,
        held_splits=sum(len(open_round.holders) for open_round in group.rounds.values()),
        readers=readers,
        error_code=code,
        error=text,
        kafka=group.progress.kafka,
    )


def reset_outcome(group: Group, position: Position, *, dry_run: bool) -> ResetOutcome:
    """The effect of a reset to the position."""
    dropped = sum(len(open_round.facts) - open_round.done for open_round in group.rounds.values())
    return ResetOutcome(before=group.committed, after=position, dropped_splits=dropped, dry_run=dry_run)
