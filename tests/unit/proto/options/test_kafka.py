"""Settings of the Kafka client as options: every spelling is one mapping, and no error shows a value."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from penstock.proto.errors import ConfigurationError
from penstock.proto.options.kafka import fold_client_settings
from penstock.proto.options.registry import EntryPoint, option_named, parse_options
from penstock.proto.options.types import MAX_SETTINGS, ClientSettings

SECRET = "pa55-word"
SETTINGS = (("bootstrap.servers", "h:1,i:2"), ("sasl.password", SECRET))


@pytest.mark.parametrize(
    "value",
    [
        {"kafka.bootstrap.servers": "h:1,i:2", "kafka.sasl.password": SECRET},
        {"KAFKA.Bootstrap.Servers": "h:1,i:2", "kafka.SASL.password": SECRET},
        {"kafka": dict(SETTINGS)},
        {"--kafka": json.dumps(dict(SETTINGS))},
        {"kafka": {"bootstrap.servers": "h:1,i:2"}, "kafka.sasl.password": SECRET},
        {"kafka": None, "kafka.bootstrap.servers": "h:1,i:2", "kafka.sasl.password": SECRET, "kafka.x.y": None},
    ],
)
@pytest.mark.parametrize("entry_point", [EntryPoint.STREAM, EntryPoint.CONSUMER])
def test_every_spelling_is_the_same_settings(value: Mapping[str, object], entry_point: EntryPoint) -> None:
    parsed = parse_options(value, entry_point=entry_point)
    assert parsed.kafka == SETTINGS
    assert parsed.explicit == {"kafka"}
    assert parsed.kafka_topic is None
    assert SECRET not in repr(parsed)


def test_topic_is_an_option_of_its_own() -> None:
    for name in ("kafka.topic", "KAFKA.TOPIC", "kafka_topic", "kafkaTopic", "--kafka-topic"):
        parsed = parse_options({name: "orders", "kafka.client.id": "c"}, entry_point=EntryPoint.STREAM)
        assert (parsed.kafka_topic, parsed.kafka) == ("orders", (("client.id", "c"),))


def test_environment_holds_a_json_object() -> None:
    environment = {"PENSTOCK_KAFKA": json.dumps(dict(SETTINGS)), "PENSTOCK_KAFKA_TOPIC": "orders"}
    parsed = parse_options({}, entry_point=EntryPoint.CONSUMER, environment=environment)
    assert (parsed.kafka, parsed.kafka_topic) == (SETTINGS, "orders")
    assert parse_options({"kafka.client.id": "c"}, entry_point=EntryPoint.CONSUMER, environment=environment).kafka == (
        ("client.id", "c"),
    )


def test_numbers_and_truth_values_are_written_as_text() -> None:
    assert ClientSettings().parse("kafka", {"b": 1, "a": True, "c": 2.5, "d": False}) == (
        ("a", "true"),
        ("b", "1"),
        ("c", "2.5"),
        ("d", "false"),
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"kafka.a": SECRET, "KAFKA.A": SECRET}, r"option kafka\.a is given twice"),
        ({"kafka": {"a": SECRET}, "kafka.a": SECRET}, r"option kafka\.a is given twice, under its name and in kafka"),
        ({"kafka": {"a": SECRET, "A": SECRET}}, "a setting is there twice"),
        ({"kafka": f'{{"a": "{SECRET}", "a": "x"}}'}, "expected a mapping"),
        ({"kafka": SECRET}, "expected a mapping of at most 500 settings, or a JSON object"),
        ({"kafka": f'["{SECRET}"]'}, "expected a mapping"),
        ({"kafka": [SECRET]}, "expected a mapping"),
        ({"kafka": {"a": [SECRET]}}, r"setting a: expected text of at most 65536 characters and no NUL, got a list"),
        ({"kafka": {"a": SECRET + "\0"}}, "no NUL"),
        ({"kafka": {"a": SECRET * 10_000}}, "at most 65536 characters"),
        ({"kafka": {"a": SECRET + "\ud800"}}, "expected text in UTF-8"),
        ({"kafka.a b": SECRET}, "a setting named 'a b'"),
        ({"kafka.": SECRET}, "a setting named ''"),
        ({"kafka": {7: SECRET}}, "a setting named '7'"),
        ({"kafka": {"a" * 300: SECRET}}, "a setting named"),
        ({"kafka": {f"s{n}": SECRET for n in range(MAX_SETTINGS + 1)}}, "at most 500 settings"),
        ({"kafka_bootstrap_servers": SECRET}, r"unknown option 'kafka_bootstrap_servers': did you mean kafka\.boot"),
        ({"kafka": {"a": "1"}, "--KAFKA": SECRET}, "both set kafka"),
    ],
)
def test_invalid_setting_is_refused_without_its_value(value: Mapping[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as error:
        parse_options(value, entry_point=EntryPoint.STREAM)
    assert SECRET not in str(error.value)


def test_setting_is_refused_in_a_batch_by_its_given_name() -> None:
    with pytest.raises(
        ConfigurationError, match=r"option kafka\.sasl\.password does not apply here \(batch\)"
    ) as caught:
        parse_options({"kafka.sasl.password": SECRET}, entry_point=EntryPoint.BATCH)
    assert SECRET not in str(caught.value)


def test_other_options_are_unchanged() -> None:
    value = {"query": "cdc", "kafkaValueFormat": "json", "kafka.topic": "t", "hoodie.kafka.x": "y"}
    assert fold_client_settings(value) == value


def test_dotted_name_is_the_option_of_all_settings() -> None:
    option = option_named("kafka.any.thing")
    assert option is not None
    assert option is option_named("kafka")
