"""The end of a range: a record at or after its end, the partition's end, or the next offset."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from penstock.kafka import range_progress
from penstock.kafka.range_progress import RangeProgress
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.hybrid import KafkaRange


@dataclass(frozen=True)
class Sent:
    """A record, or an event where `code` is given."""

    at: int
    code: int | None = None
    payload: bytes | None = b"value"

    def error(self) -> Any:
        return None if self.code is None else KafkaError(self.code)

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return b"%d" % self.at

    def value(self) -> bytes | None:
        return self.payload

    def timestamp(self) -> tuple[int, int]:
        return 1, self.at * 1000


def progress(first: int, end: int, chunk_rows: int = 1000) -> RangeProgress:
    kafka_range = KafkaRange(topic="orders", topic_id="", partition=2, first=first, end=end)
    return RangeProgress(kafka_range, first, chunk_rows)


def test_row_07_range_with_gaps_ends_at_a_record_after_its_end() -> None:
    reading = progress(5, 100)
    assert reading.put([Sent(40), Sent(98), Sent(100), Sent(101)]) is None
    assert reading.is_passed
    chunk = reading.take()
    assert chunk.offsets.tolist() == [40, 98]
    assert chunk.timestamps_ms.tolist() == [40_000, 98_000]
    assert chunk.keys == [b"40", b"98"] and chunk.next_offset == 100


def test_row_08_partitions_end_passes_the_range_not_a_count() -> None:
    reading = progress(0, 18)
    reading.put([*(Sent(at) for at in range(5)), Sent(18, KafkaError._PARTITION_EOF)])
    assert reading.is_passed and reading.take().next_offset == 18


def test_end_before_the_ranges_passes_nothing() -> None:
    reading = progress(0, 18)
    reading.put([Sent(0), Sent(12, KafkaError._PARTITION_EOF), Sent(13)])
    assert not reading.is_passed and reading.ended_at == 12
    assert reading.take().offsets.tolist() == [0, 13] and reading.next == 14


def test_records_after_an_error_are_not_added() -> None:
    reading = progress(0, 10)
    failure = reading.put([Sent(0), Sent(1, KafkaError._BAD_MSG), Sent(2), Sent(10, KafkaError._PARTITION_EOF)])
    assert failure.name() == "_BAD_MSG"
    assert reading.take().offsets.tolist() == [0] and not reading.is_passed and reading.next == 1


def test_empty_range_is_passed_at_once() -> None:
    assert progress(7, 7).is_passed


@pytest.mark.parametrize("offsets", [(4,), (6, 5), (6, 6)])
def test_records_out_of_order_are_an_invariant_violation(offsets: tuple[int, ...]) -> None:
    with pytest.raises(InvariantViolation, match="topic orders, partition 2"):
        progress(5, 10).put([Sent(at) for at in offsets])


def test_chunk_is_full_by_rows_or_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = progress(0, 100, chunk_rows=3)
    assert rows.room == 3
    rows.put([Sent(0), Sent(1)])
    assert rows.room == 1 and not rows.is_full
    rows.put([Sent(2)])
    assert rows.is_full
    monkeypatch.setattr(range_progress, "CHUNK_BYTES", 100)
    heavy = progress(0, 100)
    heavy.put([Sent(0, payload=b"x" * 99)])
    assert heavy.is_full
    assert progress(90, 100).room == 10


@given(
    offsets=st.sets(st.integers(0, 60)).map(sorted),
    first=st.integers(0, 40),
    length=st.integers(1, 30),
    cuts=st.sets(st.integers(0, 60)),
    chunk_rows=st.integers(1, 7),
    ends_at=st.sets(st.integers(0, 60)),
)
def test_each_record_of_the_range_comes_once(
    offsets: list[int], first: int, length: int, cuts: set[int], chunk_rows: int, ends_at: set[int]
) -> None:
    """For any gaps and batches, and wherever the partition's end was reported."""
    end = first + length
    log = [Sent(at) for at in offsets if at >= first]
    events = [Sent(at, KafkaError._PARTITION_EOF) for at in sorted({*ends_at, 70})]
    stream = sorted([*log, *events], key=lambda sent: (sent.at, sent.code is None))
    places = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    reading, used, next_offset = progress(first, end, chunk_rows), [], first
    for left, right in pairwise(places):
        while left < right and not reading.is_passed:
            batch = stream[left : min(left + reading.room, right)]
            assert reading.put(batch) is None
            left += len(batch)
            if reading.is_full or (reading.has_rows and left == right):
                chunk = reading.take()
                assert len(chunk.offsets) <= chunk_rows and chunk.next_offset > next_offset
                next_offset = chunk.next_offset
                used += chunk.offsets.tolist()
    assert reading.is_passed
    used += reading.take().offsets.tolist()
    assert used == [at for at in offsets if first <= at < end]
