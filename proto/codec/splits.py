"""Encodes and decodes `Split` and `Scan` as messages of `penstock.v1`.

`*_to_message` is deterministic: sets are sorted. `*_from_message` checks every field and returns a value equal to the
encoded one. A message with a format version above FORMAT_VERSION is refused, because a field that this build ignores
may change which rows are correct. A change that adds such a field raises FORMAT_VERSION and keeps a fixture of the old
version.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Final

from penstock.proto.codec import checks as check
from penstock.proto.codec.changes import (
    changes_from_message,
    changes_of_from_message,
    changes_of_to_message,
    changes_to_message,
    file_from_message,
    file_to_message,
)
from penstock.proto.codec.hybrid.messages import (
    range_from_message,
    range_to_message,
    records_from_message,
    records_to_message,
)
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.changes import ChangesOf, GroupChanges
from penstock.proto.model.hybrid import KafkaRange
from penstock.proto.model.positions import MAX_COMPLETIONS, CompletionTimes
from penstock.proto.model.splits import (
    AllRows,
    CommitTimeOrdering,
    CustomMerge,
    DeleteMarker,
    EventTimeBounds,
    EventTimeOrdering,
    Exclusions,
    FillDefaults,
    FillMarked,
    FillMode,
    FillNulls,
    MergeMode,
    NoEventTimes,
    Origin,
    RowGroupRun,
    RowLineage,
    RowsOf,
    Scan,
    Split,
    UnknownBounds,
    VisibleInstants,
    WholeFile,
    WholeRecords,
)
from penstock.proto.v1 import penstock_pb2 as pb

_MAX_INSTANT: Final = 10**17 - 1
_MAX_MS: Final = 2**53


def split_to_message(split: Split) -> pb.Split:
    """Encodes a split. ValueError (see `checks.encoding`) if a number or text does not fit into a message."""
    message = pb.Split(
        format_version=split.format_version,
        split_id=split.split_id,
        partition=split.partition,
        partition_values=[pb.PartitionValue(value=value) for value in split.partition_values],
        file_group=split.file_group,
        order_key=split.order_key,
        base=None if split.base is None else file_to_message(split.base),
        base_instant=split.base_instant,
        logs=[file_to_message(log) for log in split.logs],
    )
    match split.part:
        case WholeFile():
            pass
        case RowGroupRun(first, end, size_bytes):
            message.row_groups.CopyFrom(pb.RowGroupRun(first=first, end=end, size_bytes=size_bytes))
        case GroupChanges() as changes:
            message.changes.CopyFrom(changes_to_message(changes))
        case KafkaRange() as part:
            message.kafka.CopyFrom(range_to_message(part))
    match split.event_time:
        case UnknownBounds():
            pass
        case NoEventTimes():
            message.no_event_times.CopyFrom(pb.NoEventTimes())
        case EventTimeBounds(min_us, max_us):
            message.event_time.CopyFrom(pb.EventTimeBounds(min_us=min_us, max_us=max_us))
    if split.ancestry is not None:
        message.ancestry.CopyFrom(_ancestry_to_message(split.ancestry))
    if split.left_out is not None:
        exclusions = split.left_out
        message.left_out.CopyFrom(
            pb.LeftOut(
                rows=sorted(exclusions.rows),
                some_rows=sorted(exclusions.some_rows),
                blocks=sorted(exclusions.blocks),
            )
        )
    return message


def _ancestry_to_message(ancestry: RowLineage) -> pb.Ancestry:
    return pb.Ancestry(
        inside=sorted(ancestry.inside),
        outside=sorted(ancestry.outside),
        origins=[
            pb.Origin(service=origin.service, slices=[split_to_message(split) for split in origin.slices])
            for origin in ancestry.origins
        ],
    )


def split_from_message(message: pb.Split, depth: int = 0) -> Split:
    """Decodes a split. StateVersionError for an unknown format version, ConfigurationError for an invalid field.

    `depth` is the number of splits that contain this one: a split of an origin is inside another split."""
    what = f"split {message.split_id[:80]!r}"
    version = check.known_version(what, message.format_version)
    base = file_from_message(what, "base", message.base) if message.HasField("base") else None
    logs = check.counted(what, "logs", message.logs, check.MAX_LOGS)
    if message.HasField("kafka"):
        _check_range_alone(what, message, depth)
    elif message.HasField("changes"):
        if base is not None or logs or message.HasField("row_groups"):
            raise check.breach(what, "changes", "changes beside a slice", "one of both")
    elif base is None and not logs:
        raise check.breach(what, "base", "neither a base file nor a log file", "one of them")
    return Split(
        format_version=version,
        split_id=check.name(what, "split_id", message.split_id),
        partition=check.text(what, "partition", message.partition, check.MAX_PATH_CHARS),
        partition_values=tuple(
            check.text(what, "partition_values", entry.value, check.MAX_PATH_CHARS) if entry.HasField("value") else None
            for entry in check.counted(what, "partition_values", message.partition_values, check.MAX_FIELDS)
        ),
        file_group=check.name(what, "file_group", message.file_group),
        order_key=check.instant(what, "order_key", message.order_key),
        base=base,
        base_instant=check.instant_or_empty(what, "base_instant", message.base_instant),
        part=_part_from_message(what, message),
        logs=tuple(file_from_message(what, "logs", log) for log in logs),
        event_time=_bounds_from_message(what, message),
        ancestry=_ancestry_from_message(what, message, depth) if message.HasField("ancestry") else None,
        left_out=_left_out_from_message(what, message.left_out) if message.HasField("left_out") else None,
    )


def _check_range_alone(what: str, message: pb.Split, depth: int) -> None:
    others = [field for field in ("base", "row_groups", "changes", "ancestry", "left_out") if message.HasField(field)]
    if others or message.logs or message.base_instant:
        raise check.breach(what, "kafka", f"files beside a range of a topic: {others or 'logs'}", "the range alone")
    if depth:
        raise check.breach(what, "ancestry.origins", "a range of a topic", "file slices")


def _left_out_from_message(what: str, message: pb.LeftOut) -> Exclusions:
    return Exclusions(
        rows=check.instants(what, "left_out.rows", message.rows),
        some_rows=check.instants(what, "left_out.some_rows", message.some_rows),
        blocks=check.instants(what, "left_out.blocks", message.blocks),
    )


def _ancestry_from_message(what: str, message: pb.Split, depth: int) -> RowLineage:
    if depth >= check.MAX_ANCESTORS:
        raise check.breach(what, "ancestry", f"{depth} nested splits", f"up to {check.MAX_ANCESTORS}")
    origins = check.counted(what, "ancestry.origins", message.ancestry.origins, check.MAX_LOGS)
    return RowLineage(
        inside=check.instants(what, "ancestry.inside", message.ancestry.inside),
        outside=check.instants(what, "ancestry.outside", message.ancestry.outside),
        origins=tuple(
            Origin(
                check.instant(what, "ancestry.origins", origin.service),
                tuple(
                    split_from_message(split, depth + 1)
                    for split in check.counted(what, "ancestry.origins", origin.slices, check.MAX_LOGS)
                ),
            )
            for origin in origins
        ),
    )


def _part_from_message(what: str, message: pb.Split) -> WholeFile | RowGroupRun | GroupChanges | KafkaRange:
    if message.HasField("kafka"):
        return range_from_message(what, "kafka", message.kafka)
    if message.HasField("changes"):
        return changes_from_message(what, message.changes)
    if not message.HasField("row_groups"):
        return WholeFile()
    first, end = message.row_groups.first, message.row_groups.end
    check.number(what, "row_groups", end, check.MAX_INDEX)
    if first >= end:
        raise check.breach(what, "row_groups", f"{first} to {end}", "a first row group below the end")
    if message.logs or not message.HasField("base"):
        raise check.breach(what, "row_groups", "a run of row groups", "none unless the split is a base file alone")
    return RowGroupRun(first, end, message.row_groups.size_bytes)


def _bounds_from_message(what: str, message: pb.Split) -> EventTimeBounds | NoEventTimes | UnknownBounds:
    if not message.HasField("event_time"):
        return NoEventTimes() if message.HasField("no_event_times") else UnknownBounds()
    if message.HasField("no_event_times"):
        raise check.breach(what, "no_event_times", "bounds beside it", "one of both")
    min_us, max_us = message.event_time.min_us, message.event_time.max_us
    if min_us > max_us:
        raise check.breach(what, "event_time", f"{min_us} to {max_us}", "a minimum not above the maximum")
    return EventTimeBounds(min_us, max_us)


def scan_to_message(scan: Scan) -> pb.Scan:
    """Encodes a scan. ValueError (see `checks.encoding`) if a number or text does not fit into a message."""
    message = pb.Scan(
        format_version=scan.format_version,
        table=scan.table,
        base_path=scan.base_path,
        table_version=scan.table_version,
        schema_json=scan.schema_json,
        columns=scan.columns,
        where=scan.where,
        visible=pb.VisibleInstants(
            members=sorted(scan.visible.members),
            archived_before=scan.visible.archived_before,
            not_after=scan.visible.not_after,
        ),
        partition_fields=scan.partition_fields,
        skip_corrupt=scan.skip_corrupt,
        key_fields=scan.key_fields,
        schema_history=scan.schema_history,
        keys_may_be_named=scan.keys_may_be_named,
        topic=None if scan.topic is None else records_to_message(scan.topic),
        completion_times=None if scan.completion_times is None else completion_to_message(scan.completion_times),
        bootstrap_base_path=scan.bootstrap_base_path,
    )
    match scan.merge:
        case CommitTimeOrdering():
            message.commit_time.CopyFrom(pb.CommitTimeOrdering())
        case EventTimeOrdering(fields, dotted, deletes_win):
            message.event_time.CopyFrom(
                pb.EventTimeOrdering(ordering_fields=fields, dotted_numbers=dotted, deletes_win=deletes_win)
            )
        case CustomMerge(name, of_payload, fields):
            message.custom.CopyFrom(pb.CustomMerge(name=name, of_payload=of_payload, ordering_fields=fields))
    if scan.delete_marker is not None:
        message.delete_marker.CopyFrom(marker_to_message(scan.delete_marker))
    match scan.fill:
        case WholeRecords():
            pass
        case FillNulls():
            message.fill_nulls.CopyFrom(pb.FillNulls())
        case FillDefaults(by_identity):
            message.fill_defaults.CopyFrom(pb.FillDefaults(by_identity=by_identity))
        case FillMarked(marker, from_newer):
            message.fill_marked.CopyFrom(pb.FillMarked(marker=marker, from_newer=from_newer))
    match scan.rows:
        case AllRows():
            pass
        case RowsOf(instants, log_compactions):
            message.rows.CopyFrom(pb.RowsOf(instants=sorted(instants), log_compactions=sorted(log_compactions)))
        case ChangesOf() as changes:
            message.changes.CopyFrom(changes_of_to_message(changes))
    return message


def scan_from_message(message: pb.Scan) -> Scan:
    """Decodes a scan. StateVersionError for an unknown format version, ConfigurationError for an invalid field."""
    what = f"scan of table {message.table[:80]!r}"
    version = check.known_version(what, message.format_version)
    if not message.HasField("visible"):
        raise check.breach(what, "visible", "nothing", "the instants whose log blocks are visible")
    if not message.columns:
        raise check.breach(what, "columns", "none", "at least one output column")
    return Scan(
        format_version=version,
        table=check.name(what, "table", message.table, check.MAX_PATH_CHARS),
        base_path=check.name(what, "base_path", message.base_path, check.MAX_PATH_CHARS),
        table_version=check.number(what, "table_version", message.table_version, check.MAX_INDEX),
        schema_json=check.name(what, "schema_json", message.schema_json, check.MAX_SCHEMA_CHARS),
        columns=check.names(what, "columns", message.columns, check.MAX_COLUMNS),
        where=check.text(what, "where", message.where, check.MAX_WHERE_CHARS),
        merge=_merge_from_message(what, message),
        visible=VisibleInstants(
            members=check.instants(what, "visible.members", message.visible.members),
            archived_before=check.instant_or_empty(what, "visible.archived_before", message.visible.archived_before),
            not_after=str(check.instant(what, "visible.not_after", message.visible.not_after)),
        ),
        rows=_rows_from_message(what, message),
        partition_fields=check.names(what, "partition_fields", message.partition_fields),
        delete_marker=marker_from_message(what, message.delete_marker) if message.HasField("delete_marker") else None,
        fill=_fill_from_message(what, message),
        skip_corrupt=message.skip_corrupt,
        key_fields=check.names(what, "key_fields", message.key_fields),
        schema_history=check.text(what, "schema_history", message.schema_history, check.MAX_SCHEMA_CHARS),
        keys_may_be_named=message.keys_may_be_named,
        topic=records_from_message(what, message.topic) if message.HasField("topic") else None,
        completion_times=completion_from_message(what, message.completion_times)
        if message.HasField("completion_times")
        else None,
        bootstrap_base_path=check.text(what, "bootstrap_base_path", message.bootstrap_base_path, check.MAX_PATH_CHARS),
    )


def _rows_from_message(what: str, message: pb.Scan) -> AllRows | RowsOf | ChangesOf:
    if message.HasField("changes"):
        if message.HasField("rows"):
            raise check.breach(what, "changes", "changes beside rows", "one of both")
        return changes_of_from_message(what, message.changes)
    if not message.HasField("rows"):
        return AllRows()
    return RowsOf(
        check.instants(what, "rows", message.rows.instants),
        check.instants(what, "rows.log_compactions", message.rows.log_compactions),
    )


def marker_to_message(marker: DeleteMarker) -> pb.DeleteMarker:
    """Encodes a delete marker."""
    return pb.DeleteMarker(field=marker.field, value=marker.value)


def marker_from_message(what: str, message: pb.DeleteMarker) -> DeleteMarker:
    """Decodes a delete marker. ConfigurationError that names `what` if the column or the value is empty."""
    field = check.name(what, "delete_marker.field", message.field)
    return DeleteMarker(field, check.name(what, "delete_marker.value", message.value))


def _fill_from_message(what: str, message: pb.Scan) -> FillMode:
    match message.WhichOneof("fill"):
        case "fill_nulls":
            return FillNulls()
        case "fill_defaults":
            return FillDefaults(message.fill_defaults.by_identity)
        case "fill_marked":
            marker = check.name(what, "fill_marked.marker", message.fill_marked.marker)
            return FillMarked(marker, message.fill_marked.from_newer)
        case None:
            return WholeRecords()
        case other:
            raise InvariantViolation(f"the stubs know fill mode {other!r}, the codec does not")


def _merge_from_message(what: str, message: pb.Scan) -> MergeMode:
    match message.WhichOneof("merge"):
        case "commit_time":
            return CommitTimeOrdering()
        case "event_time":
            fields = check.names(what, "ordering_fields", message.event_time.ordering_fields)
            dotted = message.event_time.dotted_numbers
            if dotted and len(fields) != 1:
                raise check.breach(what, "dotted_numbers", f"{len(fields)} ordering fields", "one")
            return EventTimeOrdering(fields, dotted, message.event_time.deletes_win)
        case "custom":
            fields = check.names(what, "custom.ordering_fields", message.custom.ordering_fields)
            return CustomMerge(check.name(what, "custom.name", message.custom.name), message.custom.of_payload, fields)
        case None:
            expected = "commit_time, event_time or custom"
            raise check.breach(what, "merge", "no merge mode that this build knows", expected)
        case other:
            raise InvariantViolation(f"the stubs know merge mode {other!r}, the codec does not")


def completion_to_message(times: CompletionTimes) -> pb.CompletionTimes:
    """Encodes completion times."""
    return pb.CompletionTimes(
        instants=[later - before for before, later in pairwise((0, *times.instants))],
        completed_ms=[later - before for before, later in pairwise((0, *times.completed_ms))],
    )


def completion_from_message(what: str, message: pb.CompletionTimes) -> CompletionTimes:
    """Decodes completion times. ConfigurationError that names `what` unless the instants ascend and each has a time."""
    field = "completion_times"
    check.counted(what, field, message.instants, MAX_COMPLETIONS)
    if len(message.instants) != len(message.completed_ms):
        raise check.breach(what, field, f"{len(message.completed_ms)} times", f"{len(message.instants)}, one each")
    instants, completed_ms = tuple(accumulate(message.instants)), tuple(accumulate(message.completed_ms))
    if not all(message.instants) or (instants and instants[-1] > _MAX_INSTANT):
        raise check.breach(what, field, "instants that do not ascend, or are too long", "ascending, up to 17 digits")
    if completed_ms and not (min(completed_ms) >= -_MAX_MS and max(completed_ms) <= _MAX_MS):
        raise check.breach(what, field, "a time beyond the calendar", f"milliseconds within {_MAX_MS} of 1970")
    return CompletionTimes(instants, completed_ms)
