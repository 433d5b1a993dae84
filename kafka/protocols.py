"""The seams to Kafka: `TopicMetadata` for whoever plans, `RangeReader` for whoever reads. Values and protocols, no
client.

Errors, the same for every implementation: KafkaUnavailable for brokers that do not answer (asking again may help);
TopicGone for a topic or partition that is not there; Unauthenticated and PermissionDenied; ConfigurationError for
settings that a client refuses; PositionExpired for offsets that retention took; DataInvalidated for a topic that is
another one by now, or was cut back.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.proto.model.hybrid import KafkaAccess, KafkaRange


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """`log_start` is the first offset that is there, `end` the one behind the last that may be read: the last stable
    offset (`isolation.level=read_committed`), else the high watermark. `high_watermark` is behind the last record
    of all, those of open transactions included. `leader_epoch` -1: not told."""

    log_start: int
    end: int
    high_watermark: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic now. `topic_id` is the broker's own, '' where it has none; `partitions` by number, ascending."""

    topic: str
    topic_id: str
    partitions: Mapping[int, PartitionOffsets]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordChunk:
    """Records of one partition in offset order. `offsets` and `timestamps_ms` (since 1970 UTC, -1: none) are int64;
    a key or value is None where the record has none. `next_offset` is where reading goes on behind the chunk. `lost` is
    how many of the offsets up to there had expired and were passed over."""

    offsets: npt.NDArray[np.int64]
    timestamps_ms: npt.NDArray[np.int64]
    keys: list[bytes | None]
    values: list[bytes | None]
    next_offset: int
    lost: int = 0


class TopicMetadata(Protocol):
    """What a topic is now. Any thread."""

    def facts(self, topic: str) -> TopicDescription:
        """Asked of the brokers at each call."""
        ...

    def offsets_at(self, topic: str, timestamp_ms: int) -> Mapping[int, int]:
        """By partition the first offset at or behind the time; of a partition without such a record its end."""
        ...

    def group_offsets(self, topic: str, group: str) -> Mapping[int, int]:
        """By partition what the consumer group committed; partitions without are left out."""
        ...


class RangeReader(Protocol):
    """Records of ranges. Any thread; each read has a client of its own, closed with its generator."""

    def read(self, wanted: KafkaRange, first: int, chunk_rows: int) -> Generator[RecordChunk, None, None]:
        """The records of the range from offset `first` on, in chunks of at most `chunk_rows`, each record once.

        Ends when every offset below the range's end is passed, however few records are left of it. Offsets that
        retention took are passed over only by a door that was opened with `fail_on_data_loss` False: it goes on where
        the log starts, and a chunk, maybe of no records, says how many they were. Memory is bounded by the client's
        queues and a chunk. Topic and partition are checked before anything is read.
        """
        ...


OpenTopic = Callable[[KafkaAccess], TopicMetadata]


class UnusableSchema(ValueError):
    """The registry has no Avro schema with this id that can be used; the message says why."""


class SchemaRegistry(Protocol):
    """The schemas of a schema registry. Any thread."""

    def schema(self, schema_id: int) -> str:
        """The Avro schema with this id, as JSON text.

        UnusableSchema for an id that the registry does not have, for a schema that is not Avro or refers to others.
        KafkaUnavailable if the registry does not answer; Unauthenticated, PermissionDenied.
        """
        ...
