"""Assign splits to readers and commit finished ones. Pure decisions; see `decide`."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.members import member_of, renewed
from penstock.enumerator.core.records import NothingGranted, SplitsAssigned, SplitsCommitted
from penstock.enumerator.core.results import Committed, CoordinatorSettings, Decision, GrantedSplit, SplitsGranted
from penstock.enumerator.core.rounds import DONE, NO_ROWS, PENDING, Round, span_to_come
from penstock.enumerator.core.state import Group, Reader, State
from penstock.enumerator.streams.alignment import is_held
from penstock.enumerator.streams.watermark import HIGHEST_US
from penstock.proto.errors import (
    ConfigurationError,
    Fenced,
    Overloaded,
    PenstockError,
    UnknownSplit,
    all_error_classes,
)
from penstock.proto.model.groups import MAX_SPLITS_A_REQUEST, EndOfGroup, NothingYet, SplitProgress
from penstock.proto.model.streams import EventTimeCeiling

MAX_CONSIDERED: Final = 5_000
"""Pending splits considered for one request. The first pending split of the oldest round never waits for another split,
so that readers always make progress."""


def choose(
    group: Group, reader: Reader, most: int, ceiling: EventTimeCeiling | None = None
) -> tuple[tuple[str, int], ...]:
    """At most `most` splits for the reader, in the order to be read.

    `ceiling`, in an aligned group: no split with a later event time; None: none but those that the reader holds
    already. The slowest group of a set gets at least one split, and so does a group whose next split has no bounds.
    """
    undelivered = tuple(reader.undelivered)[:most]
    if ceiling is None and group.scope.alignment is not None:
        return undelivered
    if ceiling is not None and is_held(group.watermark.at_us, ceiling):
        return undelivered
    chosen: dict[str, set[int]] = defaultdict(set)
    chosen_splits: list[tuple[str, int]] = []
    beyond: tuple[str, int] | None = None
    considered = 0
    rounds = list(group.rounds.values())
    until_us = _until_us(group, ceiling)
    for place, open_round in enumerate(rounds):
        with_others = open_round.first_with_others(reader.reader_id)
        passed: set[int] = set()
        admitted = None if ceiling is None else open_round.facts.admitted(until_us)
        for index in open_round.pending_in_order():
            if len(undelivered) + len(chosen_splits) >= most or considered >= MAX_CONSIDERED:
                return undelivered + _or_first(chosen_splits, undelivered, beyond)
            considered += 1
            partition = int(open_round.facts.partitions[index])
            if open_round.contended[index] and (
                (
                    partition in open_round.reshaped
                    and (partition in passed or with_others.get(partition, index) < index)
                )
                or _must_wait(rounds[: place + 1], open_round, index, reader.reader_id, chosen)
            ):
                passed.add(partition)  # later splits of the partition wait too: no need to check every round for them
                continue
            if ceiling is not None and admitted is not None and not admitted[index]:
                if beyond is None and (ceiling.is_lowest or open_round.facts.is_unbounded(index)):
                    beyond = (open_round.plan_id, index)
                passed.add(partition)
                continue
            chosen[open_round.plan_id].add(index)
            chosen_splits.append((open_round.plan_id, index))
    return undelivered + _or_first(chosen_splits, undelivered, beyond)


def _or_first(
    chosen: list[tuple[str, int]], undelivered: tuple[tuple[str, int], ...], beyond: tuple[str, int] | None
) -> tuple[tuple[str, int], ...]:
    """The chosen splits; if the reader would get none, the first one beyond the ceiling that it may read all the
    same."""
    return (beyond,) if beyond is not None and not chosen and not undelivered else tuple(chosen)


def _until_us(group: Group, ceiling: EventTimeCeiling | None) -> int | None:
    """The highest event time that the group may read; None: no event time is allowed yet. The slowest group may read
    its drift above its lowest unfinished split, so that it crosses a gap in the event times."""
    if ceiling is None or not ceiling.is_lowest:
        return None if ceiling is None else ceiling.until_us
    remaining = span_to_come(group.rounds.values(), NO_ROWS)
    if remaining.is_unbounded or remaining.low_us is None or remaining.low_us == HIGHEST_US:
        return ceiling.until_us  # no row has an event time, or one without bounds is read alone
    beyond_gap = min(remaining.low_us + ceiling.max_drift_us, HIGHEST_US)
    return beyond_gap if ceiling.until_us is None else max(ceiling.until_us, beyond_gap)


def withheld(group: Group, ceiling: EventTimeCeiling | None) -> bool:
    """Whether splits of the group are pending, and all of them wait for slower groups of its set; None as in
    `choose`."""
    if group.scope.alignment is None or (ceiling is not None and ceiling.is_lowest):
        return False
    if not any(each.pending for each in group.rounds.values()):
        return False
    if ceiling is None:
        return True
    if is_held(group.watermark.at_us, ceiling):
        return True
    for each in group.rounds.values():  # mostly the first one may be read: then the other splits are not compared
        first = next(iter(each.pending_in_order()), None) if each.pending else None
        if first is not None and each.facts.is_admitted(first, ceiling.until_us):
            return False
    return not any(
        bool(((each.facts.admitted(ceiling.until_us) | each.facts.unbounded()) & (each.status == PENDING)).any())
        for each in group.rounds.values()
    )


def _must_wait(rounds: list[Round], open_round: Round, index: int, reader_id: str, chosen: dict[str, set[int]]) -> bool:
    lane, partition = int(open_round.facts.lanes[index]), int(open_round.facts.partitions[index])
    barrier = max((older.number for older in rounds if partition in older.reshaped), default=0)
    for older in rounds[:-1]:
        mine = chosen.get(older.plan_id, set())
        if older.open_in_lane(lane, reader_id, mine):
            return True
        if older.number <= barrier and older.open_in_partition(partition, reader_id, mine):
            return True
    return False


MAX_HELD: Final = 100_000
"""Splits that one reader may hold."""


def request(
    state: State, event: ev.RequestSplits, now_ms: int, settings: CoordinatorSettings
) -> Decision[SplitsGranted | NothingYet | EndOfGroup]:
    """Splits for the member, `NothingYet` or `EndOfGroup`."""
    group, reader = member_of(state, event.member)
    check_request(group, reader, event)
    raise_if_stopped(group)
    lease = renewed(group, event.member, now_ms, settings)
    if event.sequence == reader.sequence:
        held = tuple(item for item in reader.answered if item in reader.held)
        return Decision((lease,), SplitsGranted(granted(group, held), group.watermark.at_us))
    if event.sequence == reader.heard:  # answered without splits: the member may have continued
        return Decision((lease,), _nothing(group, settings))
    again = missed(reader, event)
    if len(reader.held) >= MAX_HELD and not reader.undelivered and not again:
        raise Overloaded(f"reader {reader.reader_id!r} of {group.key} holds {MAX_HELD} splits: finish some first")
    chosen = again or choose(group, reader, event.max_splits, event.ceilings.get(group.key.table))
    if not chosen:
        answer = _nothing(group, settings)
        return Decision((lease, *unanswered(group, event, answer)), answer)
    assigned = SplitsAssigned(key=group.key, reader_id=reader.reader_id, sequence=event.sequence, splits=chosen)
    return Decision((lease, assigned), SplitsGranted(granted(group, chosen), group.watermark.at_us))


def unanswered(group: Group, event: ev.RequestSplits, answer: NothingYet | EndOfGroup) -> tuple[NothingGranted, ...]:
    """The record of an answer without splits; none if the call is held, because then the request is decided again."""
    if event.is_held and isinstance(answer, NothingYet):
        return ()
    return (NothingGranted(key=group.key, reader_id=event.member.reader_id, sequence=event.sequence),)


def missed(reader: Reader, event: ev.RequestSplits) -> tuple[tuple[str, int], ...]:
    """The splits of the newest answer, if the member did not receive it. They are delivered with this request.

    A restart forgets which requests were answered without splits. A copy of one of them that arrives after it receives
    splits, and the member of that request already went on.
    """
    if event.received is None or event.received >= reader.sequence:
        return ()
    return tuple(item for item in reader.answered if item in reader.held)


def check_request(group: Group, reader: Reader, event: ev.RequestSplits) -> None:
    """ConfigurationError for a number of splits out of range; Fenced for an old request."""
    if not 1 <= event.max_splits <= MAX_SPLITS_A_REQUEST:
        raise ConfigurationError(
            f"splits asked for at once: got {event.max_splits}, expected 1 to {MAX_SPLITS_A_REQUEST}"
        )
    if event.sequence < reader.heard or event.sequence < 1:
        raise Fenced(
            f"request {event.sequence} of reader {reader.reader_id!r} of {group.key} is stale and was "
            f"ignored: request {reader.heard} was already handled"
        )


def raise_if_stopped(group: Group) -> None:
    """The error that stopped the group, as the class it was."""
    if group.stopped is None:
        return
    code, text = group.stopped
    kind = all_error_classes().get(code, PenstockError)
    raise kind(f"{group.key} stopped at {group.progress.position}: {text}; then `penstock groups reset`")


def granted(group: Group, splits: tuple[tuple[str, int], ...], epoch_over_tables: int = 0) -> tuple[GrantedSplit, ...]:
    """The answer for these splits. `epoch_over_tables`: the epoch in this group of a member of a group over tables."""
    return tuple(
        GrantedSplit(
            plan_id,
            index,
            group.rounds[plan_id].ordinals.get(index, 0),
            group.rounds[plan_id].commit_range.upto,
            group.key.table if epoch_over_tables else "",
            epoch_over_tables,
            group.watermark.at_us,
        )
        for plan_id, index in splits
    )


def _nothing(group: Group, settings: CoordinatorSettings) -> NothingYet | EndOfGroup:
    if group.ended and not group.rounds:
        return EndOfGroup(group.watermark.at_us)
    caught_up = group.caught_up and not group.rounds
    return NothingYet(settings.retry_ms, caught_up, watermark_us=group.watermark.at_us)


def commit(state: State, event: ev.CommitSplits, now_ms: int, settings: CoordinatorSettings) -> Decision[Committed]:
    """Commits all of the progress or none of it.

    Progress of finished splits is ignored, and so is a finished split of an unknown round: the round may be over. The
    record is appended all the same: a process that lost its store then fails to write, instead of answering.
    """
    group, reader = member_of(state, event.member)
    ordinals: dict[tuple[str, int], int] = {}
    finished: list[tuple[str, int]] = []
    for done in event.done:
        if _is_over(group, done):
            continue
        place = (done.ref.plan_id, done.ref.index)
        if place not in reader.held or place in reader.undelivered:
            raise UnknownSplit(
                f"split {done.ref.index} of round {done.ref.plan_id[:80]!r} is not held by reader "
                f"{reader.reader_id!r} of {group.key}: nothing was committed; ask for splits and read those"
            )
        if done.finished:
            finished.append(place)
        elif done.ordinal > ordinals.get(place, group.rounds[place[0]].ordinals.get(place[1], 0)):
            ordinals[place] = done.ordinal
    lease = renewed(group, event.member, now_ms, settings)
    if not event.done:
        return Decision((lease,), Committed(()))
    progress = tuple((*place, ordinal) for place, ordinal in ordinals.items())
    committed = SplitsCommitted(key=group.key, ordinals=progress, finished=tuple(finished))
    return Decision((lease, committed), Committed(tuple(finished)))


def _is_over(group: Group, done: SplitProgress) -> bool:
    """Whether the split is finished already; it may be committed again."""
    open_round = group.rounds.get(done.ref.plan_id)
    if open_round is None:
        return done.finished
    return 0 <= done.ref.index < len(open_round.facts) and open_round.status[done.ref.index] == DONE
