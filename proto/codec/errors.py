"""Encodes errors for gRPC: status, details, the trailing metadata `penstock-error-code`, and RetryInfo for retryable
errors.

The server encodes an error as `RpcFailure`; the client decodes a failed call to the same class with the same text. A
failure without a code comes from gRPC itself (no connection, deadline exceeded, a message that is too large) and is
decoded by its status.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import quote

import grpc
from google.protobuf import any_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from penstock.proto.errors import (
    INVARIANT_CODE,
    ConfigurationError,
    FormatError,
    InvariantViolation,
    Overloaded,
    PenstockError,
    PermissionDenied,
    PlanError,
    PositionExpired,
    ServerUnavailable,
    StateVersionError,
    StorageError,
    TableNotFound,
    Unauthenticated,
    UnsupportedFeature,
    WriteConflict,
    all_error_classes,
    code_and_text,
)

CODE_KEY: Final = "penstock-error-code"

MAX_DETAILS_BYTES: Final = 4000
"""The longest details, percent-encoded: they are sent in a header, and gRPC drops headers above 8 KiB in total."""
MAX_RETRYABLE_DETAILS_BYTES: Final = 2000
"""The longest details of a retryable error, which are sent twice: google.rpc.Status repeats the text."""
DEFAULT_RETRY_MS: Final = 200
"""The RetryInfo of an error without a delay of its own."""
MAX_RETRY_MS: Final = 60_000
"""The longest delay that a client accepts from a server."""
_CUT: Final = " … (cut)"
_NOT_TRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"
"""The text in gRPC's details if the server's certificate is not accepted."""
_SMALLER: Final = {
    "NextBatch": "the place of a stream names every instant of the active timeline: let the table's writers archive "
    "it, or raise limits.requestBytes of the server",
    "CommitWrite": "write fewer files at once",
    "LeaseGroups": "write fewer files at once",
}
"""How to reduce the size of a call's messages, for calls where fewer columns or a shorter range do not help."""

