"""What members ask for and are done with. Pure decisions; see `step`."""

from __future__ import annotations

from typing import Final

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.answers import Committed, Settings, Step, Told, ToldSplit
from penstock.enumerator.core.choosing import choose
from penstock.enumerator.core.members import member_of, renewed
from penstock.enumerator.core.records import NothingGiven, SplitsAssigned, SplitsCommitted
from penstock.enumerator.core.rounds import DONE
from penstock.enumerator.core.state import Group, State
from penstock.proto.errors import (
    ConfigurationError,
    Fenced,
    Overloaded,
    PenstockError,
    UnknownSplit,
    all_error_classes,
)
from penstock.proto.groups import MAX_SPLITS_A_REQUEST, EndOfGroup, NothingYet, SplitProgress

MAX_HELD: Final = 100_000


def request(state: State, event: ev.RequestSplits, now_ms: int, settings: Settings) -> Step:
    """Splits for the member, `NothingYet` or `EndOfGroup`."""
    group, reader = member_of(state, event.member)
    if not 1 <= event.max_splits <= MAX_SPLITS_A_REQUEST:
        raise ConfigurationError(
            f"splits asked for at once: got {event.max_splits}, expected 1 to {MAX_SPLITS_A_REQUEST}"
        )
    if event.sequence < reader.sequence or event.sequence < 1:
        raise Fenced(
            f"request {event.sequence} of reader {reader.reader_id!r} of {group.key} came after its request "
            f"{reader.sequence}: it was delayed on the way, and counts no more"
        )
    raise_if_stopped(group)
    lease = renewed(group, event.member, now_ms, settings)
    if event.sequence == reader.sequence and not reader.answered:
        return Step((lease,), _nothing(group, settings))
    if event.sequence == reader.sequence:
        return Step((lease,), _told(group, tuple(item for item in reader.answered if item in reader.held)))
    if len(reader.held) >= MAX_HELD and not reader.untold:
        raise Overloaded(f"reader {reader.reader_id!r} of {group.key} holds {MAX_HELD} splits: finish some first")
    chosen = choose(group, reader, event.max_splits)
    if not chosen:
        nothing = NothingGiven(key=group.key, reader_id=reader.reader_id, sequence=event.sequence)
        return Step((lease, nothing), _nothing(group, settings))
    assigned = SplitsAssigned(key=group.key, reader_id=reader.reader_id, sequence=event.sequence, splits=chosen)
    return Step((lease, assigned), _told(group, chosen))


def raise_if_stopped(group: Group) -> None:
    """The error that stopped the group, as the class it was."""
    if group.stopped is None:
        return
    code, text = group.stopped
    kind = all_error_classes().get(code, PenstockError)
    raise kind(f"{group.key} stopped at {group.progress.position}: {text}; then `penstock groups reset`")


def _told(group: Group, splits: tuple[tuple[str, int], ...]) -> Told:
    return Told(
        tuple(
            ToldSplit(
                plan_id,
                index,
                group.rounds[plan_id].ordinals.get(index, 0),
                group.rounds[plan_id].commit_range.upto,
            )
            for plan_id, index in splits
        )
    )


def _nothing(group: Group, settings: Settings) -> NothingYet | EndOfGroup:
    if group.ended and not group.rounds:
        return EndOfGroup()
    return NothingYet(settings.retry_ms, caught_up=group.caught_up and not group.rounds)


def commit(state: State, event: ev.CommitSplits, now_ms: int, settings: Settings) -> Step:
    """All of what is told is done, or nothing of it."""
    group, reader = member_of(state, event.member)
    ordinals: list[tuple[str, int, int]] = []
    finished: list[tuple[str, int]] = []
    for done in event.done:
        if _is_over(group, done):
            continue
        place = (done.ref.plan_id, done.ref.index)
        if place not in reader.held or place in reader.untold:
            raise UnknownSplit(
                f"split {done.ref.index} of round {done.ref.plan_id[:80]!r} is not held by reader "
                f"{reader.reader_id!r} of {group.key}: nothing was committed; ask for splits and read those"
            )
        if done.finished:
            finished.append(place)
        elif done.ordinal > group.rounds[place[0]].ordinals.get(place[1], 0):
            ordinals.append((*place, done.ordinal))
    lease = renewed(group, event.member, now_ms, settings)
    if not ordinals and not finished:
        return Step((lease,), Committed(()))
    committed = SplitsCommitted(key=group.key, ordinals=tuple(ordinals), finished=tuple(finished))
    return Step((lease, committed), Committed(tuple(finished)))


def _is_over(group: Group, done: SplitProgress) -> bool:
    """Whether the split is finished already: then it may be told again."""
    found = group.rounds.get(done.ref.plan_id)
    if found is None:
        return done.finished
    return 0 <= done.ref.index < len(found.facts) and found.status[done.ref.index] == DONE
