"""Reads a split with log files: first the log's winners, then the base file streamed past them.

This module connects `log.scanner` and `merge` with the base file. `read_split` chooses how a split is read;
`split.emit` applies ordinals and filters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.proto.errors import CorruptFile
from penstock.proto.model.splits import WholeFile
from penstock.proto.value_classes import dataclass
from penstock.reader.base.row_group_stats import RowGroupFilter
from penstock.reader.base.split_file import OpenBase
from penstock.reader.log.scanner import read_log
from penstock.reader.merge.fold import RecordKind
from penstock.reader.merge.keys import check_positions
from penstock.reader.merge.ordering import null_is_zero
from penstock.reader.merge.stream import LogWinners, Merge, MergeSpec, Passed, RowGroup
from penstock.reader.split.context import SplitContext
from penstock.reader.split.read_schema import ReadSchema
from penstock.reader.values.record_keys import RECORD_KEY, KeyMaker, NoKey
from penstock.table.predicate.bounds import ColumnBounds
from penstock.table.predicate.tree import Column

__all__ = ["KeyedRowGroup", "is_beaten", "merged_rows", "read_log", "unread_base_rows"]


def merged_rows(
    context: SplitContext, winners: LogWinners, base: OpenBase | None, pruning: RowGroupFilter | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The merged rows in batches, each with the ordinal of its first row. The report gets the merge's outcomes at the
    end.

    `pruning`: of the row groups that it drops, only the columns that the merge needs are read, and their rows are not
    returned. It must be None for a log whose records fill gaps, because a returned row may take values of a base row
    that is not returned.

    CorruptBlock for a log that does not fit the base file; errors of reading.
    """
    merge = _merge(context, winners, base)
    ordinal = 0
    for batch in merge.run(_row_groups(context, base, pruning)):
        if not isinstance(batch, Passed):
            yield ordinal, batch
        ordinal += batch.num_rows
    context.tally.set_outcomes(merge.outcomes())
    context.tally.inserted_rows = merge.inserted


def unread_base_rows(
    context: SplitContext, winners: LogWinners, base: OpenBase
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """As `merged_rows` for a base that `is_beaten`: none of its rows is read. The log's winners are returned as
    inserts, with ordinals after those of all base rows."""
    merge = _merge(context, winners, base)
    for number in range(base.num_row_groups):
        context.tally.count_pruned(base.rows_of(number))
    ordinal = base.num_rows
    for batch in merge.inserts():
        yield ordinal, batch
        ordinal += batch.num_rows
    context.tally.set_outcomes(merge.outcomes())
    context.tally.inserted_rows = merge.inserted


def is_beaten(base: OpenBase, winners: LogWinners, schema: ReadSchema, out_of_range: RowGroupFilter) -> bool:
    """Whether the footer shows that no base row is in the range and that every log record wins over any base row.

    The answer holds for all row groups together: once a key is matched, its later copies in the base are returned.
    """
    numbers = range(base.num_row_groups)
    if not all(out_of_range.drops(number) for number in numbers):
        return False
    ordered = np.flatnonzero(winners.kinds != RecordKind.DEFAULT_DELETE)
    if winners.ordering is None or not schema.ordering or not len(ordered):
        return True
    lowest = winners.ordering.lowest(ordered)
    if lowest is None or schema.ordering.dotted or schema.ordering.is_nested:
        return False
    bounds, column = base.row_group_bounds(), Column((schema.ordering.names[0],), schema.ordering.types[0])
    zero = null_is_zero(schema.ordering.types)
    return all(_is_at_most(bounds.known(column, number), lowest, nulls_are_zero=zero) for number in numbers)


def _is_at_most(known: ColumnBounds, limit: int, *, nulls_are_zero: bool) -> bool:
    """Whether no value is above the limit. A null counts as 0 with `nulls_are_zero`, else it is above nothing."""
    if known.nulls and nulls_are_zero and limit < 0:
        return False
    return not known.values or (isinstance(known.high, int) and known.high <= limit)


def _merge(context: SplitContext, winners: LogWinners, base: OpenBase | None) -> Merge:
    if base is not None:
        check_positions(winners.table, base.num_rows, context.where)
    size = context.batch_size
    return Merge(
        winners,
        MergeSpec(
            columns=context.schema.stored,
            key=RECORD_KEY,
            ordering=context.schema.ordering,
            batch_rows=size.rows,
            batch_bytes=size.size_bytes,
        ),
    )


def _row_groups(context: SplitContext, base: OpenBase | None, pruning: RowGroupFilter | None) -> Iterator[RowGroup]:
    """The base's row groups with their keys, which are stored or made of the key columns."""
    if base is None:
        return
    for group in base.row_groups(WholeFile(), context.batch_size):
        if pruning is not None and pruning.drops(group.number):
            context.tally.count_pruned(group.num_rows)
            group = replace(group, columns=context.schema.merge_columns)
        yield KeyedRowGroup(group, context.schema.keys, base.where) if context.scan.key_fields else group


@dataclass(frozen=True, slots=True)
class KeyedRowGroup:
    """A row group of a base file without meta columns, with `_hoodie_record_key` added as the last column."""

    group: RowGroup
    """The row group as stored."""
    maker: KeyMaker
    """How the keys are made."""
    where: str
    """The beginning of error texts."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.group.num_rows

    @property
    def emits_rows(self) -> bool:
        """Whether its rows may be returned."""
        return self.group.emits_rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows in file order. CorruptFile for a row without a key."""
        for batch in self.group.batches():
            keys = self._keys(batch)
            yield pa.RecordBatch.from_arrays([*batch.columns, keys], names=[*batch.schema.names, RECORD_KEY])

    def keys(self) -> pa.Array | None:
        """None: keys that are made of columns take as long to make as the rows take to read."""
        return None

    def _keys(self, batch: pa.RecordBatch) -> pa.Array:
        try:
            return self.maker.keys(batch)
        except NoKey as error:
            raise CorruptFile(f"{self.where}: a row {error}: the file is damaged, restore or rewrite it") from None
