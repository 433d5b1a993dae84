"""Event-time bounds of slices with logs, looked up in the metadata table. Shell; `bounds` decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.enumerator.log import log_fallback
from penstock.enumerator.planning.event_time.bounds import UNIT_US, EventTimeColumn, SplitBounds, slice_bounds, together
from penstock.enumerator.planning.event_time.file_bounds import FileTimes
from penstock.proto.errors import InvariantViolation, PenstockError
from penstock.proto.model.changes import ChangesOf, ChangeStep, ComparedStates, GroupChanges, LoggedImages, StoredKinds
from penstock.proto.model.files import SliceFiles
from penstock.proto.model.splits import (
    EventTimeBounds,
    FileRef,
    NoEventTimes,
    Scan,
    Split,
    UnknownBounds,
    VisibleInstants,
)
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.column_stats import COLUMN_STATS, combined_stats
from penstock.table.metadata.keys import column_stats_key
from penstock.table.metadata.listing import TableListing
from penstock.table.metadata.metadata_table import MetadataTable, indexes
from penstock.table.partitions.scalars import partition_scalar
from penstock.table.timeline.active import Timeline


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
        log_fallback(table_name, listing.fallback)
        return {}
    try:
        return _looked_up(metadata, wanted, column)
    except PenstockError as error:
        table.count_metadata_fallback()
        log_fallback(table_name, str(error))
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


def covering_files(changes: GroupChanges, files: FileTimes) -> tuple[SliceFiles, ...] | None:
    """Slices that hold every image of the changes, each once; None if an image may be elsewhere."""
    found: dict[SliceFiles, None] = {}
    for step in changes.steps:
        states = _states(step, files)
        if states is None:
            return None
        found.update(dict.fromkeys(states))
    return tuple(found)


def times_of_changes(changes: GroupChanges, scan: Scan, files: FileTimes) -> SplitBounds:
    """The event times of both sides of every change, from footers. Errors as for `FileTimes.of_slice`."""
    covering = covering_files(changes, files)
    if covering is None:
        return UnknownBounds()
    visible = _any_step(scan)
    return together(files.of_slice(found.base, found.logs, visible) for found in covering)


def _states(step: ChangeStep, files: FileTimes) -> tuple[SliceFiles, ...] | None:
    match step.source:
        case ComparedStates(before, after):
            return tuple(state for state in (before, after) if state is not None)
        case StoredKinds(found):
            return (found,)
        case LoggedImages(logs, before, after):
            if before is None or after is None or not all(files.logs_keys_alone(log) for log in logs):
                return None
            return (before, after)


def _any_step(scan: Scan) -> VisibleInstants:
    """The instants of all states around all steps: more than are in any one of them."""
    if not isinstance(scan.rows, ChangesOf):
        raise InvariantViolation(f"table {scan.table}: a split of changes, and the scan is not one of changes")
    return VisibleInstants(
        members=scan.visible.members.union(scan.rows.instants), archived_before=scan.visible.archived_before
    )


_DAY_US: Final = 86_400_000_000
_INT64_MAX: Final = 2**63 - 1


def path_times(scan: Scan, split: Split, column: str, kind: pa.DataType, unit: str) -> SplitBounds:
    """The bounds of a split by its path: one value, or none for the null partition; unknown for plain numbers without
    a unit, and for a path that reading refuses, whose error comes then."""
    if len(split.partition_values) != len(scan.partition_fields):
        return UnknownBounds()
    text = dict(zip(scan.partition_fields, split.partition_values, strict=True))[column]
    try:
        value = partition_scalar(text, kind, f"table {scan.table}")
    except PenstockError:
        return UnknownBounds()
    if not value.is_valid:
        return NoEventTimes()
    factor = _DAY_US if pa.types.is_date32(kind) else 1 if pa.types.is_timestamp(kind) else UNIT_US.get(unit)
    if factor is None:
        return UnknownBounds()
    time_us = int(value.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).as_py()) * factor
    return EventTimeBounds(time_us, time_us) if abs(time_us) <= _INT64_MAX else UnknownBounds()
