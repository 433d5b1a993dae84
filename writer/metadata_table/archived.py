"""What an archival of a table depends on in its metadata table.

Source: Hudi `TimelineArchiverV2.getCommitInstantsToArchive`, `HoodieBackedTableMetadata.getLatestCompactionTime`.
"""

from __future__ import annotations

from penstock.proto.errors import PenstockError, StorageError, TableError
from penstock.table.config.properties import load_properties
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.files import FILES
from penstock.table.metadata.folder import FolderStorage
from penstock.table.metadata.metadata_table import METADATA_FOLDER, indexes
from penstock.table.metadata.validity import first_not_recorded
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action
from penstock.writer.metadata_table.partitions import drop_metadata_table


def last_compaction(table: HudiTable) -> str | None:
    """The requested time of the last completed compaction of the metadata table; '' if it has none yet, None without a
    metadata table. Errors of opening a table for one that is damaged."""
    if FILES not in indexes(table.properties):
        return None
    compactions = (
        item.requested_time
        for item in _timeline(table).completed_writes
        if item.action in (Action.COMMIT, Action.REPLACE_COMMIT)
    )
    return max(compactions, default="")


def drop_outdated(table: HudiTable, storage: WritableStorage) -> None:
    """Removes a metadata table, with a warning, that is damaged, or lacks an instant because a writer did not update
    it: once the instant is archived, no reader could tell. Call it under the table's lock."""
    if FILES not in indexes(table.properties):
        return
    try:
        missing = first_not_recorded(table.timeline(), _timeline(table))
        if missing:
            raise TableError(f"it lacks instant {missing}: a writer did not update it")
    except StorageError:
        raise
    except PenstockError as error:
        drop_metadata_table(storage, table.properties, str(error))


def _timeline(table: HudiTable) -> Timeline:
    folder = FolderStorage(table.storage, METADATA_FOLDER)
    return HudiTable(folder, load_properties(folder)).timeline()
