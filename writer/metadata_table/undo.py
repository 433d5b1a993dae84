"""Rolls an instant back in the metadata table, as `HoodieBackedTableMetadataWriter.update(HoodieRollbackMetadata)`.

On timeline layout 2 each log belongs to one instant: the rollback deletes the logs of the instant, then its timeline
files. Before the data table's instant is removed, so that no reader takes the records for those of an archived instant.
"""

from __future__ import annotations

import contextlib

from penstock.proto.errors import TableError
from penstock.proto.model.positions import InstantTime
from penstock.table.files.markers import MAX_MARKER_BYTES
from penstock.table.files.names import parse_file_name
from penstock.table.metadata.files import FILES, listing_of
from penstock.table.metadata.metadata_table import MetadataTable
from penstock.table.metadata.validity import created_at, pending_instants
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action, Instant, State
from penstock.table.timeline.services.rollback_encoder import (
    CompletedRollback,
    RollbackPlan,
    RollbackRequest,
    RolledBackPartition,
    encode_rollback,
    encode_rollback_plan,
    parse_rollback_plan,
)
from penstock.writer.metadata_table.opened import NewTime, WritableMetadata


def undo_instant(metadata: WritableMetadata, target: str, rollback: InstantTime, new_time: NewTime) -> None:
    """Rolls `target` back in the metadata table, by an instant of the requested time `rollback`. Goes on with one that
    another process began. Nothing happens if the metadata table has neither.

    Call it under the lock of the data table. TableError if a compaction has merged the records of the instant.
    """
    own = [item for item in metadata.instants_at(rollback) if item.action is Action.ROLLBACK]
    if any(item.is_completed for item in own):
        return
    if not own:
        found = [item for item in metadata.instants_at(target) if item.action is Action.DELTA_COMMIT]
        if not found:
            return
        _refuse_compacted(metadata, found[0])
        plan = encode_rollback_plan(found[0], _requests(metadata, target), metadata.storage.base_path)
        metadata.storage.create(metadata.path_of(rollback, Action.ROLLBACK, State.REQUESTED), plan)
    _carry_out(metadata, rollback, new_time)


def check_undone(metadata: WritableMetadata, target: str, data: Timeline) -> None:
    """TableError if the metadata table still lists files of the instant `target`: it was created from folders that had
    them, so that no instant of its own could be rolled back."""
    if target > created_at(metadata.timeline):
        return
    records = MetadataTable(metadata.table, metadata.timeline, pending_instants(data)).records(FILES, None)
    for partition, files in listing_of(records).items():
        for name in files:
            parsed = parse_file_name(name)
            if parsed is not None and parsed.instant == target:
                raise TableError(
                    f"{metadata.where} was created with {partition}/{name} of instant {target}, which is rolled back"
                )


def _carry_out(metadata: WritableMetadata, rollback: InstantTime, new_time: NewTime) -> None:
    storage = metadata.storage
    plan = _plan(metadata, rollback)
    with contextlib.suppress(FileExistsError):
        storage.create(metadata.path_of(rollback, Action.ROLLBACK, State.INFLIGHT), b"")
    for request in plan.requests:
        for name in request.file_names:
            parsed = parse_file_name(name)
            if parsed is None or parsed.instant != plan.target:
                raise TableError(f"{metadata.where}: the rollback of {plan.target} names {name[:200]!r}")
            storage.remove(f"{request.partition}/{name}")
    for item in metadata.instants_at(plan.target):
        if item.is_completed and item.action is Action.DELTA_COMMIT:
            storage.remove(f"{metadata.table.properties.timeline_folder}/{item.file_name}")
    for state in (State.INFLIGHT, State.REQUESTED):
        storage.remove(metadata.path_of(plan.target, Action.DELTA_COMMIT, state))
    done = CompletedRollback(
        instant=rollback,
        target=plan.target,
        action=plan.action,
        partitions=tuple(RolledBackPartition(request.partition, request.file_names) for request in plan.requests),
        took_ms=0,
    )
    data = encode_rollback(done, storage.base_path)
    completion = new_time(metadata.refreshed().timeline)  # later than `rollback`
    storage.create(metadata.path_of(rollback, Action.ROLLBACK, State.COMPLETED, completion), data)


def _plan(metadata: WritableMetadata, rollback: InstantTime) -> RollbackPlan:
    path = metadata.path_of(rollback, Action.ROLLBACK, State.REQUESTED)
    instant = Instant(
        requested_time=rollback,
        completion_time=None,
        action=Action.ROLLBACK,
        state=State.REQUESTED,
        file_name=path.rpartition("/")[2],
    )
    data = metadata.storage.read_bytes(path, MAX_MARKER_BYTES)
    return parse_rollback_plan(data, instant, metadata.storage.base_path)


def _refuse_compacted(metadata: WritableMetadata, target: Instant) -> None:
    """TableError if a compaction began after the instant had completed."""
    for item in metadata.timeline.instants:
        is_compaction = item.action in (Action.COMMIT, Action.COMPACTION, Action.LOG_COMPACTION)
        if is_compaction and target.completion_time and target.completion_time <= item.requested_time:
            raise TableError(
                f"{metadata.where}: compaction {item.requested_time} merged the records of instant "
                f"{target.requested_time}, which is rolled back"
            )


def _requests(metadata: WritableMetadata, target: str) -> list[RollbackRequest]:
    """The files of the instant, in each partition that has some."""
    requests = []
    for folder in metadata.storage.list_dir(""):
        if not folder.is_dir or folder.name.startswith("."):
            continue
        names = [
            info.name
            for info in metadata.storage.list_dir(folder.path)
            if not info.is_dir and (name := parse_file_name(info.name)) is not None and name.instant == target
        ]
        if names:
            requests.append(RollbackRequest(partition=folder.path, file_id="", file_names=tuple(sorted(names))))
    return requests
