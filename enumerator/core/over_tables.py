"""Groups over tables: one group that consumes every table whose name matches a pattern. Pure decisions; see `decide`.

A group over tables has members, epochs and leases, and no rounds. Each of its tables has a group of its own with the
same name, which has the position, the rounds and the leases of its splits. A member joins it with the first splits of
the table; its request id there (`BOUND` and its epoch in the group over tables) shows where it belongs. So an error, a
reset or a slow reader of one table concerns no other table.

A request considers the tables with pending splits in the order of their turns (`Group.turn`). A table that was
considered is last afterwards: every table is considered once before another one is considered twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.group_lifecycle import GroupState, state_of
from penstock.enumerator.core.members import group_of, member_of, renewed
from penstock.enumerator.core.records import (
    Gone,
    GroupCreated,
    GroupDeleted,
    GroupKey,
    LeaseRenewed,
    ReaderGone,
    ReaderJoined,
    Record,
    SplitsAssigned,
    TurnTaken,
)
from penstock.enumerator.core.results import CoordinatorSettings, Decision, GrantedSplit, SplitsGranted, changes
from penstock.enumerator.core.rounds import NO_ROWS, span_to_come
from penstock.enumerator.core.split_assignment import (
    MAX_HELD,
    check_request,
    choose,
    granted,
    missed,
    unanswered,
    withheld,
)
from penstock.enumerator.core.state import Group, Reader, State
from penstock.proto.errors import ConfigurationError, Overloaded, TooManyGroups
from penstock.proto.model.groups import EndOfGroup, Joined, Member, NothingYet, TableTrouble
from penstock.proto.model.positions import EARLIEST

BOUND: Final = "over tables, epoch "
"""Begins the request id of a member of a group over tables in the group of a table."""
MAX_CONSIDERED_TABLES: Final = 64
"""Tables considered for one request. Those that were considered are last the next time."""
MAX_TROUBLES: Final = 20
"""Tables with an error in one answer."""
MAX_TROUBLE_CHARS: Final = 500
GROUPS: Final = "limits.groupsPerTable"
"""The limit of a table that is full."""
GROUP_TABLES: Final = "limits.groupTablesPerPrincipal"
"""The limit of a principal whose groups over tables have as many tables as they may."""


# --- creation, joining, leaving, deletion


def create(
    state: State, event: ev.CreateGroup, decision: Decision[None], settings: CoordinatorSettings
) -> Decision[None]:
    """Creates the group over tables (`decision`) with the groups of its first tables, except full ones. TooManyGroups:
    its principal may not have so many tables."""
    other = state.names.over_tables.get(event.key.group)
    if other is not None and other.key != event.key:
        raise ConfigurationError(
            f"{event.key}: the group name is in use for another pattern, and has one pattern on a server, whoever uses "
            "it: give the pattern of that group (`penstock groups list` shows it to callers with the right `read` on "
            "one of its tables), or use another group name"
        )
    first = [record for record in decision.records if isinstance(record, GroupCreated)]
    refused = without_room(state, event.key, event.principal, event.tables, settings) if first else {}
    if GROUP_TABLES in refused.values():
        raise TooManyGroups(
            f"{event.key}: it would have {len(event.tables)} tables, and the groups over tables of its principal have "
            f"{_tables_of(state, event.principal)} already; {GROUP_TABLES} allows "
            f"{settings.max_group_tables_of_principal}: give a pattern with fewer tables, delete groups that nobody "
            "reads (`penstock groups delete`), or raise it"
        )
    tables = [table for table in event.tables if table not in refused]
    of_tables = (_of_tables(state, each, tables, each.number + 1, at_newest=event.at_newest) for each in first)
    return changes(*first, *chain.from_iterable(of_tables))


def add(state: State, event: ev.AddTables, settings: CoordinatorSettings) -> Decision[Mapping[str, str]]:
    """Adds the tables for which there is room. They begin at the position where the group over tables was to start, or
    with their snapshot; with `latest` at the earliest, because the table was not there when the group started."""
    whole = group_of(state, event.key)
    refused = without_room(state, event.key, whole.principal, event.tables, settings)
    tables = [table for table in event.tables if table not in refused]
    example = GroupCreated(
        key=whole.key,
        number=0,
        scope=whole.scope,
        limits=whole.limits,
        progress=whole.progress,
        at_snapshot=whole.at_snapshot,
    )
    return Decision(tuple(_of_tables(state, example, tables, state.last_number + 1, at_newest=False)), refused)


def without_room(
    state: State, key: GroupKey, principal: str, tables: Iterable[str], settings: CoordinatorSettings
) -> dict[str, str]:
    """Those of the tables that do not have the group and cannot get it, with the name of the limit. `principal`: that
    of the group over tables; '' has no limit."""
    present = state.names.tables.get(key.group, {})
    room = settings.max_group_tables_of_principal - _tables_of(state, principal)
    refused: dict[str, str] = {}
    for table in tables:
        if table in present:
            continue
        if _is_full(state, table, settings):
            refused[table] = GROUPS
        elif principal and room <= 0:
            refused[table] = GROUP_TABLES
        else:
            room -= 1
    return refused


def _is_full(state: State, table: str, settings: CoordinatorSettings) -> bool:
    return len(state.names.of_table.get(table, ())) >= settings.max_groups_of_table


def _tables_of(state: State, principal: str) -> int:
    """The tables of all groups over tables that the principal created; a table counts once for each group."""
    names = state.names
    return sum(names.sizes[name] for name, whole in names.over_tables.items() if whole.principal == principal)


def _of_tables(
    state: State, whole: GroupCreated, tables: Iterable[str], number: int, *, at_newest: bool
) -> Iterator[GroupCreated]:
    present = state.names.tables.get(whole.key.group, {})
    for table in tables:
        if table in present:
            continue
        yield GroupCreated(
            key=GroupKey(table, whole.key.group),
            number=number,
            scope=whole.scope.of_table(table),
            limits=whole.limits,
            progress=Progress(EARLIEST if at_newest else whole.progress.position),
            at_newest=at_newest,
            at_snapshot=whole.at_snapshot,
        )
        number += 1


def joined(state: State, event: ev.Join, decision: Decision[Joined]) -> Decision[Joined]:
    """The join of a group over tables (`decision`). With its new epoch the member has new epochs in the groups of
    tables too, and receives the splits again that it holds there."""
    whole, joins = state.groups[event.key], [each for each in decision.records if isinstance(each, ReaderJoined)]
    records: list[Record] = []
    for join in joins:
        for group, _ in _memberships(state, whole, join.reader_id, join.principal):
            records.append(_bind(group.key, join.epoch + 1 + len(records), join))
    return Decision((*decision.records, *records), decision.answer)


def leases(state: State, whole: Group, reader: Reader, until_ms: int) -> Iterator[LeaseRenewed]:
    """New leases in the groups of tables; none if the group is not over tables."""
    for group, _ in _memberships(state, whole, reader.reader_id, reader.principal):
        yield LeaseRenewed(key=group.key, reader_id=reader.reader_id, until_ms=until_ms)


def departures(state: State, member: Member) -> Iterator[ReaderGone]:
    """The member leaves the groups of tables, also if its lease in the group over tables has ended: commits alone
    renew the leases in the groups of tables."""
    whole = group_of(state, GroupKey(member.table, member.group))
    for group, reader in _memberships(state, whole, member.reader_id, member.principal):
        if reader.request_id == f"{BOUND}{member.epoch}":
            yield ReaderGone(key=group.key, reader_id=member.reader_id, cause=Gone.LEFT)


def delete(state: State, whole: Group) -> Decision[None]:
    """Deletes the group with its positions in all tables. ConfigurationError while one of them has readers."""
    for group in (whole, *state.names.of(whole)):
        if group.readers:
            some = ", ".join(sorted(group.readers)[:5])
            raise ConfigurationError(f"{group.key} has {len(group.readers)} readers ({some}): stop them first")
    return changes(*(GroupDeleted(group.key) for group in (*state.names.of(whole), whole)))


def watermark_of(tables: Iterable[Group]) -> int | None:
    """The watermark of a group over these tables: the lowest one. None if a table has none yet; a table without an
    event time so far, of which nothing is known to come, does not count."""
    marks = [group.watermark.at_us for group in tables if group.watermark.at_us is not None or _has_more(group)]
    known = [at_us for at_us in marks if at_us is not None]
    return min(known, default=None) if len(known) == len(marks) else None


def _has_more(group: Group) -> bool:
    return span_to_come(group.rounds.values(), group.coming) != NO_ROWS


def _memberships(state: State, whole: Group, reader_id: str, principal: str) -> Iterator[tuple[Group, Reader]]:
    if not whole.scope.over_tables:
        return
    for group in state.names.of(whole):
        reader = group.readers.get(reader_id)
        if reader is not None and _is_bound(reader, principal):
            yield group, reader


def _is_bound(reader: Reader, principal: str) -> bool:
    """Whether the reader of a table is a member of the group over tables: no reader that joined the table itself."""
    return reader.request_id.startswith(BOUND) and reader.principal == principal


def _bind(key: GroupKey, epoch: int, whole: ReaderJoined | Reader) -> ReaderJoined:
    return ReaderJoined(
        key=key, reader_id=whole.reader_id, epoch=epoch, request_id=f"{BOUND}{whole.epoch}", principal=whole.principal
    )


# --- requests for splits


def request(
    state: State, event: ev.RequestSplits, now_ms: int, settings: CoordinatorSettings
) -> Decision[SplitsGranted | NothingYet | EndOfGroup]:
    """Splits of the tables whose turn it is, `NothingYet` or `EndOfGroup`."""
    whole, reader = member_of(state, event.member)
    check_request(whole, reader, event)
    lease = renewed(whole, event.member, now_ms, settings)
    if event.sequence == reader.sequence:
        answered = tuple(_answered(state, whole, reader, event.sequence))
        return Decision((lease,), SplitsGranted(answered, _watermark(state, whole, event)))
    if event.sequence == reader.heard:
        return Decision((lease,), _nothing(state, whole, event, settings))
    if again := tuple(_missed(state, whole, reader, event)):
        return _delivered_again(state, whole, event, lease, again)
    order = _in_turn(state, whole, reader, event)
    most = -(-event.max_splits // max(1, min(len(order), event.max_splits)))
    number, left = state.last_number, event.max_splits
    records: list[Record] = [lease]
    answer: list[GrantedSplit] = []
    for group in order:
        member, is_new = _member_of(group, reader)
        ceiling = event.ceilings.get(group.key.table)
        chosen = choose(group, member, min(most, left), ceiling) if left else ()
        if not chosen:
            if left:
                records.append(TurnTaken(group.key))
            continue
        if is_new:
            number += 1
            records.append(_bind(group.key, number, reader))
        epoch = number if is_new else member.epoch
        records.append(replace(lease, key=group.key))
        records.append(
            SplitsAssigned(key=group.key, reader_id=reader.reader_id, sequence=event.sequence, splits=chosen)
        )
        left -= len(chosen)
        answer += granted(group, chosen, epoch)
    if not answer:
        nothing = _nothing(state, whole, event, settings)
        return Decision((*records, *unanswered(whole, event, nothing)), nothing)
    records.append(SplitsAssigned(key=whole.key, reader_id=reader.reader_id, sequence=event.sequence, splits=()))
    return Decision(tuple(records), SplitsGranted(tuple(answer), _watermark(state, whole, event)))


Missed = tuple[Group, Reader, tuple[tuple[str, int], ...]]
"""The group of a table, its member, and the splits of the newest answer that the member did not receive."""


def _missed(state: State, whole: Group, reader: Reader, event: ev.RequestSplits) -> Iterator[Missed]:
    """The splits of the newest answer by table, if the member did not receive it: see `split_assignment.missed`."""
    if event.received is None or event.received >= reader.sequence:
        return
    for group, own in _memberships(state, whole, reader.reader_id, reader.principal):
        is_newest = own.sequence == reader.sequence and own.request_id == f"{BOUND}{reader.epoch}"
        if is_newest and (splits := missed(own, event)):
            yield group, own, splits


def _delivered_again(
    state: State, whole: Group, event: ev.RequestSplits, lease: LeaseRenewed, again: tuple[Missed, ...]
) -> Decision[SplitsGranted | NothingYet | EndOfGroup]:
    """All of them, whatever tables the member leaves out: nobody else receives them."""
    records: list[Record] = [lease]
    answer: list[GrantedSplit] = []
    for group, own, splits in again:
        records.append(replace(lease, key=group.key))
        records.append(SplitsAssigned(key=group.key, reader_id=own.reader_id, sequence=event.sequence, splits=splits))
        answer += granted(group, splits, own.epoch)
    reader_id = event.member.reader_id
    records.append(SplitsAssigned(key=whole.key, reader_id=reader_id, sequence=event.sequence, splits=()))
    return Decision(tuple(records), SplitsGranted(tuple(answer), _watermark(state, whole, event)))


def _watermark(state: State, whole: Group, event: ev.RequestSplits) -> int | None:
    if whole.scope.rule is None:
        return None
    present = state.names.by_table(whole)
    return watermark_of(group for group in map(present.get, event.tables) if group is not None and group.fits)


def _in_turn(state: State, whole: Group, reader: Reader, event: ev.RequestSplits) -> list[Group]:
    """The tables to consider: those whose splits the member has to receive again, then those with pending splits."""
    again: list[Group] = []
    waiting: list[Group] = []
    held = 0
    present = state.names.by_table(whole)
    for table in event.tables:
        group = present.get(table)
        if group is None or not group.rounds or table in event.without or not _may_assign(group):
            continue
        own = group.readers.get(reader.reader_id)
        if own is not None:
            if not _is_bound(own, reader.principal):
                continue  # another process reads this table alone, under the same reader id
            held += len(own.held)
            if own.undelivered or (own.held and own.request_id != f"{BOUND}{reader.epoch}"):
                again.append(group)
                continue
        if group.pending and not _waits(group, event):
            waiting.append(group)
    if held >= MAX_HELD and not again:
        raise Overloaded(f"reader {reader.reader_id!r} of {whole.key} holds {held} splits: finish some first")
    return heapq.nsmallest(MAX_CONSIDERED_TABLES, again or waiting, key=_turn)


def _waits(group: Group, event: ev.RequestSplits) -> bool:
    """Whether the table waits for slower tables. It keeps its turn."""
    return withheld(group, event.ceilings.get(group.key.table))


def _turn(group: Group) -> int:
    return group.turn


def _may_assign(group: Group) -> bool:
    return group.stopped is None and group.fits


def _member_of(group: Group, reader: Reader) -> tuple[Reader, bool]:
    """The reader in the group of the table as it is after it joined, and whether it joins with this request."""
    own = group.readers.get(reader.reader_id)
    if own is not None and own.request_id == f"{BOUND}{reader.epoch}":
        return own, False
    held = {} if own is None else own.held
    return Reader(reader.reader_id, 0, "", held=dict(held), undelivered=dict(held)), True


def _answered(state: State, whole: Group, reader: Reader, sequence: int) -> Iterator[GrantedSplit]:
    for group, own in _memberships(state, whole, reader.reader_id, reader.principal):
        if own.sequence == sequence and own.request_id == f"{BOUND}{reader.epoch}":
            yield from granted(group, tuple(item for item in own.answered if item in own.held), own.epoch)


def _nothing(
    state: State, whole: Group, event: ev.RequestSplits, settings: CoordinatorSettings
) -> NothingYet | EndOfGroup:
    """Tables with an error, and those from which the member wants nothing, do not delay the end."""
    present = state.names.by_table(whole)
    groups = [present.get(table) for table in event.tables if table not in event.without]
    healthy = [group for group in groups if group is not None and _may_assign(group)]
    failing = (table for table in event.tables if (group := present.get(table)) is None or not _may_assign(group))
    troubles = [_trouble(state, table, present.get(table), settings) for table in islice(failing, MAX_TROUBLES)]
    if not event.tables:
        troubles = [TableTrouble(whole.key.table, "TABLE_NOT_FOUND", "no table that is served matches the pattern")]
    ended = all(state_of(group) is GroupState.ENDED for group in healthy)
    watermark_us = _watermark(state, whole, event)
    if ended and healthy and not troubles and not event.without:
        return EndOfGroup(watermark_us)
    caught_up = all(not group.rounds and (group.caught_up or group.ended) for group in healthy)
    return NothingYet(settings.retry_ms, caught_up, tuple(troubles), watermark_us)


def _trouble(state: State, table: str, group: Group | None, settings: CoordinatorSettings) -> TableTrouble:
    if group is None:
        if _is_full(state, table, settings):
            text = f"table {table!r} takes no further consumer group ({GROUPS})"
        else:
            text = (
                f"table {table!r}: the groups over tables of the group's principal take no further one ({GROUP_TABLES})"
            )
        return TableTrouble(table, TooManyGroups.code, text)
    code, text = group.stopped or (
        ConfigurationError.code,
        f"{group.key} consumes something else than the group over tables of its name: delete it, or use another name",
    )
    return TableTrouble(group.key.table, code, text[:MAX_TROUBLE_CHARS])
