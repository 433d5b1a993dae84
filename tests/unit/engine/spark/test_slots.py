"""Packing of splits into slots."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.spark import slots
from penstock.engine.spark.slots import OPEN_COST_BYTES, SLOT_BYTES, PackedSlot, PulledSlot, pack

sizes = st.lists(st.integers(0, 3 * SLOT_BYTES), max_size=200)


@given(sizes, st.integers(0, 64))
def test_every_split_once_in_commit_order(sizes_bytes: list[int], cores: int) -> None:
    packed = pack(sizes_bytes, cores)
    assert sorted(i for slot in packed for i in slot) == list(range(len(sizes_bytes)))
    assert all(slot and list(slot) == sorted(slot) for slot in packed)
    assert packed == sorted(packed)
    assert packed == pack(sizes_bytes, cores)


@given(sizes, st.integers(1, 64))
def test_at_least_the_cores_and_no_slot_far_above_the_bound(sizes_bytes: list[int], cores: int) -> None:
    packed = pack(sizes_bytes, cores)
    assert len(packed) >= min(len(sizes_bytes), cores)
    weights = [sum(sizes_bytes[i] + OPEN_COST_BYTES for i in slot) for slot in packed]
    largest = max((size + OPEN_COST_BYTES for size in sizes_bytes), default=0)
    assert all(weight <= SLOT_BYTES + largest for weight in weights)


def test_many_tiny_splits_share_slots() -> None:
    assert len(pack([100] * 400, cores=4)) == -(-400 * (OPEN_COST_BYTES + 100) // SLOT_BYTES)


def test_the_number_of_slots_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MAX_SLOTS", 3)
    assert [len(slot) for slot in pack([SLOT_BYTES] * 9, cores=64)] == [3, 3, 3]


def test_no_split_no_slot() -> None:
    assert pack([], cores=8) == []


def test_a_slot_travels_and_shows_no_data() -> None:
    packed, pulled = PackedSlot(b"secret scan", (b"secret split",)), PulledSlot("h:1", "p", 3)
    assert pickle.loads(pickle.dumps(packed)) == packed
    assert pickle.loads(pickle.dumps(pulled)) == pulled
    assert "secret" not in repr(packed)
