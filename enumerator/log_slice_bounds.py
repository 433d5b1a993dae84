"""Event-time bounds of slices with logs, looked up in the metadata table. Shell; `bounds` decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.enumerator.bounds import EventTimeColumn, SplitBounds, slice_bounds
from penstock.enumerator.events import tell_fallback
from penstock.proto.errors import PenstockError
from penstock.proto.splits import FileRef
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.column_stats import COLUMN_STATS, combined_stats
from penstock.table.metadata.keys import column_stats_key
from penstock.table.metadata.listing import TableListing
from penstock.table.metadata.metadata_table import MetadataTable, indexes
from penstock.table.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one partition that together hold every row of a split."""

    partition: str
    files: tuple[FileRef, ...]


def looked_up_bounds(
    table: HudiTable, table_name: str, timeline: Timeline, wanted: Mapping[str, Files], column: EventTimeColumn
) -> Mapping[str, SplitBounds]:
    """Bounds under the keys of `wanted`, in one lookup; none if the metadata table has no column statistics that may be
    used, which is told if the table's properties name them."""
    if not wanted or COLUMN_STATS not in indexes(table.properties):
        return {}
    listing = TableListing(table, timeline, metadata=True)
    metadata = listing.metadata_table()
    if metadata is None:
        tell_fallback(table_name, listing.fallback)
        return {}
    try:
        return _looked_up(metadata, wanted, column)
    except PenstockError as error:
        table.count_metadata_fallback()
        tell_fallback(table_name, str(error))
        return {}


def _looked_up(metadata: MetadataTable, wanted: Mapping[str, Files], column: EventTimeColumn) -> dict[str, SplitBounds]:
    keys = {
        name: [column_stats_key(column.name, found.partition, file.path.rpartition("/")[2]) for file in found.files]
        for name, found in wanted.items()
    }
    records = metadata.records(COLUMN_STATS, {key for of_files in keys.values() for key in of_files})
    stats = {key: combined_stats(versions) for key, versions in records.items()}
    return {
        name: slice_bounds([stats.get(key) for key in of_files], column.type, column.unit)
        for name, of_files in keys.items()
    }
