"""Errors keep their class and text over gRPC. The texts of failures of gRPC itself say what to do."""

from __future__ import annotations

import grpc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.proto.codec.errors import (
    CODE_KEY,
    MAX_DETAILS_BYTES,
    MAX_RETRYABLE_DETAILS_BYTES,
    RpcFailure,
    cut,
    error_of,
    failure_of,
    is_worth_retrying,
    received,
)
from penstock.proto.errors import (
    ConfigurationError,
    FormatError,
    InvariantViolation,
    Overloaded,
    PenstockError,
    PermissionDenied,
    PlanError,
    ServerUnavailable,
    StorageError,
    Unauthenticated,
    all_error_classes,
    copy_of,
)

HERE = "127.0.0.1:7070"


def _back(failure: RpcFailure) -> Exception:
    return error_of(failure, "NextSplit", HERE)


@pytest.mark.parametrize("code", all_error_classes())
def test_error_to_status_to_error_is_the_same_class_and_text(code: str) -> None:
    cls = all_error_classes()[code]
    failure = failure_of(cls("table städte: file x: got 1\nexpected 2"))
    assert failure.status is grpc.StatusCode[cls.grpc_status]
    assert failure.metadata[0] == (CODE_KEY, code)
    assert [key for key, _ in failure.metadata[1:]] == (["grpc-status-details-bin"] if cls.retryable else [])
    back = _back(failure)
    assert type(back) is cls
    assert str(back) == "table städte: file x: got 1\nexpected 2"


def test_bug_is_internal_and_stays_a_bug() -> None:
    failure = failure_of(InvariantViolation("a split twice"))
    assert failure.status is grpc.StatusCode.INTERNAL
    back = _back(failure)
    assert type(back) is InvariantViolation
    assert str(back) == "a bug in Penstock, please report it with the server's log: a split twice"


def test_any_other_exception_is_a_bug_named_by_its_type() -> None:
    back = _back(failure_of(KeyError("col")))
    assert type(back) is InvariantViolation
    assert "KeyError: 'col'" in str(back)


def test_code_of_a_newer_server_becomes_the_family_of_its_status() -> None:
    assert type(_back(RpcFailure(grpc.StatusCode.ABORTED, "stale epoch", "STALE_EPOCH"))) is PlanError
    assert type(_back(RpcFailure(grpc.StatusCode.DATA_LOSS, "x", "CORRUPT_INDEX"))) is FormatError
    assert type(_back(RpcFailure(grpc.StatusCode.CANCELLED, "x", "NEW"))) is PenstockError


@pytest.mark.parametrize(
    ("status", "details", "cls", "message"),
    [
        (
            "UNAVAILABLE",
            "connection refused",
            ServerUnavailable,
            "cannot be reached .connection refused.: is `pens",
        ),
        ("DEADLINE_EXCEEDED", "", ServerUnavailable, "no answer within the deadline"),
        ("RESOURCE_EXHAUSTED", "Received message larger than max (9 vs. 8)", ConfigurationError, "fewer columns"),
        ("RESOURCE_EXHAUSTED", "Concurrent RPC limit exceeded!", Overloaded, "Concurrent RPC limit"),
        (
            "UNIMPLEMENTED",
            "Method not found!",
            ConfigurationError,
            "older than this client, or no enumerator: servers are upgr",
        ),
        ("PERMISSION_DENIED", "not you", PermissionDenied, "PERMISSION_DENIED: not you"),
        ("UNAUTHENTICATED", "who?", Unauthenticated, "UNAUTHENTICATED: who?"),
        ("CANCELLED", "server stopped", ServerUnavailable, "failed with CANCELLED: server stopped"),
        ("INTERNAL", "RST_STREAM", ServerUnavailable, "failed with INTERNAL"),
        ("UNKNOWN", "", ServerUnavailable, "failed with UNKNOWN"),
    ],
)
def test_failures_of_grpc_itself_name_the_call_and_the_server(
    status: str, details: str, cls: type[PenstockError], message: str
) -> None:
    back = _back(RpcFailure(grpc.StatusCode[status], details, ""))
    assert type(back) is cls
    with pytest.raises(cls, match=f"NextSplit of the enumerator at {HERE}: .*{message}"):
        raise back


def test_point_above_the_message_limit_has_its_own_advice() -> None:
    failure = RpcFailure(grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 8)", "")
    message = str(error_of(failure, "NextBatch", HERE))
    assert "larger than max (9 vs. 8): the place of a stream names every instant" in message
    assert "columns" not in message


