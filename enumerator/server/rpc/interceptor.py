"""The interceptor that checks every call before its handler: readiness, rate, authentication, authorization, decoding.

The checks call the enumerator only for the table of a plan. The rules themselves are in `acl`, `callers`, `tokens` and
`rate_limit`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.message import DecodeError, Message

from penstock.enumerator.server.auth.acl import NEEDED, Needed, Of, Rights
from penstock.enumerator.server.auth.callers import CallerNames, calling
from penstock.enumerator.server.rpc.rate_limit import PeerRates
from penstock.enumerator.server.rpc.wrapping import (
    Behaviour,
    Continuation,
    Deserializer,
    Handler,
    call_of,
    unary_of,
    with_stream,
    with_unary,
)
from penstock.enumerator.visibility import EVERYTHING, MayUse, restricted
from penstock.proto.codec.errors import failure_of
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import (
    ConfigurationError,
    InvariantViolation,
    PenstockError,
    PermissionDenied,
    StorageError,
)
from penstock.proto.logging import log_context, log_event_to
from penstock.proto.model.queries import is_pattern

TABLE_AT: Final = (
    ("table",),
    ("member", "table"),
    ("spec", "scope", "request", "table"),
    ("scope", "request", "table"),
    ("write", "table"),
    ("split", "table"),
)
GROUP_AT: Final = (("group",), ("member", "group"))
"""The fields in which a request may name its table and its group."""
_FIELDS_AT: Final = (
    ("request", (("request_id",),)),
    ("table", TABLE_AT),
    ("group", GROUP_AT),
    ("reader", (("reader_id",), ("member", "reader_id"))),
    ("plan", (("plan_id",),)),
)
MAX_ID_CHARS: Final = 200
OPEN_SERVICES: Final = ("grpc.health.v1.Health",)
"""Services that need no authentication: a probe has no token."""

log = logging.getLogger("penstock.enumerator.server")


class Undecodable:
    """A request whose bytes are not a message of its call."""


class Readiness:
    """Whether calls are answered. False while the state is replayed, and after it cannot be written. Any thread."""

    def __init__(self, ready: bool) -> None:
        self._ready = threading.Event()
        self._reason = ""
        self.set(ready)

    def set(self, ready: bool, reason: str = "the server is starting: its state is not replayed yet") -> None:
        """Sets the state. `reason` is the text of the error while the server is not ready."""
        if ready:
            self._ready.set()
        else:
            self._reason = reason
            self._ready.clear()

    def require(self) -> None:
        """StorageError unless the server is ready."""
        if not self._ready.is_set():
            raise StorageError(self._reason)


class Guard(grpc.ServerInterceptor):
    """Refuses calls with a status and an error code before they reach a handler. A refused call changes nothing."""

    def __init__(
        self, enumerator: Enumerator, names: CallerNames, rights: Rights, rates: PeerRates, readiness: Readiness
    ) -> None:
        self._enumerator = enumerator
        self._names = names
        self._rights = rights
        self._rates = rates
        self._readiness = readiness

    def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Wraps the handler of a call with the checks."""
        handler = continuation(handler_call_details)
        service, call = call_of(handler_call_details)
        if handler is None or service in OPEN_SERVICES:
            return handler
        behaviour = unary_of(handler)
        if behaviour is None:
            return with_stream(handler, self._admit_stream)
        return with_unary(handler, self._checked(call, behaviour), _undecodable_on_error)

    def _checked(self, call: str, behaviour: Behaviour) -> Behaviour:
        def checked(request: Any, context: grpc.ServicerContext) -> Any:
            with log_context(lambda: request_fields(call, request)):
                try:
                    names = self._admit(context)
                    if isinstance(request, Undecodable):
                        raise ConfigurationError(
                            f"{call}: the request cannot be decoded: it is not a message of this call"
                        )
                    self._readiness.require()
                    self._authorise(call, names, request)
                except PenstockError as error:
                    refuse(context, call, error)
                begin_s = time.perf_counter()
                with calling(names), restricted(self._may(names)):
                    answer = behaviour(request, context)
                log_event_to(
                    log, "call answered", level=logging.DEBUG, ms=round((time.perf_counter() - begin_s) * 1000, 3)
                )
                return answer

        return checked

    def _admit_stream(self, context: grpc.ServicerContext) -> None:
        """A stream of another service (reflection): only its caller is authenticated."""
        try:
            self._admit(context)
        except PenstockError as error:
            refuse(context, "stream", error)

    def _admit(self, context: grpc.ServicerContext) -> tuple[str, ...]:
        self._rates.take(peer_host(context.peer()))
        return self._names.of(context)

    def _authorise(self, call: str, names: tuple[str, ...], request: Message) -> None:
        if self._rights.open_to_all:
            return
        needed = NEEDED.get(call)
        if needed is None:
            raise PermissionDenied(f"call {call}: this server has no required right for it")
        if needed.of is Of.LISTED:
            return  # the handler omits tables that the caller may not read
        table, group = self._resource(needed, request)
        if needed.of is Of.CATALOG:
            self._rights.require(names, needed.right, table)
        elif needed.of is Of.GROUP and is_pattern(table):
            self._rights.require_some(names, needed.right, table, group)  # the service checks each table
        else:
            self._rights.require(names, needed.right, "*" if is_pattern(table) else table, group)

    def _may(self, names: tuple[str, ...]) -> MayUse:
        """The rights of the caller on the tables of a group over tables."""
        if self._rights.open_to_all:
            return EVERYTHING
        return lambda right, table, group: self._rights.grants(names, right, table, group)

    def _resource(self, needed: Needed, request: Message) -> tuple[str, str]:
        match needed.of:
            case Of.PLAN:
                plan_id = _first_text(request, (("plan_id",),))
                return (self._enumerator.describe_plan(plan_id).table if plan_id else "", "")
            case Of.TABLE:
                return _first_text(request, TABLE_AT), ""
            case Of.GROUP:
                return _first_text(request, TABLE_AT), _first_text(request, GROUP_AT) or "*"
            case Of.CATALOG:
                catalog = _first_text(request, (("catalog",),))
                return (f"{catalog}.*" if catalog else "*"), ""
            case Of.LISTED:
                return "*", ""
            case Of.GROUPS:
                return _first_text(request, TABLE_AT) or "*", "*"


