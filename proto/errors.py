"""All errors of Penstock, as one class hierarchy.

PenstockError
├── ConfigurationError            INVALID_ARGUMENT     an option, a column, a range the caller gave
│   └── RequestIdReused                                a request id of another request
├── TableError
│   ├── TableNotFound             NOT_FOUND            there is no such table
│   ├── PositionExpired           OUT_OF_RANGE         files or instants that the read needs were cleaned
│   ├── DataInvalidated           DATA_LOSS            the table no longer contains consumed or planned data
│   ├── LateInstant               DATA_LOSS            an instant completed at or before a consumed position
│   ├── TopicGone                 NOT_FOUND            a Kafka topic or partition does not exist
│   └── UnsupportedFeature        UNIMPLEMENTED        the table uses a feature that Penstock does not support
├── FormatError                   DATA_LOSS            bytes that do not conform to the format
│   ├── CorruptBlock                                   a log block
│   ├── CorruptFile                                    a commit, properties or base file
│   ├── SchemaMismatch                                 a file's schema does not match the table's
│   └── UndecodableRecord                              a record of a topic that cannot become a row
├── PlanError                     ABORTED
│   ├── UnknownPlan                                    there is no such plan (never an empty result instead)
│   └── UnknownSplit                                   there is no such split in the plan
├── LeaseError                    ABORTED
│   ├── Fenced                                         the reader's epoch is not current
│   └── UnknownGroup              NOT_FOUND            there is no such consumer group
├── AccessError
│   ├── Unauthenticated           UNAUTHENTICATED      no token or certificate, or an invalid one
│   ├── PermissionDenied          PERMISSION_DENIED    the caller has no right to do this
│   └── StorageDenied                                  storage denies access: rights or credentials are wrong
├── StateVersionError             FAILED_PRECONDITION  an unsupported format version
├── StateDamaged                  DATA_LOSS            damaged records in the service's state directory
├── OutOfMemory                   RESOURCE_EXHAUSTED   the process has too little memory
├── TooManyGroups                 RESOURCE_EXHAUSTED   a table or a principal has the maximum number of groups
├── Overloaded                    RESOURCE_EXHAUSTED   a limit of the server is reached; retryable
├── TargetConflict                ABORTED              another process fills a table of a sync
├── WriteConflict                 ABORTED              another writer of the table is in the way; retryable
└── StorageError                  UNAVAILABLE          storage did not answer; retryable
    ├── KafkaUnavailable                               the brokers of a topic did not answer
    ├── ServerUnavailable                              the Penstock server did not answer
    └── TargetUnavailable                              a target of a sync cannot be written

InvariantViolation (INTERNAL) is not in the hierarchy: it is a bug of Penstock, and is never caught and never retried.

An error's text contains: the operation that failed, the table, instant or file, the actual and the expected value, and
what to do. Errors are encoded for gRPC in `penstock.proto.codec.errors`.
"""

from __future__ import annotations

from typing import ClassVar, Final


class PenstockError(Exception):
    """An error without a code of its own, such as one that only a newer server has; the text says what to do."""

    code: ClassVar[str] = "ERROR"
    grpc_status: ClassVar[str] = "UNKNOWN"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False
    retry_ms: int = 0
    """The shortest delay before a retry; 0: the caller's own delay (`penstock.proto.retry`)."""
    advice: ClassVar[str] = "read the text"
    """What to do, in one line of docs/reference/errors.md."""
    missing_file: str = ""
    """The path, in its table, of a file that does not exist, if that is the cause. It is not sent to clients."""
    for_clients: str = ""
    """The text that clients of a server receive, if the error's own has a path of the server."""


class ConfigurationError(PenstockError):
    """The request is not valid: an unknown option or column, an invalid value, an impossible range or file."""

    code = "CONFIGURATION"
    grpc_status = "INVALID_ARGUMENT"
    exit_code = 2
    advice = "correct what the text names; for a misspelt name it suggests the most similar one"


class RequestIdReused(ConfigurationError):
    """A request id was used for two different requests."""

    code = "REQUEST_ID_REUSED"
    advice = "use a unique id for each request; a repeated call must be equal to the first"


class TableError(PenstockError):
    """The table cannot be read: it has settings that Hudi 1.2 does not support either."""

    code = "TABLE"
    grpc_status = "FAILED_PRECONDITION"
    advice = "the text names the setting of the table"


class TableNotFound(TableError):
    """There is no Hudi table at the path, or no table with the name is registered."""

    code = "TABLE_NOT_FOUND"
    grpc_status = "NOT_FOUND"
    advice = "check the path, or the name that the server gives the table (`--table NAME=PATH`)"


