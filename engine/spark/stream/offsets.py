"""Spark's offsets: the JSON of a place in a stream, in one fixed form.

Pure, standard library and values only. Spark compares offsets as JSON *text*, so key order is part of the format, and
a place that did not move must come back as the dict it came in as. The checkpoint keeps these for years: a new form
is a new version, and every version from 1 up to OFFSET_VERSION is read.

Version 1 was a position alone. Version 2 is a whole StreamPoint, from which the micro-batch before it follows, with a
digest of what the stream reads: another stream must not go on from it. Version 3 is that of a hybrid stream, with its
phase and its place in the topic; every other stream writes version 2.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.proto.codec.hybrid_checks import checked_batch, checked_position
from penstock.proto.codec.hybrid_json import place_from_json, place_to_json
from penstock.proto.errors import ConfigurationError, InvariantViolation, StateVersionError
from penstock.proto.model.hybrid import KafkaPlace, KafkaRange
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Changes
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
"""The version this build writes of a stream of the lake alone."""
HYBRID_VERSION: Final = 3
"""Of a hybrid stream; the newest that is read."""

Offset = dict[str, object]

_KEYS: Final = (
    "version", "scope", "upto", "order_key", "index", "layout", "table_id", "consumed", "ahead", "snapshot",
    "watermark_us", "high_us", "content", "ended",
)  # fmt: skip
_HYBRID_KEYS: Final = (*_KEYS, "phase", "kafka")
_HYBRID: Final = "hybrid-"
"""Digests of hybrid streams begin so, and no others do."""
_LAKE: Final = "lake"
_WHAT: Final = "the checkpoint's offset"


def scope_digest(scope: StreamScope) -> str:
    """Names what may never change while a checkpoint is used: query, cdcFormat, eventTime, eventTimeUnit, where; of a
    hybrid stream also its kind, its topic and how values are written there."""
    request = scope.request
    told = {
        "query": type(request.query).__name__,
        "cdc_format": request.query.format.value if isinstance(request.query, Changes) else "",
        "event_time": request.event_time,
        "event_time_unit": request.event_time_unit,
        "where": request.where,
    }
    if request.hybrid is None:
        return _digest(told)
    hybrid = request.hybrid
    return _HYBRID + _digest(
        {**told, "hybrid": hybrid.mode.value, "topic": hybrid.topic, "value_format": hybrid.value_format.value}
    )


def _digest(told: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def offset_of(point: StreamPoint, scope: str, upto: Position | None = None) -> Offset:
    """The offset of a point of the stream that `scope` (a digest) names and that ends at `upto`; equal points give
    equal JSON text."""
    progress = point.progress
    hybrid = scope.startswith(_HYBRID)
    if not hybrid and (progress.kafka is not None or isinstance(point.content, TopicBatch)):
        raise InvariantViolation(f"a stream that is not hybrid is in a topic, at position {progress.position}")
    return {
        "version": HYBRID_VERSION if hybrid else OFFSET_VERSION,
        "scope": scope,
        "upto": None if upto is None else str(upto),
        "order_key": str(progress.position.order_key),
        "index": progress.position.index,
        "layout": progress.layout,
        "table_id": progress.table_id,
        "consumed": _listed(progress.consumed),
        "ahead": _listed(progress.ahead),
        "snapshot": None
        if point.snapshot is None
        else {"done": point.snapshot.done, "total": point.snapshot.total, "digest": point.snapshot.digest},
        "watermark_us": point.watermark.at_us,
        "high_us": point.watermark.high_us,
        "content": _told(point.content),
        "ended": point.ended,
        **(_place_told(progress.kafka) if hybrid else {}),
    }


def _place_told(place: KafkaPlace | None) -> Offset:
    if place is None:
        return {"phase": _LAKE, "kafka": None}
    return {"phase": place.phase.value, "kafka": place_to_json(place)}


def point_of(offset: Mapping[str, object], scope: str) -> StreamPoint:
    """The point of an offset that `offset_of` made, in this or an earlier release.

    StateVersionError for a version this build does not know; ConfigurationError for an offset of a stream that reads
    something else, and for anything that is no offset of ours (a checkpoint of another source).
    """
    version = offset.get("version") if isinstance(offset, Mapping) else None
    if type(version) is not int:
        raise _foreign(offset)
    if not 1 <= version <= HYBRID_VERSION:
        raise StateVersionError(
            f"the checkpoint's offset has version {version}, this release of Penstock reads 1 to {HYBRID_VERSION}:"
            " continue with the release that wrote it, or a newer one"
        )
    hybrid = scope.startswith(_HYBRID)
    if version == 1:
        if len(offset) != 3:
            raise _foreign(offset)
        if hybrid:
            raise _another_stream()
        return StreamPoint(progress=Progress(_Fields(offset, offset).position()))
    if set(offset) != set(_HYBRID_KEYS if version == HYBRID_VERSION else _KEYS):
        raise _foreign(offset)
    fields = _Fields(offset, offset)
    if fields.text("scope") != scope:
        raise _another_stream()
    if hybrid != (version == HYBRID_VERSION):
        raise _foreign(offset)
    return _point(fields, _place_behind_lake(fields) if hybrid else None)


def _another_stream() -> ConfigurationError:
    return ConfigurationError(
        "the checkpoint is that of a stream with other options: query, cdcFormat, eventTime, eventTimeUnit and "
        "where may not change while a checkpoint is used, nor hybrid, its topic and how values are written there, "
        "or rows would be missing or come twice; give them as they were, or begin with a new checkpoint"
    )


def continued(offset: Mapping[str, object], point: StreamPoint, upto: Position | None) -> StreamPoint:
    """The point of an offset, to go on from with the stream's end as it is given now.

    The end may not change, but that a stream which has ended goes on to a later one, unless the watermark is behind all
    event times since: every later row would be late. ConfigurationError.
    """
    if offset.get("version") == 1:
        return point
    told = offset.get("upto")
    if told == (None if upto is None else str(upto)):
        return point
    if point.ended and point.watermark.at_us == END_OF_TIME_US:
        raise ConfigurationError(
            f"the checkpoint is that of a stream which has ended at {told} with a watermark behind all event times: "
            "every later row would be dropped as late. Begin with a new checkpoint; endWatermark=DURATION ends a "
            "stream so that its checkpoint can go on"
        )
    if point.ended and (upto is None or upto > point.progress.position):
        return replace(point, ended=False)
    raise ConfigurationError(
        f"the checkpoint is that of a stream with upto={told}, got {upto}: the end may not change before it is "
        "reached, nor move back; give it as it was, or begin with a new checkpoint"
    )


def is_offset(offset: object) -> bool:
    """Whether Spark's progress shows an offset of this source there, of version 2 or newer."""
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
        snapshot=None if place is None else _place(place),
        watermark=Watermark(watermark, high),
        content=_content(fields, kafka),
        ended=fields.truth("ended"),
    )


