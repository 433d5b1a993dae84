"""Encodes and decodes the values of `penstock.proto.model.streams` and the calls of streams.

Decoding checks every length, count and number. The caller of a stream stores its points, so a request is untrusted
input for the server, and a response is untrusted input for the client.
"""

from __future__ import annotations

from penstock.proto.codec import checks as check
from penstock.proto.codec.checks import position_from_message, position_to_message
from penstock.proto.codec.groups import (
    alignment_from_message,
    alignment_to_message,
    limits_from_message,
    limits_to_message,
    required_position,
    rule_from_message,
    rule_to_message,
)
from penstock.proto.codec.hybrid import checks as hybrid_checks
from penstock.proto.codec.hybrid.messages import (
    batch_ranges_from_message,
    place_from_message,
    place_to_message,
    range_to_message,
)
from penstock.proto.codec.plan_calls import request_from_message, request_to_message
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.names import checked_name
from penstock.proto.model.positions import OnLostRange
from penstock.proto.model.queries import Changes, Incremental
from penstock.proto.model.streams import (
    BatchContent,
    CommitsBatch,
    NextBatch,
    NoBatch,
    Progress,
    SnapshotBatch,
    SnapshotPlace,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamPoint,
    StreamScope,
    StreamStart,
    TopicBatch,
    Watermark,
)
from penstock.proto.v1 import penstock_pb2 as pb


def start_to_message(scope: StreamScope, start: StreamStart) -> pb.StartStreamRequest:
    """Encodes a request for the start of a stream."""
    with check.encoding(f"start of a stream of table {scope.request.table!r}"):
        message = pb.StartStreamRequest(scope=_scope_to_message(scope))
        match start:
            case StartSnapshot():
                message.start_snapshot.CopyFrom(pb.StartSnapshot())
            case StartLatest():
                message.start_newest.CopyFrom(pb.StartNewest())
            case StartAfter(position):
                message.start_behind.CopyFrom(position_to_message(position))
        return message


def start_from_message(message: pb.StartStreamRequest) -> tuple[StreamScope, StreamStart]:
    """Decodes (scope, start). There is no default start, because a default could lose rows or repeat them."""
    what = "start of a stream"
    scope = _scope_from_message(what, message.scope)
    match message.WhichOneof("start"):
        case "start_snapshot":
            return scope, StartSnapshot()
        case "start_newest":
            return scope, StartLatest()
        case "start_behind":
            return scope, StartAfter(position_from_message(what, "start_behind", message.start_behind))
        case None:
            known = "start_snapshot, start_newest or start_behind"
            raise check.breach(what, "start", "no start that this build knows", known)
        case other:
            raise InvariantViolation(f"the stubs know start {other!r}, the codec does not")


def started_to_message(point: StreamPoint) -> pb.StartStreamResponse:
    """Encodes the first point of a stream."""
    with check.encoding("start of a stream"):
        return pb.StartStreamResponse(point=_point_to_message(point))


def started_from_message(message: pb.StartStreamResponse) -> StreamPoint:
    """Decodes the first point of a stream. ConfigurationError for an invalid field."""
    return _point_from_message("start of a stream", message.point if message.HasField("point") else None)


def asked_to_message(scope: StreamScope, point: StreamPoint) -> pb.NextBatchRequest:
    """Encodes a request for the next batch."""
    with check.encoding(f"next batch of table {scope.request.table!r}"):
        return pb.NextBatchRequest(scope=_scope_to_message(scope), point=_point_to_message(point))


def asked_from_message(message: pb.NextBatchRequest) -> tuple[StreamScope, StreamPoint]:
    """Decodes (scope, point) of such a request. ConfigurationError for an invalid field."""
    scope = _scope_from_message("next batch", message.scope)
    return scope, _point_from_message("next batch", message.point if message.HasField("point") else None)


def batch_to_message(batch: NextBatch) -> pb.NextBatchResponse:
    """Encodes a next batch. The reason of a lost range is cut at MAX_REASON_CHARS; programs do not parse it."""
    with check.encoding("next batch"):
        return pb.NextBatchResponse(
            point=_point_to_message(batch.point),
            schema_json=batch.schema_json,
            lost=batch.lost[: check.MAX_REASON_CHARS],
            held=batch.held,
        )


def batch_from_message(message: pb.NextBatchResponse) -> NextBatch:
    """Decodes a next batch. ConfigurationError for an invalid field."""
    what = "next batch"
    return NextBatch(
        point=_point_from_message(what, message.point if message.HasField("point") else None),
        schema_json=check.text(what, "schema_json", message.schema_json, check.MAX_SCHEMA_CHARS),
        lost=check.text(what, "lost", message.lost, check.MAX_REASON_CHARS),
        held=message.held,
    )


def _scope_to_message(scope: StreamScope) -> pb.StreamScope:
    return pb.StreamScope(
        request=request_to_message(scope.request),
        limits=limits_to_message(scope.limits),
        rule=None if scope.rule is None else rule_to_message(scope.rule),
        upto=None if scope.upto is None else position_to_message(scope.upto),
        target=None if scope.target is None else position_to_message(scope.target),
        on_lost_range=scope.on_lost_range.value,
        end_watermark_us=scope.end_watermark_us,
        name=scope.name,
        alignment=None if scope.alignment is None else alignment_to_message(scope.alignment),
    )


