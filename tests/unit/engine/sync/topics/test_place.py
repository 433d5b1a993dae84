"""`from = "kafka://…"`: brokers, pattern and options."""

from __future__ import annotations

import pytest

from penstock.engine.sync.job import parse_job
from penstock.engine.sync.sources import list_sources
from penstock.engine.sync.topics.place import TopicsPlace, given_columns, listed_topics, topics_place
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import ValueFormat

SOURCE = "kafka://a:9092,b:9092/shop.public.*"


def test_place_has_brokers_pattern_and_settings() -> None:
    place = topics_place(SOURCE, {"kafka.security.protocol": "SSL", "kafkaPartitioner": "any"})
    assert place.pattern == "shop.public.*" and place.value_format is ValueFormat.DEBEZIUM_JSON
    assert dict(place.access.client) == {"bootstrap.servers": "a:9092,b:9092", "security.protocol": "SSL"}
    assert not place.checks_partitions and topics_place(SOURCE, {}).checks_partitions


def test_nested_options_of_toml_are_settings() -> None:
    (entry,) = parse_job(
        f'[[sync]]\nfrom = "{SOURCE}"\nto = "duckdb:///c.db"\noptions.kafka.sasl.password = "${{env:P}}"', "f"
    )
    assert entry.options == {"kafka.sasl.password": "${env:P}"}
    assert "env:P" not in repr(entry)


@pytest.mark.parametrize(
    ("source", "options", "expected"),
    [
        ("kafka://", {}, "expected kafka://BROKER"),
        ("kafka://b:9092", {}, "expected kafka://BROKER"),
        ("kafka://b:9092/", {}, "expected kafka://BROKER"),
        ("kafka:///t", {}, "expected kafka://BROKER"),
        ("kafka://b/a/c", {}, "expected kafka://BROKER"),
        ("kafka://me:secret@b:9092/t", {}, "without user and password"),
        (SOURCE, {"where": "a > 1"}, "option where: not for topics"),
        (SOURCE, {"deadLetterPath": "/d"}, "option deadLetterPath: not for topics"),
        (SOURCE, {"kafka.bootstrap.servers": "c"}, "`from` has the brokers"),
        (SOURCE, {"kafkaValueFormat": "json"}, "expects debezium-json or debezium-avro"),
        (SOURCE, {"kafkaValueFormat": "debezium-avro"}, "schemaRegistryUrl"),
        (SOURCE, {"schemaRegistryUrl": "http://r"}, "schemaRegistryUrl"),
        (SOURCE, {"kafkaPartitioner": "crc32"}, "kafkaPartitioner=crc32: expected java"),
    ],
)
def test_what_does_not_fit_is_refused(source: str, options: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected) as refused:
        topics_place(source, options)
    assert "secret" not in str(refused.value)


def test_listing_has_topics_of_the_pattern_without_internal_ones() -> None:
    def names(place: TopicsPlace) -> list[str]:
        return ["shop.public.b", "__shop.public.x", "shop.public.a", "other.public.c"]

    listed = listed_topics(SOURCE, {}, names)
    assert [(one.name, one.path) for one in listed] == [
        ("shop.public.a", "kafka://a:9092,b:9092/shop.public.a"),
        ("shop.public.b", "kafka://a:9092,b:9092/shop.public.b"),
    ]
    assert [one.name for one in listed_topics("kafka://a:9092/*", {}, names)][-1] == "shop.public.b"


def test_table_has_the_last_part_of_the_name_and_the_source_no_brokers() -> None:
    (entry,) = parse_job(f'[[sync]]\nfrom = "{SOURCE}"\nto = "duckdb:///c.db"', "f")
    (source,) = list_sources(
        [entry], lambda place, options: listed_topics(place, options, lambda of: ["shop.public.a"])
    ).tables
    assert source.target_table == "a" and source.source == "kafka:shop.public.a"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('columns.id = "int64"', "with the events' `key`"),
        ('columns.id = "int64"\nkey = "other"', "key other: expected some of the columns"),
        ('columns.id = "int"\nkey = "id"', "got type 'int'"),
        (
            'columns.id = "int64"\nkey = "id"\noptions.kafkaValueFormat = "debezium-avro"\n'
            'options.schemaRegistryUrl = "http://r"',
            "for debezium-json without schemas",
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused(lines: str, expected: str) -> None:
    (entry,) = parse_job(f'[[sync]]\nfrom = "{SOURCE}"\nto = "duckdb:///c.db"\n{lines}', "f")
    with pytest.raises(ConfigurationError, match=expected):
        given_columns(entry, topics_place(entry.source, entry.options))
    good = parse_job(f'[[sync]]\nfrom = "{SOURCE}"\nto = "duckdb:///c.db"\ncolumns.id = "int64"\nkey = "id"', "f")[0]
    assert list(given_columns(good, topics_place(good.source, good.options))) == ["id"]


def test_columns_of_a_table_are_its_own() -> None:
    for lines, expected in (('columns.id = "int64"', "only topics need them"), ("columns = 1", "names and types")):
        with pytest.raises(ConfigurationError, match=expected):
            parse_job(f'[[sync]]\nfrom = "/lake/*"\nto = "duckdb:///c.db"\n{lines}', "f")
