"""Converts records and state of the coordinator to events of an observer. Holds no state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.enumerator.continuous.types import Issued
from penstock.enumerator.core.records import (
    Gone,
    GroupDeleted,
    ReaderGone,
    Record,
    RoundPlanned,
    SplitsAssigned,
    SplitsCommitted,
)
from penstock.enumerator.core.rounds import PENDING
from penstock.enumerator.core.state import Group, State
from penstock.enumerator.observer import (
    GroupGauges,
    GroupRemoved,
    Observer,
    ReaderSplits,
    SplitEvent,
    SplitKind,
    SplitsCounted,
    TopicMeasured,
)
from penstock.proto.model.group_status import GroupAlignment
from penstock.proto.model.queries import Changes


def kind_of(group: Group) -> SplitKind:
    """The content of the splits of the group."""
    if group.progress.kafka is not None:
        return SplitKind.KAFKA
    return SplitKind.CDC if isinstance(group.scope.request.query, Changes) else SplitKind.MOR


def observe_records(observer: Observer, state: State, records: Sequence[Record]) -> None:
    """Sends the split events of records, before they are applied to `state`."""
    for record in records:
        match record:
            case RoundPlanned(key=key):
                _count(observer, state, state.groups[key], SplitEvent.DISCOVERED, len(record.facts))
            case SplitsAssigned(key=key, reader_id=reader_id) if record.splits:
                _count(observer, state, state.groups[key], SplitEvent.ASSIGNED, len(record.splits))
                observer.observe(ReaderSplits(SplitEvent.ASSIGNED, key.table, key.group, reader_id, record.splits))
            case SplitsCommitted(key=key):
                _count(observer, state, state.groups[key], SplitEvent.FINISHED, len(record.finished))
                _observe_finished(observer, state.groups[key], record.finished)
            case ReaderGone(key=key, reader_id=reader_id, cause=cause):
                held = tuple(state.groups[key].readers[reader_id].held)
                event = SplitEvent.EXPIRED if cause is Gone.EXPIRED else SplitEvent.RETURNED
                _count(observer, state, state.groups[key], event, len(held))
                observer.observe(ReaderSplits(event, key.table, key.group, reader_id, held))
            case GroupDeleted(key):
                observer.observe(GroupRemoved(key.table, key.group))
            case _:
                pass


def _observe_finished(observer: Observer, group: Group, finished: Sequence[tuple[str, int]]) -> None:
    by_reader: dict[str, list[tuple[str, int]]] = {}
    for plan_id, index in finished:
        open_round = group.rounds.get(plan_id)
        if open_round is not None and index in open_round.holders:
            by_reader.setdefault(open_round.holders[index], []).append((plan_id, index))
    for reader_id, splits in by_reader.items():
        observer.observe(ReaderSplits(SplitEvent.FINISHED, group.key.table, group.key.group, reader_id, tuple(splits)))


def over_of(state: State, group: Group) -> str:
    """See `GroupGauges.over`."""
    whole = state.names.whole_of(group)
    return "" if whole is None else whole.key.table


def _count(observer: Observer, state: State, group: Group, event: SplitEvent, count: int) -> None:
    if count:
        table, name, over = group.key.table, group.key.group, over_of(state, group)
        observer.observe(SplitsCounted(event, table, name, kind_of(group), count, over=over))


def topic_measured(group: Group) -> TopicMeasured | None:
    """The planned progress of a hybrid group; None for any other group."""
    hybrid, position = group.scope.request.hybrid, group.progress.kafka
    if hybrid is None:
        return None
    return TopicMeasured(
        table=group.key.table,
        group=group.key.group,
        topic=hybrid.topic,
        phase=None if position is None else position.phase,
        lag={} if position is None else {place.partition: place.behind for place in position.progress},
    )


def gauges_of(
    group: Group,
    *,
    discovery_age_s: float | None,
    issued: Issued | None,
    poll_interval_s: float | None = None,
    trouble_code: str = "",
    alignment: GroupAlignment | None = None,
    over: str = "",
) -> GroupGauges:
    """The gauges of the group now.

    `discovery_age_s`: time since the last discovery of its table. `issued`: of the newest round that this process
    planned. `poll_interval_s`: interval of discovery of the table. `trouble_code`: error code of failed discoveries.
    `over`: see `GroupGauges.over`.
    """
    rounds = tuple(group.rounds.values())
    return GroupGauges(
        pending_splits=sum(open_round.pending for open_round in rounds),
        assigned_splits=sum(len(open_round.holders) for open_round in rounds),
        finished_splits=sum(open_round.done for open_round in rounds),
        pending_bytes=sum(int(np.sum(one.facts.sizes[one.status == PENDING])) for one in rounds),
        issued_instant_s=None if issued is None else issued.instant_ms / 1000,
        watermark_us=group.watermark.at_us,
        issued_delay_s=None if issued is None else issued.delay_ms / 1000,
        discovery_age_s=discovery_age_s,
        poll_interval_s=poll_interval_s,
        kind=kind_of(group),
        up=group.stopped is None,
        error_code=trouble_code if group.stopped is None else group.stopped[0],
        alignment=alignment,
        over=over,
    )
