"""Counts and times every call for the observer, whether it succeeds or not. The outermost interceptor."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import grpc

from penstock.enumerator.observer import CallHandled, CallStarted, Observer
from penstock.enumerator.server.rpc.wrapping import Continuation, Handler, call_of, unary_of, with_unary


class CallMetrics(grpc.ServerInterceptor):
    """Observes `CallStarted` and `CallHandled` of unary calls. Streams (health watches, reflection) are not timed.

    Calls that gRPC refuses before a handler (a message too large, too many calls) are not counted.
    """

    def __init__(self, observer: Observer, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._observer = observer
        self._clock_s = clock_s

    def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Wraps the handler of a call with a timer."""
        handler = continuation(handler_call_details)
        behaviour = None if handler is None else unary_of(handler)
        if handler is None or behaviour is None:
            return handler
        service, method = call_of(handler_call_details)

        def timed(request: Any, context: grpc.ServicerContext) -> Any:
            begin_s = self._clock_s()
            self._observer.observe(CallStarted(service, method))
            code = "UNKNOWN"
            try:
                answer = behaviour(request, context)
                code = _code(context, "OK")
                return answer
            except BaseException:
                code = _code(context, "UNKNOWN")
                raise
            finally:
                self._observer.observe(CallHandled(service, method, code, self._clock_s() - begin_s))

        return with_unary(handler, timed)


def _code(context: grpc.ServicerContext, otherwise: str) -> str:
    """The status of the call. gRPC has none for a call that returns normally."""
    code = cast("Any", context).code()
    return code.name if isinstance(code, grpc.StatusCode) else otherwise
