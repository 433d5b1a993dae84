"""Coalescing of small batches for the JVM."""

from __future__ import annotations

import itertools
from collections.abc import Generator

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.spark.task.coalesce import GATHERED_BYTES, gathered


def batches(sizes: list[int], texts: int = 1) -> Generator[pa.RecordBatch, None, None]:
    first = 0
    for size in sizes:
        numbers = list(range(first, first + size))
        yield pa.record_batch([numbers, ["x" * texts] * size], schema=SCHEMA)
        first += size


SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 30))
def test_coalesced_batches_have_the_same_rows_in_order(sizes: list[int], min_rows: int) -> None:
    result = list(gathered(batches(sizes), min_rows))
    assert pa.Table.from_batches(result, SCHEMA)["n"].to_pylist() == list(range(sum(sizes)))
    assert all(batch.schema == SCHEMA and batch.num_rows for batch in result)
    for batch, following in itertools.pairwise(result):
        assert batch.num_rows >= min_rows or following.num_rows >= min_rows
    assert max((batch.num_rows for batch in result), default=0) < max([2 * min_rows, *(size + 1 for size in sizes)])


def test_large_batch_is_not_copied() -> None:
    large, small = next(batches([100])), next(batches([3]))
    result = list(gathered(iter_of(small, small, large, small), 10))
    assert [batch.num_rows for batch in result] == [6, 100, 3]
    assert result[1] is large
    assert result[2] is small


def test_wide_rows_are_not_buffered() -> None:
    wide = list(batches([1, 1, 1, 1], GATHERED_BYTES // 2))
    assert [batch.num_rows for batch in gathered(iter_of(*wide), 1000)] == [2, 2]
    assert [batch.num_rows for batch in gathered(iter_of(*batches([1, 1], 2 * GATHERED_BYTES)), 1000)] == [1, 1]


def test_closing_closes_the_source() -> None:
    closed = []

    def source() -> Generator[pa.RecordBatch, None, None]:
        try:
            yield from batches([50, 50])
        finally:
            closed.append(True)

    reading = gathered(source(), 10)
    next(reading)
    reading.close()
    assert closed


def iter_of(*source_batches: pa.RecordBatch) -> Generator[pa.RecordBatch, None, None]:
    yield from source_batches
