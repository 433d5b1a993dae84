"""Maps errors of the Kafka client to Penstock's errors. Pure.

librdkafka names its own errors `_LIKE_THIS` and those of brokers `LIKE_THIS`. An error is transient, permanent, or
unknown; after an unknown one nothing is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import (
    ConfigurationError,
    KafkaUnavailable,
    PenstockError,
    PermissionDenied,
    TopicGone,
    Unauthenticated,
    UnsupportedFeature,
)

END_OF_PARTITION: Final = "_PARTITION_EOF"
"""The reader has reached the end of a partition."""
OUT_OF_RANGE: Final = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})
"""The partition's log does not contain the offset."""
TRUNCATED: Final = frozenset({"_LOG_TRUNCATION"})
"""The partition's log was truncated."""
DAMAGED: Final = frozenset(
    {
        "_BAD_COMPRESSION",
        "_BAD_MSG",
        "_NOT_IMPLEMENTED",
        "_UNDERFLOW",
        "INVALID_MSG",
        "INVALID_MSG_SIZE",
        "INVALID_RECORD",
        "UNSUPPORTED_COMPRESSION_TYPE",
    }
)
"""Records that the client cannot decode. It would continue after them."""

GONE: Final = frozenset(
    {"_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "TOPIC_EXCEPTION", "UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PART"}
)
"""The topic or the partition does not exist."""
STALE: Final = frozenset({"_NOENT"})
"""The client's list of leaders is out of date, as after the restart of a broker."""

TRANSIENT: Final = frozenset(
    {
        "_ALL_BROKERS_DOWN",
        "_DESTROY_BROKER",
        "_NODE_UPDATE",
        "_NOENT",
        "_RESOLVE",
        "_RETRY",
        "_SSL",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_TRANSPORT",
        "_UNKNOWN_BROKER",
        "_WAIT_CACHE",
        "_WAIT_COORD",
        "BROKER_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "FETCH_SESSION_ID_NOT_FOUND",
        "INCONSISTENT_TOPIC_ID",
        "INVALID_FETCH_SESSION_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "LISTENER_NOT_FOUND",
        "NETWORK_EXCEPTION",
        "NOT_CONTROLLER",
        "NOT_COORDINATOR",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "REBOOTSTRAP_REQUIRED",
        "REPLICA_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "THROTTLING_QUOTA_EXCEEDED",
        "UNKNOWN_LEADER_EPOCH",
        "UNSTABLE_OFFSET_COMMIT",
    }
)
"""Errors that end without intervention, or when brokers return."""

_FORBIDDEN: Final = frozenset(
    {"CLUSTER_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"}
)
_UNAUTHENTICATED: Final = frozenset(
    {"_AUTHENTICATION", "ILLEGAL_SASL_STATE", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"}
)
_TOO_OLD: Final = frozenset({"_UNSUPPORTED_FEATURE", "UNSUPPORTED_VERSION"})
_BAD_REQUEST: Final = frozenset({"_INVALID_ARG", "_NOT_CONFIGURED", "INVALID_GROUP_ID"})
_CONNECTION_LOST: Final = ("transport failure", "timed out", "disconnected", "connection reset", "connection closed")
_CERTIFICATE: Final = ("certificate", "alert")


@dataclass(frozen=True, slots=True)
class ReportedError:
    """An error that the client reported."""

    name: str
    """The client's name of the error."""
    text: str
    """The text, without secrets."""

    @property
    def denies_access(self) -> bool:
        """Whether authentication failed, by credentials or certificates. A connection that broke during authentication
        is not such a failure."""
        text = self.text.lower()
        if any(sign in text for sign in _CONNECTION_LOST):
            return False
        return self.name in _UNAUTHENTICATED or (self.name == "_SSL" and any(sign in text for sign in _CERTIFICATE))


def permanent_error(reported: ReportedError, what: str) -> PenstockError | None:
    """The error for a permanent failure; None for others. Its text starts with `what`, the operation."""
    text = f"{what}: {reported.text} ({reported.name})"
    if reported.denies_access:
        return Unauthenticated(
            f"{text}; check kafka.security.protocol and the credentials under kafka.sasl.*, kafka.ssl.*"
        )
    if reported.name in _FORBIDDEN:
        return PermissionDenied(f"{text}; give the client's user the right to read and to describe it")
    if reported.name in GONE:
        return TopicGone(f"{text}; check kafka.topic and kafka.bootstrap.servers")
    if reported.name in _TOO_OLD:
        return UnsupportedFeature(f"{text}; the brokers are older than the client needs")
    if reported.name in _BAD_REQUEST:
        return ConfigurationError(text)
    return None


def unavailable_error(reported: ReportedError | None, what: str, waited_s: float) -> KafkaUnavailable:
    """The error for brokers that did not answer for `waited_s` seconds."""
    reason = f": {reported.text} ({reported.name})" if reported else ""
    return KafkaUnavailable(
        f"{what}: no answer from the Kafka brokers in {waited_s:.0f} s{reason}; "
        "check kafka.bootstrap.servers and the network, or retry"
    )
