"""The topic offsets in the metadata of one commit, by the keys that the known writers use.

Pure but for `BatchOffsets`, which the caller passes in. `offset_formats` parses the values; `offset_search` combines
several commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

from penstock.enumerator.handover.offset_formats import (
    NO_TOPICS,
    Format,
    NotKafka,
    SinkBatch,
    parse_connect,
    parse_flink,
    parse_sink,
    parse_streamer,
    parse_topics,
)
from penstock.enumerator.handover.offsets import MalformedOffsets, OffsetMap
from penstock.proto.errors import ConfigurationError, FormatError

STREAMER_V2: Final = "streamer.checkpoint.key.v2"
STREAMER_V1: Final = "deltastreamer.checkpoint.key"
CONNECT: Final = "kafka.commit.offsets"
FLINK: Final = "HoodieMetadataKey"
FLINK_CHECKPOINT: Final = "flink_checkpoint_id"
SPARK_SINK: Final = "_hudi_streaming_sink_checkpoint"
SINK_OFFSETS: Final = "penstock.streaming.kafka.offsets"
"""Holds the offsets of the batch in a commit of Penstock's sink in Spark, beside SPARK_SINK. NO_TOPICS if its query
reads no topic."""
NEVER_A_POSITION: Final = (
    "deltastreamer.checkpoint.reset_key",
    "deltastreamer.checkpoint.ignore_key",
    "streamer.checkpoint.reset.key.v2",
)
"""Keys of the offset at which a writer's next run begins. None of them is the offset that the commit reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeCommit:
    """A completed write of the table."""

    instant: str
    """Its requested time."""
    order_key: str
    """Its place in commit order."""
    action: str
    """The action in the name of its instant, such as `deltacommit`."""
    operation: str
    """The write operation in its metadata, such as `UPSERT`."""
    is_service: bool
    """Whether it is a table service, which only rearranges rows."""
    wrote_nothing: bool
    """Whether it wrote no file and replaced none."""
    extra: Mapping[str, str]
    """The extra metadata: keys and values."""
    archived: bool = False
    """Whether it left the active timeline."""

    def __str__(self) -> str:
        return f"{self.action} {self.instant}"


class WriterKind(StrEnum):
    """Programs that store offsets in commits. NAMED is the writer of a key that the user names."""

    NAMED = "named"
    STREAMER = "streamer"
    CONNECT = "connect"
    FLINK = "flink"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Writer:
    """The owner of a position in the topic."""

    kind: WriterKind
    """The program."""
    identifier: str = ""
    """The identifier of a Spark query; '' for other writers, and the key for NAMED."""

    def __str__(self) -> str:
        return f"{self.kind} {self.identifier}".rstrip()


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key of commit metadata that the user names."""

    key: str
    """The key."""
    format: Format
    """The format of its value."""


@dataclass(frozen=True, slots=True)
class OffsetsKey:
    """A key of commit metadata that holds topic offsets."""

    key: str
    """The key."""
    format: Format
    """The format of its value."""
    writer: WriterKind
    """The program that writes it."""


KNOWN_KEYS: Final = (
    OffsetsKey(STREAMER_V2, Format.STREAMER, WriterKind.STREAMER),
    OffsetsKey(STREAMER_V1, Format.STREAMER, WriterKind.STREAMER),
    OffsetsKey(CONNECT, Format.CONNECT, WriterKind.CONNECT),
    OffsetsKey(FLINK, Format.FLINK, WriterKind.FLINK),
    OffsetsKey(SINK_OFFSETS, Format.JSON, WriterKind.SPARK),
    OffsetsKey(SPARK_SINK, Format.SPARK, WriterKind.SPARK),
)
"""The keys of the known writers. If a commit has several, the first one counts."""


@dataclass(frozen=True, slots=True)
class KnownOffsets:
    """The offsets that a writer had reached with the commit."""

    writer: Writer
    """Who wrote them."""
    key: str
    """The metadata key that holds them."""
    offsets: OffsetMap
    """The next offset of each partition."""


@dataclass(frozen=True, slots=True)
class UnresolvedBatch:
    """A commit of a Spark query whose checkpoint is not configured, so that its offsets are not known."""

    writer: Writer
    """The query."""
    key: str
    """The metadata key that holds the batch id."""
    batch_id: int
    """The batch whose offsets are in the checkpoint."""


@dataclass(frozen=True, slots=True)
class OtherSource:
    """The commit's writer reads another source than the topic."""

    writer: Writer
    """The writer."""
    key: str
    """The metadata key that names the source."""
    topics: tuple[str, ...]
    """The topics that it reads; () for a source that is not Kafka."""


@dataclass(frozen=True, slots=True)
class NoOffsets:
    """No key of the commit holds offsets."""

    pointer: str = ""
    """The id of the Flink checkpoint that holds them; '' without one."""


