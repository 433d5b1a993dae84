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
def test_what_asking_again_cannot_mend(name: str, error: type[Exception]) -> None:
    found = permanent_error(ReportedError(name, "the text"), "looking up topic orders")
    assert type(found) is error
    assert str(found).startswith("looking up topic orders: the text")


@pytest.mark.parametrize("name", sorted(errors.TRANSIENT))
def test_what_passes_is_no_error_yet(name: str) -> None:
    assert permanent_error(ReportedError(name, "x"), "asking") is None


@pytest.mark.parametrize(
    ("said", "denies_access"),
    [
        (ReportedError("_AUTHENTICATION", "Invalid username or password"), True),
        (ReportedError("_AUTHENTICATION", "handshake failed: Local: Broker transport failure"), False),
        (ReportedError("_SSL", "SSL handshake failed: certificate verify failed"), True),
        (ReportedError("_SSL", "SSL handshake failed: Disconnected"), False),
        (ReportedError("_TRANSPORT", "certificate"), False),
    ],
)
def test_a_broken_line_denies_nobody(said: ReportedError, denies_access: bool) -> None:
    assert said.denies_access is denies_access


def test_no_answer_says_why_and_may_be_asked_again() -> None:
    error = unavailable_error(ReportedError("_TRANSPORT", "Connection refused"), "looking up topic orders", 15.0)
    assert isinstance(error, KafkaUnavailable) and error.retryable
    assert "Connection refused" in str(error) and "15 s" in str(error)
    assert "None" not in str(unavailable_error(None, "looking up", 1.0))


def test_every_name_is_one_of_the_clients() -> None:
    """A name with a typing error would never match."""
    known = {KafkaError(getattr(KafkaError, name)).name() for name in dir(KafkaError) if name.isupper()}
    sets = (errors.OUT_OF_RANGE, errors.TRUNCATED, errors.DAMAGED, errors.GONE, errors.STALE, errors.TRANSIENT)
    private = (errors._FORBIDDEN, errors._UNAUTHENTICATED, errors._TOO_OLD, errors._BAD_REQUEST)
    assert {errors.END_OF_PARTITION}.union(*sets, *private) <= known
    assert not errors.TRANSIENT & errors.DAMAGED and not errors.TRANSIENT & errors.GONE
