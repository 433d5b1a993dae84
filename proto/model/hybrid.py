"""Hybrid reads: the lake up to a hand-over instant, then the topic that fills it from the next offset. Values only.

Belongs here: what a caller asks of a hybrid read, and the place of one behind the lake. Not here: how the hand-over is
resolved (`enumerator.hybrid`), clients of Kafka (`kafka`), how it travels (`codec_hybrid`).

A hybrid read goes LAKE → SWITCHING → KAFKA, never back. While it is in the lake its progress has no `KafkaPlace`.
SWITCHING: the offsets are fixed, and stored; nothing of the topic is read. KAFKA: ranges of the topic are read.
Positions behind the lake have order keys above those of all instants (`kafka_position`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import InstantTime, Position

ClientConfig = tuple[tuple[str, str], ...]
"""Settings of a Kafka client, by name, ascending: (`bootstrap.servers`, …)."""

MAX_OFFSET: Final = 2**63 - 1
MAX_PARTITIONS: Final = 100_000

_ABOVE_INSTANTS: Final = "99"


class HybridMode(StrEnum):
    """CHANGELOG: the lake's rows as `+I`, then the topic's records by key as `+U` and `-D`, in the shape of changes as
    rows. APPEND: rows, each record one; a record without a value is none."""

    CHANGELOG = "changelog"
    APPEND = "append"


class ValueFormat(StrEnum):
    """How a record's value is written. JSON: an object of the table's columns. AVRO: with the id of a schema registry
    in front (Confluent). DEBEZIUM_*: the envelope around either."""

    JSON = "json"
    AVRO = "avro"
    DEBEZIUM_JSON = "debezium-json"
    DEBEZIUM_AVRO = "debezium-avro"


class Phase(StrEnum):
    """Where a hybrid read stands behind the lake."""

    SWITCHING = "switching"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaAccess:
    """How a process reaches brokers and registry, and where it puts what it cannot decode. May hold secrets: never
    shown, compared, stored or sent.

    `registry_url`: of a schema registry, '' for none. `dead_letter`: a folder (path or URI) for records that cannot be
    decoded; '': such a record is an error. `checkpoints`: those of `HandOverRules`, as a server's configuration names
    them.
    """

    client: ClientConfig = field(default=(), repr=False)
    registry_url: str = field(default="", repr=False)
    dead_letter: str = field(default="", repr=False)
    checkpoints: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverRules:
    """What a user adds to the commits where those do not tell the offsets (docs/reference/hybrid.md).

    `key` and `key_format`: a key of commit metadata and the form of its value. `checkpoints`: (writer's id or '',
    folder) of Spark queries that fill the table. `others_elsewhere`: commits without a known position do not read the
    topic. If no commit tells: `group`, the writer's consumer group; `timestamp_ms`; `starting_offsets`, a map as text.
    """

    key: str = ""
    key_format: str = ""
    checkpoints: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    others_elsewhere: bool = False
    group: str = ""
    timestamp_ms: int | None = None
    starting_offsets: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    """The topic that a read goes on in. `fail_on_data_loss` False: of a partition whose next offset has expired the
    read goes on where the log starts, and the loss is counted; True: it stops."""

    mode: HybridMode
    topic: str
    value_format: ValueFormat = ValueFormat.JSON
    rules: HandOverRules = HandOverRules()
    fail_on_data_loss: bool = True
    access: KafkaAccess = field(default=KafkaAccess(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """A partition's next offset to read, the highest event time read so far (UTC microseconds; None: none yet), and how
    many offsets lay behind `next` when that was planned."""

    partition: int
    next: int
    high_us: int | None = None
    behind: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaPlace:
    """A place behind the lake. `instant` is the hand-over instant (requested time), `lake` the position there.

    `starts` are the offsets resolved there, `epochs` the leader epochs then, of partitions that told one; both
    (partition, number), ascending. `places` is where each partition stands, ascending.
    """

    phase: Phase
    topic: str
    topic_id: str
    instant: InstantTime
    lake: Position
    starts: tuple[tuple[int, int], ...]
    epochs: tuple[tuple[int, int], ...] = ()
    places: tuple[PartitionPlace, ...] = ()

    @property
    def behind(self) -> int:
        """Offsets that lay behind the place when it was planned."""
        return sum(place.behind for place in self.places)

    @property
    def position(self) -> Position:
        """Greater the further it is, and greater than every position of the lake."""
        begin = dict(self.starts)
        read = sum(place.next - begin.get(place.partition, 0) for place in self.places)
        return kafka_position(self.phase, read)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRange:
    """Records first..end-1 of a partition, as far as they are there: compaction and transactions leave gaps."""

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecords:
    """How a scan's splits of a topic become rows. `key_fields` are the columns of the record key, ascending by their
    place in it; empty where the table makes its keys itself. `fail_on_data_loss` is that of `Hybrid`, for offsets that
    expire between plan and read."""

    mode: HybridMode
    value_format: ValueFormat
    key_fields: tuple[str, ...] = ()
    fail_on_data_loss: bool = True


def kafka_position(phase: Phase, read: int) -> Position:
    """The position of a place behind the lake at which `read` offsets were passed since the hand-over."""
    if not 0 <= read <= MAX_OFFSET:
        raise ConfigurationError(f"records behind the hand-over: got {read}, expected 0 to {MAX_OFFSET}")
    count = read + (1 if phase is Phase.KAFKA else 0)
    return Position(InstantTime(f"{_ABOVE_INSTANTS}{count:022d}"))


def is_after_hand_over(position: Position) -> bool:
    """Whether it is one of `kafka_position`."""
    return len(position.order_key) == 24 and position.order_key.startswith(_ABOVE_INSTANTS)
