"""Encodes and decodes the query of a plan request, the oneof `OpenPlanRequest.query`."""

from __future__ import annotations

from penstock.proto.codec import checks as check
from penstock.proto.codec.changes import format_from_message
from penstock.proto.codec.checks import position_from_message, position_to_message
from penstock.proto.codec.hybrid.messages import range_to_message, ranges_from_message
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import (
    Changes,
    Incremental,
    Latest,
    Query,
    ReadOptimized,
    Snapshot,
    SnapshotAsOf,
    SnapshotPart,
    TopicRanges,
)
from penstock.proto.v1 import penstock_pb2 as pb


def set_query(message: pb.OpenPlanRequest, query: Query) -> None:
    """Sets the query of a request. ValueError (see `checks.encoding`) if a number does not fit into a message."""
    match query:
        case Snapshot():
            message.snapshot.CopyFrom(pb.Snapshot())
        case SnapshotAsOf(instant, base_files_only=False):
            message.snapshot_as_of.CopyFrom(pb.SnapshotAsOf(instant=instant))
        case SnapshotAsOf(instant):
            message.read_optimized_as_of.CopyFrom(pb.SnapshotAsOf(instant=instant))
        case ReadOptimized():
            message.read_optimized.CopyFrom(pb.ReadOptimized())
        case Incremental(after, upto, without):
            end = None if isinstance(upto, Latest) else position_to_message(upto)
            rows = pb.Incremental(after=position_to_message(after), upto=end, without=sorted(without))
            message.incremental.CopyFrom(rows)
        case Changes(change_format, after, upto, without):
            end = None if isinstance(upto, Latest) else position_to_message(upto)
            changes = pb.Changes(
                after=position_to_message(after), upto=end, format=change_format, without=sorted(without)
            )
            message.changes.CopyFrom(changes)
        case SnapshotPart():
            part = pb.SnapshotPart(
                at=position_to_message(query.at),
                first=query.first,
                end=query.end,
                digest=query.digest,
                changes=query.changes or "",
            )
            message.snapshot_part.CopyFrom(part)
        case TopicRanges(ranges):
            message.topic_ranges.CopyFrom(pb.TopicRanges(ranges=map(range_to_message, ranges)))


def query_from_message(what: str, message: pb.OpenPlanRequest) -> Query:
    """Decodes a query. ConfigurationError that names `what` for an invalid field or an unknown query kind."""
    match message.WhichOneof("query"):
        case "snapshot":
            return Snapshot()
        case "snapshot_as_of":
            return SnapshotAsOf(check.instant(what, "snapshot_as_of.instant", message.snapshot_as_of.instant))
        case "read_optimized":
            return ReadOptimized()
        case "read_optimized_as_of":
            instant = message.read_optimized_as_of.instant
            return SnapshotAsOf(check.instant(what, "read_optimized_as_of.instant", instant), base_files_only=True)
        case "incremental":
            return Incremental(*_span(what, "incremental", message.incremental))
        case "changes":
            span = _span(what, "changes", message.changes)
            return Changes(format_from_message(what, message.changes.format), *span)
        case "snapshot_part":
            return _part(what, message.snapshot_part)
        case "topic_ranges":
            return _topic_ranges(what, message)
        case None:
            known = (
                "snapshot, snapshot_as_of, read_optimized, read_optimized_as_of, incremental, changes, snapshot_part "
                "or topic_ranges"
            )
            raise check.breach(what, "query", "no query kind that this build knows", known)
        case other:
            raise InvariantViolation(f"the stubs know query kind {other!r}, the codec does not")


def _span(
    what: str, field: str, message: pb.Incremental | pb.Changes
) -> tuple[Position, Position | Latest, frozenset[InstantTime]]:
    """Decodes (after, upto, without) of a range."""
    if not message.HasField("after"):
        raise check.breach(what, f"{field}.after", "nothing", "a position, `0` for the earliest")
    after = position_from_message(what, f"{field}.after", message.after)
    without = check.instants(what, f"{field}.without", message.without)
    if not message.HasField("upto"):
        return after, Latest(), without
    return after, position_from_message(what, f"{field}.upto", message.upto), without


def _part(what: str, message: pb.SnapshotPart) -> SnapshotPart:
    if not message.HasField("at"):
        raise check.breach(what, "snapshot_part.at", "nothing", "a position")
    end = check.number(what, "snapshot_part.end", message.end, check.MAX_SPLITS)
    return SnapshotPart(
        at=position_from_message(what, "snapshot_part.at", message.at),
        first=check.number(what, "snapshot_part.first", message.first, end),
        end=end,
        digest=check.digest(what, "snapshot_part.digest", message.digest),
        changes=format_from_message(what, message.changes) if message.changes else None,
    )


def _topic_ranges(what: str, message: pb.OpenPlanRequest) -> TopicRanges:
    ranges = ranges_from_message(what, "topic_ranges", message.topic_ranges.ranges)
    if not message.HasField("hybrid"):
        raise check.breach(what, "topic_ranges", "ranges of a topic", "none unless the request is of a hybrid read")
    if ranges and ranges[0].topic != message.hybrid.topic:
        raise check.breach(what, "topic_ranges", f"topic {ranges[0].topic}", "that of `hybrid`")
    return TopicRanges(ranges)
