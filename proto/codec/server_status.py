"""`ServerStatus` ⇄ messages; what comes from a server is checked and bounded."""

from __future__ import annotations

from typing import Final

from penstock.proto.codec import checks as check
from penstock.proto.codec import groups as groups
from penstock.proto.codec import streams as streams
from penstock.proto.codec.hybrid.messages import place_from_message, place_to_message
from penstock.proto.codec.table_calls import catalog_to_message, catalogs_from_message
from penstock.proto.model.groups import GroupStatus, ServerStatus, TableStatus
from penstock.proto.model.server_status import StreamState, StreamStatus
from penstock.proto.v1 import penstock_pb2 as pb

MAX_LISTED: Final = 100_000
"""Tables, groups and streams of a status: three groups of each of 10,000 tables, and more."""
MAX_TABLE_ERROR_CHARS: Final = 2_000


def status_to_message(status: ServerStatus) -> pb.DescribeServerResponse:
    """What a server does now."""
    with check.encoding("status of the server"):
        return pb.DescribeServerResponse(
            version=status.version,
            now_ms=status.now_ms,
            uptime_ms=status.uptime_ms,
            tables=[
                pb.TableStatus(
                    table=each.table,
                    watermark_ms=_since_1970(each.watermark_ms),
                    error_code=each.error_code,
                    error=each.error[:MAX_TABLE_ERROR_CHARS],
                )
                for each in status.tables
            ],
            groups=[group_status_to_message(each) for each in status.groups],
            streams=[_stream_to_message(each) for each in status.streams],
            catalogs=[catalog_to_message(each) for each in status.catalogs],
        )


def status_from_message(message: pb.DescribeServerResponse) -> ServerStatus:
    """ConfigurationError for a field that cannot be."""
    what = "status of the server"
    return ServerStatus(
        version=check.text(what, "version", message.version),
        now_ms=check.number(what, "now_ms", message.now_ms),
        uptime_ms=check.number(what, "uptime_ms", message.uptime_ms),
        tables=tuple(
            TableStatus(
                check.name(what, "tables.table", each.table, check.MAX_PATH_CHARS),
                check.number(what, "tables.watermark_ms", each.watermark_ms) if each.HasField("watermark_ms") else None,
                check.text(what, "tables.error_code", each.error_code),
                check.text(what, "tables.error", each.error, MAX_TABLE_ERROR_CHARS),
            )
            for each in check.counted(what, "tables", message.tables, MAX_LISTED)
        ),
        groups=tuple(
            group_status_from_message(what, each) for each in check.counted(what, "groups", message.groups, MAX_LISTED)
        ),
        streams=tuple(
            _stream_from_message(what, each) for each in check.counted(what, "streams", message.streams, MAX_LISTED)
        ),
        catalogs=catalogs_from_message(message),
    )


def group_status_to_message(status: GroupStatus) -> pb.GroupStatus:
    """The state and throughput of a group."""
    return pb.GroupStatus(
        summary=groups.summary_to_message(status.summary),
        pending_splits=status.pending_splits,
        held_splits=status.held_splits,
        lag=None if status.lag is None else groups.lag_to_message(status.lag),
        issued_ms=_since_1970(status.issued_ms),
        rows=status.rows,
        size_bytes=status.size_bytes,
        finished_splits=status.finished_splits,
        expired_splits=status.expired_splits,
        fenced=status.fenced,
        rows_per_second=status.rows_per_second,
        bytes_per_second=status.bytes_per_second,
        error_code=status.error_code,
        lag_age_ms=status.lag_age_ms,
        watermark_us=status.watermark_us,
        alignment=None if status.alignment is None else groups.aligned_to_message(status.alignment),
    )


