"""The shortest records that restore the writes of a table. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.enumerator.core.writes.records import (
    CommitDecided,
    DurableWriteRecord,
    GroupsLeased,
    WriteBegun,
    WriteCompleted,
    WriteFailed,
    WriteRequested,
    WriteRolledBack,
)
from penstock.enumerator.core.writes.state import TableWrites, Write
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import WriteState


def records_of_writes(writes: TableWrites) -> Iterator[DurableWriteRecord]:
    """Records that restore the writes; leases and progress are volatile. Those that have not ended come first: what a
    completed write changed is kept for them."""
    for write in writes.live.values():
        yield from _of_write(write)
    for write in writes.ended.values():
        yield from _of_write(write)


def _of_write(write: Write) -> Iterator[DurableWriteRecord]:
    yield WriteRequested(id=write.id, request_id=write.request_id, spec=write.spec, principal=write.principal)
    if write.instant:
        yield WriteBegun(
            id=write.id,
            instant=InstantTime(write.instant),
            newest_completed=write.newest_completed,
            pending=write.pending,
            order=write.begun,
        )
    if write.held.size or write.held.keys_of_table:
        yield GroupsLeased(id=write.id, touched=write.held)
    if write.commit is not None:
        yield CommitDecided(id=write.id, commit=write.commit)
    if write.state is WriteState.COMPLETED:
        yield WriteCompleted(id=write.id, completion=InstantTime(write.completion), order=write.completed)
    if write.end is not None:
        yield WriteFailed(id=write.id, end=write.end, text=write.text, code=write.code)
        if write.state is WriteState.ABORTED and write.instant:
            yield WriteRolledBack(id=write.id)
