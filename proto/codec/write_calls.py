"""Requests and answers of `WriteService` as messages of `penstock.v1`."""

from __future__ import annotations

from typing import Final

from penstock.proto.codec import checks as check
from penstock.proto.model.names import checked_name
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import (
    MAX_COMMIT_BYTES,
    MAX_GROUPS_A_WRITE,
    MAX_REQUESTED_BYTES,
    BegunWrite,
    TouchedGroups,
    WriteCommit,
    WriteId,
    WriteProgress,
    WriteSpec,
    WriteState,
    WriteSummary,
)
from penstock.proto.v1 import penstock_pb2 as pb

MAX_PENDING: Final = 100_000
MAX_LISTED: Final = 100_000
WriteRequest = (
    pb.BeginWriteRequest
    | pb.LeaseGroupsRequest
    | pb.RenewWriteRequest
    | pb.CommitWriteRequest
    | pb.AbortWriteRequest
    | pb.ListWritesRequest
)


def id_to_message(write: WriteId) -> pb.WriteId:
    """A write; a bad name is refused before it is sent."""
    checked_name("owner", write.owner)
    with check.encoding(str(write)):
        return pb.WriteId(table=write.table, owner=write.owner, epoch=write.epoch)


def id_of(
    message: pb.BeginWriteRequest
    | pb.LeaseGroupsRequest
    | pb.RenewWriteRequest
    | pb.CommitWriteRequest
    | pb.AbortWriteRequest
    | pb.WriteSummary,
) -> WriteId:
    """The write of a message. ConfigurationError for a field that cannot be."""
    what = type(message).__name__
    if not message.HasField("write"):
        raise check.breach(what, "write", "nothing", "a value")
    write = message.write
    return WriteId(
        check.name(what, "write.table", write.table, check.MAX_PATH_CHARS),
        checked_name("owner", write.owner),
        check.number(what, "write.epoch", write.epoch),
    )


def begin_to_message(write: WriteId, request_id: str, spec: WriteSpec) -> pb.BeginWriteRequest:
    """A begin."""
    with check.encoding(str(write)):
        return pb.BeginWriteRequest(
            write=id_to_message(write),
            action=spec.action,
            requested=spec.requested,
            timeline_timezone=spec.timeline_timezone,
            keeps_metadata=spec.keeps_metadata,
            by_bucket=spec.by_bucket,
            request_id=request_id,
        )


def begin_from_message(message: pb.BeginWriteRequest) -> tuple[WriteId, str, WriteSpec]:
    """(write, request id, spec). ConfigurationError for a field that cannot be."""
    what = "begin of a write"
    spec = WriteSpec(
        action=check.name(what, "action", message.action),
        requested=_data(what, "requested", message.requested, MAX_REQUESTED_BYTES),
        timeline_timezone=check.text(what, "timeline_timezone", message.timeline_timezone),
        keeps_metadata=message.keeps_metadata,
        by_bucket=message.by_bucket,
    )
    return id_of(message), check.name(what, "request_id", message.request_id), spec


def begun_to_message(begun: BegunWrite) -> pb.BeginWriteResponse:
    """The answer to a begin."""
    return pb.BeginWriteResponse(
        instant=begun.instant,
        newest_completed=begun.newest_completed,
        pending=begun.pending,
        lease_ms=begun.lease_ms,
    )


def begun_from_message(message: pb.BeginWriteResponse) -> BegunWrite:
    """ConfigurationError for a field that cannot be."""
    what = "begun write"
    return BegunWrite(
        instant=InstantTime(message.instant),
        newest_completed=check.text(what, "newest_completed", message.newest_completed),
        pending=tuple(
            check.name(what, "pending", each) for each in check.counted(what, "pending", message.pending, MAX_PENDING)
        ),
        lease_ms=_lease(what, message.lease_ms),
    )


def lease_to_message(write: WriteId, touched: TouchedGroups) -> pb.LeaseGroupsRequest:
    """A request for leases."""
    return pb.LeaseGroupsRequest(write=id_to_message(write), touched=touched_to_message(touched))


def lease_from_message(message: pb.LeaseGroupsRequest) -> tuple[WriteId, TouchedGroups]:
    """ConfigurationError for a field that cannot be."""
    return id_of(message), touched_from_message("request for leases", message.touched)


def renew_to_message(write: WriteId, progress: WriteProgress) -> pb.RenewWriteRequest:
    """A sign of life."""
    with check.encoding(str(write)):
        return pb.RenewWriteRequest(write=id_to_message(write), files=progress.files, size_bytes=progress.size_bytes)


def renew_from_message(message: pb.RenewWriteRequest) -> tuple[WriteId, WriteProgress]:
    """ConfigurationError for a field that cannot be."""
    return id_of(message), _progress("renewal of a write", message)