def request_fields(call: str, request: object) -> dict[str, object]:
    """The fields of every log line of a request: the call, and the ids in the request. A client chooses these ids, so
    they are truncated, and no other field of the request is logged."""
    fields: dict[str, object] = {"call": call}
    if isinstance(request, Message):
        for name, paths in _FIELDS_AT:
            if value := _first_text(request, paths):
                fields[name] = value[:MAX_ID_CHARS]
    return fields


def table_of(request: object) -> str:
    """The table that the request names, '' if none."""
    return _first_text(request, TABLE_AT) if isinstance(request, Message) else ""


def refuse(context: grpc.ServicerContext, call: str, error: PenstockError) -> NoReturn:
    """Ends the call with the error's status and code, and logs the peer."""
    log.info("%s from %s refused: %s: %s", call, peer_host(context.peer()), error.code, error)
    failure = failure_of(error)
    context.set_trailing_metadata(failure.metadata)
    context.abort(failure.status, failure.details)
    raise InvariantViolation("gRPC's abort returned")


def peer_host(peer: str) -> str:
    """The address of a peer as gRPC names it (`ipv4:10.0.0.1:5000`), without its port."""
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer


def _first_text(request: Message, paths: Iterable[tuple[str, ...]]) -> str:
    """The first text in one of the field paths, '' if there is none."""
    for path in paths:
        value: object = request
        for name in path:
            fields = value.DESCRIPTOR.fields_by_name if isinstance(value, Message) else {}
            value = getattr(value, name) if name in fields else None
        if isinstance(value, str) and value:
            return value
    return ""


def _undecodable_on_error(deserializer: Deserializer) -> Deserializer:
    """The deserializer, with Undecodable instead of an exception, which gRPC would report as INTERNAL."""

    def decoded(data: bytes) -> Any:
        try:
            return deserializer(data)
        except DecodeError:
            return Undecodable()

    return decoded