class PositionExpired(TableError):
    """A file or an instant that the read needs was cleaned or archived."""

    code = "POSITION_EXPIRED"
    grpc_status = "OUT_OF_RANGE"
    exit_code = 3
    advice = (
        "read a newer range or a snapshot; have the cleaner keep commits longer; a group: `penstock groups "
        "reset`, or `onLostRange`"
    )


class DataInvalidated(TableError):
    """The table no longer contains the data of the position: it was restored, rolled back or created again."""

    code = "DATA_INVALIDATED"
    grpc_status = "DATA_LOSS"
    exit_code = 3
    advice = "read a snapshot and start again from there; a group: `penstock groups reset`"


class LateInstant(TableError):
    """An instant completed with an order key at or below a position that is already consumed."""

    code = "LATE_INSTANT"
    grpc_status = "DATA_LOSS"
    exit_code = 3
    advice = "`penstock groups reset` to before that instant"


class TopicGone(TableError):
    """A Kafka topic, or a partition that a read continues in, does not exist."""

    code = "TOPIC_GONE"
    grpc_status = "NOT_FOUND"
    advice = "check the topic's name and the brokers; a topic that was created again needs a new start"


class UnsupportedFeature(TableError):
    """The table uses a feature that Penstock does not support. Penstock returns no rows rather than wrong ones."""

    code = "UNSUPPORTED_FEATURE"
    grpc_status = "UNIMPLEMENTED"
    advice = "the text names the feature; often compacting with Hudi helps"


class FormatError(PenstockError):
    """Bytes or names on storage do not conform to Hudi's format."""

    code = "FORMAT"
    grpc_status = "DATA_LOSS"
    exit_code = 3
    advice = "the text names the file and what was expected; restore the file"


class CorruptBlock(FormatError):
    """A log block is damaged or truncated."""

    code = "CORRUPT_BLOCK"
    advice = "restore the file, or read with `onCorrupt=skip`, which loses the rows that the text names"


class CorruptFile(FormatError):
    """A properties, commit, base or log file of a completed commit is damaged, truncated or missing."""

    code = "CORRUPT_FILE"
    is_gone: bool = False
    """Whether a file of a plan is missing, because a cleaner or a user deleted it."""
    advice = "restore the file; if it was cleaned, read a newer range"


class SchemaMismatch(FormatError):
    """A file's schema cannot be read as the table's schema."""

    code = "SCHEMA_MISMATCH"
    advice = "the text names the file and both types"


class UndecodableRecord(FormatError):
    """A record of a Kafka topic that cannot be decoded into a row of the table."""

    code = "UNDECODABLE_RECORD"
    advice = (
        "the text names partition and offset: correct `kafkaValueFormat`, or set `deadLetterPath` to skip such records"
    )


class PlanError(PenstockError):
    """A request names a plan or split that this enumerator does not hold."""

    code = "PLAN"
    grpc_status = "ABORTED"
    advice = "plan again"


class UnknownPlan(PlanError):
    """The plan was not opened here, or its time to live has ended. It is never treated as an empty plan."""

    code = "UNKNOWN_PLAN"
    advice = "load the DataFrame again, or open a new plan"


class UnknownSplit(PlanError):
    """The plan has no such split or slot."""

    code = "UNKNOWN_SPLIT"
    advice = "load the DataFrame again, or open a new plan"


class LeaseError(PenstockError):
    """A reader of a consumer group does not hold the lease or split that it refers to."""

    code = "LEASE"
    grpc_status = "ABORTED"
    advice = "join the group again"


class Fenced(LeaseError):
    """The caller's epoch is not current: its lease ended, a later epoch began, or the group was reset."""

    code = "FENCED"
    advice = "a reader joins again, and rows that were not committed are assigned again; a writer writes again"


class UnknownGroup(LeaseError):
    """The table has no such consumer group."""

    code = "UNKNOWN_GROUP"
    grpc_status = "NOT_FOUND"
    advice = "`penstock groups list` lists the groups; a group is created by its first reader"


class AccessError(PenstockError):
    """The caller is not authenticated or not authorized."""

    code = "ACCESS"
    grpc_status = "PERMISSION_DENIED"
    exit_code = 4
    advice = "the text names the right or the credential"


class Unauthenticated(AccessError):
    """The server does not accept the client's token or certificate, or the client does not accept the server's
    certificate."""

    code = "UNAUTHENTICATED"
    grpc_status = "UNAUTHENTICATED"
    advice = (
        "give a valid token (`serverToken`) or certificate (`serverCert`); if the server's own is not "
        "accepted, renew it or name its authority (`serverCa`)"
    )


class PermissionDenied(AccessError):
    """The caller is authenticated but has no right to this operation on this table or group."""

    code = "PERMISSION_DENIED"
    advice = "have a rule of the server's `acl` grant the right that the text names"


