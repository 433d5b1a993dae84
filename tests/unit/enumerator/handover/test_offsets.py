"""Offset maps: bounds, order, merging."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.handover.offsets import (
    MAX_OFFSET,
    MAX_PARTITION,
    MAX_PARTITIONS,
    MalformedOffsets,
    OffsetMap,
    check_topic,
    merged,
    number,
)

MAPS = st.dictionaries(st.integers(0, 8), st.integers(0, MAX_OFFSET), min_size=1).map(
    lambda offsets: OffsetMap("t", tuple(offsets.items()))
)


def test_offset_map_is_by_partition_and_equal_in_any_order() -> None:
    assert OffsetMap("t", ((2, 0), (0, 5))) == OffsetMap("t", ((0, 5), (2, 0)))
    assert OffsetMap("t", ((2, 0), (0, 5))).offsets == ((0, 5), (2, 0))


def test_bounds_themselves_are_allowed() -> None:
    assert OffsetMap("t", ((MAX_PARTITION, MAX_OFFSET), (0, 0))).by_partition() == {0: 0, MAX_PARTITION: MAX_OFFSET}


@pytest.mark.parametrize(
    "offsets",
    [
        (),
        ((0, -1),),
        ((0, 2**63),),
        ((-1, 0),),
        ((2**31, 0),),
        ((0, 1), (0, 1)),
        ((0, 1), (1, 1), (0, 2)),
        tuple((partition, 0) for partition in range(MAX_PARTITIONS + 1)),
    ],
)
def test_values_beyond_the_bounds_are_refused(offsets: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(MalformedOffsets):
        OffsetMap("t", offsets)


@pytest.mark.parametrize("topic", ["a", "shop.eu_orders-v2", "...", "x" * 249, "-", "0"])
def test_topic_names_are_accepted(topic: str) -> None:
    assert check_topic(topic) == topic


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "a,b", "a:b", "x" * 250, "ä", "a\n", "a/b"])
def test_invalid_topic_names_are_refused(topic: str) -> None:
    with pytest.raises(MalformedOffsets):
        check_topic(topic)


@pytest.mark.parametrize("text", ["", " ", "-1", "+1", "01", "1e3", "1.0", "٣", "1_0", "9" * 20, "\t1"])
def test_texts_that_are_no_numbers_are_refused(text: str) -> None:
    with pytest.raises(MalformedOffsets):
        number(text, "offset")


def test_spaces_around_a_number_are_ignored() -> None:
    assert number(" 17 ", "offset") == 17


@given(MAPS, MAPS)
def test_merged_map_covers_both(one: OffsetMap, other: OffsetMap) -> None:
    both = merged([one, other])
    assert one.beyond(both) == other.beyond(both) == ()
    assert set(both.offsets) <= set(one.offsets) | set(other.offsets)


@given(MAPS, MAPS)
def test_beyond_lists_partitions_that_are_ahead_or_unknown(one: OffsetMap, other: OffsetMap) -> None:
    known = other.by_partition()
    assert one.beyond(other) == tuple(p for p, offset in one.offsets if p not in known or offset > known[p])


def test_maps_of_two_topics_are_not_merged() -> None:
    with pytest.raises(MalformedOffsets, match="topics a, b"):
        merged([OffsetMap("a", ((0, 1),)), OffsetMap("b", ((1, 1),))])
