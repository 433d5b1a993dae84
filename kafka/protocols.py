"""The interfaces to Kafka: `TopicMetadata` for planning, `RangeReader` and `SchemaRegistry` for reading.

All implementations raise the same errors: KafkaUnavailable for brokers that do not answer (retryable); TopicGone for a
topic or partition that does not exist; Unauthenticated and PermissionDenied; ConfigurationError for settings that a
client rejects; PositionExpired for offsets that retention deleted; DataInvalidated for a topic that was recreated or
truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.proto.model.hybrid import KafkaAccess, KafkaRange
from penstock.proto.value_classes import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """The offsets of a partition."""

    log_start: int
    """The first offset of the log."""
    end: int
    """The end of the records that may be read: the last stable offset (`isolation.level=read_committed`), else the high
    watermark."""
    high_watermark: int = -1
    """The end of all records, those of open transactions included."""
    leader_epoch: int = -1
    """The leader epoch; -1: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic and its partitions."""

    topic: str
    """The topic's name."""
    topic_id: str
    """The broker's id of the topic; '' if the broker has no topic ids."""
    partitions: Mapping[int, PartitionOffsets]
    """The partitions by number, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordChunk:
    """Records of one partition in offset order."""

    offsets: npt.NDArray[np.int64]
    """The offsets."""
    timestamps_ms: npt.NDArray[np.int64]
    """The timestamps since 1970 UTC; -1: none."""
    keys: list[bytes | None]
    """The keys; None: the record has no key."""
    values: list[bytes | None]
    """The values; None: the record has no value."""
    next_offset: int
    """The offset at which reading continues after the chunk."""
    lost: int = 0
    """The number of offsets before `next_offset` that had expired and were skipped."""


class TopicMetadata(Protocol):
    """Metadata of topics. Any thread."""

    def describe(self, topic: str) -> TopicDescription:
        """The current description of the topic; each call sends requests to the brokers."""
        ...

    def offsets_at(self, topic: str, timestamp_ms: int) -> Mapping[int, int]:
        """The first offset at or after the time, by partition; the end of a partition without such a record."""
        ...

    def group_offsets(self, topic: str, group: str) -> Mapping[int, int]:
        """The committed offsets of the consumer group, by partition; partitions without one are omitted."""
        ...


class RangeReader(Protocol):
    """Reads the records of ranges. Any thread; each read has its own client, which its generator closes."""

    def read(self, kafka_range: KafkaRange, first: int, chunk_rows: int) -> Generator[RecordChunk, None, None]:
        """The records of the range from offset `first`, in chunks of at most `chunk_rows`, each record once.

        Ends when every offset below the range's end is passed, however few records remain. Offsets that retention
        deleted are skipped only by a reader that was opened with `fail_on_data_loss` False: it continues at the start
        of the log, and a chunk, possibly without records, has their number. Memory is bounded by the client's queues
        and one chunk. Topic and partition are checked before anything is read.
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
