"""The handlers of the calls of table services: decode, call the `ServiceSplitService`, encode.

They make no decisions and keep no state. `answered` converts errors to statuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import grpc

from penstock.enumerator.server.auth.callers import caller
from penstock.enumerator.server.rpc.handlers import answered
from penstock.proto.codec import service_split_calls as calls
from penstock.proto.errors import ConfigurationError
from penstock.proto.service_split_service import ServiceSplitService
from penstock.proto.v1 import penstock_pb2 as pb


class ServiceSplitHandlers:
    """One method per call, named as in the .proto. Any thread. Without a service every valid call fails with a
    ConfigurationError."""

    def __init__(self, splits: ServiceSplitService | None) -> None:
        self._optional_splits = splits

    def by_call(self) -> Mapping[str, Callable[..., object]]:
        """The handlers by the names of their calls."""
        handlers = (self.RequestServiceSplit, self.RenewServiceSplit, self.FinishServiceSplit, self.ListServiceSplits)
        return {handler.__name__: handler for handler in handlers}

    @property
    def _splits(self) -> ServiceSplitService:
        if self._optional_splits is None:
            raise ConfigurationError("this server hands out no table services: use one of `penstock serve`")
        return self._optional_splits

    def RequestServiceSplit(
        self, request: pb.RequestServiceSplitRequest, context: grpc.ServicerContext
    ) -> pb.RequestServiceSplitResponse:
        """See the .proto."""

        def answer() -> pb.RequestServiceSplitResponse:
            asked = calls.request_from_message(request)
            return calls.answer_to_message(self._splits.request_service_split(asked, caller()))

        return answered("RequestServiceSplit", request, context, answer)

    def RenewServiceSplit(
        self, request: pb.RenewServiceSplitRequest, context: grpc.ServicerContext
    ) -> pb.RenewServiceSplitResponse:
        """See the .proto."""

        def answer() -> pb.RenewServiceSplitResponse:
            split, member, attempt = calls.renew_from_message(request)
            lease_ms = self._splits.renew_service_split(split, member, attempt, caller())
            return pb.RenewServiceSplitResponse(lease_ms=lease_ms)

        return answered("RenewServiceSplit", request, context, answer)

    def FinishServiceSplit(
        self, request: pb.FinishServiceSplitRequest, context: grpc.ServicerContext
    ) -> pb.FinishServiceSplitResponse:
        """See the .proto."""

        def answer() -> pb.FinishServiceSplitResponse:
            split, member, attempt, outcome = calls.finish_from_message(request)
            self._splits.finish_service_split(split, member, attempt, outcome, caller())
            return pb.FinishServiceSplitResponse()

        return answered("FinishServiceSplit", request, context, answer)

    def ListServiceSplits(
        self, request: pb.ListServiceSplitsRequest, context: grpc.ServicerContext
    ) -> pb.ListServiceSplitsResponse:
        """See the .proto."""

        def answer() -> pb.ListServiceSplitsResponse:
            table = calls.listed_table(request)
            return calls.list_to_message(self._splits.list_service_splits(table))

        return answered("ListServiceSplits", request, context, answer)
