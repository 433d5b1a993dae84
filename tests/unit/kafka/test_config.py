"""Settings of clients: forced, filled in, refused; and never a value in a text."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from penstock.kafka.client import ErrorLog, new_admin_client, new_consumer
from penstock.kafka.config import (
    FORCED,
    MAX_SETTINGS,
    admin_config,
    checked_settings,
    consumer_config,
    redacted,
    rejected_settings,
)
from penstock.kafka.topic_metadata import KafkaTopics
from penstock.proto.errors import ConfigurationError

SERVERS = ("bootstrap.servers", "broker:9092")


def test_reader_gets_what_exact_reading_needs() -> None:
    config = consumer_config((SERVERS,), "an-id")
    assert config.items() >= FORCED.items()
    assert FORCED.keys() == {
        "allow.auto.create.topics",
        "auto.offset.reset",
        "check.crcs",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
    }
    assert config["auto.offset.reset"] == "error"
    assert config["isolation.level"] == "read_committed"
    assert config["group.id"] == "an-id"
    assert config["bootstrap.servers"] == "broker:9092"


def test_settings_of_the_user_override_defaults_that_are_not_forced() -> None:
    value = (
        SERVERS,
        ("group.id", "theirs"),
        ("isolation.level", "read_uncommitted"),
        ("fetch.max.bytes", "1000000"),
        ("sasl.password", "x"),
    )
    config = consumer_config(value, "ours")
    assert config.items() >= dict(value).items()
    assert config["queued.max.messages.kbytes"] == "16384"


def test_admin_client_has_no_settings_of_a_reader() -> None:
    config = admin_config((SERVERS, ("isolation.level", "read_uncommitted"), ("client.id", "me")))
    assert config["client.id"] == "me"
    assert not config.keys() & {*FORCED, "isolation.level", "group.id", "fetch.max.bytes"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable.auto.commit", "true"),
        ("auto.commit.enable", "true"),
        ("enable.auto.offset.store", "1"),
        ("enable.partition.eof", "false"),
        ("auto.offset.reset", "earliest"),
        ("auto.offset.reset", "latest"),
        ("allow.auto.create.topics", "true"),
        ("check.crcs", "false"),
    ],
)
def test_row_05_setting_against_a_forced_one_is_refused_by_name(name: str, value: str) -> None:
    """The client's own reset would jump without a word: it cannot be asked for."""
    with pytest.raises(ConfigurationError, match=f"kafka.{name}") as caught:
        checked_settings((SERVERS, (name, value)))
    assert value not in str(caught.value).replace("must be true", "").replace("must be false", "")


@pytest.mark.parametrize(
    ("name", "value"), [("enable.auto.commit", "FALSE"), ("enable.partition.eof", "1"), ("auto.offset.reset", "error")]
)
def test_forced_setting_may_be_repeated(name: str, value: str) -> None:
    assert consumer_config((SERVERS, (name, value)), "id")[name] == FORCED[name]


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ((), "kafka.bootstrap.servers"),
        ((("bootstrap.servers", " "),), "kafka.bootstrap.servers"),
        ((SERVERS, SERVERS), "twice"),
        ((SERVERS, ("metadata.broker.list", "other:1")), "twice"),
        ((SERVERS, ("isolation.level", "serializable")), "kafka.isolation.level"),
        ((SERVERS, ("Bad Name", "x")), "Bad Name"),
        ((SERVERS, ("a" * 1000, "x")), "expected letters"),
        ((SERVERS, ("sasl.password", "p" * 100_000)), "100000 characters"),
        ((SERVERS, ("sasl.password", "p\0")), "NUL"),
        (tuple((f"a{number}", "x") for number in range(MAX_SETTINGS + 1)), "at most 200"),
    ],
)
def test_settings_are_bounded_and_checked(client: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        checked_settings(client)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("security.protocol", "hunter22"),
        ("no.such.setting", "hunter22"),
        ("socket.timeout.ms", "99999999"),
        ("sasl.jaas.config", "hunter22"),
        ("ssl.ca.location", "hunter22"),
        ("error.cb", "hunter22"),
    ],
)
@pytest.mark.parametrize("new", [new_consumer, new_admin_client])
def test_refusal_of_the_client_names_the_setting_only(new: Any, name: str, value: str) -> None:
    settings = {"bootstrap.servers": "broker:9092", "group.id": "g", "security.protocol": "ssl", name: value}
    with pytest.raises(ConfigurationError, match=f"kafka.{name}") as caught:
        new(settings, ErrorLog(settings))
    assert value not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_refusal_without_a_name_lists_the_given_settings() -> None:
    assert "kafka.b" in str(rejected_settings("odd", {"kafka.b": "secret"}))


def test_secrets_are_removed_from_the_text_of_a_broker() -> None:
    settings = {
        "sasl.username": "alice",
        "sasl.password": "alice-pw",
        "security.protocol": "sasl_ssl",
        "ssl.key.pem": "",
    }
    text = redacted("sasl_ssl://b:1: alice-pw of alice is wrong", settings)
    assert text == "sasl_ssl://b:1: <kafka.sasl.password> of <kafka.sasl.username> is wrong"


def test_missing_package_is_an_error_with_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    result = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("confluent_kafka"):
            raise ImportError(name)
        return result(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigurationError, match=r"pip install 'penstock\[kafka\]'"):
        KafkaTopics((SERVERS,)).describe("orders")
