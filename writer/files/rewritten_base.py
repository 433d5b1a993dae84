"""The rows of a base file that replaces an older one: its rows merged with a write's, by the reader's merge.

Source: Hudi `HoodieWriteMergeHandle`, `HoodieConcatHandle`. A row that stays keeps its meta columns but the file name;
so does one that wins over the write's row. An insert may have repeated a key in a file: all its rows are updated or
deleted, as by that class. Hudi 1.1 and 1.2 change the first one only (`FileGroupReaderBasedMergeHandle`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.model.splits import OrderingMode, WholeFile
from penstock.reader.base.file import BaseFile
from penstock.reader.merge.fold import RecordKind, fold
from penstock.reader.merge.keys import number_keys
from penstock.reader.merge.log_rows import LogRows
from penstock.reader.merge.ordering import OrderingTuples
from penstock.reader.merge.ordering_columns import OrderingColumns
from penstock.reader.merge.stream import LogWinners, Merge, MergeSpec
from penstock.reader.split.emit import BatchSize
from penstock.reader.values.record_keys import RECORD_KEY
from penstock.table.schema.avro import META_COLUMNS
from penstock.writer.files.meta_columns import RowStamp
from penstock.writer.files.row_changes import RowChanges
from penstock.writer.rows.keyed_rows import KeyedRows

BATCH: Final = BatchSize(rows=64 << 10, size_bytes=16 << 20)


@dataclass(slots=True)
class RewriteCounts:
    """What happened to the rows of a rewritten file."""

    inserts: int = 0
    """Rows of new keys."""
    updates: int = 0
    """Rows that replaced one."""
    deletes: int = 0
    """Rows that were deleted."""


def merged_rows(
    base: BaseFile,
    rows: KeyedRows,
    stamp: RowStamp,
    mode: OrderingMode,
    ordering: OrderingColumns,
    counts: RewriteCounts,
    changes: RowChanges | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of the new file, in batches: those of `base`, merged with `rows`, then the rows of new keys.

    `stamp` stamps the rows that come from `rows`. `counts` is complete at the end; `changes` collects what changed.
    """
    winners = _winners(rows, mode)
    names = (*META_COLUMNS, *rows.rows.schema.names)
    merge = Merge(
        winners,
        MergeSpec(
            columns=names,
            key=RECORD_KEY,
            ordering=ordering,
            batch_rows=BATCH.rows,
            batch_bytes=BATCH.size_bytes,
            each_copy=True,
        ),
    )
    row = gone_rows = 0
    for group in base.row_groups(WholeFile(), BATCH):
        for batch in group.batches():
            matches = winners.table.match(batch.column(RECORD_KEY), row)
            gone = merge.meet(matches, batch)
            row += batch.num_rows
            gone_rows += len(gone)
            if changes is not None:
                numbers = matches.numbers[np.searchsorted(matches.rows, gone)]
                changes.gone(batch.take(pa.array(gone)), numbers)
            yield _without(batch.select(names), gone)
        for batch in merge.arrivals():
            counts.updates += batch.num_rows
            arrived = _stamped(batch, stamp)
            if changes is not None:
                changes.arrived(arrived, winners.table.match(arrived.column(RECORD_KEY), 0).numbers)
            yield arrived
        if changes is not None:
            changes.end_row_group()
    for batch in merge.inserts():
        counts.inserts += batch.num_rows
        inserted = _stamped(batch, stamp)
        if changes is not None:
            changes.inserted(inserted)
        yield inserted
    counts.deletes = gone_rows - counts.updates


def appended_rows(
    base: BaseFile,
    stamped: Iterable[pa.RecordBatch],
    names: Sequence[str],
    counts: RewriteCounts,
    changes: RowChanges | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of `base`, then `stamped`, without a search for equal keys (operation insert). names: all columns."""
    for group in base.row_groups(WholeFile(), BATCH):
        for batch in group.batches():
            yield batch.select(names)
    for batch in stamped:
        counts.inserts += batch.num_rows
        if changes is not None:
            changes.inserted(batch)
        yield batch


def _winners(rows: KeyedRows, mode: OrderingMode) -> LogWinners:
    table, numbers = number_keys(rows.keys.chunks)
    ordering = OrderingTuples(rows.ordering_arrays()) if rows.ordering else None
    folded = fold(mode, numbers, table.count, rows.kinds, ordering.ranks() if ordering else None)
    data = rows.kinds == RecordKind.DATA
    place = np.cumsum(data) - 1
    winning = folded.winning
    return LogWinners(
        table=table,
        kinds=rows.kinds[winning],
        ordering=ordering.take(winning) if ordering else None,
        row_of=np.where(data[winning], place[winning], -1).astype(np.int64),
        rows=LogRows(batch.append_column(RECORD_KEY, keys) for batch, keys in rows.data().batches()),
        folded=folded,
    )


def _stamped(rows: pa.RecordBatch, stamp: RowStamp) -> pa.RecordBatch:
    """Rows of the write, whose last column is their key, with the meta columns."""
    last = rows.num_columns - 1
    return stamp.stamped(rows.select(range(last)), rows.column(last))


def _without(batch: pa.RecordBatch, gone: np.ndarray) -> pa.RecordBatch:
    if not len(gone):
        return batch
    stays = np.ones(batch.num_rows, bool)
    stays[gone] = False
    return batch.filter(pa.array(stays))
