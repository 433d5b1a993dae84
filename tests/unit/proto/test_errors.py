"""The error tree: codes are stable and distinct, statuses are gRPC's, only storage is worth a retry."""

from __future__ import annotations

import grpc
import pytest

from penstock.proto import errors

CODES = {
    "ERROR": ("UNKNOWN", 1),
    "CONFIGURATION": ("INVALID_ARGUMENT", 2),
    "REQUEST_ID_REUSED": ("INVALID_ARGUMENT", 2),
    "TABLE": ("FAILED_PRECONDITION", 1),
    "TABLE_NOT_FOUND": ("NOT_FOUND", 1),
    "POSITION_EXPIRED": ("OUT_OF_RANGE", 3),
    "DATA_INVALIDATED": ("DATA_LOSS", 3),
    "LATE_INSTANT": ("DATA_LOSS", 3),
    "TOPIC_GONE": ("NOT_FOUND", 1),
    "UNSUPPORTED_FEATURE": ("UNIMPLEMENTED", 1),
    "FORMAT": ("DATA_LOSS", 3),
    "CORRUPT_BLOCK": ("DATA_LOSS", 3),
    "CORRUPT_FILE": ("DATA_LOSS", 3),
    "SCHEMA_MISMATCH": ("DATA_LOSS", 3),
    "UNDECODABLE_RECORD": ("DATA_LOSS", 3),
    "PLAN": ("ABORTED", 1),
    "UNKNOWN_PLAN": ("ABORTED", 1),
    "UNKNOWN_SPLIT": ("ABORTED", 1),
    "LEASE": ("ABORTED", 1),
    "FENCED": ("ABORTED", 1),
    "UNKNOWN_GROUP": ("NOT_FOUND", 1),
    "ACCESS": ("PERMISSION_DENIED", 4),
    "UNAUTHENTICATED": ("UNAUTHENTICATED", 4),
    "PERMISSION_DENIED": ("PERMISSION_DENIED", 4),
    "STORAGE_DENIED": ("PERMISSION_DENIED", 4),
    "STATE_VERSION": ("FAILED_PRECONDITION", 1),
    "STATE_DAMAGED": ("DATA_LOSS", 3),
    "OVERLOADED": ("RESOURCE_EXHAUSTED", 75),
    "OUT_OF_MEMORY": ("RESOURCE_EXHAUSTED", 1),
    "TOO_MANY_GROUPS": ("RESOURCE_EXHAUSTED", 1),
    "STORAGE": ("UNAVAILABLE", 75),
    "KAFKA_UNAVAILABLE": ("UNAVAILABLE", 75),
    "SERVER_UNAVAILABLE": ("UNAVAILABLE", 75),
    "TARGET_UNAVAILABLE": ("UNAVAILABLE", 75),
    "TARGET_CONFLICT": ("ABORTED", 3),
    "WRITE_CONFLICT": ("ABORTED", 75),
}
"""Code -> (gRPC status, exit code): users' scripts rely on these."""


def _tree() -> list[type[errors.PenstockError]]:
    result = [errors.PenstockError]
    for cls in result:
        result.extend(cls.__subclasses__())
    return result


def test_tree_is_the_documented_one() -> None:
    assert {code: (cls.grpc_status, cls.exit_code) for code, cls in errors.all_error_classes().items()} == CODES


def test_no_two_classes_share_a_code() -> None:
    assert len(_tree()) == len(errors.all_error_classes())


@pytest.mark.parametrize("code", CODES)
def test_each_status_is_one_of_grpc(code: str) -> None:
    assert errors.all_error_classes()[code].grpc_status in grpc.StatusCode.__members__


def test_retryable_classes_are_the_transient_ones() -> None:
    assert {cls for cls in _tree() if cls.retryable} == {
        errors.StorageError,
        errors.KafkaUnavailable,
        errors.ServerUnavailable,
        errors.TargetUnavailable,
        errors.Overloaded,
        errors.WriteConflict,
    }


def test_bug_is_outside_the_tree() -> None:
    assert not issubclass(errors.InvariantViolation, errors.PenstockError)
