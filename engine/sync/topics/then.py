"""The topic in which the copy of a table continues (`then` of a job), and which options are for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.engine.requests.hybrid import hybrid_of
from penstock.engine.sync.job import NAME, SyncEntry
from penstock.engine.sync.topics.place import SCHEME, TOPIC_OPTIONS, TopicsPlace, topics_place
from penstock.proto.errors import ConfigurationError, InvariantViolation
from penstock.proto.model.hybrid import Hybrid, HybridMode
from penstock.proto.options.kafka import BROKERS, TOPIC, is_client_setting
from penstock.proto.options.registry import EntryPoint, parse_options

_RULES: Final = ("kafkaOffsetsKey", "kafkaOffsetsFormat", "kafkaCheckpoint", "othersReadOtherTopics")
"""The options that say where the commits have their offsets. Those that give offsets are not exact."""


@dataclass(frozen=True, slots=True)
class ThenTopic:
    """The topic of one table."""

    topic: str
    """Its name."""
    place: TopicsPlace
    """How it is read."""
    hybrid: Hybrid
    """How the enumerator resolves the offsets at which the table ends."""


def then_topic(entry: SyncEntry, name: str) -> ThenTopic:
    """The topic of the source with this name. ConfigurationError for options that do not fit."""
    url = entry.then.replace(NAME, name)
    own = {key: value for key, value in entry.options.items() if _is_of_topic(key)}
    try:
        place = topics_place(url, {key: value for key, value in own.items() if key not in _RULES})
    except ConfigurationError as error:
        raise ConfigurationError(f"then, for source {name}: {str(error).removeprefix('from: ')}") from None
    brokers = url.removeprefix(SCHEME).partition("/")[0]
    kept = {key: value for key, value in own.items() if key in _RULES or is_client_setting(key)}
    if "server" in entry.options:
        kept["server"] = entry.options["server"]
    texts = {key: str(value).lower() if isinstance(value, bool) else value for key, value in kept.items()}
    given = {
        **texts,
        "hybrid": HybridMode.CHANGELOG.value,
        "kafkaValueFormat": place.value_format.value,
        **({"schemaRegistryUrl": place.access.registry_url} if place.access.registry_url else {}),
        TOPIC: place.pattern,
        BROKERS: brokers,
    }
    hybrid = hybrid_of(parse_options(given, entry_point=EntryPoint.STREAM, environment={}), EntryPoint.STREAM)
    if hybrid is None:
        raise InvariantViolation("options with `hybrid` give no hybrid read")
    return ThenTopic(place.pattern, place, hybrid)


def table_options(entry: SyncEntry) -> dict[str, str | bool | int]:
    """The options of an entry with `then` that are for the table."""
    return {key: value for key, value in entry.options.items() if not _is_of_topic(key)}


def _is_of_topic(name: str) -> bool:
    return is_client_setting(name) or name in TOPIC_OPTIONS or name in _RULES
