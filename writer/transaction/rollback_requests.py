"""What a rollback of an instant removes: by the markers of a write that is not complete, else by its metadata.

Source: Hudi `MarkerBasedRollbackStrategy`, `ListingBasedRollbackStrategy`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.proto.errors import CorruptFile
from penstock.table.files.markers import Marker
from penstock.table.files.names import LogName, parse_file_name
from penstock.table.files.slices import GroupId
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.instants import Action, Instant
from penstock.table.timeline.services.rollback_encoder import RollbackRequest
from penstock.writer.transaction.marked_files import joined
from penstock.writer.transaction.markers import attempt_folder, markers_of


def requests_by_markers(table: HudiTable, storage: WritableStorage, requested_time: str) -> tuple[RollbackRequest, ...]:
    """What the rollback of a pending write removes, by its markers. Attempts at its tasks can create no more files
    then. CorruptFile for a marker of a file that another instant wrote."""
    files = [(marker.partition, marker.file_name) for marker in _last_markers(storage, requested_time)]
    return _requests(table, storage, requested_time, files, cancels=table.properties.layout == 1)


def requests_of(table: HudiTable, storage: WritableStorage, instant: Instant) -> tuple[RollbackRequest, ...]:
    """What the rollback of an instant in any state removes, when no later instant is left.

    Of a completed write: the files in its metadata, and all others with its instant in the same partitions, such as
    those of attempts. On layout 1 the logs of later writes have the instant of their slice: they go with it, also those
    of a pending compaction. So do the logs of an upgraded table that were written before its upgrade.
    """
    files: dict[tuple[str, str], None] = {}
    partitions: set[str] = set()
    if instant.is_completed:
        for stat in table.commit(instant).stats:
            partitions.add(stat.partition)
            files.update(dict.fromkeys((stat.partition, path.rpartition("/")[2]) for path in stat.change_logs))
            if stat.file_name:
                files[stat.partition, stat.file_name] = None
    else:
        files.update(
            dict.fromkeys(
                (marker.partition, marker.file_name) for marker in _last_markers(storage, instant.requested_time)
            )
        )
        partitions.update(partition for partition, _ in files)
        if instant.action is Action.COMPACTION:
            partitions.update(group.partition for group in table.compaction_plan(instant))
    for partition in sorted(partitions):
        for info in storage.list_dir(partition):
            name = parse_file_name(info.name)
            if name is not None and name.instant == instant.requested_time:
                files[partition, info.name] = None
    cancels = table.properties.layout == 1 or instant.is_completed
    return _requests(table, storage, instant.requested_time, files, cancels=cancels)


def late_requests(planned: Sequence[RollbackRequest], marked: Sequence[RollbackRequest]) -> list[RollbackRequest]:
    """What a rollback removes beside its plan. Pure.

    Hudi closes no folder of attempts: between its plan and now an attempt may have created a file. marked: the requests
    by all markers. One rollback block cancels all blocks of the instant in a slice.
    """
    files = {(request.partition, name) for request in planned for name in request.file_names}
    logs = {(request.partition, name) for request in planned for name in request.logs}
    slices = {(request.partition, request.file_id) for request in planned if request.logs}
    late = []
    for request in marked:
        names = tuple(name for name in request.file_names if (request.partition, name) not in files)
        is_cancelled = (request.partition, request.file_id) in slices or any(
            (request.partition, name) in logs for name in request.logs
        )
        if names or (request.logs and not is_cancelled):
            late.append(replace(request, file_names=names, logs={} if is_cancelled else request.logs))
    return late


def _last_markers(storage: WritableStorage, requested_time: str) -> list[Marker]:
    """The markers of an instant, to which attempts at its tasks can add no more files: each that appeared has one."""
    storage.close_folder(attempt_folder(requested_time))
    return markers_of(storage, requested_time)


def _requests(
    table: HudiTable, storage: WritableStorage, requested_time: str, files: Iterable[tuple[str, str]], *, cancels: bool
) -> tuple[RollbackRequest, ...]:
    """files: (partition, name). On layout 1 a log belongs to the slice in its name, and may have blocks of other
    writes: with `cancels` a block of its own cancels those of this write."""
    removed: dict[GroupId, list[str]] = defaultdict(list)
    cancelled: dict[GroupId, dict[str, int]] = defaultdict(dict)
    for partition, file_name in files:
        name = parse_file_name(file_name)
        if name is None:
            continue
        group = (partition, name.file_id)
        if name.instant == requested_time:
            removed[group].append(file_name)
        elif cancels and isinstance(name, LogName) and not name.is_cdc:
            info = storage.file_info(joined(partition, file_name))
            if info is not None:
                cancelled[group][file_name] = info.size_bytes
        else:
            raise foreign_file(table, requested_time, partition, file_name)
    return tuple(
        RollbackRequest(
            partition=partition,
            file_id=file_id,
            file_names=tuple(removed.get((partition, file_id), ())),
            logs=(logs := cancelled.get((partition, file_id), {})),
            base_instant=max((name.instant for log in logs if (name := parse_file_name(log))), default=""),
        )
        for partition, file_id in sorted({*removed, *cancelled})
    )


def foreign_file(table: HudiTable, requested_time: str, partition: str, name: str) -> CorruptFile:
    """The error of a rollback that would remove a file of another instant."""
    return CorruptFile(
        f"table {redacted_uri(table.base_path)}: the rollback of {requested_time} would remove "
        f"{joined(partition, name)[:300]}, which another instant wrote: a marker or a plan is damaged; nothing was "
        "removed"
    )
