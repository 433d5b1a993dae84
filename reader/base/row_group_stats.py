"""What a Parquet footer tells of the rows of a row group, and which row groups a filter rules out.

Belongs here: statistics as bounds of the table's columns. Not here: what bounds say about a filter
(`penstock.table.predicate.bounds`), reading (`base_file`).

Statistics count only where a column's values reach the rows as they lie in the file: by name, in the table's own type
(or as timestamps in millis), inside no list or map. Parquet leaves NaN out of them, so floating columns have no upper
bound; texts may be cut, but still bound. Nulls of a field inside a struct are not counted on. Bounds of dates and
timestamps of the legacy calendar are wide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.model.splits import RowsOf, Scan
from penstock.reader.base.columns import ColumnSource, Lacking, Stored
from penstock.reader.split.partition_columns import PartitionConstants
from penstock.reader.split.read_schema import COMMIT_TIME, ReadSchema
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

_INT96 = "INT96"
_DAY_US = 86_400_000_000
_EXACT_INTEGERS = (pa.int32(), pa.int64(), pa.date32(), pa.time64("us"))


class RowGroupBounds:
    """The footer of one base file, and how its columns become the table's."""

    def __init__(
        self,
        footer: pq.FileMetaData,
        schema: pa.Schema,
        sources: Sequence[ColumnSource],
        calendar: LegacyCalendar | None = None,
    ) -> None:
        """`schema` is the file's own; `sources` tell of the columns that are read. calendar: what rows are rebased from
        when they are read."""
        self._footer = footer
        self._schema = schema
        self._calendar = calendar
        self._sources: Mapping[str, ColumnSource] = {source.name: source for source in sources}
        self._leaves: dict[tuple[str, ...], _Leaf | None] = {}

    def known(self, column: Column, number: int) -> ColumnBounds:
        """What is known of the column in row group `number`, as rows will show it."""
        source = self._sources.get(column.path[0])
        if isinstance(source, Lacking):
            return ONLY_NULLS
        if not isinstance(source, Stored):
            return UNKNOWN
        if column.path not in self._leaves:
            self._leaves[column.path] = _leaf(self._schema, (source.column, *column.path[1:]), column.type)
        leaf = self._leaves[column.path]
        if leaf is None:
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
    """Which row groups of a log-free base file hold no row that a read hands on."""

    def __init__(self, predicate: Predicate, bounds: RowGroupBounds, constants: PartitionConstants) -> None:
        self._may_hold = MayMatch(predicate)
        self._bounds = bounds
        self._constants = constants

    def drops(self, number: int) -> bool:
        """Whether no row of row group `number` can be kept."""

        def known(column: Column) -> ColumnBounds:
            constant = self._constants.column(column.path[0], 1)
            if constant is None:
                return self._bounds.known(column, number)
            return value_bounds(constant[0]) if len(column.path) == 1 else UNKNOWN

        return not self._may_hold(known)


def range_of(scan: Scan, read_schema: ReadSchema) -> Predicate | None:
    """What holds for every row of the scan's range; None for all rows, and where columns are found by id. Rows that
    would make a range fail count as rows of it."""
    if read_schema.history is not None or not isinstance(scan.rows, RowsOf):
        return None
    instants = pa.array(sorted(scan.rows.instants | scan.rows.log_compactions), pa.string())
    return OneOf(Column((COMMIT_TIME,), pa.string()), instants)


def kept_by(scan: Scan, read_schema: ReadSchema) -> Predicate | None:
    """What holds for every row that a read of this shape hands on: of its range, and kept by its filter. None as for
    `range_of`, but that a filter may be all there is."""
    of_range, of_filter = (
        range_of(scan, read_schema),
        None if read_schema.history is not None else read_schema.predicate,
    )
    if of_range is None or of_filter is None:
        return of_range if of_filter is None else of_filter
    return And((of_range, of_filter))


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column of the file: where it is among the leaves, and its type, which is the table's but for millis."""

    place: int
    kind: pa.DataType

    def bounds(self, statistics: pq.Statistics) -> tuple[Comparable | None, Comparable | None]:
        """Lowest and highest value as they compare."""
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
        """Those of the values that rows show, if the stored ones may be of the legacy calendar."""
        day = _DAY_US if pa.types.is_timestamp(self.kind) else 1
        if not isinstance(low, int) or not isinstance(high, int) or not _is_moment(self.kind):
            return low, high
        return widened_bounds(low, high, day)


def _leaf(schema: pa.Schema, path: Sequence[str], wanted: pa.DataType) -> _Leaf | None:
    """The file's leaf at this path, if it has one and it reads as `wanted` without a change of values."""
    place = 0
    fields = list(schema)
    for depth, name in enumerate(path):
        if sum(field.name == name for field in fields) != 1:
            return None
        index = next(i for i, field in enumerate(fields) if field.name == name)
        place += sum(_leaf_count(field.type) for field in fields[:index])
        kind = fields[index].type
        if depth == len(path) - 1:
            return _Leaf(place, kind) if _reads_as(kind, wanted) else None
        if not pa.types.is_struct(kind):
            return None
        fields = [kind.field(i) for i in range(kind.num_fields)]
    return None


def _reads_as(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted):
        return wanted.unit == "us" and kind.unit in ("ms", "us") and (kind.tz is None) == (wanted.tz is None)
    return kind == wanted and not pa.types.is_nested(kind)


def _is_moment(kind: pa.DataType) -> bool:
    """Whether a calendar tells what its numbers mean."""
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
    unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale))
