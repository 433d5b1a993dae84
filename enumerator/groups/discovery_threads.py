"""Background threads of a service: one ticks, one starts discoveries, and each discovery has a thread of its own.

Neither an exception nor a slow table delays the discovery of another table.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from penstock.enumerator.groups.lag_monitor import LagMonitor
from penstock.enumerator.groups.split_discovery import SplitDiscovery
from penstock.enumerator.log import log_event
from penstock.enumerator.observer import ThreadFailed
from penstock.enumerator.tables.table_checks import SLOW_DISCOVERY_MS, TableChecks

MAX_RUNNING: Final = 4
"""Jobs that run at a time; a job that has run for SLOW_DISCOVERY_MS no longer counts."""
MAX_THREADS: Final = 64
"""Jobs that run at a time, including those whose storage does not answer."""
STALLED_MS: Final = 30_000
"""A background thread that has completed no round for so long is reported."""
STOP_S: Final = 10.0
"""How long `stop` waits for running jobs."""
_Job = tuple[str, str]
"""A kind of work and its table."""


class DiscoveryThreads:
    """Every `interval_ms`, or at once after `wake`: ticks the coordinator, starts discoveries that are due.

    An exception ends neither thread. A thread that ends nevertheless is restarted by the other one, or by `check`.
    `on_trouble` is called with the reason when a thread has ended, or has completed no round for STALLED_MS; with ''
    once all threads run again. All threads end when the store of the coordinator failed.
    """

    def __init__(self, split_discovery: SplitDiscovery, interval_ms: int, checks: TableChecks | None = None) -> None:
        self.on_trouble: Callable[[str], object] = lambda reason: None
        self._split_discovery, self._checks = split_discovery, checks
        self._lag_monitor = LagMonitor(split_discovery)
        self._ended = threading.Event()
        self._checking = threading.Lock()
        self._checked_ms = split_discovery.clock_ms()
        self._reason = ""
        self._jobs = _Jobs(split_discovery, self._failed, self._wake_discovery)
        interval_s = min(interval_ms, split_discovery.coordinator.settings.lease_ms // 8) / 1000
        self._loops = (
            _Loop("time", self._tick, interval_s, split_discovery.clock_ms, self._failed, self._ended, self.check),
            _Loop(
                "discovery",
                self._start_jobs,
                interval_s,
                split_discovery.clock_ms,
                self._failed,
                self._ended,
                self.check,
            ),
        )

    def start(self) -> None:
        """Starts the threads."""
        with self._checking:
            for loop in self._loops:
                loop.start()

    def wake(self) -> None:
        """Starts a round of each thread now."""
        for loop in self._loops:
            loop.woken.set()

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

    def check(self) -> None:
        """Restarts threads that have ended, and reports whether all threads run. Any thread."""
        with self._checking:
            if self._ended.is_set():
                return
            self._allow_for_standstill()
            reason = next(filter(None, (loop.trouble() for loop in self._loops)), "")
            for loop in self._loops:
                if loop.died():
                    self._split_discovery.coordinator.observer.observe(ThreadFailed(loop.name))
                    loop.start()
            if reason != self._reason:
                self._reason = reason
                level = logging.CRITICAL if reason else logging.WARNING
                log_event("background threads", level=level, state=reason or "all threads run again")
                self.on_trouble(reason)

    def _allow_for_standstill(self) -> None:
        """Does not report threads as stalled if the whole process was suspended."""
        before_ms, self._checked_ms = self._checked_ms, self._split_discovery.clock_ms()
        if self._checked_ms - before_ms >= STALLED_MS // 2:
            for loop in self._loops:
                loop.completed_ms = self._checked_ms

    def _tick(self) -> None:
        self._split_discovery.coordinator.tick()

    def _start_jobs(self) -> None:
        due: dict[_Job, Callable[[str], bool]] = {
            ("look", table): self._discover for table in sorted(self._split_discovery.due())
        }
        if self._checks is not None:
            due |= {("check", table): self._checks.check for table in self._checks.due()}
            self._checks.report_silent()
        self._lag_monitor.gauges()
        due |= {("lag", table): self._lag_monitor.measure_table for table in self._lag_monitor.due()}
        self._jobs.begin(due)

    def _discover(self, table: str) -> bool:
        return self._split_discovery.discover_table(table) > 0

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
    """A thread that calls `step` every `interval_s`, or when `woken`, until `ended`; exceptions go to `failed`."""

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        interval_s: float,
        clock_ms: Callable[[], int],
        failed: Callable[[str, BaseException], None],
        ended: threading.Event,
        check: Callable[[], None],
    ) -> None:
        self.name, self.woken = name, threading.Event()
        self.completed_ms = clock_ms()
        self._step, self._interval_s, self._clock_ms, self._failed = step, interval_s, clock_ms, failed
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

    def trouble(self) -> str:
        """Why the loop does not run, '' if it does; a restarted thread must complete a round first."""
        if self.died() or self._restarted:
            return f"thread {self.name} ended{self._error}; it is started again"
        silent_ms = self._clock_ms() - self.completed_ms
        if silent_ms > max(STALLED_MS, 3000 * self._interval_s):
            return f"thread {self.name} has completed no round for {STALLED_MS // 1000} s{self._error}"
        return ""

    def _run(self) -> None:
        while not self._ended.is_set():
            self.woken.clear()
            if self._succeeds(self._step):
                self.completed_ms, self._restarted, self._error = self._clock_ms(), False, ""
            self._succeeds(self._check)
            if not self._ended.is_set():
                self.woken.wait(self._interval_s)

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


class _Jobs:
    """Discoveries, checks and measurements, each on a daemon thread; one job of a kind at a time for a table. Storage
    that never answers delays neither another table nor the end of the process."""

    def __init__(
        self,
        split_discovery: SplitDiscovery,
        failed: Callable[[str, BaseException, str], None],
        wake: Callable[[], None],
    ):
        self._split_discovery, self._failed, self._wake = split_discovery, failed, wake
        self._changed = threading.Condition()
        self._since_ms: dict[_Job, int] = {}
        self._waiting: list[_Job] = []

    def begin(self, due: Mapping[_Job, Callable[[str], bool]]) -> None:
        """Starts due jobs in their order, except running ones, within the limits. Jobs that have to wait are first the
        next time: a table that is always due cannot starve another."""
        with self._changed:
            waited = {key: None for key in self._waiting if key in due}
            self._waiting = [key for key in waited | dict.fromkeys(due) if key not in self._since_ms]
        while (key := self._next()) is not None:
            try:
                threading.Thread(target=self._run, args=(key, due[key]), name=f"penstock-{key[0]}", daemon=True).start()
            except BaseException:
                self._end(key, wake=False)
                raise

    def _next(self) -> _Job | None:
        """Takes the next job that may run now; None if there is none."""
        now_ms = self._split_discovery.clock_ms()
        with self._changed:
            answering = sum(now_ms - since_ms < SLOW_DISCOVERY_MS for since_ms in self._since_ms.values())
            if not self._waiting or answering >= MAX_RUNNING or len(self._since_ms) >= MAX_THREADS:
                return None
            key = self._waiting.pop(0)
            self._since_ms[key] = now_ms
            return key

    def wait(self, seconds: float) -> list[str]:
        """Waits until all jobs have ended, for at most `seconds`. Returns those that have not."""
        with self._changed:
            self._changed.wait_for(lambda: not self._since_ms, seconds)
            return [f"{kind} at table {table}" for kind, table in self._since_ms]

    def _run(self, key: _Job, work: Callable[[str], bool]) -> None:
        again = False
        try:
            again = work(key[1])
        except BaseException as error:  # noqa: BLE001 - the end of this thread must not be silent
            self._failed("looks", error, f"{key[0]} at table {key[1]}")
        finally:
            self._end(key, wake=again)

    def _end(self, key: _Job, *, wake: bool) -> None:
        with self._changed:
            self._since_ms.pop(key, None)
            wake = wake or bool(self._waiting)
            self._changed.notify_all()
        if wake:
            self._wake()
