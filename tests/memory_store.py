"""The state of an enumerator in memory: `Store` without a disk, and a journal without a thread.

For simulations and unit tests. `MemoryStore.reopened` stands for a new process on the same state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.enumerator.store.journal import Ticket
from penstock.enumerator.store.protocol import AHEAD_BYTES, PlanPieces, Store, StoredRecord, check_record
from penstock.proto.errors import Fenced, StorageError


class _Disk:
    """What all stores on the same state share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.epoch = 0
        self.records: list[StoredRecord] = []
        self.plans: dict[str, PlanPieces] = {}


class MemoryStore:
    """`penstock.enumerator.store.protocol.Store` in memory. Any thread."""

    def __init__(self, disk: _Disk | None = None) -> None:
        self._disk = _Disk() if disk is None else disk
        self._closed = False
        with self._disk.lock:
            self._disk.epoch += 1
            self._epoch = self._disk.epoch

    def reopened(self) -> MemoryStore:
        """Another store on the same records and plans, with a higher epoch; this one is fenced from now on."""
        return MemoryStore(self._disk)

    @property
    def epoch(self) -> int:
        """As the protocol says."""
        return self._epoch

    def append(
        self, records: Sequence[StoredRecord], plans: Sequence[PlanPieces] = (), dropped: Sequence[str] = ()
    ) -> None:
        """As the protocol says."""
        for record in records:
            check_record(record)
        with self._disk.lock:
            self._check_leads()
            self._disk.records.extend(records)
            for plan_id in dropped:
                self._disk.plans.pop(plan_id, None)
            self._disk.plans.update((plan.plan_id, plan) for plan in plans)

    def records(self) -> Iterator[StoredRecord]:
        """As the protocol says: those that were there when it was called."""
        with self._disk.lock:
            self._check_open()
            return iter(tuple(self._disk.records))

    def rewrite(self, records: Iterable[StoredRecord]) -> None:
        """As the protocol says."""
        fewer = list(records)
        for record in fewer:
            check_record(record)
        with self._disk.lock:
            self._check_leads()
            self._disk.records = fewer

    def plan_ids(self) -> frozenset[str]:
        """As the protocol says."""
        with self._disk.lock:
            self._check_open()
            return frozenset(self._disk.plans)

    def scan(self, plan_id: str) -> bytes:
        """As the protocol says."""
        return self._plan(plan_id).scan

    def splits(self, plan_id: str, indices: Sequence[int]) -> list[bytes]:
        """As the protocol says."""
        splits = self._plan(plan_id).splits
        for index in indices:
            if not 0 <= index < len(splits):
                raise KeyError(f"plan {plan_id}: no split {index}, it has {len(splits)}")
        return [splits[index] for index in indices]

    def splits_from(self, plan_id: str, first: int, most: int) -> list[bytes]:
        """As the protocol says."""
        self.splits(plan_id, (first,))
        splits: list[bytes] = []
        for data in self._plan(plan_id).splits[first : first + most]:
            if splits and sum(map(len, splits)) + len(data) > AHEAD_BYTES:
                break
            splits.append(data)
        return splits

    def close(self) -> None:
        """As the protocol says."""
        self._closed = True

    def _plan(self, plan_id: str) -> PlanPieces:
        with self._disk.lock:
            self._check_open()
            return self._disk.plans[plan_id]

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store in memory is closed")

    def _check_leads(self) -> None:
        self._check_open()
        if self._epoch != self._disk.epoch:
            raise Fenced(
                f"the store in memory was opened again: epoch {self._disk.epoch} writes now, this is {self._epoch}"
            )


class DirectJournal:
    """`AnyJournal` whose appends are durable on return. One thread at a time.

    As in `Journal`, the error of a failed write is the answer of every later ticket.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._failure: BaseException | None = None

    def append(
        self, records: Sequence[StoredRecord], plans: Sequence[PlanPieces] = (), dropped: Sequence[str] = ()
    ) -> Ticket:
        """See `Journal.append`."""
        return self._settled(lambda: self._store.append(records, plans, dropped))

    def rewrite(self, records: Sequence[StoredRecord]) -> Ticket:
        """See `Journal.rewrite`."""
        return self._settled(lambda: self._store.rewrite(records))

    def close(self) -> None:
        """Later appends fail with StorageError. May be called again."""
        self._failure = self._failure or StorageError("the journal is closed: the server is stopping")

    def _settled(self, write: Callable[[], None]) -> Ticket:
        ticket = Ticket()
        if self._failure is None:
            try:
                write()
            except BaseException as error:  # noqa: BLE001 - as in Journal
                self._failure = error
        ticket.settle(self._failure)
        return ticket
