"""When each job at a table starts: in the order of due times, within limits of how many run at once. Pure.

The caller passes the time. A job is a kind of work at one table; of each there is one at a time. A job whose storage
does not answer soon gives its place to the next one, so that it delays no other table.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import count

Job = tuple[str, str]
"""A kind of work and its table."""


@dataclass(slots=True)
class Schedule:
    """The jobs that wait and the jobs that run. One thread at a time."""

    most_answering: int
    """Jobs that run at once; a job that has run for `slow_ms` no longer counts."""
    most_running: int
    """Jobs that run at once, including those that no longer count."""
    slow_ms: int
    """See `most_answering`."""
    _waiting: dict[Job, tuple[int, int, int]] = field(default_factory=dict)
    _running: dict[Job, int] = field(default_factory=dict)
    _order: list[tuple[int, int, int, Job]] = field(default_factory=list)
    _started: dict[Job, int] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def put(self, job: Job, due_ms: int, now_ms: int) -> None:
        """Lets the job wait until `due_ms`, or until it was due already, whichever is earlier. No effect while it runs.

        A job that is due at once is placed after all jobs that are due already: it cannot starve them, however often it
        is put. Of jobs that are due at one time, the job whose last start is the longest ago is first.
        """
        due_ms = max(due_ms, now_ms)
        before = self._waiting.get(job)
        if job in self._running or (before is not None and before[0] <= due_ms):
            return
        entry = self._waiting[job] = (due_ms, self._started.get(job, 0), next(self._numbers))
        heapq.heappush(self._order, (*entry, job))

    def keep(self, kind: str, tables: Collection[str]) -> None:
        """Removes the waiting jobs of this kind at all other tables."""
        for job in [job for job in self._waiting if job[0] == kind and job[1] not in tables]:
            del self._waiting[job]
        for job in [job for job in self._started if job[1] not in tables]:
            del self._started[job]

    def take(self, now_ms: int) -> Job | None:
        """Starts the job that has been due longest. None if no job is due, or if no more may run."""
        answering = sum(now_ms - since_ms < self.slow_ms for since_ms in self._running.values())
        if answering >= self.most_answering or len(self._running) >= self.most_running:
            return None
        due_ms = self.next_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        job = heapq.heappop(self._order)[-1]
        del self._waiting[job]
        self._running[job], self._started[job] = now_ms, next(self._numbers)
        return job

    def end(self, job: Job) -> None:
        """The job has ended."""
        self._running.pop(job, None)

    def next_ms(self) -> int | None:
        """When the next job is due; None if none waits."""
        while self._order and self._waiting.get(self._order[0][-1]) != self._order[0][:-1]:
            heapq.heappop(self._order)
        return self._order[0][0] if self._order else None

    def running(self) -> tuple[Job, ...]:
        """The jobs that run, in the order of their starts."""
        return tuple(self._running)
