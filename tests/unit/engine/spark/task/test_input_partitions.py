"""Packing of splits into slots."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.spark.task import input_partitions
from penstock.engine.spark.task.input_partitions import (
    LOCAL_OPEN_COST_BYTES,
    OPEN_COST_BYTES,
    SLOT_BYTES,
    TASK_COST_BYTES,
    PackedSlot,
    PulledSlot,
    pack,
    packed_splits,
)
from penstock.proto.model.files import FileRef
from tests.unit.engine.spark.slices.test_divide import SCAN, a_split

sizes = st.lists(st.integers(0, 3 * SLOT_BYTES), max_size=200)


@given(sizes, st.integers(0, 64))
def test_every_split_once_in_commit_order(sizes_bytes: list[int], cores: int) -> None:
    packed = pack(sizes_bytes, cores)
    assert sorted(i for slot in packed for i in slot) == list(range(len(sizes_bytes)))
    assert all(slot and list(slot) == sorted(slot) for slot in packed)
    assert packed == sorted(packed)
    assert packed == pack(sizes_bytes, cores)


@given(sizes, st.integers(1, 64))
def test_slots_use_all_cores_within_the_size_bound(sizes_bytes: list[int], cores: int) -> None:
    packed = pack(sizes_bytes, cores)
    weights = [sum(sizes_bytes[i] + OPEN_COST_BYTES for i in slot) for slot in packed]
    assert len(packed) >= min(len(sizes_bytes), cores, sum(weights) // TASK_COST_BYTES)
    assert len(packed) <= max(1, sum(weights) // TASK_COST_BYTES)
    largest = max((size + OPEN_COST_BYTES for size in sizes_bytes), default=0)
    assert all(weight <= SLOT_BYTES + largest for weight in weights)


@pytest.mark.parametrize(("splits", "slots"), [(1, 1), (4, 1), (7, 1), (8, 2), (31, 7), (32, 8), (200, 8)])
def test_tiny_splits_share_a_task(splits: int, slots: int) -> None:
    assert len(pack([100] * splits, cores=8)) == slots


def test_two_splits_of_some_size_use_two_cores() -> None:
    assert pack([TASK_COST_BYTES, TASK_COST_BYTES], cores=8) == [(0,), (1,)]


def test_many_tiny_splits_share_slots() -> None:
    assert len(pack([100] * 400, cores=4)) == -(-400 * (OPEN_COST_BYTES + 100) // SLOT_BYTES)


def test_many_tiny_splits_on_a_local_disk_share_fewer_slots() -> None:
    packed = pack([10_000] * 10_000, cores=2, local=True)
    assert len(packed) == -(-10_000 * (LOCAL_OPEN_COST_BYTES + 10_000) // SLOT_BYTES) == 21
    assert {len(slot) for slot in packed} <= {476, 477}
    assert len(pack([10_000] * 10_000, cores=2)) == 314
    assert len(pack([10_000] * 10_000, cores=2, requested=100, local=True)) == 100


@pytest.mark.parametrize("splits", [1, 4, 7, 8, 31, 32, 200])
def test_few_splits_share_a_task_alike_on_every_storage(splits: int) -> None:
    assert len(pack([100] * splits, cores=8, local=True)) == len(pack([100] * splits, cores=8))


@pytest.mark.parametrize(
    ("base_path", "slots"),
    [("/lake/t", 2), ("file:///lake/t", 2), ("s3://lake/t", 13), ("hdfs://lake/t", 13)],
)
def test_storage_of_a_table_decides_what_an_opening_counts(base_path: str, slots: int) -> None:
    splits = [a_split(str(number)) for number in range(400)]
    assert len(packed_splits(replace(SCAN, base_path=base_path), splits, 2, 0)) == slots


def test_each_log_on_a_local_disk_is_an_opening() -> None:
    bare = [a_split(str(number)) for number in range(400)]
    logged = [replace(split, logs=tuple(FileRef(f"log{log}", 0) for log in range(9))) for split in bare]
    assert len(packed_splits(SCAN, logged, 2, 0)) == 8
    assert len(packed_splits(SCAN, bare, 2, 0)) == 2


def test_number_of_slots_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_partitions, "MAX_SLOTS", 3)
    assert [len(slot) for slot in pack([SLOT_BYTES] * 9, cores=64)] == [3, 3, 3]


def test_no_splits_make_no_slots() -> None:
    assert pack([], cores=8) == []


def test_slot_is_pickled_and_its_repr_has_no_data() -> None:
    packed, pulled = PackedSlot(b"secret scan", (b"secret split",)), PulledSlot("h:1", "p", 3)
    assert pickle.loads(pickle.dumps(packed)) == packed
    assert pickle.loads(pickle.dumps(pulled)) == pulled
    assert "secret" not in repr(packed)