def test_text_for_clients_is_sent_instead_of_the_text() -> None:
    error = StorageError("state directory /var/lib/state: the disk is full")
    assert failure_of(error).details == str(error), "the negative control"
    error.for_clients = "state directory of the server: the disk is full"
    assert failure_of(error).details == failure_of(copy_of(error)).details == error.for_clients
    assert str(copy_of(error)) == str(error), "the log of the server has the directory"


@given(st.text())
@example("x" * 5000)
@example("ü" * 5000)
@example("\ud800")
@example("%" * 5000)
def test_text_is_cut_only_when_it_would_not_fit_into_a_header(text: str) -> None:
    printed = cut(text)
    escaped = "".join(chr(b) if 32 <= b < 127 and b != 37 else "%XX" for b in printed.encode())
    assert len(escaped) <= MAX_DETAILS_BYTES
    if printed.endswith("(cut)") and text != printed:
        assert text.startswith(printed.removesuffix(" … (cut)"))
        assert len(escaped) > MAX_DETAILS_BYTES - 16  # no more is cut than must be
    else:
        assert printed == text.encode("utf-8", "replace").decode()


class Failed(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """A failed call as gRPC's client shows it."""

    def __init__(self, failure: RpcFailure, **changed: object) -> None:
        self._told = {"code": failure.status, "details": failure.details, "metadata": failure.metadata} | changed

    def code(self) -> object:
        return self._told["code"]

    def details(self) -> object:
        return self._told["details"]

    def trailing_metadata(self) -> object:
        return self._told["metadata"]


Failed.__abstractmethods__ = frozenset()


@pytest.mark.parametrize(("retry_ms", "received_ms"), [(1, 1), (200, 200), (61_500, 60_000), (12_345, 12_345)])
def test_retry_delay_reaches_the_client(retry_ms: int, received_ms: int) -> None:
    error = Overloaded("too much: städte 100 %")
    error.retry_ms = retry_ms
    failure = failure_of(error)
    again = received(Failed(failure))
    assert again == RpcFailure(failure.status, failure.details, "OVERLOADED", received_ms)
    assert is_worth_retrying(again, error_of(again, "NextSplit", HERE))


def test_only_retryable_errors_have_a_retry_delay() -> None:
    assert failure_of(PlanError("x")).retry_ms == 0
    assert received(Failed(failure_of(PlanError("x")))).retry_ms == 0
    assert failure_of(StorageError("x")).retry_ms == 200


@pytest.mark.parametrize(
    "changed",
    [
        {"metadata": (("grpc-status-details-bin", b"\xff\xff"),)},
        {"metadata": (("grpc-status-details-bin", b""),)},
        {"details": "another text"},
        {"code": grpc.StatusCode.ABORTED},
        {"metadata": None},
    ],
)
def test_invalid_status_details_have_no_retry_delay(changed: dict[str, object]) -> None:
    assert received(Failed(failure_of(Overloaded("x")), **changed)).retry_ms == 0


def test_text_of_a_retryable_error_leaves_room_for_its_copy() -> None:
    for text in ("ü" * 5000, "x" * 5000):
        size_bytes = sum(len(key) + len(value) * 4 // 3 for key, value in failure_of(StorageError(text)).metadata)
        assert size_bytes + MAX_RETRYABLE_DETAILS_BYTES < 8192


@pytest.mark.parametrize(
    ("status", "code", "again"),
    [
        ("UNAVAILABLE", "", True),
        ("RESOURCE_EXHAUSTED", "", True),
        ("UNAVAILABLE", "STORAGE", True),
        ("UNAVAILABLE", "KAFKA_UNAVAILABLE", True),
        ("NOT_FOUND", "TOPIC_GONE", False),
        ("DATA_LOSS", "UNDECODABLE_RECORD", False),
        ("DEADLINE_EXCEEDED", "", False),
        ("UNAUTHENTICATED", "", False),
        ("PERMISSION_DENIED", "PERMISSION_DENIED", False),
        ("INTERNAL", "", False),
        ("INTERNAL", "INVARIANT_VIOLATION", False),
        ("ABORTED", "FENCED", False),
    ],
)
def test_retried_failures(status: str, code: str, again: bool) -> None:
    failure = RpcFailure(grpc.StatusCode[status], "x", code)
    assert is_worth_retrying(failure, _back(failure)) is again
