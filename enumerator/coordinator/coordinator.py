"""The coordinator: one lock, one state, one journal. It decides (`core`), makes decisions durable (`store`), answers.

A decision is applied to the state at once and appended after earlier decisions; the caller receives its answer once the
decision is durable. The coordinator stops after a failed write, because the disk state is unknown: every further call
fails until the service restarts on its store. It also stops when another server takes over the store.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.enumerator.coordinator import failpoints
from penstock.enumerator.coordinator.group_signals import GroupSignals
from penstock.enumerator.coordinator.log_size import LogSize
from penstock.enumerator.coordinator.observations import observe_records
from penstock.enumerator.coordinator.plan_store import DurablePlanStore, MemoryPlanStore, PlanStore
from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.events import Event, Restarted, Tick
from penstock.enumerator.core.records import Durable, Gone, GroupDeleted, PlanOpened, ReaderGone, Record, RoundPlanned
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.codec import decode_record, encode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.enumerator.log import log_event
from penstock.enumerator.observer import NO_OBSERVER, Duration, DurationMeasured, Observer
from penstock.enumerator.store.journal import AnyJournal, Ticket
from penstock.enumerator.store.protocol import Store
from penstock.proto.errors import Fenced, PenstockError, StorageError, copy_of
from penstock.proto.model.splits import Plan

_A = TypeVar("_A")
_T = TypeVar("_T")


class Coordinator:
    """The state of one enumerator. Any thread. Without a journal the state is lost when the process ends.

    `clock_ms` never runs backwards.
    """

    def __init__(
        self,
        *,
        clock_ms: Callable[[], int],
        settings: CoordinatorSettings,
        journal: AnyJournal | None = None,
        plan_store: PlanStore | None = None,
        state: State | None = None,
        observer: Observer = NO_OBSERVER,
        log: LogSize | None = None,
    ) -> None:
        """`log` is the size of the log from which `state` was restored."""
        self.settings = settings
        self.plan_store: PlanStore = MemoryPlanStore() if plan_store is None else plan_store
        self._clock_ms = clock_ms
        self._journal = journal
        self._state = State() if state is None else state
        self.observer = observer
        self.when_lost: Callable[[PenstockError], object] = lambda error: None
        """Called when the state cannot be written any more, by the thread that notices; possibly more than once."""
        self.signals = GroupSignals()
        """Wakes the calls that wait for a change of a group."""
        self.lost: PenstockError | None = None
        """The error after which the state cannot be written; None while it can."""
        self._lock = threading.Lock()
        self._last: Ticket | None = None
        self._log = log or LogSize()
        self.ticked_ms = clock_ms()

    def handle(self, event: Event[_A], plan: tuple[str, Plan] | None = None) -> _A:
        """Decides about the event, makes the decision durable, and returns its answer.

        `plan` is a plan id and its plan; the plan is stored if the decision holds it. Errors as for `decide`;
        StorageError if it is unknown whether the decision is durable.
        """
        answer, ticket, durable = self._decided(event, plan)
        self._wait(ticket, durable=durable)
        return answer

    def post(self, event: Event[_A], plan: tuple[str, Plan] | None = None) -> None:
        """Like `handle`, but returns before the decision is durable: `settle` waits for it. Every later answer that
        depends on the decision waits too."""
        self._decided(event, plan)

    def settle(self) -> None:
        """Returns once everything that was decided is durable: one wait for all events that were posted."""
        self._wait(self._last, durable=True)

    def _decided(self, event: Event[_A], plan: tuple[str, Plan] | None) -> tuple[_A, Ticket | None, bool]:
        """The answer, the newest append, and whether the decision has durable records."""
        pieces = () if plan is None else self.plan_store.pieces(*plan)
        self._require_writable()
        with self._lock:
            decision = decide(self._state, event, self._clock_ms(), self.settings)
            durable = [record for record in decision.records if isinstance(record, Durable)]
            is_held = plan is not None and any(_holds(record, plan[0]) for record in durable)
            if self._journal is not None and durable:
                failpoints.hit(failpoints.APPEND_BEFORE)
                encoded = [encode_record(record) for record in durable]
                self._last = self._journal.append(encoded, pieces if is_held else ())
                self._log.add(encoded)
            try:
                if plan is not None and is_held:
                    self.plan_store.keep(*plan)
                self._apply(decision.records)
            except BaseException as error:
                self._stop(error)
                raise
            return decision.answer, self._last, bool(durable)

    def peek(self, at: Callable[[State], _T]) -> _T:
        """The result of `at` on the state, under the lock. The state may not be durable yet: for work whose results are
        events of their own, which become durable after it."""
        with self._lock:
            return at(self._state)

    def read(self, at: Callable[[State], _T]) -> _T:
        """The result of `at` on the state, under the lock; returns once the state that it saw is durable."""
        with self._lock:
            result, ticket = at(self._state), self._last
        if ticket is not None:
            self._wait_durable(ticket)
        return result

    def tick(self) -> None:
        """Ends leases and plans whose time is over, and compacts a long log. StorageError once another process has the
        store; without other calls this is the first call that notices."""
        before_ms, self.ticked_ms = self.ticked_ms, self._clock_ms()
        self.handle(Tick(before_ms))
        if self._journal is not None:
            with self._lock:
                self._last = self._journal.append(())
            self._wait_durable(self._last)
        if self._journal is not None and self._log.is_due:
            with self._lock:
                records = [encode_record(record) for record in compacted_records(self._state)]
                if self._log.replaces(records):
                    self._last = self._journal.rewrite(records)
                    self._log.replaced(records)

    def _wait(self, ticket: Ticket | None, *, durable: bool) -> None:
        if ticket is None:
            return
        begin_s = time.perf_counter()
        self._wait_durable(ticket)
        if durable:
            failpoints.hit(failpoints.APPEND_AFTER)
            self.observer.observe(DurationMeasured(Duration.LOG_APPEND, time.perf_counter() - begin_s))

    def _wait_durable(self, ticket: Ticket) -> None:
        """Returns once the write is durable. If another server has taken over the state, the caller gets a
        StorageError: a Fenced would mean that the reader was fenced."""
        try:
            ticket.wait()
        except Exception as error:
            raise self._stop(error) from error

    def _require_writable(self) -> None:
        if self.lost is not None:
            raise copy_of(self.lost)

    def _stop(self, error: BaseException) -> PenstockError:
        """The decision was not written or not applied: state and store may differ, so the coordinator stops."""
        if isinstance(error, Fenced) or not isinstance(error, PenstockError):
            kind = "" if isinstance(error, Fenced) else f"the state cannot be kept: {type(error).__name__}: "
            lost: PenstockError = StorageError(f"{kind}{error}")
            if isinstance(error, PenstockError):
                lost.for_clients = error.for_clients
            else:
                lost.for_clients = "the state cannot be kept: see the server's log"
        else:
            lost = error
        self.lost = self.lost or lost
        self.when_lost(lost)
        return lost

    def _apply(self, records: Sequence[Record]) -> None:
        observe_records(self.observer, self._state, records)
        _log_lost_readers(self._state, records)
        gone = [plan_id for record in records for plan_id in apply(self._state, record)]
        if gone:
            self.plan_store.drop(gone)
            if self._journal is not None:
                self._last = self._journal.append((), (), gone)
        self.signals.send(records)


def _log_lost_readers(state: State, records: Sequence[Record]) -> None:
    for record in records:
        if isinstance(record, GroupDeleted) and record.expired:
            log_event(
                "group expired",
                level=logging.WARNING,
                table=record.key.table,
                group=record.key.group,
                committed=state.groups[record.key].committed,
            )
        if isinstance(record, ReaderGone) and record.cause is Gone.EXPIRED:
            held = len(state.groups[record.key].readers[record.reader_id].held)
            log_event(
                "reader lost",
                level=logging.WARNING,
                table=record.key.table,
                group=record.key.group,
                reader=record.reader_id,
                splits=held,
            )


def _holds(record: Durable, plan_id: str) -> bool:
    return isinstance(record, PlanOpened | RoundPlanned) and record.plan_id == plan_id


def recovered(store: Store, log: LogSize | None = None) -> tuple[State, tuple[str, ...]]:
    """The state from the records of a store, and the ids of stored plans that no record refers to. `log` counts the
    records. StateDamaged; StateVersionError."""
    state = State()
    for stored in store.records():
        if log is not None:
            log.add((stored,))
        apply(state, decode_record(stored))
    known = {*state.plans, *(plan_id for group in state.groups.values() for plan_id in group.rounds)}
    return state, tuple(sorted(store.plan_ids() - known))


def durable_coordinator(
    store: Store,
    journal: AnyJournal,
    *,
    clock_ms: Callable[[], int],
    settings: CoordinatorSettings,
    observer: Observer = NO_OBSERVER,
) -> Coordinator:
    """A coordinator that continues the state of a store. Leases and plans start their full time again."""
    log = LogSize()
    state, orphans = recovered(store, log)
    if orphans:
        journal.append((), (), orphans)
    coordinator = Coordinator(
        clock_ms=clock_ms,
        settings=settings,
        journal=journal,
        plan_store=DurablePlanStore(store),
        state=state,
        observer=observer,
        log=log,
    )
    coordinator.handle(Restarted())
    return coordinator
