"""Background threads of a service: one ticks, one starts jobs at tables when they are due. `table_jobs` runs the jobs.

Neither an exception nor a slow table delays the discovery of another table.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from penstock.enumerator.groups.aligned_groups import AlignedGroups
from penstock.enumerator.groups.lag_monitor import LagMonitor
from penstock.enumerator.groups.split_discovery import SplitDiscovery
from penstock.enumerator.groups.table_jobs import TableJobs
from penstock.enumerator.log import log_event
from penstock.enumerator.observer import ThreadFailed
from penstock.enumerator.streams.stream_monitor import StreamMonitor
from penstock.enumerator.tables.table_checks import TableChecks

STALLED_MS: Final = 30_000
"""A background thread that has completed no round for so long is reported."""
STOP_S: Final = 10.0
"""How long `stop` waits for running jobs."""
SCAN_SHARE: Final = 0.02
"""Share of the time that scans of all groups may take: with many groups they are less frequent than the interval."""
LEAST_WAIT_S: Final = 0.02
"""Time after which another thread starts on jobs that are due, if there are more of them."""
LATE_SHARE: Final = 0.05
"""Share of the interval that jobs may be late, so that one thread runs several after another."""


class DiscoveryThreads:
    """Every `interval_ms`, or at once after `wake`: ticks the coordinator, starts discoveries that are due.

    An exception ends neither thread. A thread that ends nevertheless is restarted by the other one, or by `check`.
    `on_trouble` is called with the reason when a thread has ended, or has completed no round for STALLED_MS; with ''
    once all threads run again. All threads end when the store of the coordinator failed.
    """

    def __init__(
        self,
        split_discovery: SplitDiscovery,
        interval_ms: int,
        checks: TableChecks | None = None,
        streams: StreamMonitor | None = None,
        aligned: AlignedGroups | None = None,
        served: Callable[[], Collection[str]] | None = None,
    ) -> None:
        self.on_trouble: Callable[[str], object] = lambda reason: None
        self._split_discovery, self._checks, self._streams = split_discovery, checks, streams
        self._lag_monitor = LagMonitor(split_discovery, aligned, served)
        self._ended = threading.Event()
        self._checking = threading.Lock()
        self._checked_ms = split_discovery.clock_ms()
        self._reason = ""
        clock_ms = split_discovery.clock_ms
        works = {"look": self._discover, "check": self._check, "lag": self._measure, "streams": self._measure_streams}
        self._jobs = TableJobs(works, clock_ms, self._failed, self._wake_discovery)
        self._hastened: dict[str, int] = {}
        self._scan_s = 0.0
        self._scanned_s: float | None = None
        self._interval_s = interval_s = min(interval_ms, split_discovery.coordinator.settings.lease_ms // 8) / 1000
        self._loops = tuple(
            _Loop(name, step, interval_s, wait_s, clock_ms, self._failed, self._ended, self.check)
            for name, step, wait_s in (
                ("time", self._tick, lambda: interval_s),
                ("discovery", self._start_jobs, self._wait_s),
            )
        )

    def start(self) -> None:
        """Starts the threads."""
        with self._checking:
            for loop in self._loops:
                loop.start()

    def wake(self) -> None:
        """Starts a round of each thread now, with a scan of all groups."""
        self._scanned_s = None
        for loop in self._loops:
            loop.woken.set()

    def hasten(self, table: str, due_ms: int) -> None:
        """Discovers the rounds of the table at `due_ms`, if that is earlier than by its interval. Any thread."""
        self._hastened[table] = due_ms
        self._jobs.put("look", {table: due_ms})
        self._wake_discovery()

    def stop(self) -> None:
        """Stops the threads. Waits for running jobs, for at most STOP_S."""
        with self._checking:
            self._ended.set()
        self.wake()
        for loop in self._loops:
            loop.join()
        left = self._jobs.wait(STOP_S)
        if left:
            log_event("stopped during looks", level=logging.WARNING, looks=", ".join(left)[:500])

    def check(self, completed: _Loop | None = None) -> None:
        """Restarts threads that have ended, and reports whether all threads run. `completed` has completed a round. Any
        thread."""
        with self._checking:
            if self._ended.is_set():
                return
            now_ms = self._split_discovery.clock_ms()  # once: the process may be suspended between two reads
            self._allow_for_standstill(now_ms)
            if completed is not None:
                completed.completed_ms = now_ms
            reason = next(filter(None, (loop.trouble(now_ms) for loop in self._loops)), "")
            for loop in self._loops:
                if loop.died():
                    self._split_discovery.coordinator.observer.observe(ThreadFailed(loop.name))
                    loop.start()
            if reason != self._reason:
                self._reason = reason
                level = logging.CRITICAL if reason else logging.WARNING
                log_event("background threads", level=level, state=reason or "all threads run again")
                self.on_trouble(reason)

    def _allow_for_standstill(self, now_ms: int) -> None:
        """Does not report threads as stalled if the whole process was suspended."""
        before_ms, self._checked_ms = self._checked_ms, now_ms
        if now_ms - before_ms >= STALLED_MS // 2:
            for loop in self._loops:
                loop.completed_ms = now_ms

    def _tick(self) -> None:
        self._split_discovery.coordinator.tick()

    def _start_jobs(self) -> None:
        now_s = time.monotonic()
        if self._scanned_s is None or now_s - self._scanned_s >= max(self._interval_s, self._scan_s / SCAN_SHARE):
            self._scanned_s, begin_s = now_s, time.thread_time()
            self._scan(self._split_discovery.clock_ms())
            self._scan_s = time.thread_time() - begin_s
        self._jobs.start_due()

    def _scan(self, now_ms: int) -> None:
        """Schedules what is due of all tables. A look schedules the next one itself; a scan also finds new groups, and
        groups that back-pressure no longer pauses."""
        self._jobs.put("look", {**self._split_discovery.due_times(), **self._hastened}, only=True)
        if self._checks is not None:
            self._jobs.put("check", dict.fromkeys(self._checks.due(), now_ms))
            self._checks.report_silent()
        self._lag_monitor.gauges()
        self._jobs.put("lag", dict.fromkeys(self._lag_monitor.due(), now_ms))
        if self._streams is not None:
            self._streams.publish()
            self._jobs.put("streams", dict.fromkeys(self._streams.due(), now_ms))

    def _wait_s(self) -> float:
        """Time until the next job is due, and a little more."""
        due_ms = self._jobs.next_ms()
        left_s = self._interval_s if due_ms is None else (due_ms - self._split_discovery.clock_ms()) / 1000
        if left_s <= 0:
            return min(self._interval_s, LEAST_WAIT_S)
        return min(self._interval_s, max(LEAST_WAIT_S, left_s + LATE_SHARE * self._interval_s))

    def _discover(self, table: str) -> int | None:
        now_ms = self._split_discovery.clock_ms()
        if self._hastened.get(table, now_ms) <= now_ms:
            self._hastened.pop(table, None)
        planned = self._split_discovery.discover_table(table)
        if (hastened_ms := self._hastened.get(table)) is not None:
            return hastened_ms  # a change was reported during this discovery
        due_ms = self._split_discovery.due_ms(table)
        is_later = due_ms is not None and due_ms > self._split_discovery.clock_ms()
        return due_ms if planned or is_later else None

    def _measure(self, table: str) -> None:
        self._lag_monitor.measure_table(table)

    def _measure_streams(self, table: str) -> None:
        if self._streams is not None:
            self._streams.measure_table(table)

    def _check(self, table: str) -> None:
        if self._checks is not None:
            self._checks.check(table)

    def _wake_discovery(self) -> None:
        self._loops[1].woken.set()

    def _failed(self, name: str, error: BaseException, where: str = "") -> None:
        """Logs and counts an exception of a round or a job; ends all threads if the coordinator has lost its store."""
        lost = self._split_discovery.coordinator.lost
        if lost is not None:
            if not self._ended.is_set():
                log_event("the service cannot continue", level=logging.CRITICAL, reason=str(lost)[:1000])
            self._ended.set()
            return
        self._split_discovery.coordinator.observer.observe(ThreadFailed(name))
        log_event(
            "background work failed",
            level=logging.ERROR,
            thread=name,
            at=where,
            exc_info=error,
            reason=f"{type(error).__name__}: {error}"[:500],
        )


class _Loop:
    """A thread that calls `step`, again after `wait_s()` (at most `interval_s`) or when `woken`, until `ended`;
    exceptions go to `failed`."""

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        interval_s: float,
        wait_s: Callable[[], float],
        clock_ms: Callable[[], int],
        failed: Callable[[str, BaseException], None],
        ended: threading.Event,
        check: Callable[[_Loop | None], None],
    ) -> None:
        self.name, self.woken = name, threading.Event()
        self.completed_ms = clock_ms()
        self._step, self._interval_s, self._wait_s = step, interval_s, wait_s
        self._clock_ms, self._failed = clock_ms, failed
        self._ended, self._check = ended, check
        self._thread: threading.Thread | None = None
        self._restarted = False
        self._error = ""

    def start(self) -> None:
        self._restarted, self.completed_ms = self._thread is not None, self._clock_ms()
        self._thread = threading.Thread(target=self._run, name=f"penstock-{self.name}", daemon=True)
        self._thread.start()

    def join(self) -> None:
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    def died(self) -> bool:
        return self._thread is not None and not self._thread.is_alive()

    def trouble(self, now_ms: int) -> str:
        """Why the loop does not run, '' if it does; a restarted thread must complete a round first."""
        if self.died() or self._restarted:
            return f"thread {self.name} ended{self._error}; it is started again"
        silent_ms = now_ms - self.completed_ms
        if silent_ms > max(STALLED_MS, 3000 * self._interval_s):
            return f"thread {self.name} has completed no round for {STALLED_MS // 1000} s{self._error}"
        return ""

    def _run(self) -> None:
        while not self._ended.is_set():
            self.woken.clear()
            completed = self._succeeds(self._step)
            if completed:
                self._restarted, self._error = False, ""
            self._succeeds(partial(self._check, self if completed else None))
            if not self._ended.is_set():
                self.woken.wait(self._wait_s())

    def _succeeds(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except BaseException as error:
            self._error = f": {type(error).__name__}: {error}"[:500]
            if not isinstance(error, Exception):
                raise
            self._failed(self.name, error)
            return False
        return True
