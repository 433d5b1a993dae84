"""The handlers of `penstock.v1.EnumeratorService`: decode, call the enumerator, encode.

They make no decisions and keep no state. `answered` converts errors to statuses.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Final, Protocol, TypeVar

import grpc

from penstock.enumerator.call_waits import waiting_by
from penstock.enumerator.server.auth.callers import caller, own_request_id
from penstock.enumerator.server.rpc.interceptor import refuse, table_of
from penstock.enumerator.server.rpc.limits import MAX_INSTANTS, WORKERS, require_deadline
from penstock.enumerator.server.rpc.turns import MAX_PARKED, Turns
from penstock.proto.codec import plan_calls as calls
from penstock.proto.codec import streams as streams
from penstock.proto.codec import table_calls
from penstock.proto.codec.checks import position_to_message
from penstock.proto.codec.errors import failure_of
from penstock.proto.codec.splits import scan_to_message
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import InvariantViolation, PenstockError, StorageError
from penstock.proto.model.streams import StreamScope
from penstock.proto.v1 import penstock_pb2 as pb
from penstock.proto.v1 import penstock_pb2_grpc as pb_grpc

SERVICE_NAME: Final[str] = pb.DESCRIPTOR.services_by_name["EnumeratorService"].full_name

_A = TypeVar("_A")
_BY_STORAGE: Final = (
    "JoinGroup",
    "DescribeGroup",
    "ResetGroup",
    "AddTable",
    "RefreshTables",
    "BeginWrite",
    "CommitWrite",
    "AbortWrite",
)
"""Calls of consumer groups, of tables and of writes that read or write storage."""

log = logging.getLogger("penstock.enumerator.server")


class _Request(Protocol):
    """The fields that every request has for the log."""

    request_id: str
    client_version: str


class EnumeratorHandlers:
    """One method per call, named as in the .proto. Any thread.

    A PenstockError becomes its status and code. Any other exception is INTERNAL; its stack trace goes to the log of
    this process, never to the client.
    """

    def __init__(self, enumerator: Enumerator) -> None:
        self._enumerator = enumerator

    def DescribeTable(
        self, request: pb.DescribeTableRequest, context: grpc.ServicerContext
    ) -> pb.DescribeTableResponse:
        """See the .proto."""

        def answer() -> pb.DescribeTableResponse:
            table = calls.table_from_message(request)
            return calls.description_to_message(self._enumerator.describe_table(table))

        return answered("DescribeTable", request, context, answer)

    def NewestPosition(
        self, request: pb.NewestPositionRequest, context: grpc.ServicerContext
    ) -> pb.NewestPositionResponse:
        """See the .proto."""

        def answer() -> pb.NewestPositionResponse:
            newest = self._enumerator.newest_position(*calls.newest_from_message(request))
            return pb.NewestPositionResponse(position=position_to_message(newest))

        return answered("NewestPosition", request, context, answer)

    def ListInstants(self, request: pb.ListInstantsRequest, context: grpc.ServicerContext) -> pb.ListInstantsResponse:
        """See the .proto."""

        def answer() -> pb.ListInstantsResponse:
            table, after, as_of, most = table_calls.instants_from_message(request)
            most = min(most or MAX_INSTANTS, MAX_INSTANTS)
            page = self._enumerator.list_instants(table, after=after, as_of=as_of, max_instants=most)
            return table_calls.page_to_message(page)

        return answered("ListInstants", request, context, answer)

    def OpenPlan(self, request: pb.OpenPlanRequest, context: grpc.ServicerContext) -> pb.OpenPlanResponse:
        """See the .proto."""

        def answer() -> pb.OpenPlanResponse:
            request_id = own_request_id(caller(), calls.request_id_of(request))
            return calls.opened_to_message(self._enumerator.open_plan(calls.request_from_message(request), request_id))

        return answered("OpenPlan", request, context, answer)

    def DescribePlan(self, request: pb.DescribePlanRequest, context: grpc.ServicerContext) -> pb.DescribePlanResponse:
        """See the .proto."""

        def answer() -> pb.DescribePlanResponse:
            scan = self._enumerator.describe_plan(calls.plan_id_from_message(request))
            return pb.DescribePlanResponse(scan=scan_to_message(scan))

        return answered("DescribePlan", request, context, answer)

    def NextSplit(self, request: pb.NextSplitRequest, context: grpc.ServicerContext) -> pb.NextSplitResponse:
        """See the .proto."""

        def answer() -> pb.NextSplitResponse:
            return calls.answer_to_message(self._enumerator.next_split(*calls.place_from_message(request)))

        return answered("NextSplit", request, context, answer)

    def FinishSplit(self, request: pb.FinishSplitRequest, context: grpc.ServicerContext) -> pb.FinishSplitResponse:
        """See the .proto."""

        def answer() -> pb.FinishSplitResponse:
            place = calls.place_from_message(request)
            self._enumerator.finish_split(*place, calls.report_from_message(request))
            return pb.FinishSplitResponse()

        return answered("FinishSplit", request, context, answer)

    def StartStream(self, request: pb.StartStreamRequest, context: grpc.ServicerContext) -> pb.StartStreamResponse:
        """See the .proto."""

        def answer() -> pb.StartStreamResponse:
            scope, start = streams.start_from_message(request)
            return streams.started_to_message(self._enumerator.start_stream(_of_caller(scope), start))

        return answered("StartStream", request, context, answer)

    def NextBatch(self, request: pb.NextBatchRequest, context: grpc.ServicerContext) -> pb.NextBatchResponse:
        """See the .proto."""

        def answer() -> pb.NextBatchResponse:
            scope, point = streams.asked_from_message(request)
            return streams.batch_to_message(self._enumerator.next_batch(_of_caller(scope), point))

        return answered("NextBatch", request, context, answer)


def add_to_server(
    handlers: EnumeratorHandlers,
    server: grpc.Server,
    planning: PlanningPool,
    groups: Mapping[str, Callable[..., object]],
) -> None:
    """Serves the handlers, and those of consumer groups, tables and writes by the names of their calls. Calls that read
    storage run on `planning`, so that NextSplit and the readers of groups never wait for them."""
    pb_grpc.add_EnumeratorServiceServicer_to_server(
        SimpleNamespace(
            DescribeTable=_OnPool(handlers.DescribeTable, planning),
            NewestPosition=_OnPool(handlers.NewestPosition, planning),
            ListInstants=_OnPool(handlers.ListInstants, planning),
            OpenPlan=_OnPool(handlers.OpenPlan, planning),
            DescribePlan=handlers.DescribePlan,
            NextSplit=handlers.NextSplit,
            FinishSplit=handlers.FinishSplit,
            StartStream=_OnPool(handlers.StartStream, planning),
            NextBatch=_OnPool(handlers.NextBatch, planning),
            **{name: _OnPool(call, planning) if name in _BY_STORAGE else call for name, call in groups.items()},
        ),
        server,
    )


class PlanningPool(ThreadPoolExecutor):
    """The threads of the calls that read storage. `turns` limits how many of these calls run at a time.

    gRPC holds a thread while the bytes of a request arrive. Therefore the pool is as large as the one of the other
    calls, beside the parked calls: slow peers must not block planning.
    """

    def __init__(self) -> None:
        super().__init__(WORKERS + MAX_PARKED, thread_name_prefix="penstock-plan")
        self.turns = Turns()


class _OnPool:
    """A handler that gRPC runs on its own pool, by the attribute that grpcio's health service uses too."""

    def __init__(self, handler: Callable[..., object], pool: PlanningPool) -> None:
        self._handler = handler
        self.experimental_thread_pool = pool

    def __call__(self, request: object, context: grpc.ServicerContext) -> object:
        turns, table = self.experimental_thread_pool.turns, table_of(request)
        with ExitStack() as turn:
            try:
                remaining_s = require_deadline(context.time_remaining())
                turn.enter_context(turns.of(table, remaining_s))
            except PenstockError as error:
                refuse(context, self._handler.__name__, error)
            turn.enter_context(waiting_by(partial(_wait, turns, table, context)))
            return self._handler(request, context)