WriterPosition: TypeAlias = KnownOffsets | UnresolvedBatch
CommitOffsets: TypeAlias = tuple[WriterPosition, ...] | OtherSource | NoOffsets
BatchOffsets: TypeAlias = Callable[[SinkBatch], tuple[OffsetMap, ...] | None]
"""The offsets of a batch by topic, from its query's checkpoint; None if no checkpoint is configured for the query."""


def offsets_of_commit(
    commit: LakeCommit, topic: str, named: NamedKey | None, batch_offsets: BatchOffsets
) -> CommitOffsets:
    """The offsets of `topic` in a commit; with topic '' those of the topic that its writer reads.

    The first key that holds offsets of the topic counts: the named key, then KNOWN_KEYS in their order.

    Raises FormatError, with instant and key, for a value that does not have the key's format; ConfigurationError if a
    topic must be given because the key names none (Connect) or the writer reads several.
    """
    other_source: OtherSource | None = None
    for source in _keys(named):
        if source.key == SPARK_SINK and SINK_OFFSETS in commit.extra:  # the offsets of that batch
            continue
        text = commit.extra.get(source.key)
        if text is None or not text.strip():
            continue
        try:
            positions = _positions(source, text, topic, batch_offsets, _identifier(commit, source))
        except MalformedOffsets as error:
            raise FormatError(
                f"{commit}, key {source.key}: {error}; name the key that holds the offsets and its format "
                "(--key, --format)"
            ) from None
        match positions:
            case tuple():
                return positions
            case OtherSource():
                other_source = other_source or positions
            case None:
                pass
            case _:
                assert_never(positions)
    return other_source or NoOffsets(commit.extra.get(FLINK_CHECKPOINT, ""))


def _keys(named: NamedKey | None) -> Iterator[OffsetsKey]:
    if named is not None:
        yield OffsetsKey(named.key, named.format, WriterKind.NAMED)
    yield from (known for known in KNOWN_KEYS if named is None or known.key != named.key)


def _identifier(commit: LakeCommit, source: OffsetsKey) -> str:
    """The identifier of the writer of a key; for SINK_OFFSETS that of the only batch beside it."""
    if source.writer is WriterKind.NAMED:
        return source.key
    if source.key != SINK_OFFSETS or SPARK_SINK not in commit.extra:
        return ""
    batches = parse_sink(commit.extra[SPARK_SINK])
    return batches[0].identifier if len(batches) == 1 else ""


def _positions(
    source: OffsetsKey, text: str, topic: str, batch_offsets: BatchOffsets, identifier: str
) -> tuple[WriterPosition, ...] | OtherSource | None:
    key = source.key
    writer = Writer(source.writer, identifier)
    match source.format:
        case Format.STREAMER:
            offsets = parse_streamer(text)
            if isinstance(offsets, NotKafka):
                return OtherSource(writer, key, ())
            return _of_topic(writer, key, (offsets,), topic)
        case Format.CONNECT:
            if not topic:
                raise ConfigurationError(f"key {key} names no topic: give the topic that fills the table (--topic)")
            return (KnownOffsets(writer, key, parse_connect(text, topic)),)
        case Format.FLINK:
            entries = parse_flink(text)
            return None if entries is None else _of_topic(writer, key, (entries,), topic)
        case Format.JSON:
            maps = () if key == SINK_OFFSETS and text == NO_TOPICS else parse_topics(text)
            return _of_topic(writer, key, maps, topic)
        case Format.SPARK:
            return _of_sink(key, parse_sink(text), topic, batch_offsets)
        case _:
            assert_never(source.format)


def _of_sink(
    key: str, batches: tuple[SinkBatch, ...], topic: str, batch_offsets: BatchOffsets
) -> tuple[WriterPosition, ...] | OtherSource:
    positions: list[WriterPosition] = []
    other_source: OtherSource | None = None
    for batch in batches:
        writer = Writer(WriterKind.SPARK, batch.identifier)
        maps = batch_offsets(batch)
        of_topic = (
            (UnresolvedBatch(writer, key, batch.batch_id),) if maps is None else _of_topic(writer, key, maps, topic)
        )
        if isinstance(of_topic, OtherSource):
            other_source = other_source or of_topic
        else:
            positions.extend(of_topic)
    return tuple(positions) if other_source is None or positions else other_source


def _of_topic(
    writer: Writer, key: str, maps: tuple[OffsetMap, ...], topic: str
) -> tuple[KnownOffsets, ...] | OtherSource:
    topics = tuple(item.topic for item in maps)
    if not topic and len(maps) > 1:
        raise ConfigurationError(f"{writer} reads the topics {', '.join(topics[:10])}: give one of them (--topic)")
    matches = [item for item in maps if not topic or item.topic == topic]
    return tuple(KnownOffsets(writer, key, item) for item in matches) or OtherSource(writer, key, topics)
