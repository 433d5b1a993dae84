"""Every error a caller can meet, as one tree.

PenstockError
├── ConfigurationError            INVALID_ARGUMENT     an option, a column, a range the caller gave
│   └── RequestIdReused                                a request id that stands for another request
├── TableError
│   ├── TableNotFound             NOT_FOUND            no table there
│   ├── PositionExpired           OUT_OF_RANGE         files or instants the answer needs were cleaned
│   ├── DataInvalidated           DATA_LOSS            consumed or planned data is no longer the table's
│   ├── LateInstant               DATA_LOSS            an instant completed at or behind a position that passed it
│   ├── TopicGone                 NOT_FOUND            no such Kafka topic, or not the partition to go on in
│   └── UnsupportedFeature        UNIMPLEMENTED        the table uses something Penstock does not read (yet)
├── FormatError                   DATA_LOSS            bytes that are not what the format says
│   ├── CorruptBlock                                   a log block
│   ├── CorruptFile                                    a commit, properties or base file
│   ├── SchemaMismatch                                 a file whose schema does not fit the table's
│   └── UndecodableRecord                              a record of a topic that is no row of the table
├── PlanError                     ABORTED
│   ├── UnknownPlan                                    no such plan (never an empty answer)
│   └── UnknownSplit                                   no such split in that plan
├── LeaseError                    ABORTED
│   ├── Fenced                                         a reader's epoch is not the one that holds the lease
│   └── UnknownGroup              NOT_FOUND            no such consumer group (never an empty one)
├── AccessError
│   ├── Unauthenticated           UNAUTHENTICATED      no token or certificate, or one that is not known
│   ├── PermissionDenied          PERMISSION_DENIED    known, but not allowed to
│   └── StorageDenied                                  storage refuses: rights or credentials are missing or wrong
├── StateVersionError             FAILED_PRECONDITION  a record of a format version this build does not know
├── StateDamaged                  DATA_LOSS            the service's own state directory holds damaged records
├── OutOfMemory                   RESOURCE_EXHAUSTED   this process has not the memory that an answer takes
├── TooManyGroups                 RESOURCE_EXHAUSTED   a table or a principal has as many consumer groups as it may
├── Overloaded                    RESOURCE_EXHAUSTED   a stated limit is reached; asking later may help
└── StorageError                  UNAVAILABLE          storage did not answer; asking again may help
    ├── KafkaUnavailable                               nor did the brokers of a topic
    └── ServerUnavailable                              nor did the Penstock server

InvariantViolation (INTERNAL) stands outside: it is our own bug, is never caught and never retried.

Only classes belong here; no gRPC (the codec of errors is `rpc_errors`), no I/O.
Text of an error: what failed, which table/instant/file, got, expected, what to do.
"""

from __future__ import annotations

from typing import ClassVar, Final


class PenstockError(Exception):
    """What has no code of its own, such as an error that only a newer server knows; the text says what to do."""

    code: ClassVar[str] = "ERROR"
    grpc_status: ClassVar[str] = "UNKNOWN"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False
    retry_ms: int = 0
    """Of what is retryable: how long to wait at least before asking again; 0: the caller's own delay (`retry`)."""
    advice: ClassVar[str] = "read the text"
    """What to do about it, in a line of docs/reference/errors.md."""
    missing_file: str = ""
    """The path, in its table, of the file that is not there, where that is what failed. It stays in this process."""


class ConfigurationError(PenstockError):
    """What the caller asked for cannot be: an unknown option or column, a bad value, an impossible range or file."""

    code = "CONFIGURATION"
    grpc_status = "INVALID_ARGUMENT"
    exit_code = 2
    advice = "mend what the text names; of a misspelt name it offers the nearest"


class RequestIdReused(ConfigurationError):
    """A request id was used again for another request: the plan that it opened is not the one that is asked for."""

    code = "REQUEST_ID_REUSED"
    advice = "give each request an id of its own; a repeated call must be equal to the first"


class TableError(PenstockError):
    """The table as a whole cannot answer: it is set up in a way that Hudi 1.2 does not read either."""

    code = "TABLE"
    grpc_status = "FAILED_PRECONDITION"
    advice = "the text names the setting of the table"


