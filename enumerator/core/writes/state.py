"""The write transactions of tables, and `apply_to_writes`, which applies a record to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

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
from penstock.proto.model.writes import (
    NO_PROGRESS,
    TouchedGroups,
    WriteCommit,
    WriteEnd,
    WriteId,
    WriteProgress,
    WriteSpec,
    WriteState,
)

MAX_ENDED: Final = 500
"""Ended writes of a table that are remembered, so that late and repeated calls are recognised."""
MAX_ENDED_GROUPS: Final = 200_000
"""File groups of completed writes that are remembered for writes which began before. Beyond it, a conflict with the
oldest is noticed when the write completes."""
NOTHING_TOUCHED: Final = TouchedGroups()


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write transaction."""

    id: WriteId
    """Its table, owner and epoch."""
    request_id: str
    """Id of the call that began it."""
    spec: WriteSpec
    """What it is."""
    principal: str = ""
    """The principal that began it."""
    state: WriteState = WriteState.REQUESTED
    """Its state."""
    instant: str = ""
    """Its instant; '' before it has one."""
    newest_completed: str = ""
    """Requested time of the newest completed write when it began."""
    pending: tuple[str, ...] = ()
    """Requested times of the writes that were pending then."""
    begun: int = 0
    """Its place among the begins and completions of the table's writes."""
    held: TouchedGroups = NOTHING_TOUCHED
    """What it holds; of a completed write: what it changed, while a write that began before its end is open."""
    commit: WriteCommit | None = None
    """What it commits, once that is decided, until it has ended."""
    completion: str = ""
    """Its completion time; '' before."""
    completed: int = 0
    """The place of its completion, as `begun`; 0 before."""
    end: WriteEnd | None = None
    """Why it failed."""
    code: str = ""
    """Of a refused commit: the code of the error."""
    text: str = ""
    """Of a refused commit: the text of the error."""
    until_ms: int | None = None
    """End of its lease; None after a restart."""
    progress: WriteProgress = NO_PROGRESS
    """What its writer reported."""

    @property
    def is_open(self) -> bool:
        """Whether its writer may still abort it, and a later epoch fences it."""
        return self.state in (WriteState.REQUESTED, WriteState.OPEN)


@dataclass(slots=True)
class TableWrites:
    """The writes of one table."""

    live: dict[WriteId, Write] = field(default_factory=dict)
    """Those that have not ended, in the order in which they were requested."""
    ended: dict[WriteId, Write] = field(default_factory=dict)
    """The newest MAX_ENDED that have ended, in this order."""

    def get(self, write_id: WriteId) -> Write | None:
        """The write, if it is live or remembered."""
        return self.live.get(write_id) or self.ended.get(write_id)

    def of_owner(self, owner: str) -> Iterator[Write]:
        """The writes of an owner."""
        return (write for writes in (self.live, self.ended) for write in writes.values() if write.id.owner == owner)

    @property
    def last_order(self) -> int:
        """The newest place of a begin or completion; 0 if none is known."""
        return max((max(each.begun, each.completed) for each in self._all()), default=0)

    @property
    def last_instant(self) -> str:
        """The newest instant; '' if none is known."""
        return max((each.instant for each in self._all()), default="")

    def _all(self) -> Iterator[Write]:
        yield from self.live.values()
        yield from self.ended.values()


def apply_to_writes(tables: dict[str, TableWrites], record: WriteRecord) -> tuple[str, ...]:
    """Applies the record to the writes by table. Returns (): no plan or round is affected."""
    writes = tables.setdefault(record.id.table, TableWrites())
    if isinstance(record, WriteRequested):
        writes.live[record.id] = Write(
            id=record.id, request_id=record.request_id, spec=record.spec, principal=record.principal
        )
        return ()
    write = _changed(writes.live[record.id], record)
    writes.live[record.id] = write
    if write.state.has_ended:
        del writes.live[record.id]
        spec = replace(write.spec, requested=b"")  # nobody asks for it
        writes.ended[record.id] = replace(write, spec=spec, commit=None, until_ms=None, progress=NO_PROGRESS)
        _forget(writes)
    return ()


def _changed(write: Write, record: WriteRecord) -> Write:
    match record:
        case WriteBegun():
            return replace(
                write,
                state=WriteState.OPEN,
                instant=record.instant,
                newest_completed=record.newest_completed,
                pending=record.pending,
                begun=record.order,
            )
        case GroupsLeased():
            return replace(write, held=write.held.united(record.touched))
        case CommitDecided():
            return replace(write, state=WriteState.DECIDED, commit=record.commit)
        case WriteCompleted():
            return replace(write, state=WriteState.COMPLETED, completion=record.completion, completed=record.order)
        case WriteFailed():
            state = WriteState.FAILED if write.instant else WriteState.ABORTED
            failed = replace(write, state=state, end=record.end, code=record.code, text=record.text, commit=None)
            return failed if write.instant else replace(failed, held=NOTHING_TOUCHED)
        case WriteRolledBack():
            return replace(write, state=WriteState.ABORTED, held=NOTHING_TOUCHED)
        case WriteRenewed():
            progress = write.progress if record.progress is None else record.progress
            return replace(write, until_ms=record.until_ms, progress=progress)
        case WriteRequested():
            return write


def _forget(writes: TableWrites) -> None:
    """Forgets the oldest ended writes, and what they changed if no open write could conflict with it."""
    while len(writes.ended) > MAX_ENDED:
        del writes.ended[next(iter(writes.ended))]
    first = min((each.begun for each in writes.live.values() if each.begun), default=None)
    groups = 0
    for each in reversed(list(writes.ended.values())):
        if each.held is NOTHING_TOUCHED or not each.held.size:
            continue
        groups += each.held.size
        if first is None or each.completed < first or groups > MAX_ENDED_GROUPS:
            writes.ended[each.id] = replace(each, held=NOTHING_TOUCHED)
