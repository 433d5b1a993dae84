"""The road of a split with logs: winners of the log, then the base streamed past them.

Shell around `log_records` and `merge`. Not here: which road a split takes, ordinals and filters (`read_split`,
`batches`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.proto.model.splits import Scan, Split, WholeFile
from penstock.reader.base.decoded_size import BatchSize
from penstock.reader.base.file import BaseFile
from penstock.reader.base.row_group_stats import RowGroupFilter
from penstock.reader.log.scanner import read_log
from penstock.reader.log_bytes import LogFiles
from penstock.reader.merge.fold import RecordKind
from penstock.reader.merge.keys import check_positions
from penstock.reader.merge.ordering import null_is_zero
from penstock.reader.merge.stream import LogWinners, Merge, MergeShape, Passed, RowGroup
from penstock.reader.read_schema import ReadShape
from penstock.reader.report import SplitTally
from penstock.reader.values.record_keys import RECORD_KEY, KeyedRowGroup
from penstock.table.predicate.bounds import ColumnBounds
from penstock.table.predicate.tree import Column
from penstock.table.storage.filesystem import Storage


def winners_of(
    storage: Storage, scan: Scan, split: Split, shape: ReadShape, tally: SplitTally, *, compiled: bool
) -> LogWinners | None:
    """What wins among the split's logs; None if none of their records counts. Errors as for `log_records.read_log`."""
    files = LogFiles(storage, split.logs, scan.table)
    return read_log(files, scan, split, shape, tally, compiled=compiled)


def merged(
    winners: LogWinners,
    base: BaseFile | None,
    scan: Scan,
    split: Split,
    shape: ReadShape,
    size: BatchSize,
    tally: SplitTally,
    *,
    dropping: RowGroupFilter | None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The merged rows in batches, each with the ordinal of its first; in the end the tally is told what met what.

    `dropping`: of row groups that it drops only what a log needs is read, and their own rows do not come. None for a
    log that fills gaps, where a row that comes takes values of one that goes.

    CorruptBlock for a log that does not fit the base file; errors of reading.
    """
    merge = _merge(winners, base, scan, split, shape, size)
    ordinal = 0
    for batch in merge.run(_row_groups(base, scan, shape, size, tally, dropping)):
        if not isinstance(batch, Passed):
            yield ordinal, batch
        ordinal += batch.num_rows
    tally.merged(merge.outcomes())


def unmet(
    winners: LogWinners,
    base: BaseFile,
    scan: Scan,
    split: Split,
    shape: ReadShape,
    size: BatchSize,
    tally: SplitTally,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """As `merged`, where the base `is_beaten`: nothing of it is read. What stands in the log comes as inserts do,
    behind the ordinals of all rows of the base."""
    merge = _merge(winners, base, scan, split, shape, size)
    for number in range(base.num_row_groups):
        tally.pruned(base.rows_of(number))
    ordinal = base.num_rows
    for batch in merge.inserts():
        yield ordinal, batch
        ordinal += batch.num_rows
    tally.merged(merge.outcomes())


def is_beaten(base: BaseFile, winners: LogWinners, shape: ReadShape, out_of_range: RowGroupFilter) -> bool:
    """Whether the footer says that no row of the base is of the range, and that every record of the log stands against
    whatever base row it meets. Of all row groups or none: once a key is met, its later copies in a base pass."""
    numbers = range(base.num_row_groups)
    if not all(out_of_range.drops(number) for number in numbers):
        return False
    ordered = np.flatnonzero(winners.kinds != RecordKind.DEFAULT_DELETE)
    if winners.ordering is None or not shape.ordering or not len(ordered):
        return True
    lowest = winners.ordering.lowest(ordered)
    if lowest is None or shape.ordering.dotted:
        return False
    bounds, column = base.row_group_bounds(), Column((shape.ordering.names[0],), shape.ordering.types[0])
    zero = null_is_zero(shape.ordering.types)
    return all(_is_at_most(bounds.known(column, number), lowest, nulls_are_zero=zero) for number in numbers)


def _is_at_most(known: ColumnBounds, limit: int, *, nulls_are_zero: bool) -> bool:
    """Whether no value is above the limit, nor a null where it is 0; else nulls are above nothing."""
    if known.nulls and nulls_are_zero and limit < 0:
        return False
    return not known.values or (isinstance(known.high, int) and known.high <= limit)


def _merge(
    winners: LogWinners, base: BaseFile | None, scan: Scan, split: Split, shape: ReadShape, size: BatchSize
) -> Merge:
    if base is not None:
        check_positions(winners.table, base.num_rows, f"table {scan.table}: split {split.split_id}")
    return Merge(
        winners,
        MergeShape(
            columns=shape.stored,
            key=RECORD_KEY,
            ordering=shape.ordering,
            batch_rows=size.rows,
            batch_bytes=size.size_bytes,
        ),
    )


def _row_groups(
    base: BaseFile | None,
    scan: Scan,
    shape: ReadShape,
    size: BatchSize,
    tally: SplitTally,
    dropping: RowGroupFilter | None,
) -> Iterator[RowGroup]:
    """The base's row groups with their keys, stored or made."""
    if base is None:
        return
    for group in base.row_groups(WholeFile(), size):
        if dropping is not None and dropping.drops(group.number):
            tally.pruned(group.num_rows)
            group = replace(group, columns=shape.merged_by)
        yield KeyedRowGroup(group, shape.keys, base.where) if scan.key_fields else group
