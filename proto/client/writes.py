"""`WriteCalls`: the methods of `EnumeratorClient` for write transactions, one per call of `WriteService`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from penstock.proto.codec import write_calls as calls
from penstock.proto.codec.checks import encoding
from penstock.proto.codec.write_calls import WriteRequest
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
from penstock.proto.v1 import penstock_pb2 as pb

_A = TypeVar("_A")


class WriteCalls(ABC):
    """A `WriteService` over calls to a server. Each call may be repeated: a begin is identified by its request id, and
    the other calls are idempotent. The server sets the principal."""

    @abstractmethod
    def _call_writes(self, name: str, request: WriteRequest, answer_type: type[_A]) -> _A:
        """The server's answer."""

    def begin_write(self, write: WriteId, request_id: str, spec: WriteSpec, principal: str = "") -> BegunWrite:
        """See `WriteService.begin_write`."""
        del principal
        message = calls.begin_to_message(write, request_id, spec)
        return calls.begun_from_message(self._call_writes("BeginWrite", message, pb.BeginWriteResponse))

    def lease_groups(self, write: WriteId, touched: TouchedGroups, principal: str = "") -> None:
        """See `WriteService.lease_groups`."""
        del principal
        self._call_writes("LeaseGroups", calls.lease_to_message(write, touched), pb.LeaseGroupsResponse)

    def renew_write(self, write: WriteId, progress: WriteProgress, principal: str = "") -> int:
        """See `WriteService.renew_write`."""
        del principal
        message = calls.renew_to_message(write, progress)
        return calls.renewed_from_message(self._call_writes("RenewWrite", message, pb.RenewWriteResponse))

    def commit_write(self, write: WriteId, commit: WriteCommit, principal: str = "") -> InstantTime:
        """See `WriteService.commit_write`."""
        del principal
        message = calls.commit_to_message(write, commit)
        return calls.committed_from_message(self._call_writes("CommitWrite", message, pb.CommitWriteResponse))

    def abort_write(self, write: WriteId, principal: str = "") -> None:
        """See `WriteService.abort_write`."""
        del principal
        message = pb.AbortWriteRequest(write=calls.id_to_message(write))
        self._call_writes("AbortWrite", message, pb.AbortWriteResponse)

    def list_writes(self, table: str = "") -> tuple[WriteSummary, ...]:
        """See `WriteService.list_writes`."""
        with encoding("list of writes"):
            message = pb.ListWritesRequest(table=table)
        return calls.list_from_message(self._call_writes("ListWrites", message, pb.ListWritesResponse))
