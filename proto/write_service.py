"""`WriteService`, the interface of write transactions. Its values are in `penstock.proto.model.writes`."""

from __future__ import annotations

from typing import Protocol

from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import (
    BegunWrite,
    TouchedGroups,
    WriteCommit,
    WriteId,
    WriteProgress,
    WriteSpec,
    WriteSummary,
)


class WriteService(Protocol):
    """Write transactions of tables. Any thread.

    Calls are idempotent. Errors are those of `penstock.proto.errors`: Fenced for a write that has ended, or whose owner
    has begun a later epoch. `principal` is that of the caller; a client leaves it out, and the server sets it.
    """

    def begin_write(self, write: WriteId, request_id: str, spec: WriteSpec, principal: str = "") -> BegunWrite:
        """Begins a write, which gets an instant. Earlier epochs of its owner are fenced."""
        ...

    def lease_groups(self, write: WriteId, touched: TouchedGroups, principal: str = "") -> None:
        """Takes leases of file groups and partitions, all or none, before their files are written. They end with the
        write. WriteConflict if another write holds one, or changed it after this write had begun."""
        ...

    def renew_write(self, write: WriteId, progress: WriteProgress, principal: str = "") -> int:
        """Renews the lease of the write, and reports what it has written; returns the length of the lease in
        milliseconds."""
        ...

    def commit_write(self, write: WriteId, commit: WriteCommit, principal: str = "") -> InstantTime:
        """Completes the instant, and returns its completion time. Once the commit is decided it is durable: the server
        completes it also after a restart. WriteConflict: nothing is visible, and the write is rolled back."""
        ...

    def abort_write(self, write: WriteId, principal: str = "") -> None:
        """Gives the write up: its instant is rolled back. Fenced if its commit is decided or complete."""
        ...

    def list_writes(self, table: str = "") -> tuple[WriteSummary, ...]:
        """The writes that have not ended, by table, owner and epoch."""
        ...
