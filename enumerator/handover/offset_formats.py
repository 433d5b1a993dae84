"""Parsers of the texts in which writers store offsets. Strict and bounded: any other text is refused.

Pure. Sources: Hudi `KafkaOffsetGen.CheckpointUtils` (Streamer), `ConnectTransactionCoordinator`, `StreamerUtil` and its
tests (Flink), `HoodieStreamingSink` (Spark's sink), Spark `OffsetSeqLog` and `JsonUtils`. Each function raises
MalformedOffsets alone. `commit_offsets` says which key holds which text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from penstock.enumerator.handover.offsets import MAX_PARTITIONS, MalformedOffsets, OffsetMap, check_topic, number
from penstock.proto.codec.hybrid.places_json import place_from_json
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import Phase

MAX_CHARS: Final = 4 << 20
"""Longest text that is parsed, in characters."""
MAX_TOPICS: Final = 1_000
MAX_IDENTIFIER_CHARS: Final = 500
NO_TOPICS: Final = "{}"
"""The offsets of a query that reads no topic."""

_FLINK_PREFIX: Final = "kafka_metadata%3A"
_FLINK_CLUSTER: Final = "kafka_cluster%3A"
_DIGITS = re.compile(r"[0-9]+")


class Format(StrEnum):
    """Formats of a value: `topic,0:1`, `0=1`, Flink's entries, a Spark sink's batch, `{"topic":{"0":1}}`."""

    STREAMER = "streamer"
    CONNECT = "connect"
    FLINK = "flink"
    SPARK = "spark"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class NotKafka:
    """A Streamer's position in a source that is not Kafka: a bare number (files' times, instants of another table)."""


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """A batch of a Spark query, whose offsets are in the query's checkpoint."""

    identifier: str
    """The identifier of the query's sink."""
    batch_id: int
    """The id of the batch."""


def parse_streamer(text: str) -> OffsetMap | NotKafka:
    """`topic,0:123,1:456`: the topic ends at the first comma. Spaces around the parts are ignored."""
    trimmed = _bounded(text).strip(" ")
    if _DIGITS.fullmatch(trimmed):
        return NotKafka()
    topic, comma, rest = trimmed.partition(",")
    if not comma:
        raise MalformedOffsets(f"got {trimmed[:80]!r}, expected topic,partition:offset,…")
    return OffsetMap(check_topic(topic.strip(" ")), _pairs(rest, ",", ":"))


def parse_starting_offsets(text: str, topic: str) -> OffsetMap:
    """An explicit map, `{"topic":{"0":123}}` or `topic,0:123`, of `topic`; with '' of its only topic."""
    maps = parse_topics(text) if text.lstrip().startswith("{") else (parse_streamer(text),)
    matches = [item for item in maps if not isinstance(item, NotKafka) and topic in ("", item.topic)]
    if len(matches) != 1:
        raise MalformedOffsets(f"got {text[:200]!r}, expected the offsets of {topic or 'one topic'}")
    return matches[0]


def parse_connect(text: str, topic: str) -> OffsetMap:
    """`0=123,1=456`, which names no topic."""
    return OffsetMap(topic, _pairs(_bounded(text), ",", "="))


def parse_flink(text: str) -> OffsetMap | None:
    """`kafka_metadata%3Atopic%3A0:100;…`; None if the text is empty or holds only the cluster's entry."""
    trimmed = _bounded(text).strip(" ").removesuffix(";")
    offsets: list[tuple[int, int]] = []
    topics: set[str] = set()
    for entry in _split(trimmed, ";") if trimmed else []:
        head = entry.strip(" ")
        if not head.startswith(_FLINK_PREFIX):
            raise MalformedOffsets(f"got {head[:80]!r}, expected {_FLINK_PREFIX}topic%3Apartition:offset")
        named = head.removeprefix(_FLINK_PREFIX)
        if named.startswith(_FLINK_CLUSTER) and "%3A:" in named.removeprefix(_FLINK_CLUSTER):
            continue
        left, colon, offset = named.rpartition(":")
        topic, mark, partition = left.rpartition("%3A")
        if not (colon and mark):
            raise MalformedOffsets(f"got {head[:80]!r}, expected {_FLINK_PREFIX}topic%3Apartition:offset")
        topics.add(check_topic(topic))
        offsets.append((number(partition, "partition"), number(offset, "offset")))
    if not offsets:
        return None
    if len(topics) > 1:
        raise MalformedOffsets(f"got topics {', '.join(sorted(topics)[:5])}, expected one")
    return OffsetMap(topics.pop(), tuple(offsets))


def parse_sink(text: str) -> tuple[SinkBatch, ...]:
    """`{"<identifier>":"<batch id>"}`, by identifier; at least one."""
    batch_ids = _object(_json(text), "a JSON object of batch ids")
    if not 1 <= len(batch_ids) <= MAX_TOPICS:
        raise MalformedOffsets(f"got {len(batch_ids)} writers, expected 1 to {MAX_TOPICS}")
    batches = []
    for identifier, batch in sorted(batch_ids.items()):
        if not (1 <= len(identifier) <= MAX_IDENTIFIER_CHARS and identifier.isprintable()):
            raise MalformedOffsets(f"got writer {identifier[:80]!r}, expected a printable name")
        if not isinstance(batch, str):
            raise MalformedOffsets(f"writer {identifier[:80]}: got {str(batch)[:80]!r}, expected a batch id in quotes")
        batches.append(SinkBatch(identifier, number(batch, "batch id")))
    return tuple(batches)


