"""Errors ⇄ gRPC: status, details text, and the trailing metadata `penstock-error-code`.

The server side turns a raised error into a `RpcFailure`, the client side turns a failed call into the same class with
the same text. A failure without our code was not raised by a handler but by gRPC itself (no connection, no answer in
time, a message too large), and is told by its status. Never here: logging, retries, calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import grpc

from penstock.proto.errors import (
    ConfigurationError,
    FormatError,
    InvariantViolation,
    PenstockError,
    PlanError,
    PositionExpired,
    StateVersionError,
    StorageError,
    TableNotFound,
    UnsupportedFeature,
    all_error_classes,
)

CODE_KEY: Final = "penstock-error-code"
INVARIANT_CODE: Final = "INVARIANT_VIOLATION"

MAX_DETAILS_BYTES: Final = 4000
"""Details travel percent-encoded in a header, and gRPC drops headers above 8 KiB in all."""
_CUT: Final = " … (cut)"

_BY_STATUS: Final[dict[grpc.StatusCode, type[PenstockError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: ConfigurationError,
    grpc.StatusCode.NOT_FOUND: TableNotFound,
    grpc.StatusCode.OUT_OF_RANGE: PositionExpired,
    grpc.StatusCode.DATA_LOSS: FormatError,
    grpc.StatusCode.UNIMPLEMENTED: UnsupportedFeature,
    grpc.StatusCode.ABORTED: PlanError,
    grpc.StatusCode.FAILED_PRECONDITION: StateVersionError,
    grpc.StatusCode.UNAVAILABLE: StorageError,
}
"""For a code that only a newer server knows: the family its status stands for."""


@dataclass(frozen=True, slots=True)
class RpcFailure:
    """A failed call as it travels."""

    status: grpc.StatusCode
    details: str
    code: str

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The trailing metadata of the answer."""
        return ((CODE_KEY, self.code),) if self.code else ()


def failure_of(error: Exception) -> RpcFailure:
    """What the client is told: our errors in their own words (cut after MAX_DETAILS_BYTES on the wire).

    Anything outside the tree is a bug: INTERNAL, with its type and text but no stack trace.
    """
    if isinstance(error, PenstockError):
        return RpcFailure(grpc.StatusCode[error.grpc_status], cut(str(error)), error.code)
    kind = "" if isinstance(error, InvariantViolation) else f"{type(error).__name__}: "
    text = f"a bug in Penstock, please report it with the server's log: {kind}{error}"
    return RpcFailure(grpc.StatusCode.INTERNAL, cut(text), INVARIANT_CODE)


def cut(text: str) -> str:
    """`text`, shortened if it would not fit into a header; characters that are no Unicode are replaced."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    if _wire_bytes(text) <= MAX_DETAILS_BYTES:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = _wire_bytes(text[:middle]) + _wire_bytes(_CUT) <= MAX_DETAILS_BYTES
        low, high = (middle, high) if fits else (low, middle - 1)
    return text[:low] + _CUT


def _wire_bytes(text: str) -> int:
    """gRPC sends printable ASCII but for '%' as it is, every other byte as three."""
    return len(quote(text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"))


def error_of(failure: RpcFailure, call: str, address: str) -> PenstockError | InvariantViolation:
    """The error to raise in the caller: the class whose code the server sent, else what the bare status means.

    `call` and `address` name what was asked of whom in errors that gRPC itself made.
    """
    if failure.code == INVARIANT_CODE:
        return InvariantViolation(failure.details)
    if failure.code:
        known = all_error_classes().get(failure.code)
        return (known or _BY_STATUS.get(failure.status, PenstockError))(failure.details)
    return _error_of_grpc(failure, call, address)


def _error_of_grpc(failure: RpcFailure, call: str, address: str) -> PenstockError:
    asked = f"{call} of the enumerator at {address}"
    match failure.status:
        case grpc.StatusCode.UNAVAILABLE:
            return StorageError(
                f"{asked}: the server cannot be reached ({failure.details}): "
                "is `penstock serve` running there, and is the address the one it printed?"
            )
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return StorageError(f"{asked}: no answer within the deadline: the server is overloaded or its storage slow")
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in failure.details:
            return ConfigurationError(f"{asked}: {failure.details}: ask for fewer columns, or for a shorter range")
        case grpc.StatusCode.UNIMPLEMENTED:
            return ConfigurationError(
                f"{asked}: the server does not know this call ({failure.details}): it is older than this client, or no "
                "enumerator"
            )
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return ConfigurationError(f"{asked}: refused with {failure.status.name}: {failure.details}")
        case _:
            return StorageError(f"{asked}: the call broke off with {failure.status.name}: {failure.details}")


def received(error: grpc.RpcError) -> RpcFailure:
    """A failed call as the client's gRPC reports it."""
    call: object = error
    if not isinstance(call, grpc.Call):
        return RpcFailure(grpc.StatusCode.UNKNOWN, str(error), "")
    metadata = {key: value for key, value in call.trailing_metadata() or () if isinstance(value, str)}
    return RpcFailure(call.code(), call.details() or "", metadata.get(CODE_KEY, ""))
