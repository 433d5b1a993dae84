"""The contract of stores, for the store in memory and the store on disk."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.enumerator.store.protocol import AHEAD_BYTES, PlanPieces, Store, StoredRecord
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.enumerator.store.sqlite.store import SqliteStore
from penstock.proto.errors import Fenced, StorageError
from tests.memory_store import MemoryStore


class State:
    """A state on which stores are opened; `close` closes them."""

    def __init__(self, directory: pathlib.Path | None) -> None:
        self._directory = directory
        self._memory = MemoryStore()
        self._opened: list[Store] = [self._memory]

    def open(self) -> Store:
        """Opens the state like another process that takes over."""
        store: Store
        store = self._memory.reopened() if self._directory is None else open_sqlite(self._directory, takeover=True)
        self._opened.append(store)
        return store

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture(params=["memory", "sqlite"])
def state(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[State]:
    created = State(tmp_path / "state" if request.param == "sqlite" else None)
    yield created
    created.close()


def record(number: int, kind: str = "number") -> StoredRecord:
    return StoredRecord(kind, 1, str(number).encode())


def plan(name: str, splits: int = 3) -> PlanPieces:
    pieces = tuple(f"{name} split {i}".encode() for i in range(splits))
    return PlanPieces(name, f"{name} scan".encode(), pieces)


def holds(store: Store, pieces: PlanPieces) -> bool:
    splits = store.splits(pieces.plan_id, range(len(pieces.splits)))
    return PlanPieces(pieces.plan_id, store.scan(pieces.plan_id), tuple(splits)) == pieces


def test_new_store_is_empty_and_has_an_epoch(state: State) -> None:
    store = state.open()
    assert list(store.records()) == [] and store.plan_ids() == frozenset() and store.epoch >= 1


def test_records_come_back_in_order_across_openings(state: State) -> None:
    store = state.open()
    store.append([record(0), record(1)])
    store.append([])
    store.append([StoredRecord("other kind é", 7, b""), record(2)])
    expected = [record(0), record(1), StoredRecord("other kind é", 7, b""), record(2)]
    assert list(store.records()) == expected
    again = state.open()
    again.append([record(3)])
    assert list(again.records()) == [*expected, record(3)]


def test_each_opening_has_a_higher_epoch(state: State) -> None:
    epochs = [state.open().epoch for _ in range(4)]
    assert epochs == sorted(set(epochs))


def test_write_of_the_former_leader_is_refused(state: State) -> None:
    old = state.open()
    old.append([record(0)], [plan("kept")])
    new = state.open()
    for refused in (lambda: old.append([record(1)], [plan("late")], ["kept"]), lambda: old.rewrite([])):
        with pytest.raises(Fenced, match=f"epoch {new.epoch} writes now"):
            refused()
    new.append([record(2)])
    assert list(new.records()) == [record(0), record(2)]
    assert new.plan_ids() == {"kept"}


def test_plans_are_stored_replaced_and_dropped(state: State) -> None:
    store = state.open()
    store.append([record(0)], [plan("a"), plan("b", 0)])
    assert store.plan_ids() == {"a", "b"} and holds(store, plan("a")) and holds(store, plan("b", 0))
    store.append([], [plan("a", 5), plan("c", 1)], ["b", "never there"])
    again = state.open()
    assert again.plan_ids() == {"a", "c"} and holds(again, plan("a", 5)) and holds(again, plan("c", 1))


def test_dropped_plans_are_removed_before_new_ones_are_stored(state: State) -> None:
    store = state.open()
    store.append([], [plan("a", 2)])
    store.append([], [plan("a", 4)], ["a"])
    assert holds(store, plan("a", 4))


def test_splits_are_returned_in_the_requested_order(state: State) -> None:
    store = state.open()
    store.append([], [plan("a", 10)])
    assert store.splits("a", [7, 0, 7]) == [b"a split 7", b"a split 0", b"a split 7"]
    assert store.splits("a", []) == []


@pytest.mark.parametrize("index", [-1, 3, 1 << 40])
def test_unknown_split_is_a_key_error(state: State, index: int) -> None:
    store = state.open()
    store.append([], [plan("a"), plan("b")])
    with pytest.raises(KeyError):
        store.splits("a", [0, index])
    assert holds(store, plan("a"))


def test_run_of_splits_ends_with_its_plan_or_where_it_is_large(state: State) -> None:
    store = state.open()
    large = tuple(bytes([number]) * (AHEAD_BYTES // 2) for number in range(4))
    store.append((), [plan("a", 5), PlanPieces("b", b"scan", large)])
    assert store.splits_from("a", 0, 3) == [b"a split 0", b"a split 1", b"a split 2"]
    assert store.splits_from("a", 3, 64) == [b"a split 3", b"a split 4"]
    assert store.splits_from("b", 1, 64) == list(large[1:3])
    store.append((), [PlanPieces("b", b"scan", (b"x" * (AHEAD_BYTES + 1), b"y"))])
    assert len(store.splits_from("b", 0, 2)) == 1, "one comes, however large"
    for plan_id, first in (("a", 5), ("a", -1), ("c", 0)):
        with pytest.raises(KeyError):
            store.splits_from(plan_id, first, 1)


def test_unknown_plan_is_a_key_error(state: State) -> None:
    store = state.open()
    store.append([], [plan("a")])
    store.append([], [], ["a"])
    for call in (lambda: store.scan("a"), lambda: store.splits("a", [])):
        with pytest.raises(KeyError):
            call()


@pytest.mark.parametrize("bad", [StoredRecord("", 1, b""), StoredRecord("k", -1, b""), StoredRecord("k", 1 << 31, b"")])
def test_invalid_record_changes_nothing(state: State, bad: StoredRecord) -> None:
    store = state.open()
    for refused in (lambda: store.append([record(0), bad], [plan("a")]), lambda: store.rewrite([record(0), bad])):
        with pytest.raises(ValueError, match="expected a kind"):
            refused()
    store.append([record(1)])
    assert list(store.records()) == [record(1)] and store.plan_ids() == frozenset()


def test_rewrite_replaces_the_records_and_preserves_the_plans(state: State) -> None:
    store = state.open()
    store.append([record(i) for i in range(1000)], [plan("a")])
    store.rewrite(r for r in store.records() if int(r.payload) % 100 == 0)
    expected = [record(i) for i in range(0, 1000, 100)]
    assert list(store.records()) == expected
    store.append([record(-1)])
    again = state.open()
    assert list(again.records()) == [*expected, record(-1)] and holds(again, plan("a"))


def test_interrupted_rewrite_changes_nothing(state: State) -> None:
    store = state.open()
    store.append([record(0)])

    def broken() -> Iterator[StoredRecord]:
        yield record(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.rewrite(broken())
    assert list(store.records()) == [record(0)]
    store.append([record(2)])
    assert list(state.open().records()) == [record(0), record(2)]


def test_read_of_the_log_is_a_snapshot(state: State) -> None:
    store = state.open()
    store.append([record(i) for i in range(600)])
    reading = store.records()
    assert next(reading) == record(0)
    store.append([record(600)])
    store.rewrite([])
    assert list(reading) == [record(i) for i in range(1, 600)]
    assert list(store.records()) == []


def test_closed_store_is_an_error(state: State) -> None:
    store = state.open()
    store.append([record(0)], [plan("a")])
    store.close()
    store.close()
    uses = [lambda: store.append([record(1)]), lambda: store.rewrite([]), lambda: next(iter(store.records()))]
    for use in [*uses, store.plan_ids, lambda: store.scan("a"), lambda: store.splits("a", [0])]:
        with pytest.raises(StorageError, match="closed"):
            use()
    assert list(state.open().records()) == [record(0)]


def test_threads_read_while_others_write(state: State) -> None:
    store = state.open()
    store.append([], [plan("a", 50)])
    failed: list[BaseException] = []

    def guarded(work: range, reads: bool) -> None:
        try:
            for i in work:
                if reads:
                    assert store.splits("a", [i % 50]) == [f"a split {i % 50}".encode()]
                else:
                    store.append([record(i)], [plan(f"p{i}", 2)], [f"p{i - 1}"])
        except Exception as error:  # noqa: BLE001 - reported to the test
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(range(n * 100, n * 100 + 40), n > 1)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    result = [int(r.payload) for r in store.records()]
    assert len(result) == 80 and [n for n in result if n < 100] == list(range(40))
    assert store.plan_ids() == {"a", "p39", "p139"}


Step = tuple[str, list[int]]
steps = st.lists(
    st.tuples(st.sampled_from(["append", "keep", "drop", "rewrite", "open"]), st.lists(st.integers(0, 5), max_size=4)),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(steps)
def test_both_stores_have_equal_content_after_equal_writes(
    tmp_path_factory: pytest.TempPathFactory, doing: list[Step]
) -> None:
    states = [State(None), State(tmp_path_factory.mktemp("state"))]
    stores = [state.open() for state in states]
    for what, numbers in doing:
        if what == "open":
            stores = [state.open() for state in states]
        for store in stores:
            match what:
                case "append":
                    store.append([record(n) for n in numbers])
                case "keep":
                    store.append([], [plan(f"p{n}", n) for n in numbers])
                case "drop":
                    store.append([record(9)], [], [f"p{n}" for n in numbers])
                case "rewrite":
                    store.rewrite([record(n) for n in numbers])
    memory, disk = stores
    assert isinstance(disk, SqliteStore)
    assert list(memory.records()) == list(disk.records()) and memory.plan_ids() == disk.plan_ids()
    for name in memory.plan_ids():
        assert holds(disk, plan(name, int(name[1:]))) and holds(memory, plan(name, int(name[1:])))
    for state in states:
        state.close()