class StorageDenied(AccessError):
    """The storage of a table denies access to this process: rights or credentials are missing or wrong."""

    code = "STORAGE_DENIED"
    advice = (
        "give the process the right to list and read the table: credentials in the environment, policies of "
        "the bucket, file modes; `penstock doctor TABLE` checks the access"
    )


class StateVersionError(PenstockError):
    """A split, plan, position or state has a format version that this release does not support."""

    code = "STATE_VERSION"
    grpc_status = "FAILED_PRECONDITION"
    advice = "use the version of Penstock that wrote it, or a newer one"


class StateDamaged(PenstockError):
    """The service's state is damaged before its end; the service does not start."""

    code = "STATE_DAMAGED"
    grpc_status = "DATA_LOSS"
    exit_code = 3
    advice = "`penstock state check DIR` names the record; restore a backup"


class OutOfMemory(PenstockError):
    """The process does not have enough memory for the result."""

    code = "OUT_OF_MEMORY"
    grpc_status = "RESOURCE_EXHAUSTED"
    advice = "read fewer columns, or smaller batches; compact a table with long logs; or give the process more memory"


class TooManyGroups(PenstockError):
    """The table, or the calling principal, has as many consumer groups as the server's limits allow."""

    code = "TOO_MANY_GROUPS"
    grpc_status = "RESOURCE_EXHAUSTED"
    advice = "delete unused groups (`penstock groups delete`), or raise the limit that the text names"


class Overloaded(PenstockError):
    """A limit of the server is reached; a later retry may succeed."""

    code = "OVERLOADED"
    grpc_status = "RESOURCE_EXHAUSTED"
    exit_code = 75
    retryable = True
    advice = "retry later, or raise the limit that the text names"


class StorageError(PenstockError):
    """Storage did not answer; a retry may succeed."""

    code = "STORAGE"
    grpc_status = "UNAVAILABLE"
    exit_code = 75
    retryable = True
    left_timeline: bool = False
    """Whether an instant was archived or rolled back between a listing of the timeline and the read of its file."""
    advice = "retry; if the error persists, check the storage that the text names"


class ServerUnavailable(StorageError):
    """The Penstock server cannot be reached or did not answer; a retry may succeed."""

    code = "SERVER_UNAVAILABLE"
    advice = (
        "check that `penstock serve` runs at the address that the text names and can be reached; `retryTimeout` is how "
        "long a client retries"
    )


class KafkaUnavailable(StorageError):
    """The brokers of a topic do not answer; a retry may succeed."""

    code = "KAFKA_UNAVAILABLE"
    advice = "retry; if the error persists, check the brokers and the `kafka.*` settings"


class TargetUnavailable(StorageError):
    """A target of `penstock sync` cannot be written now: it is gone, full or locked; a retry may succeed."""

    code = "TARGET_UNAVAILABLE"
    advice = "nothing is lost: the sync retries; make the target that the text names available, or free space there"


class TargetConflict(PenstockError):
    """A table of a target has another position than the sync left: another process fills it."""

    code = "TARGET_CONFLICT"
    grpc_status = "ABORTED"
    exit_code = 3
    advice = "let one job fill a table: end the other one, or give this one another target or table"


class WriteConflict(PenstockError):
    """Another writer holds the table's lock, may be running, or changed the same file groups. Nothing was written."""

    code = "WRITE_CONFLICT"
    grpc_status = "ABORTED"
    exit_code = 75
    retryable = True
    advice = "write again; if no other writer runs, do what the text says"


class InvariantViolation(AssertionError):
    """A bug in Penstock; the text contains the invariant and the values. Please report it."""


INVARIANT_CODE: Final = "INVARIANT_VIOLATION"
"""The code of every exception that is not a PenstockError."""


def copy_of(error: PenstockError) -> PenstockError:
    """A new error of the same class and text, for another thread or a later call: a traceback must not be shared."""
    copy = type(error)(str(error))
    copy.for_clients = error.for_clients
    return copy


def code_and_text(error: BaseException) -> tuple[str, str]:
    """The code and text of any exception for operators and callers. An exception that is not a PenstockError is a bug;
    its text contains its type."""
    if isinstance(error, PenstockError):
        return error.code, str(error)
    kind = "" if isinstance(error, InvariantViolation) else f"{type(error).__name__}: "
    return INVARIANT_CODE, f"a bug in Penstock, please report it with the server's log: {kind}{error}"


def all_error_classes() -> dict[str, type[PenstockError]]:
    """All error classes by code, PenstockError included."""

    def with_subclasses(cls: type[PenstockError]) -> list[type[PenstockError]]:
        return [cls, *(sub for child in cls.__subclasses__() for sub in with_subclasses(child))]

    return {cls.code: cls for cls in with_subclasses(PenstockError)}
