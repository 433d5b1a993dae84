"""`then` of a job: the topic of each table, and which options are for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.engine.sync.feeds import Feeds
from penstock.engine.sync.topics.table_then_topic import TableThenTopicFeed
from penstock.engine.sync.topics.then import table_options, then_topic
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import HybridMode, ValueFormat
from tests.unit.engine.sync.topics.tables_then_topics import entry_of, source_of

OPTIONS = """
options.maxBytesPerTrigger = 1000
options.kafka.security.protocol = "SSL"
options.kafka.enable.ssl.certificate.verification = false
options.kafkaPartitioner = "any"
options.kafkaValueFormat = "debezium-avro"
options.schemaRegistryUrl = "http://user:secret@registry:8081"
options.kafkaCheckpoint = "/jobs/t"
options.othersReadOtherTopics = true
"""


def test_options_are_those_of_the_table_or_of_the_topic() -> None:
    entry = entry_of(OPTIONS)
    then = then_topic(entry, "t")
    assert table_options(entry) == {"maxBytesPerTrigger": 1000}
    assert (then.topic, then.place.value_format) == (
        "t",
        ValueFormat.DEBEZIUM_AVRO,
    ) and not then.place.checks_partitions
    client = dict(then.place.access.client)
    assert client["bootstrap.servers"] == "b:9092" and client["security.protocol"] == "SSL"
    assert client["enable.ssl.certificate.verification"] == "false"
    hybrid = then.hybrid
    assert (hybrid.mode, hybrid.topic, hybrid.value_format) == (HybridMode.CHANGELOG, "t", ValueFormat.DEBEZIUM_AVRO)
    assert hybrid.access.client == then.place.access.client and hybrid.fail_on_data_loss
    assert hybrid.rules.checkpoints == (("", "/jobs/t"),) and hybrid.rules.others_elsewhere
    assert "secret" not in f"{then!r}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('options.kafkaStartingGroup = "g"', "not for a sync"),
        ("options.kafkaStartingTimestamp = 5", "not for a sync"),
        ('options.deadLetterPath = "/x"', "not for a sync"),
        ('options.kafkaOffsetsKey = "k"', "give both"),
        ('options.kafkaValueFormat = "avro"', "expects debezium-json or debezium-avro"),
        ('options.kafka.bootstrap.servers = "c:1"', "has the brokers"),
        ('options.after = "earliest"', "not for a sync"),
        ('columns = {id = "int64"}', "columns: .*key"),
    ],
)
def test_options_that_do_not_fit_are_refused(text: str, expected: str) -> None:
    feeds = Feeds()
    with pytest.raises(ConfigurationError, match=expected):
        feeds.of(source_of(entry_of(text)))
    feeds.close()


def test_topic_without_a_name_is_that_of_the_only_table() -> None:
    entry = replace(entry_of(), then="kafka://b:9092/shop.orders")
    assert then_topic(entry, "t").topic == then_topic(entry, "t").hybrid.topic == "shop.orders"


def test_feeds_open_both_with_one_consumer() -> None:
    entry, feeds = entry_of('key = "id"\ncolumns = {id = "int64"}\nwithout = ["x"]\n'), Feeds()
    ones = [feeds.of(source_of(entry, f"/lake/{name}", name)) for name in ("a", "b")]
    assert all(isinstance(one, TableThenTopicFeed) for one in ones) and len(feeds._consumers) == 1
    feeds.close()


@pytest.mark.parametrize("name", ["a/b", "a b", "ä", "x" * 300])
def test_name_that_no_topic_has_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError):
        then_topic(entry_of(), name)
