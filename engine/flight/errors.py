"""Errors of Penstock as errors of Flight: the code that clients of all languages get, with our code and one sentence.

Flight has fewer codes than gRPC: an error without a code of its own has UNKNOWN. The text always begins with our code.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote

import pyarrow as pa
import pyarrow.flight as fl

from penstock.proto.errors import CorruptFile, PenstockError, PositionExpired, code_and_text

MAX_TEXT_BYTES: Final = 1500
"""The longest text, percent-encoded: pyarrow sends it several times in headers, and gRPC drops headers above 8 KiB."""

log = logging.getLogger("penstock.engine.flight")

_Call = TypeVar("_Call", bound=Callable[..., Any])

_ARROW: Final[Mapping[str, type[Exception]]] = {
    "INVALID_ARGUMENT": pa.ArrowInvalid,
    "NOT_FOUND": pa.ArrowKeyError,
    "UNIMPLEMENTED": pa.ArrowNotImplementedError,
}
"""The gRPC status of an error -> the error of Arrow that pyarrow sends with this status."""

_FLIGHT: Final[Mapping[str, type[Exception]]] = {
    "UNAUTHENTICATED": fl.FlightUnauthenticatedError,
    "PERMISSION_DENIED": fl.FlightUnauthorizedError,
    "UNAVAILABLE": fl.FlightUnavailableError,
    "INTERNAL": fl.FlightInternalError,
}
"""Likewise for errors of Flight, which also carry our code in a field of its own."""


class CallNotServed(Exception):
    """A call of Flight that the server does not answer for any table."""


def flight_error(error: BaseException) -> Exception:
    """The exception for pyarrow. A retryable error becomes UNAVAILABLE, a bug INTERNAL, any other status UNKNOWN."""
    code, text = code_and_text(error)
    status = error.grpc_status if isinstance(error, PenstockError) else "INTERNAL"
    if isinstance(error, PenstockError) and error.retryable:
        status = "UNAVAILABLE"
    message = _shortened(f"{code}: {text}")
    if status in _ARROW:
        return _ARROW[status](message)
    kind: type[Exception] = _FLIGHT.get(status, fl.FlightServerError)
    return kind(message, code.encode())


def expired_if_gone(error: PenstockError, table: str) -> PenstockError:
    """The error of a read by a ticket: a file that was deleted after the plan is a PositionExpired."""
    if isinstance(error, CorruptFile) and error.is_gone:
        return PositionExpired(
            f"{error}; it was deleted after this flight of table {table} was planned, probably by Hudi's cleaner: "
            "request the flight again (GetFlightInfo), and have the cleaner keep commits longer than reads take"
        )
    return error


def with_flight_errors(call: _Call) -> _Call:
    """A function whose errors are those of Flight. A bug is logged with its traceback."""

    @functools.wraps(call)
    def translated(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except (StopIteration, fl.FlightError):
            raise
        except CallNotServed as error:
            raise pa.ArrowNotImplementedError(str(error)) from None
        except Exception as error:
            if not isinstance(error, PenstockError):
                log.exception("a bug in Penstock, please report it")
            raise flight_error(error) from None

    # pyarrow adds the traceback of an Arrow error to the client's text. This function is the only frame of ours in it:
    # without a path, it shows no path of this machine.
    translated.__code__ = translated.__code__.replace(co_filename="penstock")  # type: ignore[attr-defined]
    return cast("_Call", translated)


def _shortened(text: str) -> str:
    """The text on one line, cut so that it has at most MAX_TEXT_BYTES percent-encoded."""
    line = " ".join(text.split())
    if len(quote(line, safe=" ")) <= MAX_TEXT_BYTES:
        return line
    size = kept = 0
    for character in line:
        size += len(quote(character, safe=" "))
        if size > MAX_TEXT_BYTES - 3:
            break
        kept += 1
    return line[:kept] + "…"
