"""Offsets of Spark streams: the JSON of a point of a stream, in one fixed form.

Pure. Spark compares offsets as JSON *text*: the order of the keys is part of the format, and a point that did not move
must come back as the same dict. Checkpoints are kept for years: a new form gets a new version, and every version from 1
to `HYBRID_VERSION` can be read.

* Version 1 is a position only.
* Version 2 is a StreamPoint, which determines the micro-batch before it, and the ScopeId of the stream: a stream that
  reads something else must not continue from it.
* Version 3 is version 2 of a hybrid stream, with its phase and its place in the topic. Every other stream writes
  version 2.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.proto.codec.hybrid.checks import checked_batch, checked_position
from penstock.proto.codec.hybrid.places_json import place_from_json, place_to_json
from penstock.proto.errors import ConfigurationError, InvariantViolation, StateVersionError
from penstock.proto.model.hybrid import KafkaPlace, KafkaRange
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, Query
from penstock.proto.model.streams import (
    END_OF_TIME_US,
    BatchContent,
    CommitsBatch,
    NoBatch,
    Progress,
    SnapshotBatch,
    SnapshotPlace,
    StreamPoint,
    StreamScope,
    TopicBatch,
    Watermark,
)

OFFSET_VERSION: Final = 2
"""The version that is written for streams that are not hybrid."""
HYBRID_VERSION: Final = 3
"""The version that is written for hybrid streams, and the newest that can be read."""

Offset = dict[str, object]

_KEYS: Final = (
    "version", "scope", "upto", "order_key", "index", "layout", "table_id", "consumed", "ahead", "snapshot",
    "watermark_us", "high_us", "content", "ended",
)  # fmt: skip
_HYBRID_KEYS: Final = (*_KEYS, "phase", "kafka")
_HYBRID_PREFIX: Final = "hybrid-"
_LAKE: Final = "lake"
_WHAT: Final = "the checkpoint's offset"


@dataclass(frozen=True, slots=True)
class ScopeId:
    """Identifies what may never change while a checkpoint is used.

    Of every stream: query, cdcFormat, eventTime, eventTimeUnit and where. Of a hybrid stream also its mode, its topic
    and the format of the topic's values. The checkpoint stores `text`.
    """

    digest: str
    """The first 16 hexadecimal digits of the SHA-256 of these options."""
    is_hybrid: bool
    """Whether the stream is hybrid: its offsets have a phase and a place in the topic."""

    @property
    def text(self) -> str:
        """The text in the checkpoint: the digest, with a prefix if the stream is hybrid."""
        return f"{_HYBRID_PREFIX}{self.digest}" if self.is_hybrid else self.digest

    @classmethod
    def parse(cls, text: str) -> ScopeId:
        """The id whose `text` this is."""
        return cls(text.removeprefix(_HYBRID_PREFIX), text.startswith(_HYBRID_PREFIX))


def scope_id(scope: StreamScope) -> ScopeId:
    """The id of what the stream reads."""
    request = scope.request
    options = {
        "query": _query_name(request.query),
        "cdc_format": request.query.format.value if isinstance(request.query, Changes) else "",
        "event_time": request.event_time,
        "event_time_unit": request.event_time_unit,
        "where": request.where,
    }
    hybrid = request.hybrid
    if hybrid is not None:
        options |= {"hybrid": hybrid.mode.value, "topic": hybrid.topic, "value_format": hybrid.value_format.value}
    digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()[:16]
    return ScopeId(digest, hybrid is not None)


def _query_name(query: Query) -> str:
    """The name of the query in digests, which checkpoints store: it stays when a class is renamed."""
    match query:
        case Incremental():
            return "Incremental"
        case Changes():
            return "Changes"
        case _:
            raise InvariantViolation(f"a stream with the query {query}")


def offset_of(point: StreamPoint, scope: ScopeId, upto: Position | None = None) -> Offset:
    """The offset of a point of the stream with this scope that ends at `upto`. Equal points give equal JSON text."""
    progress = point.progress
    if not scope.is_hybrid and (progress.kafka is not None or isinstance(point.content, TopicBatch)):
        raise InvariantViolation(f"a stream that is not hybrid is in a topic, at position {progress.position}")
    return {
        "version": HYBRID_VERSION if scope.is_hybrid else OFFSET_VERSION,
        "scope": scope.text,
        "upto": None if upto is None else str(upto),
        "order_key": str(progress.position.order_key),
        "index": progress.position.index,
        "layout": progress.layout,
        "table_id": progress.table_id,
        "consumed": _sorted_texts(progress.consumed),
        "ahead": _sorted_texts(progress.ahead),
        "snapshot": None
        if point.snapshot is None
        else {"done": point.snapshot.done, "total": point.snapshot.total, "digest": point.snapshot.digest},
        "watermark_us": point.watermark.at_us,
        "high_us": point.watermark.high_us,
        "content": _content_json(point.content),
        "ended": point.ended,
        **(_kafka_json(progress.kafka) if scope.is_hybrid else {}),
    }


def _kafka_json(place: KafkaPlace | None) -> Offset:
    if place is None:
        return {"phase": _LAKE, "kafka": None}
    return {"phase": place.phase.value, "kafka": place_to_json(place)}


def point_of(offset: Mapping[str, object], scope: ScopeId) -> StreamPoint:
    """The point of an offset that `offset_of` wrote, in this or an earlier release.

    StateVersionError for a version that this release cannot read. ConfigurationError for an offset of a stream that
    reads something else, and for anything that is not an offset of Penstock (a checkpoint of another source).
    """
    version = offset.get("version") if isinstance(offset, Mapping) else None
    if type(version) is not int:
        raise _foreign(offset)
    if not 1 <= version <= HYBRID_VERSION:
        raise StateVersionError(
            f"the checkpoint's offset has version {version}, this release of Penstock reads 1 to {HYBRID_VERSION}:"
            " continue with the release that wrote it, or a newer one"
        )
    if version == 1:
        if len(offset) != 3:
            raise _foreign(offset)
        if scope.is_hybrid:
            raise _other_scope()
        return StreamPoint(progress=Progress(_Fields(offset, offset).position()))
    if set(offset) != set(_HYBRID_KEYS if version == HYBRID_VERSION else _KEYS):
        raise _foreign(offset)
    fields = _Fields(offset, offset)
    if fields.text("scope") != scope.text:
        raise _other_scope()
    if scope.is_hybrid != (version == HYBRID_VERSION):
        raise _foreign(offset)
    return _point(fields, _kafka_place(fields) if scope.is_hybrid else None)


def _other_scope() -> ConfigurationError:
    return ConfigurationError(
        "the checkpoint is that of a stream with other options: query, cdcFormat, eventTime, eventTimeUnit and "
        "where may not change while a checkpoint is used, nor hybrid, its topic and how values are written there, "
        "or rows would be missing or come twice; give them as they were, or begin with a new checkpoint"
    )


def continued(offset: Mapping[str, object], point: StreamPoint, upto: Position | None) -> StreamPoint:
    """The point from which a stream continues whose end is now `upto`.

    The end may not change, with one exception: a stream that has ended may continue to a later end, unless its
    watermark passed all event times, because every later row would be late. ConfigurationError.
    """
    if offset.get("version") == 1:
        return point
    stored = offset.get("upto")
    if stored == (None if upto is None else str(upto)):
        return point
    if point.ended and point.watermark.at_us == END_OF_TIME_US:
        raise ConfigurationError(
            f"the checkpoint is that of a stream which has ended at {stored} with a watermark after all event times: "
            "every later row would be dropped as late. Begin with a new checkpoint; endWatermark=DURATION ends a "
            "stream so that its checkpoint can be used again"
        )
    if point.ended and (upto is None or upto > point.progress.position):
        return replace(point, ended=False)
    raise ConfigurationError(
        f"the checkpoint is that of a stream with upto={stored}, got {upto}: the end may not change before it is "
        "reached, nor move back; give it as it was, or begin with a new checkpoint"
    )


def is_offset(offset: object) -> bool:
    """Whether this value in Spark's progress is an offset of Penstock, of version 2 or later."""
    return isinstance(offset, Mapping) and {"version", "scope", "order_key", "ended"} <= set(offset)


