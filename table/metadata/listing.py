"""Partitions and data files of a table at one moment: by its metadata table where that is valid and pays, else by its
folders.

Shell. Both answers name the same files; a metadata table that is missing, damaged or behind is told once and passed
over, for it can never be the reason that a read fails or lacks a row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from penstock.proto.errors import PenstockError, TableError
from penstock.table.files.external_names import ExternalFiles
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.files import ALL_PARTITIONS, FILES, data_files, files_key, partition_paths
from penstock.table.metadata.metadata_table import MetadataTable, Unusable, Versions, indexes, open_metadata_table
from penstock.table.partitions.pruning import PartitionPruning
from penstock.table.storage.filesystem import FileInfo, redacted_uri
from penstock.table.timeline.active import Timeline

FEW_PARTITIONS: Final = 8
"""Up to so many known partitions are listed by their folders: one call for each, while the metadata table takes its
own properties, timeline, folder, base file and logs first, however little is asked of it."""


class TableListing:
    """What a table holds, for one plan. Reads the metadata table once at most, and only records of what is asked.

    `timeline` was read before, so that files of instants behind it do not matter. `metadata` False: folders alone.
    Up to `few_partitions` (FEW_PARTITIONS) are listed by their folders in any case.
    `external`: folders cannot tell the instants of other writers' files. If there are any, only the metadata table will
    do (TableError without it, as Hudi fails then too); if there may be, a folder that holds one is a TableError.
    `fallback` says afterwards why folders had to do for a metadata table that the table's properties name; '' if
    they had not.
    """

    def __init__(
        self,
        table: HudiTable,
        timeline: Timeline,
        *,
        metadata: bool,
        few_partitions: int | None = None,
        external: ExternalFiles = ExternalFiles.NONE,
    ) -> None:
        self._table = table
        self._timeline = timeline
        self._wanted = metadata and FILES in indexes(table.properties)
        self._few = FEW_PARTITIONS if few_partitions is None else few_partitions
        self._only_metadata = external is ExternalFiles.KNOWN
        self._strict = external is ExternalFiles.POSSIBLE
        if self._strict:
            self._few = -1
        self._opened: MetadataTable | None = None
        self.fallback = ""

    @property
    def from_metadata(self) -> bool:
        """Whether the answers so far came from the metadata table."""
        return self._opened is not None

    def all_files(
        self, partitions: Collection[str] | None = None, pruning: PartitionPruning | None = None
    ) -> Mapping[str, tuple[FileInfo, ...]]:
        """Every partition with its data files, by name; with `pruning` all that it does not rule out, or really every
        one if a path does not fit. `partitions`: every one there can be, if that is known."""
        if not self._table.properties.partition_fields:
            partitions = {""}
        left = [name for name in partitions or () if pruning is None or not pruning.drops(name)]
        if self._only_metadata or (self._wanted and (partitions is None or len(left) > self._few)):
            found = self._by_metadata(None, pruning)
            if found is not None:
                return found
        if pruning is not None:
            names = self._table.list_partitions(pruning.skipped_folders(partitions))
            if pruning.fits(names):
                return self._table.list_partition_files(
                    [name for name in names if not pruning.drops(name)], strict=self._strict
                )
        return self._table.list_partition_files(self._table.list_partitions(), strict=self._strict)

    def of(self, partitions: Collection[str]) -> Mapping[str, tuple[FileInfo, ...]]:
        """The data files of these partitions, () for one that is not there."""
        if self._only_metadata or (self._wanted and len(partitions) > self._few):
            found = self._by_metadata(partitions)
            if found is not None:
                return found
        return self._table.list_partition_files(partitions, strict=self._strict)

    def metadata_table(self) -> MetadataTable | None:
        """The metadata table, if its content may be used; opened once."""
        if self._wanted and self._opened is None and not self.fallback:
            try:
                opened = open_metadata_table(self._table, self._timeline)
            except PenstockError as error:
                opened = Unusable(str(error))
            if isinstance(opened, Unusable):
                self._fall_back(opened.reason)
            else:
                self._opened = opened
        return self._opened

    def _by_metadata(
        self, partitions: Collection[str] | None, pruning: PartitionPruning | None = None
    ) -> Mapping[str, tuple[FileInfo, ...]] | None:
        opened = self.metadata_table()
        if opened is None:
            if self._only_metadata:
                raise self._needed(self.fallback or "the table has none, or the option metadata is off")
            return None
        try:
            return _listed(opened, _kept(opened, pruning) if pruning is not None else partitions)
        except PenstockError as error:
            if self._only_metadata:
                raise self._needed(str(error)) from error
            self._fall_back(str(error))
            return None

    def _needed(self, reason: str) -> TableError:
        return TableError(
            f"table {redacted_uri(self._table.base_path)} holds files that another writer made: only its "
            f"metadata table records which count, and it cannot be used: {reason}; Hudi does not "
            "read the table without it either"
        )

    def _fall_back(self, reason: str) -> None:
        self._opened = None
        self.fallback = reason
        self._table.count_metadata_fallback()


def _kept(opened: MetadataTable, pruning: PartitionPruning) -> Collection[str]:
    """The partitions that are not ruled out; all if a path does not fit."""
    known = partition_paths(opened.records(FILES, [ALL_PARTITIONS]).get(ALL_PARTITIONS, ()))
    return [name for name in known if not pruning.drops(name)] if pruning.fits(known) else known


def _listed(opened: MetadataTable, partitions: Collection[str] | None) -> Mapping[str, tuple[FileInfo, ...]]:
    """What the metadata table says; of all partitions if None."""
    if partitions is None:
        found = opened.records(FILES, None)
    else:
        found = opened.records(FILES, [ALL_PARTITIONS, *map(files_key, partitions)])
    known = partition_paths(found.get(ALL_PARTITIONS, ()))
    return {
        partition: _files_of(partition, known, found) for partition in (known if partitions is None else partitions)
    }


def _files_of(partition: str, known: Collection[str], found: Versions) -> tuple[FileInfo, ...]:
    return data_files(partition, found.get(files_key(partition), ())) if partition in known else ()
