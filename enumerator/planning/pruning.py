"""Partitions and files that a request's filter excludes before they are listed or opened.

`partitions_to_prune`, `pruned_partitions` and `may_hold_rows` are pure; `prune_files` reads the metadata table. File
statistics are used for whole numbers, dates and timestamps only. For floating columns with NaN, and for texts too long
for a footer, writers record bounds that are too narrow: Hudi records 0.0 for a missing bound, or the bound of another
row group. The reader prunes such columns by the footers that it reads anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.enumerator.log import log_fallback
from penstock.enumerator.planning.event_time.bounds import depends_on_calendar, stated_us
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.errors import PenstockError
from penstock.proto.model.splits import FileRef, Plan, Split
from penstock.table.config.properties import TableProperties
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.column_stats import COLUMN_STATS, ColumnStats, combined_stats
from penstock.table.metadata.keys import column_stats_key
from penstock.table.metadata.listing import TableListing
from penstock.table.metadata.metadata_table import MetadataTable, indexes
from penstock.table.parquet.legacy_calendar import widened_bounds
from penstock.table.partitions.pruning import PartitionPruning, partition_pruning
from penstock.table.predicate.bounds import UNKNOWN, ColumnBounds, MayMatch, range_bounds
from penstock.table.predicate.tree import Column, columns_of
from penstock.table.schema.avro import AvroType, Primitive

if TYPE_CHECKING:
    from penstock.table.predicate.tree import Predicate

FEW_FILES: Final = 8
"""Up to this many files are left to the reader: opening them costs no more than reading the metadata table."""

_DAY_US: Final = 86_400_000_000
_WHOLE_NUMBERS: Final = (Primitive("int"), Primitive("long"))


def partitions_to_prune(
    properties: TableProperties,
    schema: pa.Schema,
    row_filter: Predicate | None,
    facts: TimelineFacts,
    known: Collection[str],
) -> PartitionPruning | None:
    """The pruning of partitions before they are listed; None if all must be listed.

    All must be listed if the path of one of the `known` partitions does not fit the partition fields, because then no
    value comes from a path; and if archived instants were added, because then any file may reveal a lost instant.
    """
    if row_filter is None or facts.archive_begins is not None:
        return None
    pruning = partition_pruning(properties, schema, row_filter)
    return pruning if pruning is not None and pruning.fits(known) else None


def pruned_partitions(
    pruning: PartitionPruning | None, known: Collection[str], listing: Collection[str]
) -> frozenset[str]:
    """The known partitions of which no group is read; none if a listed partition does not fit the partition fields."""
    if pruning is None or not pruning.fits(listing):
        return frozenset()
    return frozenset(name for name in known if pruning.drops(name))


def prune_files(table: HudiTable, state: TableState, plan: Plan, few: int | None = None) -> Plan:
    """The plan without the splits of log-free files in which, by the metadata table's statistics, no row matches.

    The plan is unchanged if it has at most `few` such files (FEW_FILES by default), or if no statistics are usable. If
    the table's properties list statistics that turn out to be unusable, that is logged.
    """
    row_filter, request = state.request.row_filter, state.request.request
    if (
        row_filter is None
        or plan.scan.schema_history
        or not (request.metadata and state.metadata_usable and COLUMN_STATS in indexes(table.properties))
    ):
        return plan
    candidates = [
        split for split in plan.splits if split.base is not None and not split.logs and _has_statistics(split)
    ]
    if len(candidates) <= (FEW_FILES if few is None else few):
        return plan
    columns = _columns_with_statistics(row_filter, state, plan.scan.partition_fields)
    if not columns:
        return plan
    listing = TableListing(table, state.facts.timeline, metadata=True)
    metadata = listing.metadata_table()
    if metadata is None:
        log_fallback(state.table, listing.fallback)
        return plan
    try:
        stats = _statistics_of(metadata, candidates, columns)
    except PenstockError as error:
        table.count_metadata_fallback()
        log_fallback(state.table, str(error))
        return plan
    may_hold = may_hold_rows(row_filter, columns)
    splits = (split for split in plan.splits if split.split_id not in stats or may_hold(stats[split.split_id]))
    return replace(plan, splits=tuple(splits))


def _has_statistics(split: Split) -> bool:
    """Whether statistics under the base file's name are those of its rows. Not of a file of an external writer, whose
    bare name several files may share, and not of a skeleton, whose columns are in another file."""
    if split.base is None or split.base.source is not None:
        return False
    return split.base.path != f"{split.partition}/{split.file_group}".lstrip("/")


def may_hold_rows(
    row_filter: Predicate, columns: Mapping[str, AvroType]
) -> Callable[[Mapping[str, ColumnStats | None]], bool]:
    """A function: whether a log-free file with these statistics (by column) may hold a row that matches the filter.

    Columns that are not in `columns`, such as those whose values come from paths, may hold any value.
    """
    may_hold = MayMatch(row_filter)

    def matches(stats: Mapping[str, ColumnStats | None]) -> bool:
        def known(column: Column) -> ColumnBounds:
            name = column.path[0]
            if len(column.path) > 1 or name not in columns:
                return UNKNOWN
            return _bounds(stats.get(name), columns[name], column.type)

        return may_hold(known)

    return matches


def _columns_with_statistics(
    row_filter: Predicate, state: TableState, partition_fields: Collection[str]
) -> dict[str, AvroType]:
    """The filter's columns whose statistics can be used, with their types in the table."""
    fields = state.schema.record.by_name()
    named = (name for name in columns_of(row_filter) if name in fields and name not in partition_fields)
    types = {name: fields[name].type for name in named}
    return {name: kind for name, kind in types.items() if _has_exact_bounds(kind)}


def _has_exact_bounds(kind: AvroType) -> bool:
    match kind:
        case Primitive("int", "date"):
            return True
        case Primitive("long", logical) if logical.removeprefix("local-").startswith("timestamp-"):
            return True
        case _:
            return kind in _WHOLE_NUMBERS


def _bounds(stats: ColumnStats | None, kind: AvroType, arrow: pa.DataType) -> ColumnBounds:
    """A column's bounds in a file, in the units of its rows; UNKNOWN if the statistics are in any doubt."""
    if stats is None or stats.is_deleted or stats.value_count is None or stats.null_count is None:
        return UNKNOWN
    low, high = (_exact(value, stats.logical, kind, arrow) for value in (stats.low, stats.high))
    if low is None or high is None:
        return UNKNOWN
    if depends_on_calendar(kind):  # the file may use the legacy calendar, and its statistics do not record that
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


def _statistics_of(
    metadata: MetadataTable, splits: Sequence[Split], columns: Mapping[str, AvroType]
) -> dict[str, dict[str, ColumnStats | None]]:
    """Split id -> column -> the column's statistics in the split's one file."""
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
