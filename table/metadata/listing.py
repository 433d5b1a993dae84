"""Lists the partitions and data files of a table: from its metadata table where that is valid and faster, else from its
folders.

Both give the same files. A metadata table that is missing, damaged or not up to date is reported once and then not
used: it must never be the reason for a failed read or a missing row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from penstock.proto.errors import PenstockError, TableError
from penstock.table.files.external_names import ExternalFiles
from penstock.table.files.slices import DataFile
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.files import ALL_PARTITIONS, FILES, data_files, files_key, partition_paths
from penstock.table.metadata.metadata_table import MetadataTable, Unusable, Versions, indexes, open_metadata_table
from penstock.table.partitions.pruning import PartitionPruning
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline

FEW_PARTITIONS: Final = 8
"""Number of known partitions up to which folders are listed, with one call each. The metadata table takes several
reads for any request: its properties, timeline, folder, base file and logs."""


class TableListing:
    """Lists partitions and data files for one plan. Opens the metadata table at most once; reads requested keys only.

    `timeline` must be read before, so that files of later instants do not matter. With `metadata` False, only folders
    are listed. Up to `few_partitions` (FEW_PARTITIONS) partitions are always listed from folders.

    `external`: folders do not record the instants of other writers' files. If the table has any, the listing needs the
    metadata table, and raises TableError without it, as Hudi does. If it may have some, a folder with such a file is a
    TableError.

    `fallback` is the reason why folders were listed although the table's properties name a metadata table; '' if there
    was none.
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
        self._has_metadata = metadata and FILES in indexes(table.properties)
        self._few = FEW_PARTITIONS if few_partitions is None else few_partitions
        self._only_metadata = external is ExternalFiles.KNOWN
        self._strict = external is ExternalFiles.POSSIBLE
        if self._strict:
            self._few = -1
        self._opened: MetadataTable | None = None
        self.fallback = ""

    @property
    def from_metadata(self) -> bool:
        """Whether the listings so far came from the metadata table."""
        return self._opened is not None

    def all_files(
        self, partitions: Collection[str] | None = None, pruning: PartitionPruning | None = None
    ) -> Mapping[str, tuple[DataFile, ...]]:
        """Partition -> its data files by name, for all partitions that `pruning` does not exclude.

        Nothing is excluded if a path does not match the partition fields. `partitions`: all partitions of the table, if
        known.
        """
        if not self._table.properties.partition_fields:
            partitions = {""}
        remaining = [name for name in partitions or () if pruning is None or not pruning.drops(name)]
        if self._only_metadata or (self._has_metadata and (partitions is None or len(remaining) > self._few)):
            files = self._by_metadata(None, pruning)
            if files is not None:
                return files
        if pruning is not None:
            skipped = pruning.skipped_folders(partitions)
            listed = self._table.list_files(skipped, pruning.drops, strict=self._strict)
            if pruning.fits(listed):
                return {name: members for name, members in listed.items() if not pruning.drops(name)}
        return self._table.list_files(strict=self._strict)

    def of(self, partitions: Collection[str]) -> Mapping[str, tuple[DataFile, ...]]:
        """The data files of these partitions; () for one that does not exist."""
        if self._only_metadata or (self._has_metadata and len(partitions) > self._few):
            files = self._by_metadata(partitions)
            if files is not None:
                return files
        return self._table.list_partition_files(partitions, strict=self._strict)

    def metadata_table(self) -> MetadataTable | None:
        """The metadata table, if its content is valid; opened once."""
        if self._has_metadata and self._opened is None and not self.fallback:
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
    ) -> Mapping[str, tuple[DataFile, ...]] | None:
        opened = self.metadata_table()
        if opened is None:
            if self._only_metadata:
                raise self._needed(self.fallback or "the table has none, or the option metadata is off")
            return None
        try:
            return _listed(opened, _not_excluded(opened, pruning) if pruning is not None else partitions)
        except PenstockError as error:
            if self._only_metadata:
                raise self._needed(str(error)) from error
            self._fall_back(str(error))
            return None

    def _needed(self, reason: str) -> TableError:
        return TableError(
            f"table {redacted_uri(self._table.base_path)} holds files of another writer: only its "
            f"metadata table records which count, and it cannot be used: {reason}; Hudi does not "
            "read the table without it either"
        )

    def _fall_back(self, reason: str) -> None:
        self._opened = None
        self.fallback = reason
        self._table.count_metadata_fallback()


def _not_excluded(opened: MetadataTable, pruning: PartitionPruning) -> Collection[str]:
    """The partitions that are not excluded; all if a path does not match the partition fields."""
    known = partition_paths(opened.records(FILES, [ALL_PARTITIONS]).get(ALL_PARTITIONS, ()))
    return [name for name in known if not pruning.drops(name)] if pruning.fits(known) else known


def _listed(opened: MetadataTable, partitions: Collection[str] | None) -> Mapping[str, tuple[DataFile, ...]]:
    """The data files of the partitions (None: all), from the metadata table."""
    if partitions is None:
        records = opened.records(FILES, None)
    else:
        records = opened.records(FILES, [ALL_PARTITIONS, *map(files_key, partitions)])
    known = partition_paths(records.get(ALL_PARTITIONS, ()))
    return {
        partition: _files_of(partition, known, records) for partition in (known if partitions is None else partitions)
    }


def _files_of(partition: str, known: Collection[str], records: Versions) -> tuple[DataFile, ...]:
    return data_files(partition, records.get(files_key(partition), ())) if partition in known else ()
