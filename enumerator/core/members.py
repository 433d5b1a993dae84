"""Readers of groups: joining, leases, leaving. Pure decisions; see `decide`."""

from __future__ import annotations

from typing import Final

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import (
    Gone,
    GroupDeleted,
    GroupIdle,
    GroupKey,
    LeaseRenewed,
    ReaderGone,
    ReaderJoined,
    Record,
)
from penstock.enumerator.core.results import CoordinatorSettings, Decision, changes
from penstock.enumerator.core.state import Group, Reader, State
from penstock.proto.errors import ConfigurationError, Fenced, Overloaded, PermissionDenied, UnknownGroup
from penstock.proto.model.groups import GroupScope, Joined, Member

MAX_READERS: Final = 10_000
"""Readers of one group."""


def group_of(state: State, key: GroupKey) -> Group:
    """The group, or UnknownGroup."""
    group = state.groups.get(key)
    if group is None:
        raise UnknownGroup(f"no {key} here: a reader that joins creates it; `penstock groups list` shows those there")
    return group


def member_of(state: State, member: Member) -> tuple[Group, Reader]:
    """The group and its reader. Fenced for an epoch that is not current; PermissionDenied for a member that another
    principal joined."""
    key = GroupKey(member.table, member.group)
    group = group_of(state, key)
    reader = group.readers.get(member.reader_id)
    if reader is None or reader.epoch != member.epoch:
        now = f"its epoch is {reader.epoch} now" if reader is not None else "it is not a member"
        raise Fenced(
            f"reader {member.reader_id!r} of {key}, epoch {member.epoch}: {now}: its lease ran out, the group was "
            "reset, or another process joined under that id; what it had not committed is read by others; join again"
        )
    _check_principal(group, reader, member.principal)
    return group, reader


def _check_principal(group: Group, reader: Reader, principal: str) -> None:
    """PermissionDenied if another principal joined. A member without a principal may be used by any principal until it
    joins again: its server did not authenticate callers, or its state is of a release that did not keep principals."""
    if principal and reader.principal and principal != reader.principal:
        raise PermissionDenied(
            f"reader {reader.reader_id!r} of {group.key}: another principal joined under that reader id, and holds it "
            "until it leaves or its lease ends; choose another reader id"
        )


def join(state: State, event: ev.Join, now_ms: int, settings: CoordinatorSettings) -> Decision[Joined]:
    """Joins the reader under a new epoch. A retry (same request id) has the same epoch."""
    group = group_of(state, event.key)
    _check_scope(group, event.scope)
    until = now_ms + settings.lease_ms
    before = group.readers.get(event.reader_id)
    if before is not None:
        _check_principal(group, before, event.principal)
    if before is not None and before.request_id == event.request_id:
        member = Member(event.key.table, event.key.group, event.reader_id, before.epoch)
        return Decision((renewed(group, member, now_ms, settings),), Joined(member, settings.lease_ms))
    if before is None and len(group.readers) >= MAX_READERS:
        raise Overloaded(f"{event.key} has {MAX_READERS} readers, and takes no more")
    epoch = state.last_number + 1
    member = Member(event.key.table, event.key.group, event.reader_id, epoch)
    joined = ReaderJoined(
        key=event.key,
        reader_id=event.reader_id,
        epoch=epoch,
        request_id=event.request_id,
        principal=event.principal,
    )
    lease = LeaseRenewed(key=event.key, reader_id=event.reader_id, until_ms=until)
    return Decision((joined, lease), Joined(member, settings.lease_ms))


def _check_scope(group: Group, scope: GroupScope) -> None:
    if scope == group.scope:
        return
    present, requested = group.scope, scope
    pairs = [
        (name, getattr(present, name), getattr(requested, name))
        for name in ("upto", "on_lost_range", "rule", "idle_timeout_us", "alignment")
    ]
    pairs += [
        (name, getattr(present.request, name), getattr(requested.request, name)) for name in present.request.__slots__
    ]
    differing = "; ".join(
        f"{name}: the group has {ours}, got {theirs}" for name, ours, theirs in pairs if ours != theirs
    )
    raise ConfigurationError(
        f"{group.key} consumes something else ({differing[:1500]}): what a group consumes is fixed when it is created; "
        "use another group name, or delete the group first"
    )


def renewed(group: Group, member: Member, now_ms: int, settings: CoordinatorSettings) -> LeaseRenewed:
    """A new lease for the member, from now."""
    return LeaseRenewed(key=group.key, reader_id=member.reader_id, until_ms=now_ms + settings.lease_ms)


def leave(state: State, member: Member) -> Decision[None]:
    """The member leaves, and its splits are pending again. Does nothing if it is not (or no longer) a member."""
    key = GroupKey(member.table, member.group)
    group = group_of(state, key)
    reader = group.readers.get(member.reader_id)
    if reader is None or reader.epoch != member.epoch:
        return changes()
    _check_principal(group, reader, member.principal)
    return changes(ReaderGone(key=key, reader_id=member.reader_id, cause=Gone.LEFT))


def overdue(state: State, before_ms: int, now_ms: int, settings: CoordinatorSettings) -> list[Record]:
    """Removes readers whose lease has ended. If this process was suspended they get a new lease, because they could not
    renew it."""
    was_suspended = now_ms - before_ms > settings.lease_ms // 2
    records: list[Record] = []
    for key, group in state.groups.items():
        for reader_id, reader in group.readers.items():
            if was_suspended or reader.until_ms is None:
                records.append(LeaseRenewed(key=key, reader_id=reader_id, until_ms=now_ms + settings.lease_ms))
            elif reader.until_ms <= now_ms:
                records.append(ReaderGone(key=key, reader_id=reader_id, cause=Gone.EXPIRED))
    return records


def without_readers(state: State, before_ms: int, now_ms: int, settings: CoordinatorSettings) -> list[Record]:
    """Notes groups without readers, and deletes those without readers for `group_expiry_ms`. If this process was
    suspended the time starts again: no reader could join. The tables of a group over tables expire with it."""
    if settings.group_expiry_ms is None:
        return []
    was_suspended = now_ms - before_ms > settings.lease_ms // 2
    records: list[Record] = []
    for key, group in state.groups.items():
        if group.readers or state.names.whole_of(group) is not None:
            continue
        if was_suspended or group.idle_since_ms is None:
            records.append(GroupIdle(key, now_ms))
        elif now_ms - group.idle_since_ms >= settings.group_expiry_ms:
            of_tables = state.names.of(group) if group.scope.over_tables else ()
            records += [GroupDeleted(each.key, expired=True) for each in of_tables if not each.readers]
            records.append(GroupDeleted(key, expired=True))
    return records
