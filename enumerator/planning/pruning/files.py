"""Log-free files that a request's filter rules out by the metadata table's column statistics, before they are opened.

`may_hold_rows` decides and is pure; `without_ruled_out` looks the statistics up. They count for whole numbers, dates
and timestamps only: of floating columns with NaN, and of texts too long for a footer, writers record bounds that are
too narrow (Hudi takes a missing bound for 0.0, or another row group's for the file's). Footers, which the reader has
before it decodes anything, tell of those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from penstock.enumerator.log import log_fallback
from penstock.enumerator.planning.event_time.bounds import stated_us, tells_moments
from penstock.proto.errors import PenstockError
from penstock.proto.model.splits import FileRef, Plan, Scan, Split
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.column_stats import COLUMN_STATS, ColumnStats, combined_stats
from penstock.table.metadata.keys import column_stats_key
from penstock.table.metadata.listing import TableListing
from penstock.table.metadata.metadata_table import MetadataTable, indexes
from penstock.table.parquet.legacy_calendar import widened_bounds
from penstock.table.predicate.bounds import UNKNOWN, ColumnBounds, MayMatch, range_bounds
from penstock.table.predicate.parse import parse_predicate
from penstock.table.predicate.tree import Column, columns_of
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import AvroType, Primitive, RecordSchema, parse_record_schema
from penstock.table.timeline.active import Timeline

FEW_FILES: Final = 8
"""Up to so many files are left to the reader: opening them costs no more than asking the metadata table."""

_DAY_US: Final = 86_400_000_000
_WHOLE_NUMBERS: Final = (Primitive("int"), Primitive("long"))


def without_ruled_out(
    table: HudiTable, table_name: str, timeline: Timeline, plan: Plan, few: int | None = None
) -> Plan:
    """The plan without splits of log-free files that hold no row which its filter keeps, as far as statistics tell;
    as it is if there are none that may be used, which is told if the table's properties name them."""
    scan = plan.scan
    candidates = [
        split for split in plan.splits if split.base is not None and not split.logs and not _is_external(split)
    ]
    asked = len(candidates) > (FEW_FILES if few is None else few) and COLUMN_STATS in indexes(table.properties)
    columns = _judged_columns(scan) if asked and scan.where and not scan.schema_history else {}
    if not columns:
        return plan
    listing = TableListing(table, timeline, metadata=True)
    metadata = listing.metadata_table()
    if metadata is None:
        log_fallback(table_name, listing.fallback)
        return plan
    try:
        stats = _looked_up(metadata, candidates, columns)
    except PenstockError as error:
        table.count_metadata_fallback()
        log_fallback(table_name, str(error))
        return plan
    may_hold = may_hold_rows(scan, columns)
    kept = (split for split in plan.splits if split.split_id not in stats or may_hold(stats[split.split_id]))
    return replace(plan, splits=tuple(kept))


def _is_external(split: Split) -> bool:
    """Of another writer's file: its statistics are recorded under a bare name that several files may share."""
    return split.base is not None and split.base.path == f"{split.partition}/{split.file_group}".lstrip("/")


def may_hold_rows(scan: Scan, columns: Mapping[str, AvroType]) -> Callable[[Mapping[str, ColumnStats | None]], bool]:
    """Whether a log-free file with these statistics (by column) may hold a row that the scan's filter keeps. Columns
    not named, those whose values come from paths among them, may hold anything."""
    may_hold = MayMatch(parse_predicate(scan.where, arrow_schema(_record(scan))))

    def answer(stats: Mapping[str, ColumnStats | None]) -> bool:
        def known(column: Column) -> ColumnBounds:
            name = column.path[0]
            if len(column.path) > 1 or name not in columns:
                return UNKNOWN
            return _bounds(stats.get(name), columns[name], column.type)

        return may_hold(known)

    return answer


def _judged_columns(scan: Scan) -> dict[str, AvroType]:
    """The filter's columns that statistics may tell of, with the table's types."""
    record = _record(scan)
    fields = record.by_name()
    named = columns_of(parse_predicate(scan.where, arrow_schema(record)))
    return {
        name: fields[name].type for name in named if name not in scan.partition_fields and _is_judged(fields[name].type)
    }


def _is_judged(kind: AvroType) -> bool:
    match kind:
        case Primitive("int", "date"):
            return True
        case Primitive("long", logical) if logical.removeprefix("local-").startswith("timestamp-"):
            return True
        case _:
            return kind in _WHOLE_NUMBERS


def _bounds(stats: ColumnStats | None, kind: AvroType, arrow: pa.DataType) -> ColumnBounds:
    """What the statistics of a file tell of a column, in the units rows show; nothing if they are in any doubt."""
    if stats is None or stats.is_deleted or stats.value_count is None or stats.null_count is None:
        return UNKNOWN
    low, high = (_exact(value, stats.logical, kind, arrow) for value in (stats.low, stats.high))
    if low is None or high is None:
        return UNKNOWN
    if tells_moments(kind):  # the file may be of the legacy calendar, which its statistics do not tell
        low, high = widened_bounds(low, high, 1 if pa.types.is_date(arrow) else _DAY_US)
    return range_bounds(low, high, nulls=True)


def _exact(value: object, logical: str, kind: AvroType, arrow: pa.DataType) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if kind in _WHOLE_NUMBERS:
        return value if not logical else None
    moment_us = stated_us(value, logical, kind)
    if moment_us is None:
        return None
    return moment_us // _DAY_US if pa.types.is_date(arrow) else moment_us


def _looked_up(
    metadata: MetadataTable, splits: Sequence[Split], columns: Mapping[str, AvroType]
) -> dict[str, dict[str, ColumnStats | None]]:
    """By split id, the statistics of each column in the split's one file."""
    keys = {
        split.split_id: {name: _key(split, split.base, name) for name in columns}
        for split in splits
        if split.base is not None
    }
    records = metadata.records(COLUMN_STATS, {key for of_split in keys.values() for key in of_split.values()})
    stats = {key: combined_stats(versions) for key, versions in records.items()}
    return {split_id: {name: stats.get(key) for name, key in of_split.items()} for split_id, of_split in keys.items()}


def _key(split: Split, file: FileRef, column: str) -> str:
    return column_stats_key(column, split.partition, file.path.rpartition("/")[2])


def _record(scan: Scan) -> RecordSchema:
    return parse_record_schema(scan.schema_json, f"schema of table {scan.table}")
