"""Group commit: one thread writes the appends of many threads, with one sync of the disk for all that wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from penstock.enumerator.store.protocol import PlanPieces, Store, StoredRecord
from penstock.proto.errors import Overloaded, PenstockError, StorageError, copy_of

MAX_QUEUED_RECORDS: Final = 100_000
MAX_QUEUED_BYTES: Final = 256 << 20
"""Bounds of the queue. An append beyond either one is refused, unless the queue is empty."""


class Ticket:
    """The future of one append. Any thread may wait for it, any number of times."""

    __slots__ = ("_done", "_error")

    def __init__(self) -> None:
        self._done = threading.Event()
        self._error: BaseException | None = None

    def wait(self, timeout_s: float | None = None) -> None:
        """Returns when this append and all before it are durable. Raises the store's error; StorageError after the
        timeout, when the outcome is unknown."""
        if not self._done.wait(timeout_s):
            raise StorageError(f"not durable within {timeout_s} s: it may be later, or not; retry")
        if isinstance(self._error, PenstockError):
            raise copy_of(self._error) from self._error
        if self._error is not None:
            raise self._error

    @property
    def done(self) -> bool:
        """Whether `wait` would return at once."""
        return self._done.is_set()

    def settle(self, error: BaseException | None) -> None:
        """Called by the journal: the append is durable, or failed with the error."""
        self._error = error
        self._done.set()


class AnyJournal(Protocol):
    """The interface of `Journal` that the coordinator uses."""

    def append(
        self, records: Sequence[StoredRecord], plans: Sequence[PlanPieces] = (), dropped: Sequence[str] = ()
    ) -> Ticket:
        """See `Journal.append`."""
        ...

    def rewrite(self, records: Sequence[StoredRecord]) -> Ticket:
        """See `Journal.rewrite`."""
        ...

    def close(self) -> None:
        """See `Journal.close`."""
        ...


@dataclass(slots=True)
class _Batch:
    """Appends that are one call of the store, in order; or one rewrite."""

    records: list[StoredRecord] = field(default_factory=list)
    plans: list[PlanPieces] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    rewritten: Sequence[StoredRecord] | None = None
    tickets: list[Ticket] = field(default_factory=list)
    size_bytes: int = 0
    plan_ids: set[str] = field(default_factory=set)

    def can_merge(self, other: _Batch) -> bool:
        """Whether both can be one append. Within an append a store drops plans before it writes new ones."""
        if self.rewritten is not None or other.rewritten is not None:
            return False
        return self.plan_ids.isdisjoint(other.dropped) and self.plan_ids.isdisjoint(other.plan_ids)

    def merge(self, other: _Batch) -> None:
        """Adds a later batch to the end of this one."""
        self.records += other.records
        self.plans += other.plans
        self.dropped += other.dropped
        self.tickets += other.tickets
        self.plan_ids |= other.plan_ids

    def write(self, store: Store) -> None:
        """Writes to the store; durable on return."""
        if self.rewritten is not None:
            store.rewrite(self.rewritten)
        else:
            store.append(self.records, self.plans, self.dropped)

    def settle(self, error: BaseException | None) -> None:
        """Wakes all threads that wait for one of its tickets."""
        for ticket in self.tickets:
            ticket.settle(error)


class Journal:
    """Group commit on a store. Any thread. Appends become durable in their order.

    After a failed write every waiting and every later ticket fails with that error. The owner of the store closes it,
    after the journal.
    """

    def __init__(
        self, store: Store, *, max_records: int = MAX_QUEUED_RECORDS, max_bytes: int = MAX_QUEUED_BYTES
    ) -> None:
        self._store = store
        self._max_records, self._max_bytes = max_records, max_bytes
        self._queue: deque[_Batch] = deque()
        self._queued_records = self._queued_bytes = 0
        self._failure: BaseException | None = None
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="penstock-journal", daemon=True)
        self._thread.start()

    def append(
        self, records: Sequence[StoredRecord], plans: Sequence[PlanPieces] = (), dropped: Sequence[str] = ()
    ) -> Ticket:
        """Queues one `Store.append`. Overloaded: the queue is full, and nothing was queued. An append without records
        and plans takes no room and is never refused."""
        batch = _Batch(list(records), list(plans), list(dropped), size_bytes=_size(records, plans))
        batch.plan_ids.update(plan.plan_id for plan in plans)
        return self._put(batch)

    def rewrite(self, records: Sequence[StoredRecord]) -> Ticket:
        """Queues one `Store.rewrite`: the records replace all records that were appended before. Overloaded."""
        return self._put(_Batch(rewritten=tuple(records), size_bytes=_size(records, ())))

    def close(self) -> None:
        """Writes the queue, then ends. Later appends fail with StorageError. May be called again."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _put(self, batch: _Batch) -> Ticket:
        ticket = Ticket()
        batch.tickets.append(ticket)
        count = len(batch.records) + len(batch.rewritten or ())
        with self._changed:
            if self._failure is not None:
                ticket.settle(self._failure)
                return ticket
            if self._closing:
                ticket.settle(StorageError("the journal is closed: the server is stopping"))
                return ticket
            self._check_bounds(count, batch.size_bytes)
            self._queue.append(batch)
            self._queued_records += count
            self._queued_bytes += batch.size_bytes
            self._changed.notify_all()
        return ticket

    def _check_bounds(self, records: int, size_bytes: int) -> None:
        if not self._queue or not (records or size_bytes):
            return
        if self._queued_records + records > self._max_records or self._queued_bytes + size_bytes > self._max_bytes:
            raise Overloaded(
                f"the state's disk is behind: {self._queued_records} records ({self._queued_bytes} bytes) wait for it, "
                f"at most {self._max_records} ({self._max_bytes} bytes) may: retry later"
            )

    def _write_all(self) -> None:
        """Runs until the journal is closed. If it ends in any other way, all waiting and later appends fail."""
        waiting: list[_Batch] = []
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._queue or self._closing)
                    if not self._queue:
                        return
                    waiting, self._queue = list(self._queue), deque()
                    self._queued_records = self._queued_bytes = 0
                self._write(_merged(waiting))
                waiting = []
        except BaseException as error:  # noqa: BLE001 - as below
            with self._changed:
                self._failure = self._failure or error
                waiting += self._queue
                self._queue.clear()
            for batch in waiting:
                batch.settle(self._failure)

    def _write(self, batches: list[_Batch]) -> None:
        error: BaseException | None = self._failure
        for batch in batches:
            if error is None:
                try:
                    batch.write(self._store)
                except BaseException as failed:  # noqa: BLE001 - every waiting thread must get the error
                    error = failed
                    with self._changed:
                        self._failure = failed
            batch.settle(error)


def _merged(batches: list[_Batch]) -> list[_Batch]:
    """The batches, merged into as few calls of the store as possible."""
    groups: list[_Batch] = []
    for batch in batches:
        if groups and groups[-1].can_merge(batch):
            groups[-1].merge(batch)
        else:
            groups.append(batch)
    return groups


def _size(records: Sequence[StoredRecord], plans: Sequence[PlanPieces]) -> int:
    pieces = sum(len(plan.scan) + sum(map(len, plan.splits)) for plan in plans)
    return pieces + sum(len(record.payload) for record in records)
