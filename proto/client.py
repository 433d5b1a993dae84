"""The enumerator behind a server: `EnumeratorClient`.

Shell: gRPC, threads, this process's id. Belongs here: connections, deadlines, retries. Not here: what a message means
(`codec_calls`), what a failure means (`rpc_errors`).
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import threading
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeVar

import grpc

from penstock.proto import codec_calls as calls
from penstock.proto.addresses import loopback_address
from penstock.proto.client_groups import GroupCalls, GroupRequest
from penstock.proto.codec_checks import encoding
from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.positions import Position
from penstock.proto.queries import PlanRequest
from penstock.proto.reports import OpenedPlan, SplitAnswer, SplitReport, TableDescription
from penstock.proto.rpc_errors import error_of, received
from penstock.proto.splits import Scan
from penstock.proto.v1 import penstock_pb2 as pb
from penstock.proto.v1 import penstock_pb2_grpc as pb_grpc

MAX_ANSWER_BYTES: Final = 64 << 20
MAX_CHANNELS: Final = 32
"""Connections a process keeps; the one unused longest is let go, and closes when no call needs it."""

_A = TypeVar("_A")
_Request = (
    pb.DescribeTableRequest
    | pb.NewestPositionRequest
    | pb.OpenPlanRequest
    | pb.DescribePlanRequest
    | pb.NextSplitRequest
    | pb.FinishSplitRequest
    | GroupRequest
)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How long a call may take, and how an unreachable server is asked again.

    `attempts` counts the first one; gRPC allows at most 5. Pauses grow two and a half times from `first_pause_ms` to
    `longest_pause_ms`, at least 10 ms (gRPC loses calls whose pause is shorter: grpc/grpc#41036); a deadline spans all
    attempts of a call. A heartbeat has a deadline of its own: one that is late renews nothing. Only UNAVAILABLE is
    tried again: every call of the service may be repeated (a repeated OpenPlan leaves one more plan, which its time to
    live frees).
    """

    deadline_ms: int = 30_000
    plan_deadline_ms: int = 300_000
    heartbeat_deadline_ms: int = 5_000
    attempts: int = 5
    first_pause_ms: int = 200
    longest_pause_ms: int = 3_000

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= 5:
            raise ConfigurationError(f"attempts of a call: got {self.attempts}, expected 1 to 5")
        for name, least in (
            ("deadline_ms", 1),
            ("plan_deadline_ms", 1),
            ("heartbeat_deadline_ms", 1),
            ("first_pause_ms", 10),
            ("longest_pause_ms", 10),
        ):
            if getattr(self, name) < least:
                raise ConfigurationError(f"{name} of a call: got {getattr(self, name)}, expected {least} or more")


class EnumeratorClient(GroupCalls):
    """An `Enumerator` and a `GroupDoor` that ask the server at `address` (loopback HOST:PORT; anything else is a
    ConfigurationError).

    Holds no connection itself: all clients of one address in a process share one, made on the first call and made anew
    in a forked child. So it is cheap, may be used from any thread, and may be pickled. Errors are the server's own; a
    server that does not answer is a StorageError naming the address.
    """

    def __init__(self, address: str, limits: CallLimits | None = None) -> None:
        self._address = loopback_address(address)
        self._limits = limits or CallLimits()

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

    def open_plan(self, request: PlanRequest) -> OpenedPlan:
        """See `Enumerator.open_plan`. Given the longer deadline: planning lists storage."""
        message = calls.request_to_message(request)
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
        """Lets go of the process's connection to this address; a call after it, by whichever client, connects anew."""
        _connections.forget(self._address, self._limits)

    def _call_group(self, name: str, request: GroupRequest, answer_type: type[_A]) -> _A:
        return self._call(name, request, answer_type)

    def _call(self, name: str, request: _Request, answer_type: type[_A]) -> _A:
        request.request_id = request.request_id or uuid.uuid4().hex
        request.client_version = _client_version()
        deadlines_ms = {"OpenPlan": self._limits.plan_deadline_ms, "Heartbeat": self._limits.heartbeat_deadline_ms}
        deadline_ms = deadlines_ms.get(name, self._limits.deadline_ms)
        stub = _connections.stub(self._address, self._limits)
        try:
            answer = getattr(stub, name)(request, timeout=deadline_ms / 1000)
        except grpc.RpcError as error:
            raise error_of(received(error), name, self._address) from error
        if not isinstance(answer, answer_type):
            raise InvariantViolation(f"the stub of {name} gave a {type(answer).__name__}")
        return answer

    def __repr__(self) -> str:
        return f"EnumeratorClient({self._address!r})"


class _Connections:
    """The stubs of this process by (address, limits), at most MAX_CHANNELS, least recently used first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stubs: OrderedDict[tuple[str, CallLimits], pb_grpc.EnumeratorServiceStub] = OrderedDict()
        self._inherited: list[OrderedDict[tuple[str, CallLimits], pb_grpc.EnumeratorServiceStub]] = []

    def stub(self, address: str, limits: CallLimits) -> pb_grpc.EnumeratorServiceStub:
        key = (address, limits)
        with self._lock:
            stub = self._stubs.pop(key, None) or pb_grpc.EnumeratorServiceStub(_channel(address, limits))
            self._stubs[key] = stub
            while len(self._stubs) > MAX_CHANNELS:
                self._stubs.popitem(last=False)
            return stub

    def forget(self, address: str, limits: CallLimits) -> None:
        """A call under way keeps the connection until it is answered."""
        with self._lock:
            self._stubs.pop((address, limits), None)

    def start_anew_in_child(self) -> None:
        """After a fork: the parent's connections are neither used nor closed, and its lock may be held for ever."""
        self._lock = threading.Lock()
        self._inherited.append(self._stubs)
        self._stubs = OrderedDict()


def _channel(address: str, limits: CallLimits) -> grpc.Channel:
    retries = {
        "maxAttempts": limits.attempts,
        "initialBackoff": f"{limits.first_pause_ms / 1000}s",
        "maxBackoff": f"{limits.longest_pause_ms / 1000}s",
        "backoffMultiplier": 2.5,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    method: dict[str, object] = {"name": [{"service": "penstock.v1.EnumeratorService"}]}
    if limits.attempts > 1:
        method["retryPolicy"] = retries
    options: list[tuple[str, str | int]] = [
        ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
        ("grpc.max_send_message_length", MAX_ANSWER_BYTES),
        ("grpc.primary_user_agent", f"penstock/{_client_version()}"),
        ("grpc.service_config", json.dumps({"methodConfig": [method]})),
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 5000),
        ("grpc.max_reconnect_backoff_ms", 1000),
    ]
    channel: grpc.Channel = grpc.insecure_channel(address, options=options)
    return channel


@cache
def _client_version() -> str:
    try:
        return importlib.metadata.version("penstock")
    except importlib.metadata.PackageNotFoundError:  # imported from a zip that Spark shipped
        return "unknown"


_connections = _Connections()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_connections.start_anew_in_child)
