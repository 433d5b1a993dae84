"""Event-time bounds of slices with logs, from the metadata table's column statistics."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.enumerator.log import log_fallback
from penstock.enumerator.planning.event_time.bounds import EventTimeColumn, SplitBounds, slice_bounds
from penstock.proto.errors import PenstockError
from penstock.proto.model.files import FileRef
from penstock.proto.value_classes import dataclass
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.column_stats import COLUMN_STATS, combined_stats
from penstock.table.metadata.keys import column_stats_key
from penstock.table.metadata.listing import TableListing
from penstock.table.metadata.metadata_table import MetadataTable, indexes
from penstock.table.timeline.active import Timeline


@dataclass(frozen=True, slots=True)
class CoveringFiles:
    """Files of one partition that together hold every row of a split."""

    partition: str
    """The path of the partition."""
    files: tuple[FileRef, ...]
    """The base and log files."""


def bounds_from_metadata(
    table: HudiTable, table_name: str, timeline: Timeline, lookups: Mapping[str, CoveringFiles], column: EventTimeColumn
) -> Mapping[str, SplitBounds]:
    """The bounds of each lookup, under its key, read in one pass.

    Empty if the metadata table has no usable column statistics; if the table's properties list them, that is logged.
    """
    if not lookups or COLUMN_STATS not in indexes(table.properties):
        return {}
    listing = TableListing(table, timeline, metadata=True)
    metadata = listing.metadata_table()
    if metadata is None:
        log_fallback(table_name, listing.fallback)
        return {}
    try:
        return _read_bounds(metadata, lookups, column)
    except PenstockError as error:
        table.count_metadata_fallback()
        log_fallback(table_name, str(error))
        return {}


def _read_bounds(
    metadata: MetadataTable, lookups: Mapping[str, CoveringFiles], column: EventTimeColumn
) -> dict[str, SplitBounds]:
    keys = {
        name: [column_stats_key(column.name, lookup.partition, file.path.rpartition("/")[2]) for file in lookup.files]
        for name, lookup in lookups.items()
    }
    records = metadata.records(COLUMN_STATS, {key for of_files in keys.values() for key in of_files})
    stats = {key: combined_stats(versions) for key, versions in records.items()}
    return {
        name: slice_bounds([stats.get(key) for key in of_files], column.type, column.unit)
        for name, of_files in keys.items()
    }