def _wait(turns: Turns, table: str, context: grpc.ServicerContext, seconds: float, news: threading.Event) -> bool:
    """Waits for `news` without the turn of the call, for at most half of its remaining time. Returns whether it waited.
    StorageError if the call ended, which also sets `news`."""
    remaining_s = require_deadline(context.time_remaining())
    has_waited = context.add_callback(news.set) and turns.park(
        table, remaining_s / 2, partial(news.wait, min(seconds, remaining_s / 2))
    )
    if not context.is_active():
        raise StorageError(f"table {table[:200]}: the call was cancelled while it waited for the next look")
    return has_waited


def _of_caller(scope: StreamScope) -> StreamScope:
    """The scope with the principal of the current call."""
    return replace(scope, principal=caller())


def answered(call: str, request: _Request, context: grpc.ServicerContext, answer: Callable[[], _A]) -> _A:
    """The response of one call, or its error as a status. A call without a deadline is refused."""
    prefix = f"{call} request={request.request_id[:64]!r} client={request.client_version[:64]!r}"
    try:
        require_deadline(context.time_remaining())
        return answer()
    except PenstockError as error:
        log.info("%s failed: %s: %s", prefix, error.code, error)
        failure = failure_of(error)
    except Exception as error:
        log.exception("%s failed: unexpected exception", prefix)
        failure = failure_of(error)
    context.set_trailing_metadata(failure.metadata)
    context.abort(failure.status, failure.details)
    raise InvariantViolation("gRPC's abort returned")
