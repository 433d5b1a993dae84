"""Records the files of an instant in the metadata table, in the partition `files`.

Source: Hudi `HoodieBackedTableMetadataWriter`. The metadata table has a deltacommit of the same requested time, which
completes before the instant of the data table does: readers leave out records of instants that are pending there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.proto.errors import PenstockError, StorageError, UnsupportedFeature, WriteConflict
from penstock.proto.model.positions import InstantTime
from penstock.table.config.properties import TableProperties
from penstock.table.files.names import log_file_name
from penstock.table.hudi_table import HudiTable
from penstock.table.log.block_encoder import INSTANT_TIME, SCHEMA, encode_block
from penstock.table.log.blocks import BlockKind
from penstock.table.metadata.files import FILES
from penstock.table.metadata.record_encoder import PartitionFiles, encode_changes
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commit_encoder import encode_commit
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Action, State
from penstock.writer.metadata_table.compaction import compacted_if_due
from penstock.writer.metadata_table.opened import FILE_GROUP, TOKEN, NewTime, WritableMetadata, check_current
from penstock.writer.metadata_table.partitions import ListedPartitions, drop_metadata_table, drop_partitions
from penstock.writer.metadata_table.undo import check_undone, undo_instant

_OPERATION: Final = "UPSERT_PREPPED"


def refuse_unkept(properties: TableProperties) -> None:
    """UnsupportedFeature for a metadata table that cannot be kept current: of table version 6, or one of which a writer
    of Hudi is building a partition."""
    listed = ListedPartitions.of(properties)
    where = f"table {redacted_uri(properties.base_path)}"
    if listed.inflight:
        raise UnsupportedFeature(
            f"{where}: a writer of Hudi is building the partitions {', '.join(listed.inflight)[:200]} of its metadata "
            "table (hoodie.table.metadata.partitions.inflight): nothing was written; write when it has ended, or with "
            'metadata="off", which removes the metadata table'
        )
    if listed.exists and properties.layout != 2:
        raise UnsupportedFeature(
            f"{where} has a metadata table, and those of version {properties.version} are not kept current: nothing "
            'was written; write with metadata="off", which removes it, and keep hoodie.metadata.enable=false in '
            "Hudi's writers, or let Hudi build it again"
        )


def record_files(
    table: HudiTable,
    storage: WritableStorage,
    timeline: Timeline,
    instant: InstantTime,
    changes: Iterable[PartitionFiles],
    new_time: NewTime,
) -> InstantTime | None:
    """Records in the metadata table which files the instant added and deleted. Returns the completion time there; that
    of the instant must be later. None if the table has no metadata table.

    Call it under the table's lock, after all checks, right before the completed file of the instant is created; `table`
    has properties that were read under the lock, and `timeline` too. If the instant then fails, it must be rolled back
    by `undo_files`. An earlier attempt of the instant, such as a table service that runs again, is undone first.

    Partitions other than `files` are removed, with a warning. So is a metadata table that is damaged, or that lacks an
    instant because a writer did not update it: it would hide files from readers. UnsupportedFeature as `refuse_unkept`.
    """
    listed = ListedPartitions.of(table.properties)
    if not listed.exists:
        return None
    refuse_unkept(table.properties)
    if FILES not in listed.complete:
        drop_metadata_table(storage, table.properties, f"it has no partition {FILES}")
        return None
    try:
        metadata = WritableMetadata.open(storage)
        check_current(metadata, timeline)
        schema_json = metadata.commit_schema()
        content = encode_changes(changes, metadata.block_schema(), metadata.where)
        metadata = compacted_if_due(metadata, timeline, new_time)
    except (StorageError, WriteConflict):
        raise
    except PenstockError as error:
        drop_metadata_table(storage, table.properties, str(error))
        return None
    if listed.others:
        drop_partitions(storage, table.properties, listed.others)
    if metadata.instants_at(instant):
        undo_instant(metadata, instant, new_time(metadata.timeline), new_time)
        metadata = metadata.refreshed()
    return _commit(metadata, instant, content, schema_json, new_time)


def undo_files(
    table: HudiTable,
    storage: WritableStorage,
    timeline: Timeline,
    target: str,
    rollback: InstantTime,
    new_time: NewTime,
) -> None:
    """Rolls back what `record_files` or a writer of Hudi recorded of `target`, which does not complete.

    timeline: that of the data table. rollback: requested time of the instant that rolls it back there. Call it under
    the table's lock, after the files were deleted, and before the timeline files of `target` are. A metadata table that
    cannot be rolled back is removed, with a warning: nothing may hinder a rollback.
    """
    if not ListedPartitions.of(table.properties).exists:
        return
    if table.properties.layout != 2:  # the rollback wrote logs, which the metadata table would lack
        drop_metadata_table(storage, table.properties, f"instant {target} was rolled back")
        return
    try:
        metadata = WritableMetadata.open(storage)
        undo_instant(metadata, target, rollback, new_time)
        check_undone(metadata.refreshed(), target, timeline)
    except (StorageError, WriteConflict):
        raise
    except PenstockError as error:
        drop_metadata_table(storage, table.properties, str(error))


def changes_of(commit: CommitMetadata) -> tuple[PartitionFiles, ...]:
    """The files that a write or a table service added. Replaced groups stay until a clean deletes them."""
    return tuple(
        PartitionFiles(
            partition=stat.partition,
            added={
                path.rpartition("/")[2]: size_bytes
                for path, size_bytes in ((stat.path, stat.file_size_bytes), *stat.change_logs.items())
            },
        )
        for stat in commit.stats
        if stat.path
    )


def _commit(
    metadata: WritableMetadata, instant: InstantTime, content: bytes, schema_json: str, new_time: NewTime
) -> InstantTime:
    """The deltacommit of the instant; its completion time."""
    storage = metadata.storage
    for state in (State.REQUESTED, State.INFLIGHT):
        storage.create(metadata.path_of(instant, Action.DELTA_COMMIT, state), b"")
    name = log_file_name(FILE_GROUP, instant, 1, TOKEN)
    headers = {SCHEMA: metadata.block_schema(), INSTANT_TIME: str(instant)}
    block = encode_block(BlockKind.HFILE_DATA, headers, content)
    storage.create(f"{FILES}/{name}", block)
    stat = WriteStat(
        partition=FILES,
        file_id=FILE_GROUP,
        path=f"{FILES}/{name}",
        num_writes=1,
        num_deletes=0,
        num_inserts=0,
        num_update_writes=1,
        file_size_bytes=len(block),
        base_file="",
        log_files=(name,),
        prev_commit=instant,
    )
    commit = CommitMetadata(
        requested_time=instant,
        operation=_OPERATION,
        compacted=False,
        schema_json=schema_json,
        extra={},
        stats=(stat,),
        replaced=(),
    )
    completion = new_time(metadata.timeline)
    data = encode_commit(commit, Action.DELTA_COMMIT, metadata.table.properties.layout)
    storage.create(metadata.path_of(instant, Action.DELTA_COMMIT, State.COMPLETED, completion), data)
    return completion
