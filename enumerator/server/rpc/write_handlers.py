"""The handlers of the calls of write transactions: decode, call the `WriteService`, encode.

They make no decisions and keep no state. `answered` converts errors to statuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import grpc

from penstock.enumerator.server.auth.callers import caller, own_request_id
from penstock.enumerator.server.rpc.handlers import answered
from penstock.proto.codec import write_calls as calls
from penstock.proto.errors import ConfigurationError
from penstock.proto.v1 import penstock_pb2 as pb
from penstock.proto.write_service import WriteService


class WriteHandlers:
    """One method per call, named as in the .proto. Any thread. Without a `WriteService` every valid call fails with a
    ConfigurationError."""

    def __init__(self, writes: WriteService | None) -> None:
        self._optional_writes = writes

    def by_call(self) -> Mapping[str, Callable[..., object]]:
        """The handlers by the names of their calls."""
        handlers = (
            self.BeginWrite,
            self.LeaseGroups,
            self.RenewWrite,
            self.CommitWrite,
            self.AbortWrite,
            self.ListWrites,
        )
        return {handler.__name__: handler for handler in handlers}

    @property
    def _writes(self) -> WriteService:
        if self._optional_writes is None:
            raise ConfigurationError("this server coordinates no writes: use one of `penstock serve`")
        return self._optional_writes

    def BeginWrite(self, request: pb.BeginWriteRequest, context: grpc.ServicerContext) -> pb.BeginWriteResponse:
        """See the .proto."""

        def answer() -> pb.BeginWriteResponse:
            write, request_id, spec = calls.begin_from_message(request)
            request_id = own_request_id(caller(), request_id)
            return calls.begun_to_message(self._writes.begin_write(write, request_id, spec, caller()))

        return answered("BeginWrite", request, context, answer)

    def LeaseGroups(self, request: pb.LeaseGroupsRequest, context: grpc.ServicerContext) -> pb.LeaseGroupsResponse:
        """See the .proto."""

        def answer() -> pb.LeaseGroupsResponse:
            write, touched = calls.lease_from_message(request)
            self._writes.lease_groups(write, touched, caller())
            return pb.LeaseGroupsResponse()

        return answered("LeaseGroups", request, context, answer)

    def RenewWrite(self, request: pb.RenewWriteRequest, context: grpc.ServicerContext) -> pb.RenewWriteResponse:
        """See the .proto."""

        def answer() -> pb.RenewWriteResponse:
            write, progress = calls.renew_from_message(request)
            return pb.RenewWriteResponse(lease_ms=self._writes.renew_write(write, progress, caller()))

        return answered("RenewWrite", request, context, answer)

    def CommitWrite(self, request: pb.CommitWriteRequest, context: grpc.ServicerContext) -> pb.CommitWriteResponse:
        """See the .proto."""

        def answer() -> pb.CommitWriteResponse:
            write, commit = calls.commit_from_message(request)
            return pb.CommitWriteResponse(completion_time=self._writes.commit_write(write, commit, caller()))

        return answered("CommitWrite", request, context, answer)

    def AbortWrite(self, request: pb.AbortWriteRequest, context: grpc.ServicerContext) -> pb.AbortWriteResponse:
        """See the .proto."""

        def answer() -> pb.AbortWriteResponse:
            write = calls.id_of(request)
            self._writes.abort_write(write, caller())
            return pb.AbortWriteResponse()

        return answered("AbortWrite", request, context, answer)

    def ListWrites(self, request: pb.ListWritesRequest, context: grpc.ServicerContext) -> pb.ListWritesResponse:
        """See the .proto."""

        def answer() -> pb.ListWritesResponse:
            table = calls.listed_table(request)
            return calls.list_to_message(self._writes.list_writes(table))

        return answered("ListWrites", request, context, answer)
