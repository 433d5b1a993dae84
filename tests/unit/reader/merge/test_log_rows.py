"""Log rows kept in chunks and taken out again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import InvariantViolation
from penstock.reader.merge import log_rows
from penstock.reader.merge.log_rows import LogRows, rows_within


def batches(sizes: list[int]) -> list[pa.RecordBatch]:
    starts = np.cumsum([0, *sizes])
    return [
        pa.record_batch({"v": pa.array(range(start, start + size))}) for start, size in zip(starts, sizes, strict=False)
    ]


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=8), st.data())
def test_rows_come_back_in_order_and_repeated(sizes: list[int], data: st.DataObject) -> None:
    rows = LogRows(batches(sizes))
    assert len(rows) == sum(sizes)
    expected = sorted(data.draw(st.lists(st.integers(0, sum(sizes) - 1), max_size=20))) if sum(sizes) else []
    batch_rows = data.draw(st.integers(1, 5))
    used = list(rows.take(np.array(expected, np.int64), batch_rows, 1 << 20))
    assert all(1 <= batch.num_rows <= batch_rows for batch in used)
    assert [value for batch in used for value in batch["v"].to_pylist()] == expected


def test_small_batches_are_put_together_and_large_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_rows, "_CHUNK_ROWS", 10)
    rows = LogRows(batches([3, 3, 3, 3, 12, 1]))
    assert [batch.num_rows for batch in rows.take(np.arange(len(rows)), 1 << 20, 1 << 20)] == [9, 3, 12, 1]


def test_wide_rows_make_small_batches() -> None:
    wide = pa.record_batch({"v": pa.array(["x" * 1000] * 100)})
    assert rows_within(wide, 1 << 20, 10_000) in (9, 10)
    assert rows_within(wide, 5, 10_000) == 5
    assert rows_within(wide, 1 << 20, 1) == 1
    assert [rows_within(wide.slice(0, 0), most, 1) for most in (0, 1, 7)] == [1, 1, 7], "no rows have no size"
    assert all(batch.num_rows <= 10 for batch in LogRows([wide]).take(np.arange(100), 1 << 20, 10_000))


@pytest.mark.parametrize(("places", "is_slice"), [([1, 2, 3], True), ([1, 1, 3], False), ([0, 2], False)])
def test_adjacent_rows_are_not_copied(places: list[int], is_slice: bool) -> None:
    held = batches([5])
    (taken,) = LogRows(held).take(np.array(places), 10, 1 << 20)
    assert taken["v"].to_pylist() == places
    same = taken["v"].buffers()[1].address == held[0]["v"].buffers()[1].address
    assert same is is_slice


@pytest.mark.parametrize("expected", [[-1], [3]])
def test_rows_that_are_not_there_are_our_own_bug(expected: list[int]) -> None:
    with pytest.raises(InvariantViolation):
        list(LogRows(batches([3])).take(np.array(expected), 10, 10))
