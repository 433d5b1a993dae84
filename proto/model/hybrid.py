"""Hybrid reads: the table (the lake) up to a hand-over instant, then the topic that fills it, from the next offset.

A hybrid read goes through the phases LAKE, SWITCHING and KAFKA, never back. In the lake its progress has no
`KafkaPlace`. SWITCHING: the offsets are fixed and stored, and nothing of the topic is read. KAFKA: ranges of the topic
are read. Positions after the hand-over have order keys above those of all instants (`kafka_position`). The hand-over is
resolved in `penstock.enumerator.handover`.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.value_classes import dataclass

ClientConfig = tuple[tuple[str, str], ...]
"""Settings of a Kafka client: (name, value) pairs, sorted by name."""

MAX_OFFSET: Final = 2**63 - 1
MAX_PARTITIONS: Final = 100_000

_ABOVE_INSTANTS: Final = "99"


class HybridMode(StrEnum):
    """What the records of the topic become."""

    CHANGELOG = "changelog"
    """The lake's rows as `+I`, then records by key as `+U` and `-D`, in the format of changes as rows."""
    APPEND = "append"
    """Rows: one per record; a record without a value has no row."""


class ValueFormat(StrEnum):
    """The format of record values."""

    JSON = "json"
    """A JSON object of the table's columns."""
    AVRO = "avro"
    """Avro with the id of a schema registry in front (Confluent)."""
    DEBEZIUM_JSON = "debezium-json"
    """Debezium's envelope in JSON."""
    DEBEZIUM_AVRO = "debezium-avro"
    """Debezium's envelope in Avro, with the id of a schema registry in front."""


class Phase(StrEnum):
    """The phase of a hybrid read after the lake."""

    SWITCHING = "switching"
    """The offsets are fixed and stored; nothing of the topic is read."""
    KAFKA = "kafka"
    """Ranges of the topic are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaAccess:
    """A process's access to brokers and schema registry. May contain secrets: never shown, compared, stored or sent."""

    client: ClientConfig = field(default=(), repr=False)
    """Settings of the Kafka client."""
    registry_url: str = field(default="", repr=False)
    """The URL of the schema registry, or ''."""
    dead_letter: str = field(default="", repr=False)
    """A folder (path or URI) for records that cannot be decoded; '': such a record is an error."""
    checkpoints: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """`HandOverRules.checkpoints` of a server's configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverRules:
    """How a user locates the offsets if the commits do not contain them (docs/reference/hybrid.md)."""

    key: str = ""
    """A key of commit metadata that contains offsets, or ''."""
    key_format: str = ""
    """The format of the value under `key`."""
    checkpoints: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """(writer's id or '', checkpoint folder) of the Spark queries that fill the table."""
    others_elsewhere: bool = False
    """Whether commits without known offsets do not read the topic."""
    group: str = ""
    """The writer's consumer group, used if no commit has offsets; or ''."""
    timestamp_ms: int | None = None
    """The time since 1970 UTC from which records are read if neither a commit nor the group has offsets."""
    starting_offsets: str = ""
    """The offsets, as text, that are used if nothing else has offsets; or ''."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    """The topic in which a read continues after the table."""

    mode: HybridMode
    """What records become."""
    topic: str
    """The topic's name."""
    value_format: ValueFormat = ValueFormat.JSON
    """The format of record values."""
    rules: HandOverRules = HandOverRules()
    """How offsets are located if the commits do not contain them."""
    fail_on_data_loss: bool = True
    """Whether the read stops if the next offset of a partition has expired; else it continues at the start of the log
    and counts the loss."""
    access: KafkaAccess = field(default=KafkaAccess(), compare=False, repr=False)
    """The access to brokers and schema registry."""


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """The progress in one partition."""

    partition: int
    """The partition's number."""
    next: int
    """The next offset to read."""
    high_us: int | None = None
    """The highest event time read so far, in UTC microseconds; None: none yet."""
    behind: int = 0
    """The lag: offsets from `next` to the end of the log when this was planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaPlace:
    """The progress in the topic, after the hand-over."""

    phase: Phase
    """The phase."""
    topic: str
    """The topic's name."""
    topic_id: str
    """The broker's id of the topic, or ''."""
    instant: InstantTime
    """The requested time of the hand-over instant."""
    lake: Position
    """The position of the hand-over instant."""
    starts: tuple[tuple[int, int], ...]
    """(partition, first offset) at the hand-over, ascending."""
    epochs: tuple[tuple[int, int], ...] = ()
    """(partition, leader epoch) at the hand-over, ascending, for partitions with a known epoch."""
    places: tuple[PartitionPlace, ...] = ()
    """The progress in each partition, ascending. At the hand-over only the partitions that the commit lists: the others
    are at their start."""

    @property
    def progress(self) -> tuple[PartitionPlace, ...]:
        """The progress in each partition, ascending; one without a place is at its start."""
        known = {one.partition: one for one in self.places}
        starts = {number: PartitionPlace(number, start) for number, start in self.starts}
        return tuple(one for _, one in sorted({**starts, **known}.items()))

    @property
    def behind(self) -> int:
        """The lag in all partitions, in offsets, when this was planned."""
        return sum(place.behind for place in self.places)

    @property
    def position(self) -> Position:
        """The progress as a position: it grows with the offsets and is above every position of the lake."""
        begin = dict(self.starts)
        read = sum(place.next - begin.get(place.partition, 0) for place in self.places)
        return kafka_position(self.phase, read)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRange:
    """The records of a partition from `first` to `end` - 1. Compaction and transactions leave gaps."""

    topic: str
    """The topic's name."""
    topic_id: str
    """The broker's id of the topic, or ''."""
    partition: int
    """The partition's number."""
    first: int
    """The first offset."""
    end: int
    """The end, exclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecords:
    """How records of a topic become rows."""

    mode: HybridMode
    """What records become."""
    value_format: ValueFormat
    """The format of record values."""
    key_fields: tuple[str, ...] = ()
    """The columns of the record key, in the order of the key; empty if the table generates its keys."""
    fail_on_data_loss: bool = True
    """`Hybrid.fail_on_data_loss`, for offsets that expire between plan and read."""


def kafka_position(phase: Phase, read: int) -> Position:
    """The position after the hand-over at which `read` offsets of the topic are consumed."""
    if not 0 <= read <= MAX_OFFSET:
        raise ConfigurationError(f"records after the hand-over: got {read}, expected 0 to {MAX_OFFSET}")
    count = read + (1 if phase is Phase.KAFKA else 0)
    return Position(InstantTime(f"{_ABOVE_INSTANTS}{count:022d}"))


def is_after_hand_over(position: Position) -> bool:
    """Whether the position is one of `kafka_position`."""
    return len(position.order_key) == 24 and position.order_key.startswith(_ABOVE_INSTANTS)
