"""Group commit: order, one write for many appends, bounds, and errors for all callers."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Iterable, Sequence

import pytest

from penstock.enumerator.store.journal import AnyJournal, Journal
from penstock.enumerator.store.protocol import PlanPieces, StoredRecord
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.proto.errors import Fenced, Overloaded, StorageError
from tests.memory_store import DirectJournal, MemoryStore

WAIT_S = 20.0


class GatedStore(MemoryStore):
    """A store whose writes wait for the test, are counted, and fail on request."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.appends: list[int] = []
        self.error: BaseException | None = None

    def append(
        self, records: Sequence[StoredRecord], plans: Sequence[PlanPieces] = (), dropped: Sequence[str] = ()
    ) -> None:
        self.begun.set()
        assert self.gate.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        self.appends.append(len(records))
        super().append(records, plans, dropped)

    def rewrite(self, records: Iterable[StoredRecord]) -> None:
        assert self.gate.wait(WAIT_S)
        super().rewrite(records)

    def numbers(self) -> list[int]:
        return [int(r.payload) for r in self.records()]


def record(number: int) -> StoredRecord:
    return StoredRecord("number", 1, b"%d" % number)


def plan(name: str, splits: int) -> PlanPieces:
    return PlanPieces(name, b"scan", tuple(b"%d" % i for i in range(splits)))


def busy(journal: Journal, store: GatedStore) -> None:
    """Blocks the writing thread in a write."""
    store.gate.clear()
    store.begun.clear()
    journal.append([record(-1)])
    assert store.begun.wait(WAIT_S)


def test_queued_records_are_written_in_one_append_in_order() -> None:
    store = GatedStore()
    journal = Journal(store)
    busy(journal, store)
    tickets = [journal.append([record(2 * i), record(2 * i + 1)]) for i in range(50)]
    assert not any(ticket.done for ticket in tickets)
    store.gate.set()
    for ticket in tickets:
        ticket.wait(WAIT_S)
    assert store.appends == [1, 100]
    assert store.numbers() == [-1, *range(100)]
    journal.close()


def test_ticket_is_durable_only_when_the_store_has_returned() -> None:
    store = GatedStore()
    journal = Journal(store)
    store.gate.clear()
    ticket = journal.append([record(0)])
    with pytest.raises(StorageError, match=r"not durable within 0\.01 s"):
        ticket.wait(0.01)
    assert store.numbers() == []
    store.gate.set()
    ticket.wait(WAIT_S)
    ticket.wait(0)
    assert store.numbers() == [0]
    journal.close()


def test_close_drains_and_later_appends_are_refused() -> None:
    store = GatedStore()
    journal = Journal(store)
    busy(journal, store)
    tickets = [journal.append([record(i)]) for i in range(10)]
    closing = threading.Thread(target=journal.close)
    closing.start()
    store.gate.set()
    closing.join(WAIT_S)
    assert not closing.is_alive() and all(ticket.done for ticket in tickets)
    assert store.numbers() == [-1, *range(10)]
    with pytest.raises(StorageError, match="stopping"):
        journal.append([record(99)]).wait(0)
    journal.close()
    assert store.numbers() == [-1, *range(10)]


def test_error_fails_all_waiting_and_later_appends() -> None:
    store = GatedStore()
    journal = Journal(store)
    busy(journal, store)
    waiting = [journal.append([record(i)]) for i in range(5)]
    store.error = StorageError("the disk is gone")
    store.gate.set()
    for ticket in [*waiting, journal.append([record(6)])]:
        with pytest.raises(StorageError, match="the disk is gone"):
            ticket.wait(WAIT_S)
    store.error = None
    with pytest.raises(StorageError, match="the disk is gone"):
        journal.append([record(7)]).wait(WAIT_S)
    journal.close()
    assert store.numbers() == []


@pytest.mark.parametrize("threaded", [True, False])
def test_fenced_store_fences_the_journal(threaded: bool) -> None:
    store = MemoryStore()
    journal: AnyJournal = Journal(store) if threaded else DirectJournal(store)
    journal.append([record(0)]).wait(WAIT_S)
    newest = store.reopened()
    for _ in range(2):
        with pytest.raises(Fenced):
            journal.append([record(1)]).wait(WAIT_S)
    journal.close()
    assert list(newest.records()) == [record(0)]


def test_bug_in_the_store_is_reported_too() -> None:
    store = GatedStore()
    store.error = ZeroDivisionError("a bug")
    journal = Journal(store)
    with pytest.raises(ZeroDivisionError):
        journal.append([record(0)]).wait(WAIT_S)
    journal.close()


@pytest.mark.parametrize("bounds", [{"max_records": 3}, {"max_bytes": 3}])
def test_append_beyond_the_bounds_is_refused_as_a_whole(bounds: dict[str, int]) -> None:
    store = GatedStore()
    journal = Journal(store, **bounds)
    busy(journal, store)
    for i in range(3):
        journal.append([record(i)])
    with pytest.raises(Overloaded, match="wait for it"):
        journal.append([record(3)])
    store.gate.set()
    journal.close()
    assert store.numbers() == [-1, 0, 1, 2]


def test_plan_above_the_bound_is_taken_when_nothing_else_waits() -> None:
    store = GatedStore()
    journal = Journal(store, max_bytes=10)
    journal.append([], [plan("big", 500)]).wait(WAIT_S)
    busy(journal, store)
    journal.append([record(0)])
    with pytest.raises(Overloaded):
        journal.append([], [plan("second", 500)])
    store.gate.set()
    journal.close()
    assert store.plan_ids() == {"big"}


def test_plan_stored_and_dropped_in_one_batch_ends_in_the_order_of_calls() -> None:
    store = GatedStore()
    journal = Journal(store)
    busy(journal, store)
    journal.append([], [plan("gone", 1), plan("back", 1), plan("twice", 1)])
    journal.append([], [], ["gone", "back"])
    journal.append([], [plan("back", 4), plan("twice", 6)])
    store.gate.set()
    journal.close()
    assert store.plan_ids() == {"back", "twice"}
    assert len(store.splits("back", range(4))) == 4 and len(store.splits("twice", range(6))) == 6


def test_rewrite_keeps_its_place_in_the_queue() -> None:
    store = GatedStore()
    journal = Journal(store)
    busy(journal, store)
    journal.append([record(0)])
    rewritten = journal.rewrite([record(100)])
    journal.append([record(1)])
    store.gate.set()
    rewritten.wait(WAIT_S)
    journal.close()
    assert store.numbers() == [100, 1]


def test_direct_journal_is_durable_at_once() -> None:
    store = MemoryStore()
    journal = DirectJournal(store)
    ticket = journal.append([record(0)], [plan("a", 1)])
    assert ticket.done and list(store.records()) == [record(0)] and store.plan_ids() == {"a"}
    journal.rewrite([record(5)]).wait(0)
    journal.append([], [], ["a"]).wait(0)
    assert list(store.records()) == [record(5)] and store.plan_ids() == frozenset()
    journal.close()
    with pytest.raises(StorageError, match="stopping"):
        journal.append([record(1)]).wait(0)


def test_concurrent_appends_are_stored_in_order(tmp_path: pathlib.Path) -> None:
    store = open_sqlite(tmp_path / "state")
    journal = Journal(store)

    def work(thread: int) -> None:
        for i in range(50):
            journal.append([record(thread * 100 + i)]).wait(WAIT_S)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    result = [int(r.payload) for r in store.records()]
    assert sorted(result) == [t * 100 + i for t in range(8) for i in range(50)]
    for t in range(8):
        own = [n for n in result if n // 100 == t]
        assert own == sorted(own)
    store.close()
