"""`decide_write`: from the writes of tables and an event to records and an answer. Pure; an error changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from penstock.enumerator.core.writes import events as ev
from penstock.enumerator.core.writes.records import (
    CommitDecided,
    GroupsLeased,
    WriteBegun,
    WriteCompleted,
    WriteFailed,
    WriteRecord,
    WriteRenewed,
    WriteRequested,
    WriteRolledBack,
)
from penstock.enumerator.core.writes.state import TableWrites, Write
from penstock.proto.errors import (
    ConfigurationError,
    Fenced,
    Overloaded,
    PermissionDenied,
    StorageError,
    TableError,
    WriteConflict,
    all_error_classes,
)
from penstock.proto.model.writes import (
    MAX_COMMIT_BYTES,
    MAX_GROUPS_A_LEASE,
    MAX_GROUPS_A_WRITE,
    MAX_REQUESTED_BYTES,
    TouchedGroups,
    WriteEnd,
    WriteId,
    WriteState,
)

_WHY: Final = {
    WriteEnd.ABORTED: "it was aborted",
    WriteEnd.EXPIRED: "its lease ended, because the server heard nothing of its writer",
    WriteEnd.FENCED: "a later epoch of its owner began",
}
_NO_WRITES: Final = TableWrites()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLimits:
    """Limits and durations of writes."""

    lease_ms: int = 45_000
    """How long a write with an instant stays open without a call."""
    begin_ms: int = 120_000
    """The same without an instant: a begin may wait long for the table's lock, and such a write holds no file group. It
    counts among the open writes."""
    max_writes_of_table: int = 100
    """Writes of one table that have not ended."""
    max_writes_of_principal: int = 1_000
    """Writes of one principal that have not ended."""


@dataclass(frozen=True, slots=True)
class WriteDecision:
    """The result of `decide_write`."""

    records: tuple[WriteRecord, ...]
    """What changes, in order."""
    answer: Write | None = None
    """The write, for events that are answered with one."""


def decide_write(
    tables: Mapping[str, TableWrites], event: ev.WriteEvent, now_ms: int, limits: WriteLimits
) -> WriteDecision:
    """The decision about an event. Errors: Fenced, WriteConflict, PermissionDenied, ConfigurationError, Overloaded;
    StorageError if it is to be asked again; for a refused commit the error that refused it."""
    match event:
        case ev.BeginWrite():
            return _begin(tables, event, now_ms, limits)
        case ev.InstantCreated():
            return _instant_created(tables, event, now_ms, limits)
        case ev.LeaseGroups():
            return _lease(tables, event, now_ms, limits)
        case ev.RenewWrite():
            write = _open_write(tables, event.id, event.principal)
            until_ms = now_ms + limits.lease_ms
            return WriteDecision((WriteRenewed(id=write.id, until_ms=until_ms, progress=event.progress),))
        case ev.CommitWrite():
            return _commit(tables, event)
        case ev.InstantCompleted():
            return _completed(tables, event)
        case ev.CommitRefused():
            write = _known_write(tables, event.id)
            if write.state is not WriteState.DECIDED:
                return WriteDecision(())
            failed = WriteFailed(id=event.id, end=WriteEnd.REFUSED, code=event.code, text=event.text)
            return WriteDecision((failed,))
        case ev.AbortWrite():
            return _abort(tables, event)
        case ev.InstantRolledBack():
            known = _writes_of(tables, event.id.table).get(event.id)
            is_failed = known is not None and known.state is WriteState.FAILED
            return WriteDecision((WriteRolledBack(id=event.id),) if is_failed else ())


def overdue_writes(
    tables: Mapping[str, TableWrites], before_ms: int, now_ms: int, limits: WriteLimits
) -> list[WriteRecord]:
    """Ends writes whose lease is over. If this process was suspended they get a new lease, because their writers could
    not renew it."""
    was_suspended = now_ms - before_ms > limits.lease_ms // 2
    records: list[WriteRecord] = []
    for writes in tables.values():
        for write in writes.live.values():
            if not write.is_open:
                continue
            if was_suspended or write.until_ms is None:
                records.append(WriteRenewed(id=write.id, until_ms=now_ms + _open_for_ms(write, limits)))
            elif write.until_ms <= now_ms:
                records.append(WriteFailed(id=write.id, end=WriteEnd.EXPIRED))
    return records


def _begin(tables: Mapping[str, TableWrites], event: ev.BeginWrite, now_ms: int, limits: WriteLimits) -> WriteDecision:
    writes = _writes_of(tables, event.id.table)
    known = writes.get(event.id)
    renewed = WriteRenewed(id=event.id, until_ms=now_ms + _open_for_ms(known, limits))
    if known is not None:
        _check_principal(known, event.principal)
        if known.request_id != event.request_id:
            raise Fenced(f"{event.id}: another process has begun this epoch: begin a later one")
        write = _open_write(tables, event.id, event.principal, also_requested=True)
        return WriteDecision((renewed,), write)
    for other in writes.of_owner(event.id.owner):
        _check_principal(other, event.principal)
        if other.id.epoch > event.id.epoch:
            raise Fenced(f"{event.id}: epoch {other.id.epoch} of this owner has begun: begin a later one")
        _refuse_unfinished(event.id, other)
    _check_room(tables, writes, event, limits)
    fenced = [
        WriteFailed(id=other.id, end=WriteEnd.FENCED)
        for other in writes.live.values()
        if other.id.owner == event.id.owner and other.is_open
    ]
    requested = WriteRequested(id=event.id, request_id=event.request_id, spec=event.spec, principal=event.principal)
    answer = Write(id=event.id, request_id=event.request_id, spec=event.spec, principal=event.principal)
    return WriteDecision((*fenced, requested, renewed), answer)


def _open_for_ms(write: Write | None, limits: WriteLimits) -> int:
    """How long a write stays open without a call; None is a new one."""
    return limits.lease_ms if write is not None and write.instant else limits.begin_ms


def _refuse_unfinished(write_id: WriteId, earlier: Write) -> None:
    """StorageError while the commit of an earlier epoch is decided, and not complete: a write sees in the table all
    that its owner has committed."""
    if earlier.state is WriteState.DECIDED:
        raise StorageError(
            f"{write_id}: the commit of epoch {earlier.id.epoch} of this owner (instant {earlier.instant}) is decided, "
            "and not complete yet: ask again"
        )


def _check_room(
    tables: Mapping[str, TableWrites], writes: TableWrites, event: ev.BeginWrite, limits: WriteLimits
) -> None:
    if event.id.epoch < 1:
        raise ConfigurationError(f"{event.id}: an epoch is 1 or more")
    if event.spec.action not in ("commit", "deltacommit", "replacecommit"):
        raise ConfigurationError(f"{event.id}: action {event.spec.action[:40]!r}: expected a write's action")
    if len(event.spec.requested) > MAX_REQUESTED_BYTES:
        raise ConfigurationError(
            f"{event.id}: its requested file has {len(event.spec.requested)} bytes, at most {MAX_REQUESTED_BYTES}"
        )
    if len(writes.live) >= limits.max_writes_of_table:
        raise Overloaded(f"table {event.id.table!r} has {len(writes.live)} open writes, which is the maximum: retry")
    mine = sum(write.principal == event.principal for every in tables.values() for write in every.live.values())
    if event.principal and mine >= limits.max_writes_of_principal:
        raise Overloaded(f"the caller has {mine} open writes, which is the maximum: retry")


def _instant_created(
    tables: Mapping[str, TableWrites], event: ev.InstantCreated, now_ms: int, limits: WriteLimits
) -> WriteDecision:
    writes, write = _writes_of(tables, event.id.table), _known_write(tables, event.id)
    if write.instant == event.instant and write.state is WriteState.OPEN:
        return WriteDecision((), write)
    if write.state is not WriteState.REQUESTED:
        _raise_ended(write)
    if event.instant <= writes.last_instant:
        raise TableError(
            f"{event.id}: its instant would be {event.instant}, and the table has {writes.last_instant}: the timeline "
            "went back, or another process changed it: begin again"
        )
    begun = WriteBegun(
        id=event.id,
        instant=event.instant,
        newest_completed=event.newest_completed,
        pending=event.pending,
        order=writes.last_order + 1,
    )
    return WriteDecision((begun, WriteRenewed(id=event.id, until_ms=now_ms + limits.lease_ms)), write)


def _lease(tables: Mapping[str, TableWrites], event: ev.LeaseGroups, now_ms: int, limits: WriteLimits) -> WriteDecision:
    write = _open_write(tables, event.id, event.principal)
    if event.touched.size > MAX_GROUPS_A_LEASE:
        raise ConfigurationError(
            f"{event.id}: leases for {event.touched.size} file groups and partitions at once, at most "
            f"{MAX_GROUPS_A_LEASE}: ask for them in parts"
        )
    renewed = WriteRenewed(id=event.id, until_ms=now_ms + limits.lease_ms)
    added = leased(write, event.touched).without(write.held)
    if not added.size and (write.held.keys_of_table or not added.keys_of_table):
        return WriteDecision((renewed,))
    if write.held.size + added.size > MAX_GROUPS_A_WRITE:
        raise ConfigurationError(
            f"{event.id}: it would hold {write.held.size + added.size} file groups and partitions, at most "
            f"{MAX_GROUPS_A_WRITE} through a server: write in parts"
        )
    if conflict := _first_conflict(_writes_of(tables, event.id.table), write, added):
        raise WriteConflict(conflict)
    return WriteDecision((GroupsLeased(id=event.id, touched=added), renewed))


def leased(write: Write, touched: TouchedGroups) -> TouchedGroups:
    """What a write leases when it changes `touched`."""
    return touched.by_bucket() if write.spec.by_bucket else touched


def _first_conflict(writes: TableWrites, write: Write, added: TouchedGroups) -> str:
    """The error of a conflict with a write that holds a group, or that changed it after this one had begun."""
    for other in _others(writes, write):
        if group := added.conflicts_with(other.held, by_bucket=write.spec.by_bucket):
            held = {
                WriteState.COMPLETED: f"changed {group} after this write had begun",
                WriteState.FAILED: f"holds {group} until it is rolled back",
            }.get(other.state, f"holds {group}")
            return (
                f"{write.id} (instant {write.instant}): {other.id.owner!r}, epoch {other.id.epoch} (instant "
                f"{other.instant}), {held}: nothing of it was written; write again"
            )
    return ""


def _others(writes: TableWrites, write: Write) -> Iterable[Write]:
    for other in writes.live.values():
        if other.id != write.id:
            yield other
    for other in writes.ended.values():
        if other.completed > write.begun:
            yield other


def _commit(tables: Mapping[str, TableWrites], event: ev.CommitWrite) -> WriteDecision:
    known = _known_write(tables, event.id, event.principal)
    if known.state in (WriteState.DECIDED, WriteState.COMPLETED):
        return WriteDecision((), known)
    write = _open_write(tables, event.id, event.principal)
    if len(event.commit.metadata) > MAX_COMMIT_BYTES:
        raise ConfigurationError(
            f"{event.id}: its commit metadata has {len(event.commit.metadata)} bytes, at most {MAX_COMMIT_BYTES} "
            "through a server: write fewer files at once"
        )
    missing = leased(write, event.commit.touched).without(write.held)
    if missing.size:
        first = min([*missing.groups, *((partition, "") for partition in missing.inserted_into)])
        raise ConfigurationError(
            f"{event.id}: it commits file group {first[1]!r} of partition {first[0]!r}, for which it has no lease: "
            "take the lease first"
        )
    return WriteDecision((CommitDecided(id=event.id, commit=event.commit),), write)


def _completed(tables: Mapping[str, TableWrites], event: ev.InstantCompleted) -> WriteDecision:
    write = _known_write(tables, event.id)
    if write.state is WriteState.COMPLETED:
        return WriteDecision(())
    if write.state is not WriteState.DECIDED:
        _raise_ended(write)
    order = _writes_of(tables, event.id.table).last_order + 1
    return WriteDecision((WriteCompleted(id=event.id, completion=event.completion, order=order),))


def _abort(tables: Mapping[str, TableWrites], event: ev.AbortWrite) -> WriteDecision:
    write = _writes_of(tables, event.id.table).get(event.id)
    if write is None:
        return WriteDecision(())
    _check_principal(write, event.principal)
    if write.is_open:
        return WriteDecision((WriteFailed(id=event.id, end=WriteEnd.ABORTED),))
    if write.state in (WriteState.DECIDED, WriteState.COMPLETED):
        raise Fenced(f"{event.id} (instant {write.instant}): its commit is {write.state.value}: it is not aborted")
    return WriteDecision(())


def _writes_of(tables: Mapping[str, TableWrites], table: str) -> TableWrites:
    return tables.get(table, _NO_WRITES)


def _known_write(tables: Mapping[str, TableWrites], write_id: WriteId, principal: str = "") -> Write:
    """The write. Fenced if it is unknown; PermissionDenied."""
    write = _writes_of(tables, write_id.table).get(write_id)
    if write is None:
        raise Fenced(f"{write_id}: it is not known here: it ended, or never began: write again")
    _check_principal(write, principal)
    return write


def _open_write(
    tables: Mapping[str, TableWrites], write_id: WriteId, principal: str, *, also_requested: bool = False
) -> Write:
    """The write, which may write and be committed; with `also_requested` it may have no instant yet. Fenced if it has
    ended; for a refused commit the error that refused it."""
    write = _known_write(tables, write_id, principal)
    states = (WriteState.OPEN, WriteState.REQUESTED) if also_requested else (WriteState.OPEN,)
    if write.state not in states:
        _raise_ended(write)
    return write


def _raise_ended(write: Write) -> NoReturn:
    if write.end is WriteEnd.REFUSED:
        raise all_error_classes().get(write.code, WriteConflict)(write.text)
    if write.end is not None:
        raise Fenced(f"{write.id} (instant {write.instant or 'none'}): {_WHY[write.end]}: write again")
    if write.state is WriteState.REQUESTED:
        raise Fenced(f"{write.id}: it has no instant yet: wait for the answer to its begin")
    raise Fenced(f"{write.id} (instant {write.instant}): its commit is {write.state.value}: it takes no more calls")


def _check_principal(write: Write, principal: str) -> None:
    """PermissionDenied if another principal began the write. Without authentication anybody may call."""
    if principal and write.principal and principal != write.principal:
        raise PermissionDenied(f"{write.id}: another principal writes under this owner: choose another name")
