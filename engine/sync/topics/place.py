"""The topics that an entry of a job names, and how they are read. Pure but for listing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from penstock.engine.sync.job import SyncEntry
from penstock.engine.sync.topics.connect_types import ConnectType, given_type
from penstock.enumerator.catalog.adapter import ListedTable
from penstock.kafka.secrets import with_secrets
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import KafkaAccess, ValueFormat
from penstock.proto.options.kafka import BROKERS, is_client_setting
from penstock.proto.options.registry import EntryPoint, parse_options

SCHEME: Final = "kafka://"
_BOOTSTRAP: Final = "bootstrap.servers"
_FORMAT: Final = "kafkaValueFormat"
_PARTITIONER: Final = "kafkaPartitioner"
TOPIC_OPTIONS: Final = (_FORMAT, "schemaRegistryUrl", _PARTITIONER)
"""The options of topics beside the settings of the client."""
_FORMATS: Final = (ValueFormat.DEBEZIUM_JSON, ValueFormat.DEBEZIUM_AVRO)


@dataclass(frozen=True, slots=True)
class TopicsPlace:
    """Brokers, topics and the format of their records."""

    pattern: str
    """A shell pattern of names of topics."""
    value_format: ValueFormat
    """Debezium's events as JSON or Avro."""
    access: KafkaAccess = field(repr=False)
    """The access; references to secrets are not resolved."""
    checks_partitions: bool = True
    """Whether each record must be in the partition that Java's default partitioner selects."""


def is_topics(source: str) -> bool:
    """Whether a `from` names topics."""
    return source.startswith(SCHEME)


def topics_place(source: str, options: Mapping[str, object]) -> TopicsPlace:
    """The topics of `from = "kafka://BROKER[,BROKER]/PATTERN"`. ConfigurationError for anything else, for options that
    are not for topics, and for Avro without a registry; the text shows no setting."""
    brokers, slash, pattern = source.removeprefix(SCHEME).partition("/")
    if not brokers or not slash or not pattern or "/" in pattern or "@" in brokers:
        raise ConfigurationError(
            "from: expected kafka://BROKER:PORT[,BROKER:PORT]/PATTERN of topics, without user and password; these are "
            "options (kafka.sasl.username)"
        )
    for name in options:
        if not is_client_setting(name) and name not in TOPIC_OPTIONS:
            raise ConfigurationError(
                f"option {name}: not for topics; expected kafka.* or one of {', '.join(TOPIC_OPTIONS)}"
            )
        if name.casefold() == BROKERS:
            raise ConfigurationError(f"option {BROKERS}: `from` has the brokers; leave it out")
    partitioner = options.get(_PARTITIONER, "java")
    if partitioner not in ("java", "any"):
        raise ConfigurationError(f"{_PARTITIONER}={partitioner}: expected java (murmur2 of the key) or any")
    texts = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in options.items()
        if name != _PARTITIONER
    }
    given = {_FORMAT: ValueFormat.DEBEZIUM_JSON.value, **texts, BROKERS: brokers}
    parsed = parse_options(given, entry_point=EntryPoint.STREAM, environment={})
    form = ValueFormat(parsed.kafka_value_format)
    if form not in _FORMATS:
        raise ConfigurationError(f"{_FORMAT}={form.value}: a sync expects {' or '.join(one.value for one in _FORMATS)}")
    if (form is ValueFormat.DEBEZIUM_AVRO) != bool(parsed.schema_registry_url):
        raise ConfigurationError(f"schemaRegistryUrl belongs to {_FORMAT}=debezium-avro: give both, or none")
    access = KafkaAccess(client=parsed.kafka, registry_url=parsed.schema_registry_url)
    return TopicsPlace(pattern, form, access, partitioner == "java")


def given_columns(entry: SyncEntry, place: TopicsPlace) -> dict[str, ConnectType]:
    """The columns of an entry with JSON without schemas. ConfigurationError for unknown types, without a key that
    consists of columns, and for Avro."""
    where = f"from {entry.source.rpartition('/')[2]}"
    columns = {name: given_type(kind, where) for name, kind in entry.columns.items()}
    if columns and (place.value_format is not ValueFormat.DEBEZIUM_JSON or not entry.key):
        raise ConfigurationError(f"{where}: columns: for debezium-json without schemas, and with the events' `key`")
    if columns and not set(entry.key) <= set(columns):
        raise ConfigurationError(f"{where}: key {', '.join(entry.key)}: expected some of the columns")
    return columns


def listed_topics(
    source: str, options: Mapping[str, object], list_names: Callable[[TopicsPlace], Iterable[str]]
) -> list[ListedTable]:
    """The topics of a `from`, by name, without Kafka's own."""
    place = topics_place(source, options)
    names = sorted(name for name in list_names(place) if fnmatchcase(name, place.pattern) and not name.startswith("__"))
    brokers = source.rpartition("/")[0]
    return [ListedTable(name, f"{brokers}/{name}") for name in names]


def topic_names(place: TopicsPlace) -> list[str]:
    """The names of all topics of the brokers."""
    from penstock.kafka.topic_metadata import topics_of

    return topics_of(with_secrets(place.access).client).names()
