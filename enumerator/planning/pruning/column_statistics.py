"""File groups that a request's filter excludes by the column statistics of their files in the metadata table. Pure, but
for `without_rows`.

Each value of a row in a file group with logs is in one of its files, whichever record wins. So the bounds of a column
in the group are those of all its files together.

Statistics are used for whole numbers, decimals, dates and timestamps only. For floating columns with NaN, and for texts
too long for a footer, writers record bounds that are too narrow: Hudi records 0.0 for a missing bound, or the bound of
another row group. The reader prunes such columns by the footers that it reads anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.enumerator.planning.event_time.bounds import depends_on_calendar, stated_us
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.model.splits import CustomMerge, Plan, Split
from penstock.table.files.slices import GroupId
from penstock.table.metadata.column_stats import COLUMN_STATS, ColumnStats, combined_stats
from penstock.table.metadata.keys import column_stats_key
from penstock.table.metadata.metadata_table import MetadataTable, indexes
from penstock.table.parquet.legacy_calendar import widened_bounds
from penstock.table.predicate.bounds import UNKNOWN, ColumnBounds, Comparable, MayMatch, range_bounds
from penstock.table.predicate.tree import Column, columns_of
from penstock.table.schema import avro
from penstock.table.schema.avro import AvroType, Primitive

if TYPE_CHECKING:
    from penstock.table.predicate.tree import Predicate

_DAY_US: Final = 86_400_000_000
_WHOLE_NUMBERS: Final = (Primitive("int"), Primitive("long"))


def usable_columns(state: TableState, plan: Plan) -> Mapping[str, AvroType]:
    """The columns of the request's filter of which statistics can be used, with their types in the table."""
    row_filter, request = state.request.row_filter, state.request.request
    if row_filter is None or plan.scan.schema_history:
        return {}
    if not (request.metadata and state.metadata_usable and COLUMN_STATS in indexes(state.properties)):
        return {}
    return _columns_with_statistics(row_filter, state, plan.scan.partition_fields)


def log_free(plan: Plan) -> list[Split]:
    """The splits of base files of Hudi without logs."""
    return [split for split in plan.splits if split.base is not None and not split.logs and _has_statistics(split)]


def with_statistics(state: TableState, plan: Plan) -> list[Split]:
    """The splits that statistics can exclude: `log_free` ones, and in tables created in version 8 or above also those
    with logs.

    Before version 8 several instants append to one log file, and the index may lack some of them. Such a log stays
    after an upgrade until it is cleaned. A custom merger may return values that no file has.
    """
    created = state.properties.raw.get("hoodie.table.initial.version", "").strip()
    if not (created.isdecimal() and int(created) >= 8) or isinstance(plan.scan.merge, CustomMerge):
        return log_free(plan)
    return [split for split in plan.splits if (split.base or split.logs) and _has_statistics(split)]


def without_rows(
    row_filter: Predicate, candidates: Sequence[Split], columns: Mapping[str, AvroType], metadata: MetadataTable
) -> frozenset[GroupId]:
    """The groups of these splits in which, by the statistics of the columns, no row matches. Errors as
    `MetadataTable.records`."""
    stats = _statistics_of(metadata, candidates, columns)
    may_hold = may_hold_rows(row_filter, columns)
    return frozenset((split.partition, split.file_group) for split in candidates if not may_hold(stats[split.split_id]))


def _has_statistics(split: Split) -> bool:
    """Whether statistics under the base file's name are those of its rows; true without a base file.

    They are not those of a file of an external writer, whose bare name several files may share, and not of a skeleton,
    whose columns are in another file.
    """
    if split.base is None:
        return True
    return split.base.source is None and split.base.path != f"{split.partition}/{split.file_group}".lstrip("/")


def may_hold_rows(
    row_filter: Predicate, columns: Mapping[str, AvroType]
) -> Callable[[Mapping[str, Sequence[ColumnStats | None]]], bool]:
    """A function: whether a file group with these statistics (by column, one for each of its files) may hold a row
    that matches the filter.

    Columns that are not in `columns`, such as those whose values come from paths, may hold any value.
    """
    may_hold = MayMatch(row_filter)

    def matches(stats: Mapping[str, Sequence[ColumnStats | None]]) -> bool:
        def known(column: Column) -> ColumnBounds:
            name = column.path[0]
            if len(column.path) > 1 or name not in columns:
                return UNKNOWN
            return _bounds(stats.get(name, ()), columns[name], column.type)

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
        case Primitive("int", "date") | avro.Decimal():
            return True
        case Primitive("long", logical) if logical.removeprefix("local-").startswith("timestamp-"):
            return True
        case _:
            return kind in _WHOLE_NUMBERS


def _bounds(stats: Sequence[ColumnStats | None], kind: AvroType, arrow: pa.DataType) -> ColumnBounds:
    """A column's bounds in all files together, in the units of its rows; UNKNOWN if the statistics are in any doubt."""
    known: list[tuple[Comparable, Comparable]] = []
    for item in stats:
        if item is None or item.is_deleted or item.value_count is None or item.null_count is None:
            return UNKNOWN
        if item.value_count == item.null_count == 0:
            continue  # a log with only deletes
        low, high = (_exact(value, item.logical, kind, arrow) for value in (item.low, item.high))
        if low is None or high is None:
            return UNKNOWN
        # the file may use the legacy calendar, and its statistics do not record that
        if depends_on_calendar(kind) and isinstance(low, int) and isinstance(high, int):
            low, high = widened_bounds(low, high, 1 if pa.types.is_date(arrow) else _DAY_US)
        known.append((low, high))
    if not known:
        return UNKNOWN
    lows, highs = zip(*known, strict=True)
    return range_bounds(min(lows), max(highs), nulls=True)


def _exact(value: object, logical: str, kind: AvroType, arrow: pa.DataType) -> Comparable | None:
    if isinstance(kind, avro.Decimal):
        if logical == "decimal" and isinstance(value, Decimal) and _is_value_of(value, kind):
            return value
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if kind in _WHOLE_NUMBERS:
        return value if not logical else None
    moment_us = stated_us(value, logical, kind)
    if moment_us is None:
        return None
    return moment_us // _DAY_US if pa.types.is_date(arrow) else moment_us


def _is_value_of(value: Decimal, kind: avro.Decimal) -> bool:
    """Whether a column of the type can hold the value. Hudi records no others: before version 9 it leaves out columns
    whose type has more than 15 digits before or after the point."""
    unscaled: Fraction = Fraction(value) * 10**kind.scale
    limit: int = 10**kind.precision
    return unscaled.denominator == 1 and abs(unscaled) < limit


def _statistics_of(
    metadata: MetadataTable, splits: Sequence[Split], columns: Mapping[str, AvroType]
) -> dict[str, dict[str, list[ColumnStats | None]]]:
    """Split id -> column -> the column's statistics in each file of the split."""
    keys = {split.split_id: {name: _keys(split, name) for name in columns} for split in splits}
    wanted = {key for of_split in keys.values() for of_column in of_split.values() for key in of_column}
    records = metadata.records(COLUMN_STATS, wanted)
    stats = {key: combined_stats(versions) for key, versions in records.items()}
    return {
        split_id: {name: [stats.get(key) for key in of_column] for name, of_column in of_split.items()}
        for split_id, of_split in keys.items()
    }


def _keys(split: Split, column: str) -> list[str]:
    """The keys of the column's records in the index: one for each file of the split, the base file first."""
    files = (split.base, *split.logs) if split.base else split.logs
    return [column_stats_key(column, split.partition, file.path.rpartition("/")[2]) for file in files]
