"""The statistics of row groups in a Parquet footer, and which row groups a filter rules out.

`penstock.table.predicate.bounds` decides what bounds mean for a filter. Statistics are only used where a column's
values are returned as they are stored: matched by name, in the table's own type (or as timestamps in milliseconds),
inside no list or map.

* Parquet leaves NaN out of them, so floating columns have no upper bound.
* Texts may be truncated, but are still bounds.
* Null counts of a field inside a struct are not used.
* Bounds of dates and timestamps of the legacy calendar are widened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.model.splits import RowsOf, Scan
from penstock.proto.value_classes import dataclass
from penstock.reader.base.columns import ColumnSource, Missing, Stored
from penstock.reader.split.partition_columns import PartitionConstants
from penstock.reader.split.read_schema import COMMIT_TIME, ReadSchema
from penstock.table.arrow_arrays import arrow_array
from penstock.table.parquet.legacy_calendar import LegacyCalendar, widened_bounds
from penstock.table.predicate.bounds import (
    ONLY_NULLS,
    UNKNOWN,
    ColumnBounds,
    Comparable,
    MayMatch,
    range_bounds,
    value_bounds,
)
from penstock.table.predicate.tree import And, Column, OneOf, Predicate
from penstock.table.schema.decimals import scaled

_INT96 = "INT96"
_DAY_US = 86_400_000_000
_EXACT_INTEGERS = (pa.int32(), pa.int64(), pa.date32(), pa.time64("us"))


class KnownBounds(Protocol):
    """What is known of the values in row groups."""

    def known(self, column: Column, number: int) -> ColumnBounds:
        """The bounds of the column in row group `number`, of the values as they are returned."""
        ...


class RowGroupBounds:
    """The statistics of one base file as bounds of the table's columns."""

    def __init__(
        self,
        footer: pq.FileMetaData | None,
        schema: pa.Schema,
        sources: Sequence[ColumnSource],
        calendar: LegacyCalendar | None = None,
    ) -> None:
        """footer: None if the file has no statistics. `schema` is the file's own; `sources` are the columns that are
        read. calendar: the calendar that rows are converted from when they are read."""
        self._footer = footer
        self._schema = schema
        self._calendar = calendar
        self._sources: Mapping[str, ColumnSource] = {source.name: source for source in sources}
        self._leaves: dict[tuple[str, ...], _Leaf | None] = {}

    def known(self, column: Column, number: int) -> ColumnBounds:
        """The bounds of the column in row group `number`, of the values as they are returned."""
        source = self._sources.get(column.path[0])
        if isinstance(source, Missing):
            return ONLY_NULLS
        if not isinstance(source, Stored):
            return UNKNOWN
        if column.path not in self._leaves:
            self._leaves[column.path] = _leaf(self._schema, (source.column, *column.path[1:]), column.type)
        leaf = self._leaves[column.path]
        if leaf is None or self._footer is None:
            return UNKNOWN
        group = self._footer.row_group(number)
        try:
            chunk = group.column(leaf.place)
            statistics = chunk.statistics
            if statistics is None or chunk.physical_type == _INT96:
                return UNKNOWN
            nulls = int(statistics.null_count) if statistics.has_null_count and len(column.path) == 1 else None
            if nulls is not None and nulls == group.num_rows:
                return ONLY_NULLS
            low, high = leaf.bounds(statistics) if statistics.has_min_max else (None, None)
            if self._calendar is not None:
                low, high = leaf.rebased_bounds(low, high)
        except (pa.ArrowException, OSError, IndexError, ValueError, TypeError, OverflowError):
            return UNKNOWN
        return range_bounds(low, high, nulls=nulls != 0)


class RowGroupFilter:
    """Which row groups of a base file hold no row that a read returns."""

    def __init__(self, predicate: Predicate, bounds: KnownBounds, constants: PartitionConstants) -> None:
        self._may_match = MayMatch(predicate)
        self._bounds = bounds
        self._constants = constants

    def drops(self, number: int) -> bool:
        """Whether no row of row group `number` can be kept."""

        def known(column: Column) -> ColumnBounds:
            constant = self._constants.column(column.path[0], 1)
            if constant is None:
                return self._bounds.known(column, number)
            return value_bounds(constant[0]) if len(column.path) == 1 else UNKNOWN

        return not self._may_match(known)