def renewed_from_message(message: pb.RenewWriteResponse) -> int:
    """The length of the lease. ConfigurationError for a field that cannot be."""
    return _lease("renewed write", message.lease_ms)


def commit_to_message(write: WriteId, commit: WriteCommit) -> pb.CommitWriteRequest:
    """A commit."""
    return pb.CommitWriteRequest(
        write=id_to_message(write),
        metadata=commit.metadata,
        touched=touched_to_message(commit.touched),
        writes_base_files=commit.writes_base_files,
    )


def commit_from_message(message: pb.CommitWriteRequest) -> tuple[WriteId, WriteCommit]:
    """ConfigurationError for a field that cannot be."""
    what = "commit of a write"
    commit = WriteCommit(
        metadata=_data(what, "metadata", message.metadata, MAX_COMMIT_BYTES),
        touched=touched_from_message(what, message.touched),
        writes_base_files=message.writes_base_files,
    )
    return id_of(message), commit


def committed_from_message(message: pb.CommitWriteResponse) -> InstantTime:
    """The completion time. ConfigurationError for a field that cannot be."""
    return InstantTime(message.completion_time)


def list_to_message(writes: tuple[WriteSummary, ...]) -> pb.ListWritesResponse:
    """The answer to a list."""
    return pb.ListWritesResponse(
        writes=[
            pb.WriteSummary(
                write=id_to_message(each.id),
                state=each.state.value,
                instant=each.instant,
                groups=each.groups,
                files=each.progress.files,
                size_bytes=each.progress.size_bytes,
                lease_left_ms=each.lease_left_ms,
            )
            for each in writes
        ]
    )


def list_from_message(message: pb.ListWritesResponse) -> tuple[WriteSummary, ...]:
    """ConfigurationError for a field that cannot be."""
    what = "list of writes"
    return tuple(
        WriteSummary(
            id=id_of(each),
            state=_state(what, each.state),
            instant=check.text(what, "instant", each.instant),
            groups=check.number(what, "groups", each.groups),
            progress=_progress(what, each),
            lease_left_ms=check.number(what, "lease_left_ms", each.lease_left_ms),
        )
        for each in check.counted(what, "writes", message.writes, MAX_LISTED)
    )


def listed_table(message: pb.ListWritesRequest) -> str:
    """The table whose writes are listed; '' for all."""
    return check.text("list of writes", "table", message.table, check.MAX_PATH_CHARS)


def _state(what: str, text: str) -> WriteState:
    try:
        return WriteState(text)
    except ValueError:
        raise check.breach(what, "state", repr(text[:40]), "a state of a write") from None


def _progress(what: str, message: pb.RenewWriteRequest | pb.WriteSummary) -> WriteProgress:
    return WriteProgress(
        check.number(what, "files", message.files), check.number(what, "size_bytes", message.size_bytes)
    )


def _lease(what: str, lease_ms: int) -> int:
    if not lease_ms:
        raise check.breach(what, "lease_ms", "0", "1 or more")
    return check.number(what, "lease_ms", lease_ms)


def _data(what: str, field: str, data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise check.breach(what, field, f"{len(data)} bytes", f"at most {limit}")
    return data


def touched_to_message(touched: TouchedGroups) -> pb.TouchedGroups:
    """What is leased, or changed."""
    file_ids: dict[str, list[str]] = {partition: [] for partition in touched.inserted_into}
    for partition, file_id in touched.groups:
        file_ids.setdefault(partition, []).append(file_id)
    return pb.TouchedGroups(
        partitions=[
            pb.TouchedPartition(
                partition=partition,
                file_ids=sorted(file_ids[partition]),
                inserted_into=partition in touched.inserted_into,
            )
            for partition in sorted(file_ids)
        ],
        keys_of_table=touched.keys_of_table,
    )


def touched_from_message(what: str, message: pb.TouchedGroups) -> TouchedGroups:
    """ConfigurationError for a field that cannot be."""
    groups: set[tuple[str, str]] = set()
    inserted: set[str] = set()
    for each in check.counted(what, "touched.partitions", message.partitions, MAX_GROUPS_A_WRITE):
        partition = check.text(what, "touched.partition", each.partition, check.MAX_PATH_CHARS)
        if each.inserted_into:
            inserted.add(partition)
        file_ids = check.counted(what, "touched.file_ids", each.file_ids, MAX_GROUPS_A_WRITE)
        groups.update((partition, check.name(what, "touched.file_ids", file_id)) for file_id in file_ids)
    return TouchedGroups(
        groups=frozenset(groups), inserted_into=frozenset(inserted), keys_of_table=message.keys_of_table
    )
