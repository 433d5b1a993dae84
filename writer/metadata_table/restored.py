"""The metadata table of a table that is restored: removed before, and created again after.

Source: Hudi `BaseHoodieWriteClient.restoreToSavepoint`, which removes a metadata table that was compacted after the
savepoint, and `HoodieBackedTableMetadataWriter.update(HoodieRestoreMetadata)`, which lists all folders after a restore.
"""

from __future__ import annotations

import logging

from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.validity import pending_instants
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.writer.metadata_table.create import create_metadata_table
from penstock.writer.metadata_table.opened import NewTime
from penstock.writer.metadata_table.partitions import ListedPartitions, drop_metadata_table, remove_metadata_table
from penstock.writer.metadata_table.update import record_files

log = logging.getLogger("penstock.writer")


def check_no_other_files(table: HudiTable) -> None:
    """TableError if a table with a metadata table has files of other writers: only its metadata table records them."""
    if ListedPartitions.of(table.properties).exists:
        table.list_files(strict=True)


def remove_before_restore(table: HudiTable, storage: WritableStorage) -> bool:
    """Removes the metadata table, so that readers list folders while files are removed. Returns whether it is created
    again after the restore: not that of a table of version 6, which is not kept current.

    Call it under the table's lock.
    """
    listed = ListedPartitions.of(table.properties)
    if not listed.exists:
        return False
    if table.properties.layout != 2:
        drop_metadata_table(storage, table.properties, "the table was restored")
        return False
    remove_metadata_table(storage, table.properties)
    if listed.others:
        log.warning(
            "table %s: a restore removed the partitions %s of its metadata table: Hudi's next write builds those of "
            "its options again; indexes that were created by SQL must be created again",
            redacted_uri(storage.base_path),
            ", ".join(sorted(listed.others)),
        )
    return True


def create_after_restore(table: HudiTable, storage: WritableStorage, timeline: Timeline, new_time: NewTime) -> None:
    """Creates the metadata table again, with the partition `files`, from the folders.

    Files of pending instants are left out: who completes one records them. Instants with a savepoint get an instant of
    the same time, without files: a restore of Hudi looks for it (`RestorePlanActionExecutor`). Call it under the
    table's lock, before the restore completes.
    """
    pending = pending_instants(timeline)
    listing = {}
    for partition, files in table.list_files().items():
        listing[partition] = {
            file.file_name: file.ref.size_bytes
            for file in files
            if file.ref.size_bytes and file.name.instant not in pending
        }
    create_metadata_table(storage, table.properties.name, listing, new_time(timeline))
    for item in timeline.savepoints:
        record_files(table.refreshed(), storage, timeline, item.requested_time, (), new_time)
