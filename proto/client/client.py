"""`EnumeratorClient`: the plan API and consumer groups of a server over gRPC, with deadlines and retries."""

from __future__ import annotations

import logging
import random
import time
import uuid
from dataclasses import dataclass
from typing import Final, TypeVar

import grpc

from penstock.proto.client.channel import call_metadata, connections
from penstock.proto.client.groups import GroupCalls, GroupRequest
from penstock.proto.client.service_splits import ServiceSplitCalls
from penstock.proto.client.tables import TableCalls, TableRequest
from penstock.proto.client.writes import WriteCalls
from penstock.proto.codec import plan_calls as calls
from penstock.proto.codec import streams as streams
from penstock.proto.codec import table_calls
from penstock.proto.codec.checks import encoding
from penstock.proto.codec.errors import error_of, is_worth_retrying, received
from penstock.proto.codec.service_split_calls import ServiceSplitRequest
from penstock.proto.codec.write_calls import WriteRequest
from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.logging import context_fields, log_event_to
from penstock.proto.model.access import NO_ACCESS, ServerAccess, client_address
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.reports import OpenedPlan, SplitAnswer, SplitReport, TableDescription, TimelinePage
from penstock.proto.model.splits import Scan
from penstock.proto.model.streams import NextBatch, StreamPoint, StreamScope, StreamStart
from penstock.proto.retry import RetryPolicy
from penstock.proto.v1 import penstock_pb2 as pb
from penstock.version import __version__

_A = TypeVar("_A")
_Request = (
    pb.DescribeTableRequest
    | pb.NewestPositionRequest
    | pb.ListInstantsRequest
    | pb.OpenPlanRequest
    | pb.DescribePlanRequest
    | pb.NextSplitRequest
    | pb.FinishSplitRequest
    | pb.StartStreamRequest
    | pb.NextBatchRequest
    | GroupRequest
    | TableRequest
    | WriteRequest
    | ServiceSplitRequest
)

_PLANNING: Final = ("OpenPlan", "StartStream", "NextBatch", "BeginWrite", "CommitWrite", "AbortWrite")
"""Calls that list storage and may read or write files."""
_SIGNS_OF_LIFE: Final = ("Heartbeat", "RenewWrite", "RenewServiceSplit")

_OF_A_MEMBER: Final = ("Heartbeat", "RequestSplits", "CommitSplits", "LeaveGroup")
"""Calls whose request id only correlates log lines; a repeated call is identified by its member and sequence."""

log = logging.getLogger("penstock.client")
_CHANCE: Final = random.Random().random
"""Its own source: the random numbers of the calling program stay as they are."""