def _point(fields: _Fields, kafka: KafkaPlace | None) -> StreamPoint:
    layout, watermark, high = fields.number("layout", 0), fields.maybe_number("watermark_us"), fields.maybe_number(
        "high_us"
    )  # fmt: skip
    position = fields.position()
    progress = Progress(
        position=position,
        layout=layout,
        consumed=fields.instants("consumed"),
        ahead=fields.instants("ahead"),
        table_id=fields.text("table_id"),
        kafka=checked_position(_WHAT, "order_key", position, kafka),
    )
    place = fields.inside("snapshot")
    return StreamPoint(
        progress=progress,
        snapshot=None if place is None else _snapshot_place(place),
        watermark=Watermark(watermark, high),
        content=_content(fields, kafka),
        ended=fields.truth("ended"),
    )


def _kafka_place(fields: _Fields) -> KafkaPlace | None:
    phase, stored = fields.text("phase"), fields.inside("kafka")
    if (phase == _LAKE) != (stored is None):
        raise fields.foreign()
    return None if stored is None else place_from_json(_WHAT, "kafka", phase, stored.values)


def _snapshot_place(fields: _Fields) -> SnapshotPlace:
    fields.exactly("done", "total", "digest")
    done, total = fields.number("done", 0), fields.number("total", 0)
    if done > total:
        raise fields.foreign()
    return SnapshotPlace(done=done, total=total, digest=fields.text("digest"))