def range_of(scan: Scan, read_schema: ReadSchema) -> Predicate | None:
    """The condition that every row of the scan's range fulfils; None for all rows, and if columns are matched by id.

    Rows that would make a range fail count as rows of it.
    """
    if read_schema.history is not None or not isinstance(scan.rows, RowsOf):
        return None
    instants = arrow_array(sorted(scan.rows.instants | scan.rows.log_compactions), pa.string())
    return OneOf(Column((COMMIT_TIME,), pa.string()), instants)


def kept_by(scan: Scan, read_schema: ReadSchema) -> Predicate | None:
    """The condition that every returned row fulfils: it is in the range and the filter keeps it. None as for
    `range_of`, unless there is a filter."""
    of_range, of_filter = (
        range_of(scan, read_schema),
        None if read_schema.history is not None else read_schema.predicate,
    )
    if of_range is None or of_filter is None:
        return of_range if of_filter is None else of_filter
    return And((of_range, of_filter))


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A leaf column of the file."""

    place: int
    """Its index among the leaves."""
    kind: pa.DataType
    """Its type, which is the table's except for milliseconds."""

    def bounds(self, statistics: pq.Statistics) -> tuple[Comparable | None, Comparable | None]:
        """The lowest and highest value as they are compared."""
        low, high = statistics.min_raw, statistics.max_raw
        kind = self.kind
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return (low, high) if isinstance(low, bytes) and isinstance(high, bytes) else (None, None)
        if pa.types.is_boolean(kind):
            return bool(low), bool(high)
        if pa.types.is_floating(kind):
            return float(low), None
        if pa.types.is_decimal128(kind):
            return _decimal(low, kind.scale), _decimal(high, kind.scale)
        if pa.types.is_timestamp(kind):
            factor = 1000 if kind.unit == "ms" else 1
            return int(low) * factor, int(high) * factor
        return (int(low), int(high)) if kind in _EXACT_INTEGERS else (None, None)

    def rebased_bounds(
        self, low: Comparable | None, high: Comparable | None
    ) -> tuple[Comparable | None, Comparable | None]:
        """The bounds of the returned values, if the stored ones may be of the legacy calendar."""
        day = _DAY_US if pa.types.is_timestamp(self.kind) else 1
        if not isinstance(low, int) or not isinstance(high, int) or not _has_calendar(self.kind):
            return low, high
        return widened_bounds(low, high, day)


def _leaf(schema: pa.Schema, path: Sequence[str], table_type: pa.DataType) -> _Leaf | None:
    """The file's leaf at this path, if there is one and it is read as `table_type` without changing values."""
    place = 0
    fields = list(schema)
    for depth, name in enumerate(path):
        if sum(field.name == name for field in fields) != 1:
            return None
        index = next(i for i, field in enumerate(fields) if field.name == name)
        place += sum(_leaf_count(field.type) for field in fields[:index])
        kind = fields[index].type
        if depth == len(path) - 1:
            return _Leaf(place, kind) if _reads_as(kind, table_type) else None
        if not pa.types.is_struct(kind):
            return None
        fields = [kind.field(i) for i in range(kind.num_fields)]
    return None


def _reads_as(kind: pa.DataType, table_type: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(table_type):
        return table_type.unit == "us" and kind.unit in ("ms", "us") and (kind.tz is None) == (table_type.tz is None)
    return kind == table_type and not pa.types.is_nested(kind)


def _has_calendar(kind: pa.DataType) -> bool:
    """Whether the calendar matters for the type's values."""
    return pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None)


def _leaf_count(kind: pa.DataType) -> int:
    if pa.types.is_map(kind):
        return _leaf_count(kind.key_type) + _leaf_count(kind.item_type)
    if pa.types.is_struct(kind):
        return sum(_leaf_count(kind.field(place).type) for place in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _leaf_count(kind.value_type)
    return 1


def _decimal(raw: int | bytes, scale: int) -> Decimal:
    return scaled(int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw), scale)
