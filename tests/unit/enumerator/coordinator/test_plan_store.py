"""Splits from a store: read ahead in runs, always the correct split, none of a dropped plan."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.enumerator.coordinator.plan_store import AHEAD, MAX_AHEAD, DurablePlanStore
from penstock.enumerator.store.protocol import AHEAD_BYTES, PlanPieces
from penstock.proto.codec.serialized import encode_split
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import FileRef, Split
from tests.memory_store import MemoryStore


class Counting(MemoryStore):
    """Counts reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def splits(self, plan_id: str, indices: Sequence[int]) -> list[bytes]:
        self.reads += 1
        return super().splits(plan_id, indices)


def split(number: int, group: str = "f", logs: int = 0) -> Split:
    return Split(
        split_id=str(number),
        partition="p",
        partition_values=(),
        file_group=group,
        order_key=InstantTime("001"),
        base=FileRef("p/f.parquet", 10),
        logs=tuple(FileRef(f"p/{log:01000d}", 10) for log in range(logs)),
    )


def store_plan(store: MemoryStore, plan_id: str, count: int, group: str = "f", logs: int = 0) -> None:
    splits = tuple(encode_split(split(number, group, logs)) for number in range(count))
    store.append((), [PlanPieces(plan_id, b"", splits)])


def read_ids(plan_store: DurablePlanStore, plan_id: str, *indices: int) -> list[str]:
    return [result.split_id for result in plan_store.splits(plan_id, indices)]


def test_splits_in_order_need_one_read_per_run() -> None:
    store = Counting()
    store_plan(store, "a", 3 * AHEAD + 5)
    plan_store = DurablePlanStore(store)
    for number in range(3 * AHEAD + 5):
        assert read_ids(plan_store, "a", number) == [str(number)]
    assert store.reads == 4
    assert read_ids(plan_store, "a", 7, 0, AHEAD, 7) == ["7", "0", str(AHEAD), "7"]
    assert store.reads == 4


def test_split_after_a_run_cut_by_size_is_read_alone() -> None:
    store = Counting()
    store_plan(store, "a", 5, logs=AHEAD_BYTES // 2100)
    plan_store = DurablePlanStore(store)
    assert read_ids(plan_store, "a", 0, 1, 2, 3, 4) == ["0", "1", "2", "3", "4"]
    assert store.reads == 1 + 3, "the first two together"


def test_runs_are_evicted_least_recently_used_first() -> None:
    store = Counting()
    store_plan(store, "a", AHEAD * (MAX_AHEAD + 1))
    plan_store = DurablePlanStore(store)
    for run in range(MAX_AHEAD + 1):
        read_ids(plan_store, "a", run * AHEAD)
    before = store.reads
    read_ids(plan_store, "a", AHEAD)
    assert store.reads == before
    read_ids(plan_store, "a", 0)
    assert store.reads == before + 1


def test_dropped_plan_is_unknown_and_a_new_plan_of_its_id_is_read_again() -> None:
    store = Counting()
    store_plan(store, "a", 2)
    store_plan(store, "b", 2)
    plan_store = DurablePlanStore(store)
    read_ids(plan_store, "a", 0)
    read_ids(plan_store, "b", 0)
    store.append((), (), ["a"])
    plan_store.drop(["a"])
    with pytest.raises(KeyError):
        read_ids(plan_store, "a", 0)
    store_plan(store, "a", 2, "other")
    assert plan_store.splits("a", [0])[0].file_group == "other"
    before = store.reads
    read_ids(plan_store, "b", 1)
    assert store.reads == before
    with pytest.raises(KeyError):
        read_ids(plan_store, "b", 2)
