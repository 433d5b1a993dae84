"""Metrics of a Flight server for Prometheus: calls, open streams, rows and bytes. Needs the extra `server`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight as fl

from penstock.engine.flight.streams import OpenStreams
from penstock.enumerator.server.metrics.families import counter, gauge_of, histogram, new_registry

SERVICE: Final = "arrow.flight.protocol.FlightService"
COUNTED: Final = "penstock-metrics"
"""The key of the middleware that counts calls."""
_CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "LIST_FLIGHTS": ("server_stream", "ListFlights"),
    "GET_FLIGHT_INFO": ("unary", "GetFlightInfo"),
    "GET_SCHEMA": ("unary", "GetSchema"),
    "DO_GET": ("server_stream", "DoGet"),
}
"""By pyarrow's name of a call: its type and name. All others are refused."""
_REFUSED: Final = ("unary", "other")
_CODES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (fl.FlightUnauthenticatedError, "Unauthenticated"),
    (fl.FlightUnauthorizedError, "PermissionDenied"),
    (fl.FlightUnavailableError, "Unavailable"),
    (fl.FlightInternalError, "Internal"),
    (fl.FlightCancelledError, "Cancelled"),
    (pa.ArrowCancelled, "Cancelled"),
    (pa.ArrowKeyError, "NotFound"),
    (NotImplementedError, "Unimplemented"),
    (pa.ArrowInvalid, "InvalidArgument"),
)
"""The status of a call by the class of its error, as Go spells it."""


class FlightMetrics:
    """The metrics of one server. Any thread. ConfigurationError without the extra `server`."""

    def __init__(self, streams: OpenStreams) -> None:
        registry = self.registry = new_registry()
        self._started = counter("grpc_server_started", registry)
        self._handled = counter("grpc_server_handled", registry)
        self._handling = histogram("grpc_server_handling_seconds", registry)
        self._rows = counter("penstock_flight_rows", registry)
        self._bytes = counter("penstock_flight_bytes", registry)
        gauge_of("penstock_flight_open_streams", registry, lambda: streams.open_count)

    def started(self, method: str) -> Callable[[BaseException | None], None]:
        """Counts a call by pyarrow's name of its method. Returns a function for its end, with its error or None."""
        kind, call = _CALLS.get(method, _REFUSED)
        begin_s = time.perf_counter()
        self._started.labels(kind, SERVICE, call).inc()

        def ended(error: BaseException | None) -> None:
            self._handled.labels(kind, SERVICE, call, status_of(error)).inc()
            self._handling.labels(kind, SERVICE, call).observe(time.perf_counter() - begin_s)

        return ended

    def sent(self, table: str, rows: int, size: int) -> None:
        """Counts the rows and bytes of a stream that ended. `table` is a served table."""
        self._rows.labels(table).inc(rows)
        self._bytes.labels(table).inc(size)


def status_of(error: BaseException | None) -> str:
    """The status of a call whose handler ended with this error of Arrow."""
    if error is None:
        return "OK"
    return next((code for kind, code in _CODES if isinstance(error, kind)), "Unknown")


class _CountedCall(fl.ServerMiddleware):  # type: ignore[misc]  # pyarrow has no types
    """One call."""

    def __init__(self, ended: Callable[[BaseException | None], None]) -> None:
        self.call_completed = ended


class CountCalls(fl.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow has no types
    """Counts each call and its status; the call of a stream ends with the stream."""

    def __init__(self, metrics: FlightMetrics) -> None:
        self._metrics = metrics

    def start_call(self, info: Any, headers: Mapping[str, list[str | bytes]]) -> _CountedCall:
        """The middleware of one call."""
        return _CountedCall(self._metrics.started(info.method.name))
