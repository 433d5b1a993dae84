"""Compacts the partition `files` of a metadata table: the records of its logs become a base file.

Source: Hudi `HoodieBackedTableMetadataWriter.compactIfNecessary`. Without it readers read one log for each instant
since Hudi's last write. Cleans and archivals of the table do the same for the metadata table.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from penstock.proto.errors import CorruptFile, TableError, UnsupportedFeature
from penstock.proto.model.positions import InstantTime
from penstock.table.files.names import BaseName, base_file_name, parse_file_name
from penstock.table.metadata.files import FILES, listing_of
from penstock.table.metadata.metadata_table import MetadataTable, Versions
from penstock.table.metadata.record_encoder import encode_listing
from penstock.table.metadata.validity import pending_instants
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commit_encoder import encode_commit
from penstock.table.timeline.commits import CommitMetadata, CompactedLogs, WriteStat
from penstock.table.timeline.instants import Action, Instant, State
from penstock.table.timeline.services.plans import CompactionGroup
from penstock.table.timeline.services.service_plan_encoder import InputSize, encode_compaction_plan
from penstock.writer.metadata_table.opened import FILE_GROUP, TOKEN, NewTime, WritableMetadata

AFTER: Final = 10
"""Deltacommits after which a compaction is due: Hudi's `hoodie.metadata.compact.max.delta.commits`."""

_SERVICES: Final = (Action.COMPACTION, Action.LOG_COMPACTION)


def compacted_if_due(metadata: WritableMetadata, data: Timeline, new_time: NewTime) -> WritableMetadata:
    """The metadata table after its compaction, if one is due or was begun by a process that was killed; else itself.

    Call it under the lock of the data table, before an instant is recorded. Nothing is compacted while the metadata
    table has an instant that is pending in the data table: a rollback could not undo it any more. CorruptFile for
    damaged records.
    """
    pending = [item for item in metadata.timeline.pending if item.action in _SERVICES]
    if pending and not _is_own(metadata, pending):
        return metadata
    if not pending and not _is_due(metadata, data):
        return metadata
    instant = pending[0].requested_time if pending else new_time(metadata.timeline)
    table = MetadataTable(metadata.table, _as_of(metadata.timeline, instant), pending_instants(data))
    try:
        records = dict(table.records(FILES, None))  # decoded before the plan is written: damage leaves no trace
    except (CorruptFile, UnsupportedFeature):
        raise
    except TableError:  # log compactions of a writer of Hudi
        return metadata
    group, size = _plan(table)
    if not pending:
        plan = encode_compaction_plan([(group, size)])
        metadata.storage.create(metadata.path_of(instant, Action.COMPACTION, State.REQUESTED), plan)
    _run(metadata, instant, group, size, records, new_time)
    return metadata.refreshed()


def _is_own(metadata: WritableMetadata, pending: Sequence[Instant]) -> bool:
    """Whether the pending services are one compaction of `files` alone. Hudi's next write runs the others."""
    if len(pending) > 1 or pending[0].action is not Action.COMPACTION:
        return False
    return [group.partition for group in metadata.table.compaction_plan(pending[0])] == [FILES]


def _is_due(metadata: WritableMetadata, data: Timeline) -> bool:
    completed = {item.requested_time for item in metadata.timeline.instants if item.is_completed}
    return not completed & pending_instants(data) and _deltas(metadata.timeline) >= AFTER


def _deltas(timeline: Timeline) -> int:
    """The completed deltacommits since the last compaction."""
    last = max((item.requested_time for item in timeline.completed_writes if item.action is Action.COMMIT), default="")
    return sum(
        item.action is Action.DELTA_COMMIT and (item.completion_time or "") > last for item in timeline.completed_writes
    )


def _as_of(timeline: Timeline, instant: str) -> Timeline:
    """The timeline as it was when the compaction was planned: its plan has no logs of later completions."""
    return Timeline(
        timeline.layout,
        tuple(
            replace(item, state=State.INFLIGHT, completion_time=None)
            if (item.completion_time or "") > instant
            else item
            for item in timeline.instants
        ),
    )


def _plan(table: MetadataTable) -> tuple[CompactionGroup, InputSize]:
    """The newest slice."""
    (slice_,) = table.visible(FILES)
    base = slice_.base
    group = CompactionGroup(
        partition=FILES,
        file_id=FILE_GROUP,
        base_instant=slice_.key,
        base_file="" if base is None else base.ref.path.rpartition("/")[2],
        logs=tuple(log.ref.path.rpartition("/")[2] for log in slice_.logs),
    )
    size = InputSize(
        base_bytes=0 if base is None else base.ref.size_bytes,
        log_files=len(slice_.logs),
        log_bytes=sum(log.ref.size_bytes for log in slice_.logs),
    )
    return group, size


def _run(
    metadata: WritableMetadata,
    instant: InstantTime,
    group: CompactionGroup,
    size: InputSize,
    records: Versions,
    new_time: NewTime,
) -> None:
    """Writes the base file and completes the compaction."""
    storage = metadata.storage
    for info in storage.list_dir(FILES):  # of a run that was killed
        parsed = parse_file_name(info.name)
        if isinstance(parsed, BaseName) and parsed.instant == instant:
            storage.remove(info.path)
    with contextlib.suppress(FileExistsError):
        storage.create(metadata.path_of(instant, Action.COMPACTION, State.INFLIGHT), b"")
    listing = listing_of(records)
    content = encode_listing(listing, metadata.block_schema(), metadata.where)
    name = base_file_name(FILE_GROUP, TOKEN, instant, "hfile")
    storage.create(f"{FILES}/{name}", content)
    rows = len(listing) + 1
    stat = WriteStat(
        partition=FILES,
        file_id=FILE_GROUP,
        path=f"{FILES}/{name}",
        num_writes=rows,
        num_deletes=0,
        num_inserts=0,
        num_update_writes=rows,
        file_size_bytes=len(content),
        base_file="",
        log_files=(),
        prev_commit=group.base_instant if group.base_file else "",
        prev_base_file=group.base_file,
        compacted_logs=CompactedLogs(
            files=size.log_files,
            blocks=size.log_files,
            records=sum(map(len, records.values())),
            updated=rows,
            size_bytes=size.log_bytes,
        ),
    )
    commit = CommitMetadata(
        requested_time=instant,
        operation="COMPACT",
        compacted=True,
        schema_json=metadata.commit_schema(),
        extra={},
        stats=(stat,),
        replaced=(),
    )
    completion = new_time(metadata.refreshed().timeline)  # later than `instant`
    encoded = encode_commit(commit, Action.COMMIT, metadata.table.properties.layout)
    storage.create(metadata.path_of(instant, Action.COMPACTION, State.COMPLETED, completion), encoded)
