"""Small batches put together before they go to the JVM, where each costs a message and a copy of its own.

Pure but for Arrow. Not here: cutting large ones (`casting`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Final

import pyarrow as pa

GATHERED_ROWS: Final = 8192
"""From so many rows on a batch goes as it is: below it Spark's channel slows down."""
GATHERED_BYTES: Final = 1 << 20
"""So does one of so many bytes, however few its rows are."""


def gathered(
    batches: Generator[pa.RecordBatch, None, None], least_rows: int = GATHERED_ROWS
) -> Generator[pa.RecordBatch, None, None]:
    """The same rows in the same order, in batches of at least `least_rows` rows or GATHERED_BYTES bytes but for those
    before one that was large already, and the last. All batches have one schema. Closing closes `batches`."""
    held: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    with closing(batches):
        for batch in batches:
            if batch.num_rows >= least_rows or batch.nbytes >= GATHERED_BYTES:
                yield from _joined(held)
                held, rows, size_bytes = [], 0, 0
                yield batch
                continue
            held.append(batch)
            rows += batch.num_rows
            size_bytes += batch.nbytes
            if rows >= least_rows or size_bytes >= GATHERED_BYTES:
                yield from _joined(held)
                held, rows, size_bytes = [], 0, 0
        yield from _joined(held)


def _joined(held: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(held) < 2:
        return held
    return list(pa.Table.from_batches(held).combine_chunks().to_batches())
