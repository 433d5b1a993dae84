"""Splits from a store: read ahead in runs, the right one each time, none of a plan that was dropped."""

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
    """Counts what is read."""

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


def kept(store: MemoryStore, plan_id: str, count: int, group: str = "f", logs: int = 0) -> None:
    splits = tuple(encode_split(split(number, group, logs)) for number in range(count))
    store.append((), [PlanPieces(plan_id, b"", splits)])


def told(plan_store: DurablePlanStore, plan_id: str, *indices: int) -> list[str]:
    return [found.split_id for found in plan_store.splits(plan_id, indices)]


def test_splits_in_order_take_a_read_a_run() -> None:
    store = Counting()
    kept(store, "a", 3 * AHEAD + 5)
    plan_store = DurablePlanStore(store)
    for number in range(3 * AHEAD + 5):
        assert told(plan_store, "a", number) == [str(number)]
    assert store.reads == 4
    assert told(plan_store, "a", 7, 0, AHEAD, 7) == ["7", "0", str(AHEAD), "7"]
    assert store.reads == 4


def test_a_split_behind_a_run_that_was_cut_for_its_size_is_read_alone() -> None:
    store = Counting()
    kept(store, "a", 5, logs=AHEAD_BYTES // 2100)
    plan_store = DurablePlanStore(store)
    assert told(plan_store, "a", 0, 1, 2, 3, 4) == ["0", "1", "2", "3", "4"]
    assert store.reads == 1 + 3, "the first two together"


def test_runs_that_were_not_used_for_long_are_let_go() -> None:
    store = Counting()
    kept(store, "a", AHEAD * (MAX_AHEAD + 1))
    plan_store = DurablePlanStore(store)
    for run in range(MAX_AHEAD + 1):
        told(plan_store, "a", run * AHEAD)
    before = store.reads
    told(plan_store, "a", AHEAD)
    assert store.reads == before
    told(plan_store, "a", 0)
    assert store.reads == before + 1


def test_a_dropped_plan_is_gone_and_one_of_its_name_is_read_anew() -> None:
    store = Counting()
    kept(store, "a", 2)
    kept(store, "b", 2)
    plan_store = DurablePlanStore(store)
    told(plan_store, "a", 0)
    told(plan_store, "b", 0)
    store.append((), (), ["a"])
    plan_store.drop(["a"])
    with pytest.raises(KeyError):
        told(plan_store, "a", 0)
    kept(store, "a", 2, "other")
    assert plan_store.splits("a", [0])[0].file_group == "other"
    before = store.reads
    told(plan_store, "b", 1)
    assert store.reads == before
    with pytest.raises(KeyError):
        told(plan_store, "b", 2)
