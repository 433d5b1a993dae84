from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.handover.offsets import OffsetMap
from penstock.enumerator.handover.topic_position import (
    RANGE_RECORDS,
    advanced_place,
    initial_place,
    next_ranges,
    validated_place,
)
from penstock.kafka.protocols import PartitionOffsets, TopicDescription
from penstock.proto.errors import DataInvalidated, PositionExpired, TopicGone
from penstock.proto.model.hybrid import KafkaPlace, PartitionPlace, Phase
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, RoundLimits

S = InstantTime("20260101000000000")
LAKE = Position(S)


def facts(*parts: tuple[int, int], topic_id: str = "a", epoch: int = 0) -> TopicDescription:
    return TopicDescription(
        topic="orders",
        topic_id=topic_id,
        partitions={
            number: PartitionOffsets(log_start=start, end=end, high_watermark=end, leader_epoch=epoch)
            for number, (start, end) in enumerate(parts)
        },
    )


def place(*offsets: int) -> KafkaPlace:
    return initial_place(OffsetMap("orders", tuple(enumerate(offsets))), facts(*((0, 10**9) for _ in offsets)), S, LAKE)


def test_hand_over_begins_at_the_offsets_of_the_commit() -> None:
    begin = place(5, 7)
    assert begin.phase is Phase.SWITCHING
    assert begin.starts == ((0, 5), (1, 7))
    assert [item.next for item in begin.places] == [5, 7]
    assert begin.position > LAKE


def test_partition_without_offset_in_the_commit_begins_at_its_log_start() -> None:
    begin = initial_place(OffsetMap("orders", ((0, 5),)), facts((0, 9), (3, 9)), S, LAKE)
    assert begin.starts == ((0, 5), (1, 3))
    assert begin.places == (PartitionPlace(0, 5),)
    assert begin.progress == (PartitionPlace(0, 5), PartitionPlace(1, 3))


def test_partition_that_the_commit_does_not_list_keeps_its_start() -> None:
    begin = initial_place(OffsetMap("orders", ((0, 5),)), facts((0, 9), (3, 9)), S, LAKE)
    now = validated_place(begin, facts((0, 9), (3, 9)), fail_on_data_loss=True).place
    assert now.places == begin.progress and now.starts == begin.starts and now.position == begin.position
    with pytest.raises(PositionExpired, match="partition 1 at offset 3, the log starts at 4"):
        validated_place(begin, facts((0, 9), (4, 9)), fail_on_data_loss=True)
    with pytest.raises(TopicGone, match="no partition 1"):
        validated_place(begin, facts((0, 9)), fail_on_data_loss=True)
    with pytest.raises(DataInvalidated, match="partition 1 at offset 3, the log ends at 2"):
        validated_place(begin, facts((0, 9), (0, 2)), fail_on_data_loss=True)


def test_row_11_partition_of_the_commit_that_the_topic_lacks_is_refused() -> None:
    with pytest.raises(TopicGone, match="no partition 2"):
        initial_place(OffsetMap("orders", ((0, 5), (2, 1))), facts((0, 9), (0, 9)), S, LAKE)
    with pytest.raises(TopicGone, match="no partition 1"):
        validated_place(place(5, 7), facts((0, 9)), fail_on_data_loss=True)


def test_row_04_expired_offsets_are_an_error_with_needed_and_earliest_offset() -> None:
    with pytest.raises(PositionExpired, match="partition 1 at offset 7, the log starts at 8"):
        validated_place(place(5, 7), facts((0, 10), (8, 10)), fail_on_data_loss=True)


def test_row_04_expired_partition_moves_and_is_counted_if_loss_is_allowed() -> None:
    now = validated_place(place(5, 7), facts((0, 10), (9, 10)), fail_on_data_loss=False)
    assert [item.next for item in now.place.places] == [5, 9]
    assert now.lost == {1: 2}


def test_row_06_topic_that_ends_before_the_position_is_refused() -> None:
    with pytest.raises(DataInvalidated, match="partition 0 at offset 5, the log ends at 4"):
        validated_place(place(5, 7), facts((0, 4), (0, 9)), fail_on_data_loss=False)


def test_row_06_topic_created_again_is_refused_even_past_the_position() -> None:
    with pytest.raises(DataInvalidated, match="created again"):
        validated_place(place(5, 7), facts((0, 90), (0, 90), topic_id="b"), fail_on_data_loss=False)


def test_row_06_lower_leader_epoch_is_refused() -> None:
    known = replace(place(5), epochs=((0, 3),))
    validated_place(known, facts((0, 9), epoch=4), fail_on_data_loss=True)
    with pytest.raises(DataInvalidated, match="from 3 to 2"):
        validated_place(known, facts((0, 9), epoch=2), fail_on_data_loss=True)


def test_row_09_open_transaction_limits_the_end_and_is_no_loss() -> None:
    present = TopicDescription(
        topic="orders",
        topic_id="a",
        partitions={0: PartitionOffsets(log_start=0, end=18, high_watermark=21)},
    )
    now = validated_place(place(20), present, fail_on_data_loss=True)
    assert next_ranges(now.place, present, NO_LIMITS) == ()


def test_row_10_partition_added_later_is_read_from_its_log_start() -> None:
    now = validated_place(place(5), facts((0, 6), (0, 3)), fail_on_data_loss=True)
    ranges = next_ranges(now.place, facts((0, 6), (0, 3)), NO_LIMITS)
    assert [(item.partition, item.first, item.end) for item in ranges] == [(0, 5, 6), (1, 0, 3)]


def test_long_backlog_is_cut_into_ranges() -> None:
    present = facts((0, RANGE_RECORDS * 2 + 5))
    ranges = next_ranges(place(3), present, NO_LIMITS)
    assert [(item.first, item.end) for item in ranges] == [
        (3, RANGE_RECORDS + 3),
        (RANGE_RECORDS + 3, 2 * RANGE_RECORDS + 3),
        (2 * RANGE_RECORDS + 3, 2 * RANGE_RECORDS + 5),
    ]


@given(
    ends=st.lists(st.integers(0, 400), min_size=1, max_size=6),
    caps=st.lists(st.integers(0, 100), min_size=1, max_size=8),
)
def test_rounds_of_any_size_cover_every_offset_once_and_end(ends: list[int], caps: list[int]) -> None:
    present = facts(*((0, end) for end in ends))
    now = initial_place(OffsetMap("orders", tuple((number, 0) for number in range(len(ends)))), present, S, LAKE)
    offsets_read: list[tuple[int, int]] = []
    for turn in range(3000):
        ranges = next_ranges(now, present, RoundLimits(max_rows=caps[turn % len(caps)]))
        reached = advanced_place(now, ranges, present)
        if turn:
            assert (reached.position > now.position) == bool(ranges)
        if not ranges:
            break
        assert reached.position > now.position
        offsets_read += [(item.partition, offset) for item in ranges for offset in range(item.first, item.end)]
        now = reached
    assert sorted(offsets_read) == [(number, offset) for number, end in enumerate(ends) for offset in range(end)]
    assert now.behind == 0


def test_limits_leave_no_partition_with_records_out() -> None:
    present = facts((0, 1_000_000), (0, 1))
    ranges = next_ranges(place(0, 0), present, RoundLimits(max_rows=10))
    assert {item.partition for item in ranges} == {0, 1}
