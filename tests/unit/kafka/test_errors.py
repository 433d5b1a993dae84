"""The client's errors by name, as errors of the tree."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from penstock.kafka import errors
from penstock.kafka.errors import Said, lasting, unavailable
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
    found = lasting(Said(name, "the text"), "looking up topic orders")
    assert type(found) is error
    assert str(found).startswith("looking up topic orders: the text")


@pytest.mark.parametrize("name", sorted(errors.PASSING))
def test_what_passes_is_no_error_yet(name: str) -> None:
    assert lasting(Said(name, "x"), "asking") is None


@pytest.mark.parametrize(
    ("said", "denies"),
    [
        (Said("_AUTHENTICATION", "Invalid username or password"), True),
        (Said("_AUTHENTICATION", "handshake failed: Local: Broker transport failure"), False),
        (Said("_SSL", "SSL handshake failed: certificate verify failed"), True),
        (Said("_SSL", "SSL handshake failed: Disconnected"), False),
        (Said("_TRANSPORT", "certificate"), False),
    ],
)
def test_a_broken_line_denies_nobody(said: Said, denies: bool) -> None:
    assert said.denies is denies


def test_no_answer_says_why_and_may_be_asked_again() -> None:
    error = unavailable(Said("_TRANSPORT", "Connection refused"), "looking up topic orders", 15.0)
    assert isinstance(error, KafkaUnavailable) and error.retryable
    assert "Connection refused" in str(error) and "15 s" in str(error)
    assert "None" not in str(unavailable(None, "looking up", 1.0))


def test_every_name_is_one_of_the_clients() -> None:
    """A name with a typing error would never match."""
    known = {KafkaError(getattr(KafkaError, name)).name() for name in dir(KafkaError) if name.isupper()}
    sets = (errors.OUT_OF_RANGE, errors.CUT_BACK, errors.DAMAGED, errors.GONE, errors.STALE, errors.PASSING)
    private = (errors._FORBIDDEN, errors._NOT_KNOWN, errors._TOO_OLD, errors._BAD_REQUEST)
    assert {errors.END_OF_PARTITION}.union(*sets, *private) <= known
    assert not errors.PASSING & errors.DAMAGED and not errors.PASSING & errors.GONE