def parse_topics(text: str) -> tuple[OffsetMap, ...]:
    """`{"topic":{"0":123}}`, as in Spark's offsets and in an explicit map; by topic, at least one."""
    maps = _topics(_json(text))
    if not maps:
        raise MalformedOffsets("got no topic, expected at least one")
    return maps


def parse_offset_log(text: str) -> tuple[OffsetMap, ...]:
    """The topic offsets in a file `offsets/<batch id>` of a Spark query's checkpoint, by topic; () without any.

    They are those of Spark's Kafka source, and those of a hybrid stream of Penstock that reads its topic."""
    by_topic: dict[str, OffsetMap] = {}
    for value in parse_source_offsets(text):
        for item in _source_offsets(value):
            if item.topic in by_topic:
                raise MalformedOffsets(f"topic {item.topic}: two sources of the query read it")
            by_topic[item.topic] = item
    return tuple(by_topic[topic] for topic in sorted(by_topic))


def parse_source_offsets(text: str) -> list[Any]:
    """The JSON of the offset of each source in a file `offsets/<batch id>`, in the order of the sources; None for one
    without an offset.

    Line 1 is `v1`, line 2 the batch's own metadata, then a line a source: `-` for one without an offset, else its JSON.
    """
    lines = _bounded(text).rstrip("\n").split("\n")
    if lines[0].strip() != "v1" or len(lines) < 3 or len(lines) > MAX_TOPICS:
        raise MalformedOffsets(f"got {len(lines)} lines, the first {lines[0][:20]!r}, expected v1, metadata, sources")
    _object(_json(lines[1]), "a JSON object of the batch's metadata")
    return [None if line.strip() == "-" else _json(line) for line in lines[2:]]


def format_topics(maps: Iterable[OffsetMap]) -> str:
    """The text that `parse_topics` parses; NO_TOPICS without a topic."""
    topics = {item.topic: {str(partition): offset for partition, offset in item.offsets} for item in maps}
    return json.dumps(topics, separators=(",", ":"), sort_keys=True)


def _source_offsets(value: Any) -> tuple[OffsetMap, ...]:
    if _is_kafka(value):
        return _topics(value)
    if isinstance(value, dict) and value.get("phase") == Phase.KAFKA.value and "kafka" in value:
        try:
            place = place_from_json("the offset of a hybrid stream", "kafka", Phase.KAFKA.value, value["kafka"])
        except ConfigurationError as error:
            raise MalformedOffsets(str(error)) from None
        return (OffsetMap(place.topic, tuple((item.partition, item.next) for item in place.progress)),)
    return ()


def _is_kafka(value: Any) -> bool:
    """Whether a source's offset has the shape that Spark's Kafka source alone writes."""
    if not isinstance(value, dict) or not value:
        return False
    return all(isinstance(item, dict) and all(_DIGITS.fullmatch(key) for key in item) for item in value.values())


def _topics(value: Any) -> tuple[OffsetMap, ...]:
    expected = "a JSON object of topics"
    topics = _object(value, expected)
    if len(topics) > MAX_TOPICS:
        raise MalformedOffsets(f"got {len(topics)} topics, at most {MAX_TOPICS}")
    maps = []
    for topic, partitions in sorted(topics.items()):
        numbers = []
        for partition, offset in _object(partitions, f"partitions of topic {topic[:80]!r}").items():
            if type(offset) is not int:
                raise MalformedOffsets(
                    f"topic {topic[:80]!r}: got offset {str(offset)[:40]!r}, expected a whole number"
                )
            numbers.append((number(partition, "partition"), offset))
        maps.append(OffsetMap(topic, tuple(numbers)))
    return tuple(maps)


def _pairs(text: str, between: str, within: str) -> tuple[tuple[int, int], ...]:
    numbers = []
    for pair in _split(text, between):
        partition, mark, offset = pair.partition(within)
        if not mark:
            raise MalformedOffsets(f"got {pair[:80]!r}, expected partition{within}offset")
        numbers.append((number(partition, "partition"), number(offset, "offset")))
    return tuple(numbers)


def _split(text: str, between: str) -> list[str]:
    if text.count(between) > MAX_PARTITIONS:
        raise MalformedOffsets(f"got {text.count(between) + 1} parts, at most {MAX_PARTITIONS} partitions are read")
    return text.split(between)


def _bounded(text: str) -> str:
    if len(text) > MAX_CHARS:
        raise MalformedOffsets(f"got a text of {len(text)} characters, at most {MAX_CHARS} are read")
    return text


def _json(text: str) -> Any:
    try:
        return json.loads(_bounded(text), object_pairs_hook=_unique_names, parse_constant=_no_number)
    except MalformedOffsets:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedOffsets(f"got {text[:80]!r}, expected JSON ({str(error)[:100]})") from None


def _object(value: Any, expected: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedOffsets(f"got {str(value)[:80]!r}, expected {expected}")
    return value


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise MalformedOffsets("a name occurs twice in one JSON object")
    return members


def _no_number(text: str) -> Any:
    raise MalformedOffsets(f"got {text}, which is no JSON number")