class TableNotFound(TableError):
    """No Hudi table is at that path, or no table of that name is registered."""

    code = "TABLE_NOT_FOUND"
    grpc_status = "NOT_FOUND"
    advice = "check the path, or the name that the server gives the table (`--table NAME=PATH`)"


class PositionExpired(TableError):
    """A file or an instant that the answer needs was cleaned or archived away."""

    code = "POSITION_EXPIRED"
    grpc_status = "OUT_OF_RANGE"
    exit_code = 3
    advice = (
        "read a newer range or a snapshot; have the cleaner keep commits longer; a group: `penstock groups "
        "reset`, or `onLostRange`"
    )


class DataInvalidated(TableError):
    """The table no longer holds what the position stands for: restored, rolled back or created again."""

    code = "DATA_INVALIDATED"
    grpc_status = "DATA_LOSS"
    exit_code = 3
    advice = "read a snapshot and start again from there; a group: `penstock groups reset`"


class LateInstant(TableError):
    """An instant was first seen completed with an order key at or below a position that had already passed it."""

    code = "LATE_INSTANT"
    grpc_status = "DATA_LOSS"
    exit_code = 3
    advice = "`penstock groups reset` to before that instant"


class TopicGone(TableError):
    """A Kafka topic, or a partition of it that a read goes on in, is not there."""

    code = "TOPIC_GONE"
    grpc_status = "NOT_FOUND"
    advice = "check the topic's name and the brokers; a topic made anew needs a new start"


class UnsupportedFeature(TableError):
    """The table uses a feature that Penstock does not read; no row is returned rather than a wrong one."""

    code = "UNSUPPORTED_FEATURE"
    grpc_status = "UNIMPLEMENTED"
    advice = "the text names the feature; often compacting with Hudi helps"


class FormatError(PenstockError):
    """Bytes or names on storage are not what Hudi's format says."""

    code = "FORMAT"
    grpc_status = "DATA_LOSS"
    exit_code = 3
    advice = "the text names the file and what was expected; restore the file"


class CorruptBlock(FormatError):
    """A log block is damaged or truncated."""

    code = "CORRUPT_BLOCK"
    advice = "restore the file, or read with `onCorrupt=skip`, which loses what the text tells"


class CorruptFile(FormatError):
    """A properties, commit, base or log file is damaged, truncated, or missing though a completed commit names it."""

    code = "CORRUPT_FILE"
    is_gone: bool = False
    """Whether a file that a plan names is not there: a cleaner took it, or somebody removed it."""
    advice = "restore the file; a file that was cleaned away: read a newer range"


class SchemaMismatch(FormatError):
    """A file's schema cannot be read as the table's schema."""

    code = "SCHEMA_MISMATCH"
    advice = "the text names the file and both types"


class UndecodableRecord(FormatError):
    """A record of a Kafka topic that cannot be decoded into a row of the table."""

    code = "UNDECODABLE_RECORD"
    advice = (
        "the text names partition and offset: correct `kafkaValueFormat`, or set `deadLetterPath` to pass "
        "such records over"
    )


class PlanError(PenstockError):
    """A request names a plan or split that this enumerator does not hold."""

    code = "PLAN"
    grpc_status = "ABORTED"
    advice = "plan again"


class UnknownPlan(PlanError):
    """The plan was never opened here, or its time to live ran out. Never answered as an empty plan."""

    code = "UNKNOWN_PLAN"
    advice = "load the DataFrame again, or open a new plan"


class UnknownSplit(PlanError):
    """The plan holds no such split or slot."""

    code = "UNKNOWN_SPLIT"
    advice = "load the DataFrame again, or open a new plan"


class LeaseError(PenstockError):
    """What a reader of a consumer group asked for is not its own (any more)."""

    code = "LEASE"
    grpc_status = "ABORTED"
    advice = "join the group again"


class Fenced(LeaseError):
    """The reader's epoch is not current: its lease ran out, it joined again elsewhere, or the group was reset."""

    code = "FENCED"
    advice = "join again: nothing that was not committed counts, and it comes again"


class UnknownGroup(LeaseError):
    """No such consumer group on that table."""

    code = "UNKNOWN_GROUP"
    grpc_status = "NOT_FOUND"
    advice = "`penstock groups list` shows those there are; a group is made by its first reader"


