"""The road of a split with logs: winners of the log, then the base streamed past them.

Shell around `log_records` and `merge`. Not here: which road a split takes, ordinals and filters (`read_split`,
`batches`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from penstock.proto.splits import Scan, Split, WholeFile
from penstock.reader.base_file import BaseFile, BatchSize
from penstock.reader.log_files import LogFiles
from penstock.reader.log_records import read_log
from penstock.reader.merge.keys import check_positions
from penstock.reader.merge.stream import LogWinners, Merge, MergeShape, Passed, RowGroup
from penstock.reader.report import SplitTally
from penstock.reader.row_group_bounds import RowGroupFilter
from penstock.reader.shape import ReadShape
from penstock.reader.virtual_keys import RECORD_KEY, KeyedRowGroup
from penstock.table.storage import Storage


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
    if base is not None:
        check_positions(winners.table, base.num_rows, f"table {scan.table}: split {split.split_id}")
    merge = Merge(
        winners,
        MergeShape(
            columns=shape.stored,
            key=RECORD_KEY,
            ordering=shape.ordering,
            batch_rows=size.rows,
            batch_bytes=size.size_bytes,
        ),
    )
    ordinal = 0
    for batch in merge.run(_row_groups(base, scan, shape, size, tally, dropping)):
        if not isinstance(batch, Passed):
            yield ordinal, batch
        ordinal += batch.num_rows
    tally.merged(merge.outcomes())


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
