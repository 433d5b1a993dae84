"""Runs jobs at tables when they are due, on a few threads. `tables.schedule` decides which job is next."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from penstock.enumerator.tables.schedule import Job, Schedule
from penstock.enumerator.tables.table_checks import SLOW_DISCOVERY_MS

MAX_RUNNING: Final = 4
"""Jobs that run at a time; a job that has run for SLOW_DISCOVERY_MS no longer counts."""
MAX_THREADS: Final = 64
"""Jobs that run at a time, including those whose storage does not answer."""
PARKED_S: Final = 60.0
"""How long a thread without a job waits for one before it ends."""

Work = Callable[[str], int | None]
"""The work of a kind at a table. Returns when it is due again; None if a scan decides that."""


class TableJobs:
    """Jobs on daemon threads: storage that never answers delays neither another table nor the end of the process.

    `works` has the work of each kind. `failed` receives the exceptions of jobs. `wake` is called when a job has ended
    and another one may be due.
    """

    def __init__(
        self,
        works: Mapping[str, Work],
        clock_ms: Callable[[], int],
        failed: Callable[[str, BaseException, str], None],
        wake: Callable[[], None],
    ) -> None:
        self._works, self._clock_ms, self._failed, self._wake = works, clock_ms, failed, wake
        self._schedule = Schedule(MAX_RUNNING, MAX_THREADS, SLOW_DISCOVERY_MS)
        self._lock = threading.Lock()
        self._ended, self._handed_over = threading.Condition(self._lock), threading.Condition(self._lock)
        self._handed: deque[Job] = deque()
        self._parked = 0
        self._closing = False

    def put(self, kind: str, due_ms: Mapping[str, int], *, only: bool = False) -> None:
        """Schedules jobs of one kind, by table. `only`: no other job of this kind waits."""
        now_ms = self._clock_ms()
        with self._lock:
            if only:
                self._schedule.keep(kind, due_ms.keys())
            for table, at_ms in due_ms.items():
                self._schedule.put((kind, table), at_ms, now_ms)

    def next_ms(self) -> int | None:
        """When the next job is due; None if none waits."""
        with self._lock:
            return self._schedule.next_ms()

    def start_due(self) -> None:
        """Starts the job that has been due longest, within the limits. Its thread continues with the next ones; call
        again soon if more are due, because the storage of this one may take its time."""
        with self._lock:
            job = self._schedule.take(self._clock_ms())
            if job is None:
                return
            if self._parked > len(self._handed):
                self._handed.append(job)
                self._handed_over.notify()
                return
        try:
            threading.Thread(target=self._work, args=(job,), name=f"penstock-{job[0]}", daemon=True).start()
        except BaseException:
            self._end(job, None)
            raise

    def wait(self, seconds: float) -> list[str]:
        """Starts no more jobs, and waits until all have ended, for at most `seconds`. Returns those that have not."""
        with self._lock:
            self._closing = True
            self._handed_over.notify_all()
            self._ended.wait_for(lambda: not self._schedule.running(), seconds)
            return [f"{kind} at table {table}" for kind, table in self._schedule.running()]

    def _work(self, first: Job) -> None:
        job: Job | None = first
        while job is not None:
            self._end(job, self._run(job))
            job = self._next()

    def _run(self, job: Job) -> int | None:
        try:
            return self._works[job[0]](job[1])
        except BaseException as error:  # noqa: BLE001 - the end of this thread must not be silent
            self._failed("looks", error, f"{job[0]} at table {job[1]}")
            return None

    def _end(self, job: Job, due_ms: int | None) -> None:
        now_ms = self._clock_ms()
        with self._lock:
            self._schedule.end(job)
            if due_ms is not None:
                self._schedule.put(job, due_ms, now_ms)
            self._ended.notify_all()

    def _next(self) -> Job | None:
        """The next job for this thread: one that is due, or one that is handed over later. None: the thread ends."""
        with self._lock:
            if self._closing:
                return None
            job = self._schedule.take(self._clock_ms())
            if job is not None:
                return job
            self._parked += 1
        self._wake()
        with self._lock:
            self._handed_over.wait_for(lambda: self._handed or self._closing, PARKED_S)
            self._parked -= 1
            return self._handed.popleft() if self._handed else None