def group_status_from_message(what: str, message: pb.GroupStatus) -> GroupStatus:
    """ConfigurationError for a field that cannot be."""
    if not message.HasField("summary"):
        raise check.breach(what, "groups.summary", "nothing", "a summary")
    return GroupStatus(
        summary=groups.summary_from_message(what, message.summary),
        pending_splits=check.number(what, "groups.pending_splits", message.pending_splits),
        held_splits=check.number(what, "groups.held_splits", message.held_splits),
        lag=groups.lag_from_message(what, message.lag) if message.HasField("lag") else None,
        issued_ms=check.number(what, "groups.issued_ms", message.issued_ms) if message.HasField("issued_ms") else None,
        rows=check.number(what, "groups.rows", message.rows),
        size_bytes=check.number(what, "groups.size_bytes", message.size_bytes),
        finished_splits=check.number(what, "groups.finished_splits", message.finished_splits),
        expired_splits=check.number(what, "groups.expired_splits", message.expired_splits),
        fenced=check.number(what, "groups.fenced", message.fenced),
        rows_per_second=check.duration(what, "groups.rows_per_second", message.rows_per_second),
        bytes_per_second=check.duration(what, "groups.bytes_per_second", message.bytes_per_second),
        error_code=check.text(what, "groups.error_code", message.error_code),
        lag_age_ms=(
            check.number(what, "groups.lag_age_ms", message.lag_age_ms) if message.HasField("lag_age_ms") else None
        ),
        watermark_us=message.watermark_us if message.HasField("watermark_us") else None,
        alignment=groups.aligned_from_message(what, message.alignment) if message.HasField("alignment") else None,
    )


def _stream_to_message(status: StreamStatus) -> pb.StreamStatus:
    return pb.StreamStatus(
        table=status.table,
        name=status.name,
        state=status.state.value,
        committed=check.position_to_message(status.committed),
        planned=check.position_to_message(status.planned),
        batches=status.batches,
        silent_ms=status.silent_ms,
        watermark_us=status.watermark_us,
        snapshot=None if status.snapshot is None else streams.snapshot_to_message(status.snapshot),
        kafka=None if status.kafka is None else place_to_message(status.kafka),
        lag=None if status.lag is None else groups.lag_to_message(status.lag),
        lag_age_ms=status.lag_age_ms,
        error_code=status.error_code,
        alignment=status.alignment,
        alignment_number=status.alignment_number,
        ceiling_us=status.ceiling_us,
    )


def _stream_from_message(what: str, message: pb.StreamStatus) -> StreamStatus:
    state = check.one_of(what, "streams.state", message.state, [each.value for each in StreamState])
    committed = message.committed if message.HasField("committed") else None
    planned = message.planned if message.HasField("planned") else None
    return StreamStatus(
        table=check.name(what, "streams.table", message.table, check.MAX_PATH_CHARS),
        name=check.name(what, "streams.name", message.name),
        state=StreamState(state),
        committed=groups.required_position(what, "streams.committed", committed),
        planned=groups.required_position(what, "streams.planned", planned),
        batches=check.number(what, "streams.batches", message.batches),
        silent_ms=check.number(what, "streams.silent_ms", message.silent_ms),
        watermark_us=message.watermark_us if message.HasField("watermark_us") else None,
        snapshot=streams.snapshot_from_message(what, message.snapshot) if message.HasField("snapshot") else None,
        kafka=place_from_message(what, "streams.kafka", message.kafka) if message.HasField("kafka") else None,
        lag=groups.lag_from_message(what, message.lag) if message.HasField("lag") else None,
        lag_age_ms=check.number(what, "streams.lag_age_ms", message.lag_age_ms),
        error_code=check.text(what, "streams.error_code", message.error_code),
        alignment=check.text(what, "streams.alignment", message.alignment),
        alignment_number=message.alignment_number,
        ceiling_us=message.ceiling_us if message.HasField("ceiling_us") else None,
    )


def _since_1970(moment_ms: int | None) -> int | None:
    """A moment as the message can hold it: None for one before 1970."""
    return moment_ms if moment_ms is not None and moment_ms >= 0 else None
