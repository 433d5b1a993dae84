"""Assigns the rows of a write to file groups, by the table's index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.index.global_keys import GlobalSearch
from penstock.engine.write.index.index_choice import BucketIndex, Index, KeyIndex
from penstock.engine.write.operations import Operation
from penstock.proto.errors import ConfigurationError, TableError, WriteConflict
from penstock.reader.merge.fold import RecordKind
from penstock.table.files.slices import GroupId
from penstock.writer.index.bucket import assign_buckets
from penstock.writer.index.locations import KeySearch, Location, locate, unlocated
from penstock.writer.index.new_groups import FileSizes, place_new_rows
from penstock.writer.index.slices import GroupWrite, LatestSlice
from penstock.writer.kernels.bucket import bucket_numbers
from penstock.writer.rows.keyed_rows import KeyedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigner:
    """How rows are assigned in one write."""

    index: Index
    """The table's index."""
    operation: Operation
    """The operation."""
    sizes: FileSizes
    """The sizes of base files."""
    new_uuid: Callable[[], str]
    """A new random UUID as text."""
    key_fields: tuple[str, ...]
    """The columns of the record key."""
    ordering_fields: tuple[str, ...]
    """The columns by which rows of a key are ordered."""
    where: str
    """The beginning of error texts."""
    when_assigned: Callable[[Sequence[GroupWrite]], None] = lambda writes: None
    """Called with file groups that will be written, before their files are. WriteConflict if another writer has one."""

    @property
    def searches_table(self) -> bool:
        """Whether keys are searched in all partitions."""
        return isinstance(self.index, KeyIndex) and self.index.is_global and self.operation.searches_keys

    def buckets(self, rows: KeyedRows, version: int) -> np.ndarray:
        """The bucket of each row in a table of this version, int64; 0 for an index without buckets.

        ConfigurationError for a key that Hudi cannot hash.
        """
        match self.index:
            case BucketIndex(buckets) if len(rows):
                is_old = version == 6
                parts = [
                    bucket_numbers(keys, buckets, self.key_fields, as_hudi_0_15=is_old) for keys in rows.keys.chunks
                ]
                return np.concatenate(parts).astype(np.int64)
        return np.zeros(len(rows), np.int64)

    @property
    def finds_groups_of_deletes(self) -> bool:
        """Whether deletes belong to a file group: one of their bucket, or the one that a search finds."""
        return isinstance(self.index, BucketIndex) or self.operation.searches_keys

    def group_writes(
        self, current: CurrentTable, rows: KeyedRows, sizes: FileSizes
    ) -> Iterator[tuple[GroupWrite, KeyedRows]]:
        """The rows by file group, among the groups of `current`; `sizes` are those of `sizes_of`. The numbers in a
        group's `GroupWrite.rows` are those of `located`.

        ConfigurationError for a bulk insert into buckets that have a group; WriteConflict for a group that a pending
        service rewrites.
        """
        match self.index:
            case BucketIndex(buckets):
                numbers = self.buckets(rows, current.table.properties.version)
                assigned = assign_buckets(rows, numbers, current.slices, buckets, self.new_uuid, self.where)
                self.refuse_second_groups(assigned)
            case KeyIndex():
                rows, locations = self.located(current, rows)
                assigned = self._by_location(current, rows, locations, sizes)
        self.check(current, assigned)
        for write in assigned:
            yield write, rows.take(np.sort(write.rows))

    def refuse_second_groups(self, assigned: Iterable[GroupWrite]) -> None:
        """ConfigurationError if a bulk insert would add rows to a bucket that has a file group."""
        if self.operation.only_new_groups and any(one.latest for one in assigned):
            raise ConfigurationError(
                f"{self.where}: bulk_insert into buckets that have rows would give a bucket a second file group: use "
                "insert or upsert"
            )

    def check(self, current: CurrentTable, assigned: Sequence[GroupWrite]) -> None:
        """WriteConflict for a group that a pending service rewrites, or that another writer has."""
        for one in assigned:
            if (one.partition, one.file_id) in current.slices.locked:
                raise WriteConflict(
                    f"{self.where}: file group {one.file_id} of partition {one.partition!r} is being rewritten by a "
                    "pending clustering or replacement, which would lose this write: nothing was written; write again "
                    "when it has completed or was rolled back, or remove a clustering that nobody runs with `penstock "
                    "rollback TABLE INSTANT`"
                )
        self.when_assigned(assigned)

    def _by_location(
        self, current: CurrentTable, rows: KeyedRows, locations: Iterable[Location], sizes: FileSizes
    ) -> list[GroupWrite]:
        assigned: dict[GroupId, GroupWrite] = {}
        for location in locations:
            for place, item in enumerate(location.slices):
                mine = location.of_slice(place)
                if len(mine):
                    has_copies = place in location.repeated
                    assigned[item.group] = self.write_of_slice(current, item, mine, has_copies=has_copies)
            new = location.new
            new = new[rows.kinds[new] == RecordKind.DATA]
            fillable, locked = self.fillable(current, location.partition), current.slices.locked
            for one in place_new_rows(location.partition, new, fillable, locked, sizes, self.new_file_id):
                known = assigned.get((one.partition, one.file_id))
                assigned[one.partition, one.file_id] = one if known is None else known.with_inserts(one.rows)
        return list(assigned.values())

    def write_of_slice(
        self, current: CurrentTable, item: LatestSlice, rows: np.ndarray, *, has_copies: bool
    ) -> GroupWrite:
        """Rows whose keys a slice has; with `has_copies` some in several rows of the base file, which is rewritten: a
        record of a log replaces only one of them. TableError if the base file cannot be rewritten, because of logs."""
        rewrites = has_copies and current.table.properties.is_merge_on_read
        if rewrites and (item.logs or item.being_compacted):
            raise TableError(
                f"{self.where}, partition {item.partition!r}: the base file of file group {item.file_id} has a key of "
                "this write in several rows, as an insert repeated it, and the group has logs or a pending compaction: "
                "a log would change one of the rows only; nothing was written; compact the table, then write again"
            )
        return GroupWrite(item.partition, item.file_id, item, rows, rewrites=rewrites)

    def fillable(self, current: CurrentTable, partition: str) -> Sequence[LatestSlice]:
        """The slices of a partition whose base files new rows may fill."""
        return current.slices.of(partition) if self.operation.fills_small_files else ()

    def located(self, current: CurrentTable, rows: KeyedRows) -> tuple[KeyedRows, Iterable[Location]]:
        """The rows, and where their keys are, if the operation searches them; else they count as new.

        A global index may leave rows out, and adds deletes of keys that leave a partition: then the rows are others,
        each with the partition into which it is written. One row of each key is given to it.
        """
        if not isinstance(self.index, KeyIndex) or not self.operation.searches_keys:
            return rows, unlocated(rows, current.slices)
        search = KeySearch(keys_of=current.keys_of, by_footers=self.index.reads_footers, where=self.where)
        if self.index.is_global:
            names, moves = self.ordering_fields, self.index.moves_keys
            return GlobalSearch(current=current, search=search, ordering=names, moves_keys=moves).located(rows)
        return rows, locate(rows, current.slices, search)

    def sizes_of(self, current: CurrentTable) -> FileSizes:
        """The sizes of base files in the table, whose rows have their average size. Reads commits of the table."""
        if isinstance(self.index, BucketIndex):  # it fills no files
            return self.sizes
        small = 1 if current.table.properties.is_merge_on_read else None
        return replace(self.sizes, row_bytes=current.row_bytes(self.sizes), small_files=small)

    def new_file_id(self) -> str:
        """The id of a new file group."""
        return f"{self.new_uuid()}-0"