def _place_behind_lake(fields: _Fields) -> KafkaPlace | None:
    phase, told = fields.text("phase"), fields.inside("kafka")
    if (phase == _LAKE) != (told is None):
        raise fields.foreign()
    return None if told is None else place_from_json(_WHAT, "kafka", phase, told.values)


def _place(fields: _Fields) -> SnapshotPlace:
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
    """Of the topic of the place: no more of it is told than partition, first, end."""
    return [
        KafkaRange(topic=kafka.topic, topic_id=kafka.topic_id, partition=partition, first=first, end=end)
        for partition, first, end in content.triples("ranges")
    ]


def _told(content: BatchContent) -> dict[str, object]:
    match content:
        case NoBatch():
            return {"kind": "none"}
        case CommitsBatch(after, without):
            told = {"kind": "commits", "order_key": str(after.order_key), "index": after.index}
            return {**told, "without": _listed(without)}
        case SnapshotBatch(first):
            return {"kind": "snapshot", "first": first}
        case TopicBatch(ranges):
            return {"kind": "topic", "ranges": [[item.partition, item.first, item.end] for item in ranges]}


def _listed(instants: Iterable[InstantTime]) -> list[str]:
    return sorted(str(instant) for instant in instants)


class _Fields:
    """A JSON object's values by their types, ConfigurationError for any other; `whole` is what the error shows."""

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
