"""The search of keys in the base files of a table: tasks read the key columns, and Spark joins them with the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.engine.spark.tracebacks import hidden_traceback
from penstock.engine.spark.write.columns import STORED_KEYS
from penstock.engine.spark.write.task_table import TaskTable
from penstock.proto.errors import TableError
from penstock.reader.merge.keys import number_keys
from penstock.writer.index.slices import LatestSlice
from penstock.writer.transaction.attempt_files import refuse_missing_table

_ROWS: Final = 1 << 16


def read_stored_keys(
    table: TaskTable, searched: Sequence[tuple[int, LatestSlice]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of `DataFrame.mapInArrow` over a column of places in `searched`: (slot of a slice, the slice)."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with hidden_traceback():
            refuse_missing_table(table.storage())
        for batch in batches:
            for place in batch.column(0).to_numpy().tolist():
                slot, item = searched[place]
                with hidden_traceback():
                    yield from stored_keys(table, slot, item)

    return read


def stored_keys(table: TaskTable, slot: int, item: LatestSlice) -> Iterator[pa.RecordBatch]:
    """The distinct record keys of a slice, with its slot, and which of them are in several rows of the base file.
    TableError for a slice without a base file, as `KeySearch.pairs`."""
    if item.base is None:
        raise TableError(
            f"{table.settings.where}, partition {item.partition!r}: file group {item.file_id} has only logs, which "
            "this index does not search, so that an upsert could repeat rows: give the index that the table's other "
            "writers use, or compact the table"
        )
    read = list(table.current([item]).keys_of(item))
    keys = pa.chunked_array(read, pa.string())
    if not len(keys):
        return
    _, numbers = number_keys(keys.chunks)
    _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    copies = counts > (2 if item.logs_may_add_keys else 1)  # then each live key is there once more
    distinct = keys.take(pa.array(first)).combine_chunks()
    for begin in range(0, len(distinct), _ROWS):
        some = distinct.slice(begin, _ROWS)
        yield pa.RecordBatch.from_arrays(
            [
                pa.repeat(pa.scalar(item.partition), len(some)),
                some,
                pa.array(np.full(len(some), slot), pa.int32()),
                pa.array(copies[begin : begin + _ROWS]),
            ],
            schema=STORED_KEYS,
        )
