"""Assigns the rows of a write to file groups, by the table's index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.index_choice import BucketIndex, Index, SimpleIndex
from penstock.engine.write.operations import Operation
from penstock.engine.write.row_sizes import row_bytes
from penstock.proto.errors import ConfigurationError, WriteConflict
from penstock.reader.merge.fold import RecordKind
from penstock.table.files.slices import GroupId
from penstock.writer.index.bucket import assign_buckets
from penstock.writer.index.new_groups import FileSizes, place_new_rows
from penstock.writer.index.simple import Location, locate, unlocated
from penstock.writer.index.slices import GroupWrite
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
    where: str
    """The beginning of error texts."""

    def groups(self, current: CurrentTable, rows: KeyedRows, replaced: Collection[GroupId]) -> list[GroupWrite]:
        """The rows by file group, without those of groups that the write replaces.

        ConfigurationError for a bulk insert into buckets that have a group; WriteConflict for a group that a pending
        service rewrites.
        """
        current = current.without(replaced)
        match self.index:
            case BucketIndex(buckets):
                numbers = bucket_numbers(
                    rows.keys, buckets, self.key_fields, as_hudi_0_15=current.table.properties.version == 6
                )
                assigned = assign_buckets(rows, numbers, current.slices, buckets, self.new_uuid, self.where)
                if self.operation.only_new_groups and any(one.latest for one in assigned):
                    raise ConfigurationError(
                        f"{self.where}: bulk_insert into buckets that have rows would give a bucket a second file "
                        "group: use insert or upsert"
                    )
            case SimpleIndex():
                assigned = self._by_location(current, rows)
        for one in assigned:
            if (one.partition, one.file_id) in current.slices.locked:
                raise WriteConflict(
                    f"{self.where}: file group {one.file_id} of partition {one.partition!r} is being rewritten by a "
                    "pending clustering or replacement, which would lose this write: nothing was written; write again "
                    "when it has completed or was rolled back"
                )
        return assigned

    def _by_location(self, current: CurrentTable, rows: KeyedRows) -> list[GroupWrite]:
        sizes = self._sizes(current)
        assigned: dict[GroupId, GroupWrite] = {}
        for location in self._locations(current, rows):
            for place, item in enumerate(location.slices):
                mine = location.of_slice(place)
                if len(mine):
                    assigned[item.group] = GroupWrite(location.partition, item.file_id, item, mine)
            new = location.new
            new = new[rows.kinds[new] == RecordKind.DATA]
            fillable = location.slices if self.operation.fills_small_files else ()
            locked = current.slices.locked
            for one in place_new_rows(location.partition, new, fillable, locked, sizes, self._new_file_id):
                known = assigned.get((one.partition, one.file_id))
                assigned[one.partition, one.file_id] = one if known is None else known.with_inserts(one.rows)
        return list(assigned.values())

    def _locations(self, current: CurrentTable, rows: KeyedRows) -> Iterable[Location]:
        if self.operation.searches_keys:
            return locate(rows, current.slices, current.keys_of, self.where)
        return unlocated(rows, current.slices)

    def _sizes(self, current: CurrentTable) -> FileSizes:
        small = 1 if current.table.properties.is_merge_on_read else None
        return replace(self.sizes, row_bytes=row_bytes(current, self.sizes), small_files=small)

    def _new_file_id(self) -> str:
        return f"{self.new_uuid()}-0"
