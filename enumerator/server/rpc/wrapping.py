"""Wraps gRPC handlers: replaces the behaviour of a handler and keeps its other properties.

The types of grpcio do not describe a handler's attributes. Only this module uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

import grpc

Behaviour = Callable[[Any, grpc.ServicerContext], Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Handler | None]"
Deserializer = Callable[[bytes], Any]


def call_of(details: grpc.HandlerCallDetails) -> tuple[str, str]:
    """(full name of the service, name of the call)."""
    service, _, call = details.method.lstrip("/").rpartition("/")
    return service, call


def unary_of(handler: Handler) -> Behaviour | None:
    """The behaviour of a unary call; None for a stream."""
    return cast("Behaviour | None", getattr(handler, "unary_unary", None))


def with_unary(
    handler: Handler,
    behaviour: Behaviour,
    decoding: Callable[[Deserializer], Deserializer] = lambda deserializer: deserializer,
) -> Handler:
    """The handler with another behaviour, on the same thread pool. `decoding` wraps its deserializer."""
    original = unary_of(handler)
    for name in ("experimental_thread_pool", "experimental_non_blocking"):
        if hasattr(original, name):
            setattr(behaviour, name, getattr(original, name))
    deserializer: Deserializer | None = getattr(handler, "request_deserializer", None)
    return grpc.unary_unary_rpc_method_handler(
        behaviour,
        request_deserializer=None if deserializer is None else decoding(deserializer),
        response_serializer=getattr(handler, "response_serializer", None),
    )


def with_stream(handler: Handler, before: Callable[[grpc.ServicerContext], object]) -> Handler:
    """The handler of a stream. `before` is called before the stream starts."""
    for name in ("stream_stream", "unary_stream", "stream_unary"):
        inner: Behaviour | None = getattr(handler, name, None)
        if inner is not None:
            break
    else:
        raise TypeError("a handler without a behaviour")
    behaviour: Behaviour = inner

    def streamed(requests: Any, context: grpc.ServicerContext) -> Iterable[Any]:
        before(context)
        return cast("Iterable[Any]", behaviour(requests, context))

    wrapped = getattr(grpc, f"{name}_rpc_method_handler")(
        streamed,
        request_deserializer=getattr(handler, "request_deserializer", None),
        response_serializer=getattr(handler, "response_serializer", None),
    )
    return cast("Handler", wrapped)
