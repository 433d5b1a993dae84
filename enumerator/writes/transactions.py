"""`WriteTransactions`: decides with the coordinator, and carries decisions out on the timelines of tables.

A decision is durable before the timeline changes, and its result is recorded after that. Whatever a crash or a failure
of storage interrupts is done again: by the next call, or by `tick`.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.state import State
from penstock.enumerator.core.writes import events as ev
from penstock.enumerator.core.writes.state import Write
from penstock.enumerator.log import log_event
from penstock.enumerator.writes.measure import WriteMeter
from penstock.enumerator.writes.table_timeline import BegunInstant, TableTimeline, Timelines
from penstock.proto.errors import ConfigurationError, PenstockError, StorageError, WriteConflict, code_and_text
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import (
    BegunWrite,
    TouchedGroups,
    WriteCommit,
    WriteId,
    WriteProgress,
    WriteSpec,
    WriteState,
    WriteSummary,
)

BEAT_MS: Final = 20_000
"""How often the heartbeats of open instants are renewed. Hudi's expire after 120 s."""

log = logging.getLogger("penstock.enumerator.writes")


class WriteTransactions:
    """A `WriteService`. Any thread; one thread at a time changes the timeline of a table."""

    def __init__(
        self,
        coordinator: Coordinator,
        path_of: Callable[[str], str],
        timelines: Timelines | None,
        clock_ms: Callable[[], int],
    ) -> None:
        """`path_of`: the path of a served table by its name. Without `timelines` nothing is written."""
        self._coordinator = coordinator
        self._path_of = path_of
        self._timelines = timelines
        self._clock_ms = clock_ms
        self._beat_ms = clock_ms()
        self._meter = WriteMeter()
        self._locks: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)
        self._guard = threading.Lock()

    # --- calls

    def begin_write(self, write: WriteId, request_id: str, spec: WriteSpec, principal: str = "") -> BegunWrite:
        """See `WriteService.begin_write`."""
        self._path_of(write.table)
        self._require_timelines()
        event = ev.BeginWrite(id=write, request_id=request_id, spec=spec, principal=principal)
        if any(each.id.owner == write.owner and not each.is_open for each in self._live_of(write.table)):
            with self._timeline(write.table) as timeline:
                self._carry_on(write.table, timeline)  # a later epoch begins after it
        known = self._coordinator.handle(event)
        if known.state is WriteState.REQUESTED:
            with self._timeline(write.table) as timeline:
                self._carry_on(write.table, timeline)
                self._renew_heartbeats(write.table, timeline)
                known = self._coordinator.handle(event)  # another thread may have created the instant
                if known.state is WriteState.REQUESTED:
                    return self._with_instant(write, spec, timeline)
        return self._begun(
            BegunInstant(
                instant=InstantTime(known.instant), newest_completed=known.newest_completed, pending=known.pending
            )
        )

    def _with_instant(self, write: WriteId, spec: WriteSpec, timeline: TableTimeline) -> BegunWrite:
        begun = timeline.begin(spec)
        event = ev.InstantCreated(
            id=write, instant=begun.instant, newest_completed=begun.newest_completed, pending=begun.pending
        )
        try:
            self._coordinator.handle(event)
        except StorageError:  # it may be recorded, or not
            raise
        except PenstockError:
            self._try(write, "roll back", lambda: timeline.roll_back(spec, begun.instant))
            raise
        log_event("write begun", table=write.table, owner=write.owner, epoch=write.epoch, instant=begun.instant)
        return self._begun(begun)

    def _begun(self, begun: BegunInstant) -> BegunWrite:
        return BegunWrite(
            instant=begun.instant,
            newest_completed=begun.newest_completed,
            pending=begun.pending,
            lease_ms=self._coordinator.settings.writes.lease_ms,
        )

    def lease_groups(self, write: WriteId, touched: TouchedGroups, principal: str = "") -> None:
        """See `WriteService.lease_groups`."""
        try:
            self._coordinator.handle(ev.LeaseGroups(id=write, touched=touched, principal=principal))
        except WriteConflict:
            self._meter.conflict(write.table)
            raise

    def renew_write(self, write: WriteId, progress: WriteProgress, principal: str = "") -> int:
        """See `WriteService.renew_write`."""
        self._coordinator.handle(ev.RenewWrite(id=write, progress=progress, principal=principal))
        return self._coordinator.settings.writes.lease_ms

    def commit_write(self, write: WriteId, commit: WriteCommit, principal: str = "") -> InstantTime:
        """See `WriteService.commit_write`."""
        event = ev.CommitWrite(id=write, commit=commit, principal=principal)
        if self._coordinator.handle(event).state is not WriteState.COMPLETED:
            with self._timeline(write.table) as timeline:
                decided = self._live(write)
                if decided is not None:
                    self._carry_on_write(decided, timeline)
        answer = self._coordinator.handle(event)  # raises the error of a refused commit
        if answer.state is not WriteState.COMPLETED:
            raise StorageError(
                f"{write} (instant {answer.instant}): its commit is decided, and not complete yet, because the table's "
                "timeline cannot be written: the server goes on; ask again"
            )
        return InstantTime(answer.completion)

    def abort_write(self, write: WriteId, principal: str = "") -> None:
        """See `WriteService.abort_write`."""
        self._coordinator.handle(ev.AbortWrite(id=write, principal=principal))
        failed = self._live(write)
        if failed is not None:
            with self._timeline(write.table) as timeline:
                self._carry_on_write(failed, timeline)

    def list_writes(self, table: str = "") -> tuple[WriteSummary, ...]:
        """See `WriteService.list_writes`."""
        now_ms = self._clock_ms()
        writes = self._live_of(table)
        return tuple(
            WriteSummary(
                id=each.id,
                state=each.state,
                instant=each.instant,
                groups=each.held.size,
                progress=each.progress,
                lease_left_ms=max(0, (each.until_ms or now_ms) - now_ms) if each.is_open else 0,
            )
            for each in sorted(writes, key=lambda each: each.id)
        )

    # --- what goes on without calls

    def recover(self) -> None:
        """Goes on with the writes of the process before: takes over the heartbeats of the instants of all tables first,
        so that nobody rolls them back."""
        for table in self._tables():
            self._try(table, "take over", lambda table=table: self._take_over(table))  # type: ignore[misc]
        for table in self._tables():
            self._try(table, "go on", lambda table=table: self._tick_table(table))  # type: ignore[misc]

    def _take_over(self, table: str) -> None:
        timeline = self._open(table)
        for write in self._live_of(table):
            if write.instant and write.state is not WriteState.FAILED:
                timeline.take_over(InstantTime(write.instant))

    def tick(self) -> None:
        """Completes what is decided, rolls back what has failed, and measures. Call it every few seconds. It may wait
        long for the locks of tables."""
        for table in self._tables():
            self._try(table, "go on", lambda table=table: self._tick_table(table))  # type: ignore[misc]
        self.measure()

    def beat(self) -> None:
        """Renews the heartbeats that are due, of all tables. Call it every few seconds, beside `tick`."""
        if self._clock_ms() - self._beat_ms >= BEAT_MS:
            self._beat_ms = self._clock_ms()
            for table in self._tables():
                self._try(
                    table,
                    "renew heartbeats",
                    lambda table=table: self._renew_heartbeats(table, self._open(table)),  # type: ignore[misc]
                )

    def measure(self) -> None:
        """Observes the writes of all tables."""
        now_ms = self._clock_ms()
        measured = self._coordinator.read(lambda state: self._meter.measure(state.writes, now_ms))
        self._coordinator.observer.observe(measured)

    def _tick_table(self, table: str) -> None:
        if any(not each.is_open for each in self._live_of(table)):
            with self._timeline(table) as timeline:
                self._carry_on(table, timeline)

    def _carry_on(self, table: str, timeline: TableTimeline) -> None:
        for write in self._live_of(table):
            if not write.is_open:
                self._try(write.id, "go on", lambda write=write: self._carry_on_write(write, timeline))  # type: ignore[misc]

    def _carry_on_write(self, write: Write, timeline: TableTimeline) -> None:
        """The next step of a write that is decided or has failed. StorageError if it is to be tried again."""
        instant = InstantTime(write.instant)
        if write.state is WriteState.FAILED:
            timeline.roll_back(write.spec, instant)
            self._coordinator.handle(ev.InstantRolledBack(id=write.id))
            log_event(
                "write rolled back", table=write.id.table, owner=write.id.owner, instant=instant, why=str(write.end)
            )
        if write.state is not WriteState.DECIDED or write.commit is None:
            return
        begun = BegunInstant(instant=instant, newest_completed=write.newest_completed, pending=write.pending)
        try:
            completion = timeline.completion(instant) or timeline.complete(write.spec, begun, write.commit)
        except StorageError:
            raise
        except Exception as error:
            if not isinstance(error, PenstockError):
                log.exception("%s: unexpected exception", write.id)
            known = timeline.completion(instant)
            if known is None:
                self._refuse(write, error)
                return
            completion = known
        self._coordinator.handle(ev.InstantCompleted(id=write.id, completion=completion))
        log_event("write completed", table=write.id.table, owner=write.id.owner, instant=instant)

    def _refuse(self, write: Write, error: Exception) -> None:
        code, text = code_and_text(error)
        self._coordinator.handle(ev.CommitRefused(id=write.id, code=code, text=text))
        refused = self._live(write.id)
        if refused is not None:
            with self._timeline(write.id.table) as timeline:
                self._try(write.id, "roll back", lambda: self._carry_on_write(refused, timeline))

    def _renew_heartbeats(self, table: str, timeline: TableTimeline) -> None:
        for write in self._live_of(table):
            if write.instant and write.state is not WriteState.FAILED:
                instant = InstantTime(write.instant)
                self._try(write.id, "renew the heartbeat", lambda instant=instant: timeline.beat(instant))  # type: ignore[misc]

    # --- parts

    @contextmanager
    def _timeline(self, table: str) -> Iterator[TableTimeline]:
        """The timeline of a table, for this thread alone."""
        path = self._path_of(table)
        with self._guard:
            lock = self._locks[path]
        with lock:
            yield self._open(table)

    def _open(self, table: str) -> TableTimeline:
        return self._require_timelines()(self._path_of(table))

    def _require_timelines(self) -> Timelines:
        if self._timelines is None:
            raise ConfigurationError("this server coordinates no writes: use one of `penstock serve`")
        return self._timelines

    def _tables(self) -> list[str]:
        return self._coordinator.read(lambda state: sorted(name for name, each in state.writes.items() if each.live))

    def _live_of(self, table: str) -> list[Write]:
        return self._coordinator.read(lambda state: _live_writes(state, table))

    def _live(self, write: WriteId) -> Write | None:
        """The write, unless it has ended."""

        def at(state: State) -> Write | None:
            writes = state.writes.get(write.table)
            return None if writes is None else writes.live.get(write)

        return self._coordinator.read(at)

    def _try(self, what: object, step: str, call: Callable[[], object]) -> None:
        """Calls; an error is logged, and the step is done again later. One table harms no other."""
        try:
            call()
        except PenstockError as error:
            log.warning("%s: cannot %s yet: %s", what, step, error)
        except Exception:
            log.exception("%s: cannot %s yet: unexpected exception", what, step)


def _live_writes(state: State, table: str) -> list[Write]:
    """The writes of a table that have not ended; of all tables for ''."""
    return [each for name, writes in state.writes.items() if table in ("", name) for each in writes.live.values()]
