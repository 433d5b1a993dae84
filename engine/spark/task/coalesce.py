"""Combines small batches before they are sent to the JVM, because each batch costs a message and a copy. Pure.

`casting` splits large batches.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Final

import pyarrow as pa

GATHERED_ROWS: Final = 8192
"""A batch with at least so many rows is sent as it is. Smaller batches slow down Spark's channel."""
GATHERED_BYTES: Final = 1 << 20
"""A batch with at least so many bytes is sent as it is, whatever its number of rows."""


def gathered(
    batches: Generator[pa.RecordBatch, None, None], least_rows: int = GATHERED_ROWS
) -> Generator[pa.RecordBatch, None, None]:
    """The same rows in the same order, in batches of at least `least_rows` rows or GATHERED_BYTES bytes, except the
    last one and those before a batch that was already large. All batches have one schema. Closing closes `batches`."""
    pending: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    with closing(batches):
        for batch in batches:
            if batch.num_rows >= least_rows or batch.nbytes >= GATHERED_BYTES:
                yield from _joined(pending)
                pending, rows, size_bytes = [], 0, 0
                yield batch
                continue
            pending.append(batch)
            rows += batch.num_rows
            size_bytes += batch.nbytes
            if rows >= least_rows or size_bytes >= GATHERED_BYTES:
                yield from _joined(pending)
                pending, rows, size_bytes = [], 0, 0
        yield from _joined(pending)


def _joined(pending: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(pending) < 2:
        return pending
    return list(pa.Table.from_batches(pending).combine_chunks().to_batches())
