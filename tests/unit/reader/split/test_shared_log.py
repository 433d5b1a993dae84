"""What reads of several states share of logs is bounded, and never an error of its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from penstock.proto.errors import CorruptBlock
from penstock.proto.model.files import FileRef
from penstock.reader.split.shared_log import SharedLog, rows_at

BATCH = pa.record_batch({"v": pa.array(range(8), pa.int64())})


class Source:
    """Counts how often its batches are decoded."""

    def __init__(self, *batches: pa.RecordBatch, error: bool = False) -> None:
        self.batches, self.error, self.calls = batches, error, 0

    def __call__(self) -> Iterator[pa.RecordBatch]:
        self.calls += 1
        yield from self.batches
        if self.error:
            raise CorruptBlock("a record")


@pytest.mark.parametrize(("most_bytes", "kept"), [(3 * 64, True), (2 * 64 - 1, False)])
def test_block_is_decoded_once_if_it_fits(most_bytes: int, kept: bool) -> None:
    shared, source = SharedLog(most_bytes), Source(BATCH, BATCH)
    for _ in range(3):
        assert shared.records("block", source) == ([BATCH, BATCH] if kept else None)
    assert source.calls == 1


def test_blocks_share_one_limit() -> None:
    shared = SharedLog(64)
    assert shared.records("a", Source(BATCH)) == [BATCH]
    assert shared.records("b", Source(BATCH)) is None
    assert shared.records("a", Source()) == [BATCH]


def test_block_that_cannot_be_decoded_whole_is_not_shared() -> None:
    """The read of a state that needs the damaged record raises the error."""
    assert SharedLog().records("block", Source(BATCH, error=True)) is None


def test_keys_of_the_same_blocks_are_numbered_once() -> None:
    shared, calls = SharedLog(), []

    def number() -> int:
        calls.append(1)
        return len(calls)

    assert [shared.numbered(blocks, number) for blocks in ("a", "a", "b", "a", "a")] == [1, 1, 2, 3, 3]


def test_bounds_are_found_again_if_they_do_not_fit() -> None:
    calls = []

    def find() -> tuple[np.ndarray, np.ndarray]:
        calls.append(1)
        return np.arange(2), np.arange(2)

    for most_bytes, expected in ((32, 1), (31, 2)):
        calls.clear()
        shared = SharedLog(most_bytes)
        for _ in range(2):
            shared.bounds("block", find)
        assert len(calls) == expected


def test_files_are_kept_while_they_fit() -> None:
    shared, small, large = SharedLog(10), FileRef("small", 4), FileRef("large", 8)
    for ref in (small, large):
        shared.keep_data(ref, pa.py_buffer(bytes(ref.size_bytes)))
    assert shared.data(small) == pa.py_buffer(bytes(4))
    assert shared.data(large) is None


def test_last_two_states_are_kept() -> None:
    shared, folded = SharedLog(), []

    def fold(state: str) -> None:
        shared.winners(state, lambda: folded.append(state))

    for state in ("a", "b", "a", "c", "b", "a"):
        fold(state)
    assert folded == ["a", "b", "c", "a"]


@pytest.mark.parametrize("places", [[], [0], [7, 8], [2, 9, 15], list(range(8)), list(range(16))])
def test_rows_at_places(places: list[int]) -> None:
    second = pa.record_batch({"v": pa.array(range(8, 16), pa.int64())})
    rows = [value for batch in rows_at([BATCH, second], np.array(places, np.int64)) for value in batch["v"].to_pylist()]
    assert rows == places