def _named_request(call: str) -> str:
    """The request id of the log context, for calls whose request id only correlates log lines."""
    return str(context_fields().get("request") or "") if call in _OF_A_MEMBER else ""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The deadlines and retries of a call.

    A deadline covers all attempts of a call. A call that exceeded its deadline is not retried here, but by callers that
    wait longer than one call (`retryTimeout`). Delays between attempts are those of `RetryPolicy`, and never shorter
    than an overloaded server requests (RetryInfo). All calls are idempotent, by request id or by the member's sequence.
    """

    deadline_ms: int = 30_000
    """The deadline of a call."""
    plan_deadline_ms: int = 300_000
    """The deadline of a call that plans."""
    heartbeat_deadline_ms: int = 5_000
    """The deadline of a heartbeat; a late heartbeat does not renew a lease."""
    attempts: int = 6
    """The maximum number of attempts, the first included."""
    first_pause_ms: int = 200
    """The delay before the second attempt."""
    longest_pause_ms: int = 3_000
    """The longest delay."""

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= 100:
            raise ConfigurationError(f"attempts of a call: got {self.attempts}, expected 1 to 100")
        for name, least in (
            ("deadline_ms", 1),
            ("plan_deadline_ms", 1),
            ("heartbeat_deadline_ms", 1),
            ("first_pause_ms", 10),
            ("longest_pause_ms", 10),
        ):
            if getattr(self, name) < least:
                raise ConfigurationError(f"{name} of a call: got {getattr(self, name)}, expected {least} or more")

    def retry(self, deadline_ms: int) -> RetryPolicy:
        """The policy of one call."""
        return RetryPolicy(
            timeout_ms=deadline_ms,
            first_delay_ms=self.first_pause_ms,
            longest_delay_ms=self.longest_pause_ms,
            attempts=self.attempts,
        )


class EnumeratorClient(GroupCalls, TableCalls, WriteCalls, ServiceSplitCalls):
    """An `Enumerator`, a `GroupService`, a `TableService` and a `WriteService` that call the server at `address`
    (HOST:PORT). An address that is not on the loopback interface requires TLS (`access`), else ConfigurationError.

    All clients of an address in a process share one connection, which is opened by the first call, and again in a
    forked child. A client is therefore cheap, may be used from any thread, and may be pickled. Errors are those of the
    server; ServerUnavailable, with the address, if it does not answer.
    """

    def __init__(self, address: str, limits: CallLimits | None = None, access: ServerAccess = NO_ACCESS) -> None:
        self._address = client_address(address, access)
        self._limits = limits or CallLimits()
        self._access = access

    @property
    def address(self) -> str:
        """The server's address as given."""
        return self._address

    def describe_table(self, table: str) -> TableDescription:
        """See `Enumerator.describe_table`."""
        with encoding("describe table"):
            request = pb.DescribeTableRequest(table=table)
        return calls.description_from_message(self._call("DescribeTable", request, pb.DescribeTableResponse))

    def newest_position(self, table: str, after: Position | None = None, max_commits: int = 0) -> Position:
        """See `Enumerator.newest_position`."""
        request = calls.newest_to_message(table, after, max_commits)
        return calls.newest_answer_from_message(self._call("NewestPosition", request, pb.NewestPositionResponse))

    def list_instants(self, table: str, *, after: str = "", as_of: str = "", max_instants: int = 0) -> TimelinePage:
        """See `Enumerator.list_instants`."""
        request = table_calls.instants_to_message(table, after, as_of, max_instants)
        return table_calls.page_from_message(self._call("ListInstants", request, pb.ListInstantsResponse), after, as_of)

    def start_stream(self, scope: StreamScope, start: StreamStart) -> StreamPoint:
        """See `Enumerator.start_stream`. Uses the longer deadline, because it plans."""
        request = streams.start_to_message(scope, start)
        return streams.started_from_message(self._call("StartStream", request, pb.StartStreamResponse))

    def next_batch(self, scope: StreamScope, point: StreamPoint) -> NextBatch:
        """See `Enumerator.next_batch`. Uses the longer deadline, because it plans."""
        request = streams.asked_to_message(scope, point)
        return streams.batch_from_message(self._call("NextBatch", request, pb.NextBatchResponse))

    def open_plan(self, request: PlanRequest, request_id: str = "") -> OpenedPlan:
        """See `Enumerator.open_plan`. Uses the longer deadline, because planning lists storage."""
        message = calls.request_to_message(request)
        message.request_id = request_id
        return calls.opened_from_message(self._call("OpenPlan", message, pb.OpenPlanResponse))

    def describe_plan(self, plan_id: str) -> Scan:
        """See `Enumerator.describe_plan`."""
        with encoding("describe plan"):
            request = pb.DescribePlanRequest(plan_id=plan_id)
        return calls.scan_answer_from_message(self._call("DescribePlan", request, pb.DescribePlanResponse))

    def next_split(self, plan_id: str, slot: int, index: int) -> SplitAnswer:
        """See `Enumerator.next_split`."""
        with encoding("next split"):
            request = pb.NextSplitRequest(plan_id=plan_id, slot=slot, index=index)
        return calls.answer_from_message(self._call("NextSplit", request, pb.NextSplitResponse))

    def finish_split(self, plan_id: str, slot: int, index: int, report: SplitReport) -> None:
        """See `Enumerator.finish_split`."""
        message = calls.report_to_message(report)
        with encoding("finish split"):
            request = pb.FinishSplitRequest(plan_id=plan_id, slot=slot, index=index, report=message)
        self._call("FinishSplit", request, pb.FinishSplitResponse)

    def close(self) -> None:
        """Drops the process's connection to this address; the next call of any client opens a new one."""
        connections.forget(self._address, self._access)

    def _call_group(self, name: str, request: GroupRequest, answer_type: type[_A]) -> _A:
        return self._call(name, request, answer_type)

    def _call_tables(self, name: str, request: TableRequest, answer_type: type[_A]) -> _A:
        return self._call(name, request, answer_type)

    def _call_writes(self, name: str, request: WriteRequest, answer_type: type[_A]) -> _A:
        return self._call(name, request, answer_type)

    def _call_service_splits(self, name: str, request: ServiceSplitRequest, answer_type: type[_A]) -> _A:
        return self._call(name, request, answer_type)

    def _call(self, name: str, request: _Request, answer_type: type[_A]) -> _A:
        request.request_id = request.request_id or _named_request(name) or uuid.uuid4().hex
        request.client_version = __version__
        deadline_ms = self._deadline_ms(name)
        policy = self._limits.retry(deadline_ms)
        begin_s = time.monotonic()
        attempt = 1
        while True:
            left_s = begin_s + deadline_ms / 1000 - time.monotonic()
            stub = connections.stub(self._address, self._access)
            try:
                answer = getattr(stub, name)(request, timeout=max(0.001, left_s), metadata=call_metadata(self._access))
            except grpc.RpcError as rpc_error:
                failure = received(rpc_error)
                error = error_of(failure, name, self._address)
                log_event_to(
                    log,
                    "call failed",
                    level=logging.DEBUG,
                    call=name,
                    request=request.request_id,
                    server=self._address,
                    attempt=attempt,
                    code=getattr(error, "code", "BUG"),
                )
                elapsed_ms = (time.monotonic() - begin_s) * 1000
                delay_ms = policy.delay_ms(attempt, elapsed_ms, error, _CHANCE())
                if delay_ms is None or elapsed_ms + delay_ms >= deadline_ms or not is_worth_retrying(failure, error):
                    raise error from rpc_error
                time.sleep(delay_ms / 1000)
                attempt += 1
                continue
            if not isinstance(answer, answer_type):
                raise InvariantViolation(f"the stub of {name} gave a {type(answer).__name__}")
            log_event_to(
                log,
                "call answered",
                level=logging.DEBUG,
                call=name,
                request=request.request_id,
                server=self._address,
                attempt=attempt,
            )
            return answer

    def _deadline_ms(self, name: str) -> int:
        if name in _PLANNING:
            return self._limits.plan_deadline_ms
        return self._limits.heartbeat_deadline_ms if name in _SIGNS_OF_LIFE else self._limits.deadline_ms

    def __repr__(self) -> str:
        return f"EnumeratorClient({self._address!r})"
