"""`ServiceSplitCalls`: the methods of `EnumeratorClient` for table services, one per call of `ServiceSplitService`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from penstock.proto.codec import service_split_calls as calls
from penstock.proto.codec.checks import encoding
from penstock.proto.codec.service_split_calls import ServiceSplitRequest
from penstock.proto.model.service_splits import (
    ServiceAnswer,
    ServiceOutcome,
    ServiceRequest,
    ServiceSplitId,
    ServiceSplitSummary,
)
from penstock.proto.v1 import penstock_pb2 as pb

_A = TypeVar("_A")


class ServiceSplitCalls(ABC):
    """A `ServiceSplitService` over calls to a server. Each call may be repeated. The server sets the principal."""

    @abstractmethod
    def _call_service_splits(self, name: str, request: ServiceSplitRequest, answer_type: type[_A]) -> _A:
        """The server's answer."""

    def request_service_split(self, request: ServiceRequest, principal: str = "") -> ServiceAnswer:
        """See `ServiceSplitService.request_service_split`."""
        del principal
        message = calls.request_to_message(request)
        answer = self._call_service_splits("RequestServiceSplit", message, pb.RequestServiceSplitResponse)
        return calls.answer_from_message(answer)

    def renew_service_split(self, split: ServiceSplitId, member: str, attempt: int, principal: str = "") -> int:
        """See `ServiceSplitService.renew_service_split`."""
        del principal
        message = calls.renew_to_message(split, member, attempt)
        answer = self._call_service_splits("RenewServiceSplit", message, pb.RenewServiceSplitResponse)
        return calls.renewed_from_message(answer)

    def finish_service_split(
        self, split: ServiceSplitId, member: str, attempt: int, outcome: ServiceOutcome, principal: str = ""
    ) -> None:
        """See `ServiceSplitService.finish_service_split`."""
        del principal
        message = calls.finish_to_message(split, member, attempt, outcome)
        self._call_service_splits("FinishServiceSplit", message, pb.FinishServiceSplitResponse)

    def list_service_splits(self, table: str = "") -> tuple[ServiceSplitSummary, ...]:
        """See `ServiceSplitService.list_service_splits`."""
        with encoding("list of splits of services"):
            message = pb.ListServiceSplitsRequest(table=table)
        return calls.list_from_message(
            self._call_service_splits("ListServiceSplits", message, pb.ListServiceSplitsResponse)
        )
