"""The client's errors by name, as errors of the tree."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from penstock.kafka import errors
from penstock.kafka.errors import ReportedError, permanent_error, unavailable_error
from penstock.proto.errors import (
    ConfigurationError,
    KafkaUnavailable,
    PermissionDenied,
    TopicGone,
    Unauthenticated,
    UnsupportedFeature,
)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("_AUTHENTICATION", Unauthenticated),
        ("SASL_AUTHENTICATION_FAILED", Unauthenticated),
        ("TOPIC_AUTHORIZATION_FAILED", PermissionDenied),
        ("GROUP_AUTHORIZATION_FAILED", PermissionDenied),
        ("UNKNOWN_TOPIC_OR_PART", TopicGone),
        ("_UNKNOWN_PARTITION", TopicGone),
        ("UNSUPPORTED_VERSION", UnsupportedFeature),
        ("_INVALID_ARG", ConfigurationError),
    ],
)
def test_permanent_errors_are_mapped_to_their_class(name: str, error: type[Exception]) -> None:
    result = permanent_error(ReportedError(name, "the text"), "looking up topic orders")
    assert type(result) is error
    assert str(result).startswith("looking up topic orders: the text")


@pytest.mark.parametrize("name", sorted(errors.TRANSIENT))
def test_transient_errors_are_not_permanent(name: str) -> None:
    assert permanent_error(ReportedError(name, "x"), "asking") is None


@pytest.mark.parametrize(
    ("message", "denies_access"),
    [
        (ReportedError("_AUTHENTICATION", "Invalid username or password"), True),
        (ReportedError("_AUTHENTICATION", "handshake failed: Local: Broker transport failure"), False),
        (ReportedError("_SSL", "SSL handshake failed: certificate verify failed"), True),
        (ReportedError("_SSL", "SSL handshake failed: Disconnected"), False),
        (ReportedError("_TRANSPORT", "certificate"), False),
    ],
)
def test_lost_connection_is_not_a_denial_of_access(message: ReportedError, denies_access: bool) -> None:
    assert message.denies_access is denies_access


def test_missing_answer_is_retryable_and_has_the_reason() -> None:
    error = unavailable_error(ReportedError("_TRANSPORT", "Connection refused"), "looking up topic orders", 15.0)
    assert isinstance(error, KafkaUnavailable) and error.retryable
    assert "Connection refused" in str(error) and "15 s" in str(error)
    assert "None" not in str(unavailable_error(None, "looking up", 1.0))


def test_error_names_are_those_of_the_client() -> None:
    """A name with a typing error would never match."""
    known = {KafkaError(getattr(KafkaError, name)).name() for name in dir(KafkaError) if name.isupper()}
    sets = (errors.OUT_OF_RANGE, errors.TRUNCATED, errors.DAMAGED, errors.GONE, errors.STALE, errors.TRANSIENT)
    private = (errors._FORBIDDEN, errors._UNAUTHENTICATED, errors._TOO_OLD, errors._BAD_REQUEST)
    assert {errors.END_OF_PARTITION}.union(*sets, *private) <= known
    assert not errors.TRANSIENT & errors.DAMAGED and not errors.TRANSIENT & errors.GONE
