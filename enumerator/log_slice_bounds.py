"""Event-time bounds of slices with logs, looked up in the metadata table. Shell; `bounds` decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.enumerator.bounds import slice_bounds
from penstock.enumerator.events import tell_fallback
from penstock.proto.errors import PenstockError
from penstock.proto.splits import EventTimeBounds, FileRef, Split, UnknownBounds
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.column_stats import COLUMN_STATS, combined_stats
from penstock.table.metadata.keys import column_stats_key
from penstock.table.metadata.listing import TableListing
from penstock.table.metadata.metadata_table import MetadataTable, indexes
from penstock.table.schema.avro import AvroField
from penstock.table.timeline import Timeline


def bounds_of_log_slices(
    table: HudiTable, table_name: str, timeline: Timeline, splits: Sequence[Split], event_time: AvroField
) -> Mapping[str, EventTimeBounds | UnknownBounds]:
    """Bounds by split id of those splits that have logs, in one lookup; unknown for all if the metadata table has no
    column statistics that may be used, which is told if the table's properties name them."""
    wanted = [split for split in splits if split.logs]
    if not wanted or COLUMN_STATS not in indexes(table.properties):
        return {}
    listing = TableListing(table, timeline, metadata=True)
    metadata = listing.metadata_table()
    if metadata is None:
        tell_fallback(table_name, listing.fallback)
        return {}
    try:
        return _looked_up(metadata, wanted, event_time)
    except PenstockError as error:
        table.count_metadata_fallback()
        tell_fallback(table_name, str(error))
        return {}


def _looked_up(
    metadata: MetadataTable, splits: Sequence[Split], event_time: AvroField
) -> dict[str, EventTimeBounds | UnknownBounds]:
    keys = {split.split_id: [_key(split, file, event_time.name) for file in _files(split)] for split in splits}
    records = metadata.records(COLUMN_STATS, {key for of_split in keys.values() for key in of_split})
    stats = {key: combined_stats(versions) for key, versions in records.items()}
    return {
        split_id: slice_bounds([stats.get(key) for key in of_split], event_time.type)
        for split_id, of_split in keys.items()
    }


def _files(split: Split) -> tuple[FileRef, ...]:
    return split.logs if split.base is None else (split.base, *split.logs)


def _key(split: Split, file: FileRef, column: str) -> str:
    return column_stats_key(column, split.partition, file.path.rpartition("/")[2])
