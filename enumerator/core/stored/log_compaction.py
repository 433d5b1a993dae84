"""Compaction of the log: the shortest records that restore a state. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core.records import (
    Durable,
    GroupCreated,
    GroupEnded,
    GroupStopped,
    NumbersUsed,
    PlanOpened,
    ReaderJoined,
    RoundPlanned,
    SlotsAsked,
    SplitsAssigned,
    SplitsCommitted,
    WatermarkMoved,
)
from penstock.enumerator.core.rounds import DONE
from penstock.enumerator.core.state import Group, Reader, State
from penstock.enumerator.core.writes.compaction import records_of_writes


def compacted_records(state: State) -> Iterator[Durable]:
    """Records that rebuild the state from an empty one; leases, times of use and reports are volatile."""
    yield NumbersUsed(state.last_number)
    yield from state.tables.values()
    for plan_id, held in state.plans.items():
        yield PlanOpened(
            plan_id=plan_id,
            request_id=held.request_id,
            table=held.table,
            query=held.query,
            facts=held.facts,
            slots=held.assigner.slots,
            stream=held.stream,
            digest=held.digest,
        )
        yield SlotsAsked(plan_id, tuple(held.asked))
    for key in sorted(state.groups):
        yield from _of_group(state.groups[key])
    for table in sorted(state.writes):
        yield from records_of_writes(state.writes[table])


def _of_group(group: Group) -> Iterator[Durable]:
    begin = Progress(group.committed) if group.rounds else group.progress
    yield GroupCreated(
        key=group.key,
        number=group.number,
        scope=group.scope,
        limits=group.limits,
        progress=begin,
        principal=group.principal,
        at_newest=group.at_newest,
        at_snapshot=group.at_snapshot,
    )
    for open_round in group.rounds.values():
        yield RoundPlanned(
            key=group.key,
            plan_id=open_round.plan_id,
            commit_range=open_round.commit_range,
            progress=group.progress,
            facts=open_round.facts,
            reshaped=open_round.reshaped,
            commits=open_round.commits,
        )
    for reader in group.readers.values():
        yield from _of_reader(group, reader)
    for open_round in group.rounds.values():
        done = tuple((open_round.plan_id, int(index)) for index in np.flatnonzero(open_round.status == DONE))
        ordinals = tuple((open_round.plan_id, index, ordinal) for index, ordinal in sorted(open_round.ordinals.items()))
        if done or ordinals:
            yield SplitsCommitted(key=group.key, ordinals=ordinals, finished=done)
    if group.scope.rule is not None:  # the records before leave the watermark unknown: all have UNKNOWN_SPAN
        yield WatermarkMoved(key=group.key, watermark=group.watermark, coming=group.coming)
    if group.stopped is not None:
        yield GroupStopped(key=group.key, code=group.stopped[0], text=group.stopped[1])
    if group.ended:
        yield GroupEnded(key=group.key)


def _of_reader(group: Group, reader: Reader) -> Iterator[Durable]:
    """A reader with undelivered splits joins twice: the second join makes all of its splits undelivered."""
    joined = ReaderJoined(
        key=group.key,
        reader_id=reader.reader_id,
        epoch=reader.epoch,
        request_id=reader.request_id,
        principal=reader.principal,
    )
    yield joined
    if reader.held:
        yield SplitsAssigned(key=group.key, reader_id=reader.reader_id, sequence=0, splits=tuple(reader.held))
        yield joined
    delivered = tuple(item for item in reader.held if item not in reader.undelivered)
    if delivered:
        yield SplitsAssigned(key=group.key, reader_id=reader.reader_id, sequence=0, splits=delivered)
    if reader.sequence:
        answered = tuple(item for item in reader.answered if item in reader.held)
        yield SplitsAssigned(key=group.key, reader_id=reader.reader_id, sequence=reader.sequence, splits=answered)