class AccessError(PenstockError):
    """Who asks may not, or did not say who it is."""

    code = "ACCESS"
    grpc_status = "PERMISSION_DENIED"
    exit_code = 4
    advice = "the text names the right or the credential"


class Unauthenticated(AccessError):
    """No token or certificate, or one that is not accepted: the client's by the server, the server's by the client."""

    code = "UNAUTHENTICATED"
    grpc_status = "UNAUTHENTICATED"
    advice = (
        "give a valid token (`serverToken`) or certificate (`serverCert`); if the server's own is not "
        "accepted, renew it or name its authority (`serverCa`)"
    )


class PermissionDenied(AccessError):
    """The caller is known and not allowed to do this with this table or group."""

    code = "PERMISSION_DENIED"
    advice = "have a rule of the server's `acl` grant the right that the text names"


class StorageDenied(AccessError):
    """The storage of a table refuses this process: rights or credentials are missing or wrong."""

    code = "STORAGE_DENIED"
    advice = (
        "give the process the right to list and read the table: credentials in the environment, policies of "
        "the bucket, file modes; `penstock doctor TABLE` tries"
    )


class StateVersionError(PenstockError):
    """A split, plan, position or state was written in a format version that this build does not know."""

    code = "STATE_VERSION"
    grpc_status = "FAILED_PRECONDITION"
    advice = "use the version of Penstock that wrote it, or a newer one"


class StateDamaged(PenstockError):
    """The service's own state is damaged in the middle: it does not start on it."""

    code = "STATE_DAMAGED"
    grpc_status = "DATA_LOSS"
    exit_code = 3
    advice = "`penstock state check DIR` names the record; restore a backup"


class OutOfMemory(PenstockError):
    """The process has not the memory that the answer takes."""

    code = "OUT_OF_MEMORY"
    grpc_status = "RESOURCE_EXHAUSTED"
    advice = "read fewer columns, or smaller batches; compact a table with long logs; or give the process more memory"


class TooManyGroups(PenstockError):
    """The table, or the principal that asks, has as many consumer groups as the server's limits allow."""

    code = "TOO_MANY_GROUPS"
    grpc_status = "RESOURCE_EXHAUSTED"
    advice = "`penstock groups delete` what nobody reads; or raise the limit that the text names"


class Overloaded(PenstockError):
    """A stated limit of the server is reached; asking later may help."""

    code = "OVERLOADED"
    grpc_status = "RESOURCE_EXHAUSTED"
    exit_code = 75
    retryable = True
    advice = "ask again later; or raise the limit that the text names"


class StorageError(PenstockError):
    """Storage did not answer; asking again may help."""

    code = "STORAGE"
    grpc_status = "UNAVAILABLE"
    exit_code = 75
    retryable = True
    advice = "ask again; if it stays, check the storage that the text names"


class ServerUnavailable(StorageError):
    """The Penstock server cannot be reached or did not answer; asking again may help."""

    code = "SERVER_UNAVAILABLE"
    advice = (
        "check that `penstock serve` runs at the address that the text names and can be reached; a client asks again "
        "for as long as `retryTimeout` says"
    )


class KafkaUnavailable(StorageError):
    """The brokers of a topic do not answer; asking again may help."""

    code = "KAFKA_UNAVAILABLE"
    advice = "ask again; if it stays, check the brokers and the `kafka.*` settings"


class InvariantViolation(AssertionError):
    """A bug in Penstock: the text names the invariant and the values; please report it."""


INVARIANT_CODE: Final = "INVARIANT_VIOLATION"
"""The code of every exception that is none of Penstock's errors."""


def code_and_text(error: BaseException) -> tuple[str, str]:
    """How any exception is shown to operators and callers. One outside of the tree is a bug of Penstock; its text
    names its type."""
    if isinstance(error, PenstockError):
        return error.code, str(error)
    kind = "" if isinstance(error, InvariantViolation) else f"{type(error).__name__}: "
    return INVARIANT_CODE, f"a bug in Penstock, please report it with the server's log: {kind}{error}"


def all_error_classes() -> dict[str, type[PenstockError]]:
    """Every class of the tree by its stable code, the root included."""

    def walk(cls: type[PenstockError]) -> list[type[PenstockError]]:
        return [cls, *(sub for child in cls.__subclasses__() for sub in walk(child))]

    return {cls.code: cls for cls in walk(PenstockError)}