def _scope_from_message(what: str, message: pb.StreamScope) -> StreamScope:
    request = request_from_message(message.request)
    if not isinstance(request.query, Incremental | Changes):
        raise check.breach(what, "scope.request.query", type(request.query).__name__, "incremental or changes")
    lost = check.one_of(what, "scope.on_lost_range", message.on_lost_range, [policy.value for policy in OnLostRange])
    end_us = None
    if message.HasField("end_watermark_us"):
        end_us = check.number(what, "scope.end_watermark_us", message.end_watermark_us)
    return StreamScope(
        request=request,
        limits=limits_from_message(what, message.limits),
        rule=rule_from_message(what, message.rule) if message.HasField("rule") else None,
        upto=position_from_message(what, "scope.upto", message.upto) if message.HasField("upto") else None,
        target=position_from_message(what, "scope.target", message.target) if message.HasField("target") else None,
        on_lost_range=OnLostRange(lost),
        end_watermark_us=end_us,
        name=checked_name("stream", message.name) if message.name else "",
        alignment=alignment_from_message(what, message.alignment) if message.HasField("alignment") else None,
    )


def progress_to_message(progress: Progress) -> pb.Progress:
    """Encodes a progress. ValueError (see `checks.encoding`) if a number does not fit into a message."""
    return pb.Progress(
        position=position_to_message(progress.position),
        layout=progress.layout,
        consumed=sorted(progress.consumed),
        ahead=sorted(progress.ahead),
        table_id=progress.table_id,
        kafka=None if progress.kafka is None else place_to_message(progress.kafka),
    )


def progress_from_message(what: str, message: pb.Progress) -> Progress:
    """Decodes a progress. ConfigurationError that names `what` for an invalid field."""
    position = required_position(what, "progress.position", message.position if message.HasField("position") else None)
    place = place_from_message(what, "progress.kafka", message.kafka) if message.HasField("kafka") else None
    return Progress(
        position=position,
        layout=check.number(what, "progress.layout", message.layout, check.MAX_INDEX),
        consumed=check.instants(what, "progress.consumed", message.consumed, check.MAX_CONSUMED),
        ahead=check.instants(what, "progress.ahead", message.ahead, check.MAX_CONSUMED),
        table_id=check.text(what, "progress.table_id", message.table_id),
        kafka=hybrid_checks.checked_position(what, "progress", position, place),
    )


def _point_to_message(point: StreamPoint) -> pb.StreamPoint:
    place, watermark = point.snapshot, point.watermark
    message = pb.StreamPoint(
        progress=progress_to_message(point.progress),
        snapshot=None if place is None else snapshot_to_message(place),
        watermark=pb.Watermark(at_us=watermark.at_us, high_us=watermark.high_us),
        ended=point.ended,
    )
    match point.content:
        case NoBatch():
            message.no_batch.CopyFrom(pb.NoBatch())
        case CommitsBatch(after, without):
            message.commits.CopyFrom(pb.CommitsBatch(after=position_to_message(after), without=sorted(without)))
        case SnapshotBatch(first):
            message.snapshot_batch.CopyFrom(pb.SnapshotBatch(first=first))
        case TopicBatch(ranges):
            message.topic.CopyFrom(pb.TopicBatch(ranges=map(range_to_message, ranges)))
    return message


def _point_from_message(what: str, message: pb.StreamPoint | None) -> StreamPoint:
    if message is None:
        raise check.breach(what, "point", "nothing", "a value")
    if not message.HasField("progress"):
        raise check.breach(what, "point.progress", "nothing", "a value")
    place = snapshot_from_message(what, message.snapshot) if message.HasField("snapshot") else None
    progress = progress_from_message(what, message.progress)
    return StreamPoint(
        progress=progress,
        snapshot=place,
        watermark=_watermark_from_message(message.watermark),
        content=_content_from_message(what, message, place, progress),
        ended=message.ended,
    )


def snapshot_to_message(place: SnapshotPlace) -> pb.SnapshotPlace:
    """Encodes a place in a snapshot."""
    return pb.SnapshotPlace(done=place.done, total=place.total, digest=place.digest)


def snapshot_from_message(what: str, message: pb.SnapshotPlace) -> SnapshotPlace:
    """Decodes a place in a snapshot. ConfigurationError for an invalid field."""
    total = check.number(what, "point.snapshot.total", message.total, check.MAX_SPLITS)
    return SnapshotPlace(
        done=check.number(what, "point.snapshot.done", message.done, total),
        total=total,
        digest=check.digest(what, "point.snapshot.digest", message.digest),
    )


def _watermark_from_message(message: pb.Watermark) -> Watermark:
    """Accepts any number as an event time. An absent message is the unknown watermark."""
    return Watermark(
        message.at_us if message.HasField("at_us") else None, message.high_us if message.HasField("high_us") else None
    )


def _content_from_message(
    what: str, message: pb.StreamPoint, place: SnapshotPlace | None, progress: Progress
) -> BatchContent:
    match message.WhichOneof("content"):
        case "no_batch":
            return NoBatch()
        case "commits":
            after = message.commits.after if message.commits.HasField("after") else None
            return CommitsBatch(
                required_position(what, "point.commits.after", after),
                check.instants(what, "point.commits.without", message.commits.without),
            )
        case "snapshot_batch":
            if place is None:
                raise check.breach(what, "point.snapshot", "nothing", "the place that a batch of a snapshot ends at")
            return SnapshotBatch(
                check.number(what, "point.snapshot_batch.first", message.snapshot_batch.first, place.done)
            )
        case "topic":
            return TopicBatch(batch_ranges_from_message(what, message.topic, progress.kafka))
        case None:
            known = "no_batch, commits, snapshot_batch or topic"
            raise check.breach(what, "point.content", "no content that this build knows", known)
        case other:
            raise InvariantViolation(f"the stubs know content {other!r}, the codec does not")