_BY_STATUS: Final[dict[grpc.StatusCode, type[PenstockError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: ConfigurationError,
    grpc.StatusCode.NOT_FOUND: TableNotFound,
    grpc.StatusCode.OUT_OF_RANGE: PositionExpired,
    grpc.StatusCode.DATA_LOSS: FormatError,
    grpc.StatusCode.UNIMPLEMENTED: UnsupportedFeature,
    grpc.StatusCode.ABORTED: PlanError,
    grpc.StatusCode.FAILED_PRECONDITION: StateVersionError,
    grpc.StatusCode.UNAVAILABLE: StorageError,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
}
"""The class by status, for a code that only a newer server has."""


@dataclass(frozen=True, slots=True)
class RpcFailure:
    """A failed call, as it is sent."""

    status: grpc.StatusCode
    """The status."""
    details: str
    """The error's text."""
    code: str
    """The error's code; '' if gRPC itself failed the call."""
    retry_ms: int = 0
    """The delay before a retry, in milliseconds; 0: none is given."""

    @property
    def metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """The trailing metadata of the response, with google.rpc.RetryInfo where `retry_ms` is set."""
        code: tuple[tuple[str, str | bytes], ...] = ((CODE_KEY, self.code),) if self.code else ()
        if not self.retry_ms:
            return code
        delay = Duration(seconds=self.retry_ms // 1000, nanos=self.retry_ms % 1000 * 1_000_000)
        packed = any_pb2.Any()
        packed.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
        rich = status_pb2.Status(code=self.status.value[0], message=self.details, details=[packed])
        return code + tuple(rpc_status.to_status(rich).trailing_metadata)


def failure_of(error: Exception) -> RpcFailure:
    """The failure to send for an error; its text is cut at MAX_DETAILS_BYTES on the wire.

    An error that is not a PenstockError is a bug: INTERNAL, with its type and text but no stack trace.
    """
    if isinstance(error, PenstockError):
        retry_ms = (error.retry_ms or DEFAULT_RETRY_MS) if error.retryable else 0
        limit_bytes = MAX_RETRYABLE_DETAILS_BYTES if retry_ms else MAX_DETAILS_BYTES
        text = cut(error.for_clients or str(error), limit_bytes)
        return RpcFailure(grpc.StatusCode[error.grpc_status], text, error.code, min(retry_ms, MAX_RETRY_MS))
    code, text = code_and_text(error)
    return RpcFailure(grpc.StatusCode.INTERNAL, cut(text), code)


def cut(text: str, limit_bytes: int = MAX_DETAILS_BYTES) -> str:
    """`text`, cut if it does not fit into a header; unpaired surrogates are replaced."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    if _wire_bytes(text) <= limit_bytes:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = _wire_bytes(text[:middle]) + _wire_bytes(_CUT) <= limit_bytes
        low, high = (middle, high) if fits else (low, middle - 1)
    return text[:low] + _CUT


def _wire_bytes(text: str) -> int:
    """The size in a header: gRPC sends printable ASCII except '%' as one byte, every other byte as three."""
    return len(quote(text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"))


def error_of(failure: RpcFailure, call: str, address: str) -> PenstockError | InvariantViolation:
    """The error to raise in the client: the class of the code that the server sent, else the class of the status.

    `call` and `address` are for the texts of errors from gRPC itself.
    """
    if failure.code == INVARIANT_CODE:
        return InvariantViolation(failure.details)
    if failure.code:
        known = all_error_classes().get(failure.code)
        error = (known or _BY_STATUS.get(failure.status, PenstockError))(failure.details)
    else:
        error = _error_of_grpc(failure, call, address)
    error.retry_ms = failure.retry_ms
    return error


def _error_of_grpc(failure: RpcFailure, call: str, address: str) -> PenstockError:
    where = f"{call} of the enumerator at {address}"
    match failure.status:
        case grpc.StatusCode.UNAVAILABLE if _NOT_TRUSTED in failure.details:
            return Unauthenticated(
                f"{where}: the server's certificate is not accepted: {_reason(failure.details)}: renew it at the "
                "server, or give the authority that signed it (option serverCa) and the name it is made out to"
            )
        case grpc.StatusCode.UNAVAILABLE:
            return ServerUnavailable(
                f"{where}: the server cannot be reached ({failure.details}): "
                "is `penstock serve` running there, is the address the one it printed, and do both sides speak TLS, or "
                "both not?"
            )
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return ServerUnavailable(
                f"{where}: no answer within the deadline: the server is overloaded or its storage slow"
            )
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in failure.details:
            advice = _SMALLER.get(call, "read fewer columns, or a shorter range")
            return ConfigurationError(f"{where}: {failure.details}: {advice}")
        case grpc.StatusCode.UNIMPLEMENTED:
            return ConfigurationError(
                f"{where}: the server does not know this call ({failure.details}): it is older than this client, or no "
                "enumerator: servers are upgraded before their clients"
            )
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return Overloaded(f"{where}: {failure.details}: retry later")
        case grpc.StatusCode.UNAUTHENTICATED:
            return Unauthenticated(f"{where}: refused with {failure.status.name}: {failure.details}")
        case grpc.StatusCode.PERMISSION_DENIED:
            return PermissionDenied(f"{where}: refused with {failure.status.name}: {failure.details}")
        case _:
            return ServerUnavailable(f"{where}: the call failed with {failure.status.name}: {failure.details}")


def _reason(details: str) -> str:
    """The TLS library's reason for rejecting a certificate, such as `certificate has expired`."""
    return re.split(r": (?:OK|[A-Z_]{3,})\b|\)", details.rpartition(f"{_NOT_TRUSTED}: ")[2])[0][:200] or _NOT_TRUSTED


def is_worth_retrying(failure: RpcFailure, error: Exception) -> bool:
    """Whether a retry of the same call may succeed. A call that exceeded its deadline is not retried here. Nor is a
    write that conflicts with another one: it must begin again."""
    if isinstance(error, Unauthenticated | WriteConflict):
        return False
    if failure.code:
        return isinstance(error, PenstockError) and error.retryable
    return failure.status is grpc.StatusCode.UNAVAILABLE or isinstance(error, Overloaded)


def received(error: grpc.RpcError) -> RpcFailure:
    """The failure of a call, from the exception of gRPC's client."""
    call = cast(object, error)
    if not isinstance(call, grpc.Call):
        return RpcFailure(grpc.StatusCode.UNKNOWN, str(error), "")
    metadata = {key: value for key, value in call.trailing_metadata() or () if isinstance(value, str)}
    return RpcFailure(call.code(), call.details() or "", metadata.get(CODE_KEY, ""), _retry_ms(call))


def _retry_ms(call: grpc.Call) -> int:
    """The delay of the RetryInfo in the status details; 0 without one, or if the details cannot be decoded."""
    try:
        rich = rpc_status.from_call(call)
    except (ValueError, DecodeError):
        return 0
    for detail in rich.details if rich is not None else ():
        info = error_details_pb2.RetryInfo()
        try:
            known = detail.Is(info.DESCRIPTOR) and detail.Unpack(info)
        except DecodeError:
            known = False
        if known:
            delay_ms: int = info.retry_delay.seconds * 1000 + info.retry_delay.nanos // 1_000_000
            return max(0, min(delay_ms, MAX_RETRY_MS))
    return 0
