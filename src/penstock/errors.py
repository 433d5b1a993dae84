"""The exceptions that Penstock raises.

`PenstockError` is the base of all of them. Its subclasses form the tree in docs/reference/errors.md: a family's class
catches every error below it. Each class has these attributes:

* `code`: the stable error code, such as `FENCED`. The command line, the log and the gRPC contract show the same code.
* `retryable`: whether the same call may succeed later.
* `exit_code`: the exit code of the command line.
* `grpc_status`: the gRPC status under which a server returns the error.
* `advice`: what to do about it, in one sentence.

`InvariantViolation` is not a `PenstockError`: it reports a bug in Penstock. Do not catch it, and do not retry.
"""

from __future__ import annotations

from penstock.proto.errors import (
    AccessError,
    ConfigurationError,
    CorruptBlock,
    CorruptFile,
    DataInvalidated,
    Fenced,
    FormatError,
    InvariantViolation,
    KafkaUnavailable,
    LateInstant,
    LeaseError,
    OutOfMemory,
    Overloaded,
    PenstockError,
    PermissionDenied,
    PlanError,
    PositionExpired,
    RequestIdReused,
    SchemaMismatch,
    ServerUnavailable,
    StateDamaged,
    StateVersionError,
    StorageDenied,
    StorageError,
    TableError,
    TableNotFound,
    TargetConflict,
    TargetUnavailable,
    TooManyGroups,
    TopicGone,
    Unauthenticated,
    UndecodableRecord,
    UnknownGroup,
    UnknownPlan,
    UnknownSplit,
    UnsupportedFeature,
    WriteConflict,
)

__all__ = [
    "AccessError",
    "ConfigurationError",
    "CorruptBlock",
    "CorruptFile",
    "DataInvalidated",
    "Fenced",
    "FormatError",
    "InvariantViolation",
    "KafkaUnavailable",
    "LateInstant",
    "LeaseError",
    "OutOfMemory",
    "Overloaded",
    "PenstockError",
    "PermissionDenied",
    "PlanError",
    "PositionExpired",
    "RequestIdReused",
    "SchemaMismatch",
    "ServerUnavailable",
    "StateDamaged",
    "StateVersionError",
    "StorageDenied",
    "StorageError",
    "TableError",
    "TableNotFound",
    "TargetConflict",
    "TargetUnavailable",
    "TooManyGroups",
    "TopicGone",
    "Unauthenticated",
    "UndecodableRecord",
    "UnknownGroup",
    "UnknownPlan",
    "UnknownSplit",
    "UnsupportedFeature",
    "WriteConflict",
]


def __dir__() -> list[str]:
    return __all__
