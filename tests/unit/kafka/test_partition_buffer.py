"""Records of a partition between the consumer and their reader."""

from __future__ import annotations

import pytest

from penstock.kafka.partition_buffer import RECORD_BYTES, PartitionBuffer
from tests.unit.kafka.scripted_consumer import Record


def filled(*offsets: int, first: int = 0) -> PartitionBuffer:
    buffer = PartitionBuffer(first)
    for offset in offsets:
        buffer.put(Record("t", 0, offset, b"k", b"value"))
    return buffer


def test_chunk_has_records_up_to_the_end_of_the_log() -> None:
    buffer = filled(3, 4, 7, first=3)
    assert not buffer.is_at_end and buffer.chunk().next_offset == 8
    buffer.end(10)  # markers of transactions follow the last record
    chunk = buffer.chunk()
    assert buffer.is_at_end and chunk.next_offset == 10
    assert chunk.offsets.tolist() == [3, 4, 7] and chunk.values == [b"value"] * 3 and chunk.keys == [b"k"] * 3
    buffer.put(Record("t", 0, 10, b"k", b"v"))
    assert not buffer.is_at_end and buffer.chunk().next_offset == 11


def test_record_that_arrives_again_is_ignored() -> None:
    buffer = filled(0, 1, 0, 1, 2)
    assert buffer.chunk().offsets.tolist() == [0, 1, 2]


def test_end_below_the_next_offset_is_old_news() -> None:
    buffer = filled(0, 1)
    buffer.end(1)
    assert not buffer.is_at_end and buffer.chunk().next_offset == 2


@pytest.mark.parametrize(("offset", "left"), [(0, 3), (1, 2), (5, 2), (6, 1), (9, 0)])
def test_continuing_forgets_records_before_the_offset(offset: int, left: int) -> None:
    buffer = filled(0, 5, 8)
    assert buffer.continues_at(offset)
    assert len(buffer) == left and buffer.size_bytes == left * (RECORD_BYTES + 6)
    assert buffer.first == offset
    assert not buffer.continues_at(offset - 1)
    assert not buffer.continues_at(10)