def _content(fields: _Fields, kafka: KafkaPlace | None) -> BatchContent:
    content = fields.inside("content")
    if content is None:
        raise fields.foreign()
    match content.text("kind"):
        case "none":
            content.exactly("kind")
            return NoBatch()
        case "commits":
            content.exactly("kind", "order_key", "index", "without")
            return CommitsBatch(content.position(), content.instants("without"))
        case "snapshot":
            content.exactly("kind", "first")
            return SnapshotBatch(content.number("first", 0))
        case "topic" if kafka is not None:
            content.exactly("kind", "ranges")
            return TopicBatch(checked_batch(_WHAT, "content.ranges", _ranges(content, kafka), kafka))
        case _:
            raise fields.foreign()


def _ranges(content: _Fields, kafka: KafkaPlace) -> list[KafkaRange]:
    """Ranges of the place's topic: the offset stores only partition, first and end of each."""
    return [
        KafkaRange(topic=kafka.topic, topic_id=kafka.topic_id, partition=partition, first=first, end=end)
        for partition, first, end in content.triples("ranges")
    ]


def _content_json(content: BatchContent) -> dict[str, object]:
    match content:
        case NoBatch():
            return {"kind": "none"}
        case CommitsBatch(after, without):
            stored = {"kind": "commits", "order_key": str(after.order_key), "index": after.index}
            return {**stored, "without": _sorted_texts(without)}
        case SnapshotBatch(first):
            return {"kind": "snapshot", "first": first}
        case TopicBatch(ranges):
            return {"kind": "topic", "ranges": [[item.partition, item.first, item.end] for item in ranges]}


def _sorted_texts(instants: Iterable[InstantTime]) -> list[str]:
    return sorted(str(instant) for instant in instants)


class _Fields:
    """The values of a JSON object by type; ConfigurationError for any other type. The error shows `whole`."""

    def __init__(self, values: Mapping[str, object], whole: object) -> None:
        self.values, self._whole = values, whole

    def exactly(self, *names: str) -> None:
        if set(self.values) != set(names):
            raise self.foreign()

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if not isinstance(value, str):
            raise self.foreign()
        return value

    def truth(self, name: str) -> bool:
        value = self.values.get(name)
        if not isinstance(value, bool):
            raise self.foreign()
        return value

    def number(self, name: str, least: int) -> int:
        value = self.values.get(name)
        if type(value) is not int or not least <= value < 2**63:
            raise self.foreign()
        return value

    def maybe_number(self, name: str) -> int | None:
        return None if self.values.get(name) is None else self.number(name, -(2**63))

    def position(self) -> Position:
        return Position(InstantTime(self.text("order_key")), self.number("index", 0))

    def instants(self, name: str) -> frozenset[InstantTime]:
        value = self.values.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.foreign()
        return frozenset(InstantTime(item) for item in value)

    def triples(self, name: str) -> list[tuple[int, int, int]]:
        value = self.values.get(name)
        if not isinstance(value, list):
            raise self.foreign()
        return [self._triple(item) for item in value]

    def _triple(self, item: object) -> tuple[int, int, int]:
        match item:
            case [int(one), int(two), int(three)] if not any(isinstance(number, bool) for number in item):
                return one, two, three
            case _:
                raise self.foreign()

    def inside(self, name: str) -> _Fields | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.foreign()
        return _Fields(value, self._whole)

    def foreign(self) -> ConfigurationError:
        return _foreign(self._whole)


def _foreign(offset: object) -> ConfigurationError:
    return ConfigurationError(
        f"not an offset of Penstock: got {str(offset)[:200]}, expected"
        f' {{"version": {OFFSET_VERSION}, "scope": …, "order_key": "20260131235959123", …}};'
        " is the checkpoint that of another query?"
    )
