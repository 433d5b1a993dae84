"""A store that ends with its process: for the embedded enumerator, simulations and tests.

Belongs here: the promises of `protocol` without a disk. `reopened` stands for a new process on the same state.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

from penstock.enumerator.store.protocol import AHEAD_BYTES, PlanPieces, StoredRecord
from penstock.enumerator.store.row_format import check_record
from penstock.proto.errors import Fenced, StorageError


class _Shelf:
    """What stands in for the disk: shared by all that opened it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.epoch = 0
        self.records: list[StoredRecord] = []
        self.plans: dict[str, PlanPieces] = {}


class MemoryStore:
    """`penstock.enumerator.store.protocol.Store` in memory. Any thread."""

    def __init__(self, plan_store: _Shelf | None = None) -> None:
        self._plan_store = _Shelf() if plan_store is None else plan_store
        self._closed = False
        with self._plan_store.lock:
            self._plan_store.epoch += 1
            self._epoch = self._plan_store.epoch

    def reopened(self) -> MemoryStore:
        """Another store on the same records and plans, with a higher epoch; this one is fenced from now on."""
        return MemoryStore(self._plan_store)

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
        with self._plan_store.lock:
            self._check_leads()
            self._plan_store.records.extend(records)
            for plan_id in dropped:
                self._plan_store.plans.pop(plan_id, None)
            self._plan_store.plans.update((plan.plan_id, plan) for plan in plans)

    def records(self) -> Iterator[StoredRecord]:
        """As the protocol says: those that were there when it was called."""
        with self._plan_store.lock:
            self._check_open()
            return iter(tuple(self._plan_store.records))

    def rewrite(self, records: Iterable[StoredRecord]) -> None:
        """As the protocol says."""
        fewer = list(records)
        for record in fewer:
            check_record(record)
        with self._plan_store.lock:
            self._check_leads()
            self._plan_store.records = fewer

    def plan_ids(self) -> frozenset[str]:
        """As the protocol says."""
        with self._plan_store.lock:
            self._check_open()
            return frozenset(self._plan_store.plans)

    def scan(self, plan_id: str) -> bytes:
        """As the protocol says."""
        return self._plan(plan_id).scan

    def splits(self, plan_id: str, indices: Sequence[int]) -> list[bytes]:
        """As the protocol says."""
        found = self._plan(plan_id).splits
        for index in indices:
            if not 0 <= index < len(found):
                raise KeyError(f"plan {plan_id}: no split {index}, it has {len(found)}")
        return [found[index] for index in indices]

    def splits_from(self, plan_id: str, first: int, most: int) -> list[bytes]:
        """As the protocol says."""
        self.splits(plan_id, (first,))
        found: list[bytes] = []
        for data in self._plan(plan_id).splits[first : first + most]:
            if found and sum(map(len, found)) + len(data) > AHEAD_BYTES:
                break
            found.append(data)
        return found

    def close(self) -> None:
        """As the protocol says."""
        self._closed = True

    def _plan(self, plan_id: str) -> PlanPieces:
        with self._plan_store.lock:
            self._check_open()
            return self._plan_store.plans[plan_id]

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store in memory is closed")

    def _check_leads(self) -> None:
        self._check_open()
        if self._epoch != self._plan_store.epoch:
            raise Fenced(
                f"the store in memory was opened anew: epoch {self._plan_store.epoch} writes now, this is {self._epoch}"
            )
