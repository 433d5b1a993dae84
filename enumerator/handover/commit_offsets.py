"""What the keys of one commit say about a topic: how far its writer had come, that it reads something else, or nothing.

Pure but for `BatchOffsets`, which the caller passes in. Belongs here: keys, their precedence, whose they are. Not here:
the texts (`formats`), what several commits say together (`walk`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

from penstock.enumerator.handover.lake_commits import LakeCommit
from penstock.enumerator.handover.offset_formats import (
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
NEVER_A_POSITION: Final = (
    "deltastreamer.checkpoint.reset_key",
    "deltastreamer.checkpoint.ignore_key",
    "streamer.checkpoint.reset.key.v2",
)
"""They say where a writer's next run begins, never what it has reached."""


class WriterKind(StrEnum):
    """Programs that leave offsets in commits; NAMED: whoever writes the key that the user named."""

    NAMED = "named"
    STREAMER = "streamer"
    CONNECT = "connect"
    FLINK = "flink"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Writer:
    """Whose position it is; of Spark's queries each by its identifier."""

    kind: WriterKind
    identifier: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.identifier}".rstrip()


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key of commit metadata that the user names, and the form of its value."""

    key: str
    format: Format


@dataclass(frozen=True, slots=True)
class Reached:
    """The writer's position after the commit."""

    writer: Writer
    key: str
    offsets: OffsetMap


@dataclass(frozen=True, slots=True)
class Unknown:
    """A Spark query's commit whose checkpoint was not named, so that its position is not known."""

    writer: Writer
    key: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The writer reads something else: other topics, or (no topics) no Kafka at all."""

    writer: Writer
    key: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Silent:
    """No key tells a position; `pointer` is the Flink checkpoint that would, '' without one."""

    pointer: str = ""


Position: TypeAlias = Reached | Unknown
Claim: TypeAlias = tuple[Position, ...] | Elsewhere | Silent
BatchOffsets: TypeAlias = Callable[[SinkBatch], tuple[OffsetMap, ...] | None]
"""A batch's offsets by topic, from its query's checkpoint; None if no checkpoint was named for its identifier."""


def claim_of(commit: LakeCommit, topic: str, named: NamedKey | None, batch_offsets: BatchOffsets) -> Claim:
    """What a commit says about `topic` ('': whichever topic its writer reads).

    The first key that tells a position in the topic counts: the named one, Streamer v2, v1, Connect, Flink, Spark's
    sink. FormatError, naming instant and key, for a value that is not of its form. ConfigurationError if a topic must
    be given, as the key names none (Connect) or the writer reads several.
    """
    elsewhere: Elsewhere | None = None
    for key, form in _keys(named):
        text = commit.extra.get(key)
        if text is None or not text.strip():
            continue
        try:
            found = _positions(key, form, text, topic, named, batch_offsets)
        except MalformedOffsets as error:
            raise FormatError(
                f"{commit}, key {key}: {error}; name the key and form that hold the offsets (--key, --format)"
            ) from None
        match found:
            case tuple():
                return found
            case Elsewhere():
                elsewhere = elsewhere or found
            case None:
                pass
            case _:
                assert_never(found)
    return elsewhere or Silent(commit.extra.get(FLINK_CHECKPOINT, ""))


def _keys(named: NamedKey | None) -> Iterator[tuple[str, Format]]:
    if named is not None:
        yield named.key, named.format
    known = {
        STREAMER_V2: Format.STREAMER,
        STREAMER_V1: Format.STREAMER,
        CONNECT: Format.CONNECT,
        FLINK: Format.FLINK,
        SPARK_SINK: Format.SPARK,
    }
    yield from ((key, form) for key, form in known.items() if named is None or key != named.key)


def _positions(
    key: str, form: Format, text: str, topic: str, named: NamedKey | None, batch_offsets: BatchOffsets
) -> tuple[Position, ...] | Elsewhere | None:
    kind = WriterKind.NAMED if named is not None and key == named.key else WriterKind(form.value)
    writer = Writer(kind, key if kind is WriterKind.NAMED else "")
    match form:
        case Format.STREAMER:
            one = parse_streamer(text)
            return Elsewhere(writer, key, ()) if isinstance(one, NotKafka) else _of_topic(writer, key, (one,), topic)
        case Format.CONNECT:
            if not topic:
                raise ConfigurationError(f"key {key} names no topic: say which one the table is filled from (--topic)")
            return (Reached(writer, key, parse_connect(text, topic)),)
        case Format.FLINK:
            told = parse_flink(text)
            return None if told is None else _of_topic(writer, key, (told,), topic)
        case Format.JSON:
            return _of_topic(writer, key, parse_topics(text), topic)
        case Format.SPARK:
            return _of_sink(key, parse_sink(text), topic, batch_offsets)
        case _:
            assert_never(form)


def _of_sink(
    key: str, batches: tuple[SinkBatch, ...], topic: str, batch_offsets: BatchOffsets
) -> tuple[Position, ...] | Elsewhere:
    found: list[Position] = []
    elsewhere: Elsewhere | None = None
    for batch in batches:
        writer = Writer(WriterKind.SPARK, batch.identifier)
        maps = batch_offsets(batch)
        of_topic = (Unknown(writer, key, batch.batch_id),) if maps is None else _of_topic(writer, key, maps, topic)
        if isinstance(of_topic, Elsewhere):
            elsewhere = elsewhere or of_topic
        else:
            found.extend(of_topic)
    return tuple(found) if elsewhere is None or found else elsewhere


def _of_topic(writer: Writer, key: str, maps: tuple[OffsetMap, ...], topic: str) -> tuple[Reached, ...] | Elsewhere:
    topics = tuple(item.topic for item in maps)
    if not topic and len(maps) > 1:
        raise ConfigurationError(f"{writer} reads the topics {', '.join(topics[:10])}: say which one (--topic)")
    wanted = [item for item in maps if not topic or item.topic == topic]
    return tuple(Reached(writer, key, item) for item in wanted) or Elsewhere(writer, key, topics)
