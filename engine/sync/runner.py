"""Runs a job: several tables side by side, each retried or stopped on its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final

from penstock.engine.sync.progress import ENDED, TableProgress, TableState
from penstock.engine.sync.sources import Sources, SourceTable
from penstock.engine.sync.table_sync import Feed, Step, TableSync
from penstock.engine.sync.targets.target import Target
from penstock.proto.errors import (
    INVARIANT_CODE,
    ConfigurationError,
    PenstockError,
    all_error_classes,
    code_and_text,
)
from penstock.proto.logging import log_event_to

log = logging.getLogger("penstock.engine.sync")

FIRST_DELAY_S: Final = 1.0
LONGEST_DELAY_S: Final = 60.0
_LONGEST_WAIT_S: Final = 0.2
_SHORTEST_WAIT_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a job runs."""

    once: bool = False
    """Whether the run ends when every table is current or stopped."""
    threads: int = 4
    """Tables that are copied at the same time."""
    interval_s: float = 1.0
    """The time between two looks at a table that is current."""
    discovery_s: float = 30.0
    """The time between two listings of the sources."""
    retry_s: float = 30.0
    """With `once`, how long a table that fails again and again is retried."""
    restart: frozenset[str] = frozenset()
    """Target tables that are loaded again."""


class Runner:
    """Runs a job until `stop` is set, or with `once` until every table is current or stopped."""

    def __init__(
        self,
        list_: Callable[[], Sources],
        open_feed: Callable[[SourceTable], Feed],
        open_target: Callable[[SourceTable], Target],
        settings: RunSettings,
        *,
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._list, self._open_feed, self._open_target, self._settings = list_, open_feed, open_target, settings
        self._stop, self._clock, self._wall_clock = stop or threading.Event(), clock, wall_clock
        self._lock = threading.Lock()
        self._by_source: dict[tuple[str, str, str], TableProgress] = {}
        self.problems: tuple[str, ...] = ()
        """What the last listing could not list."""

    def tables(self) -> list[TableProgress]:
        """The progress of all tables, in the order of the job."""
        with self._lock:
            return list(self._by_source.values())

    def run(self, on_change: Callable[[], None] = lambda: None) -> int:
        """Runs the job. Sources are listed again beside the copies: brokers or a server that are gone delay no table.

        Returns the exit code: that of the first table that is stopped, or with `once` not current; 1 if with `once` a
        source could not be listed; else 0.

        ConfigurationError if a table of `restart` is not in the job.
        """
        self.discover()
        self._check_restarts()
        running: dict[Future[None], TableProgress] = {}
        listed_s = self._clock()
        with (
            ThreadPoolExecutor(1, "penstock-sync-list") as lister,
            ThreadPoolExecutor(self._settings.threads, "penstock-sync") as pool,
        ):
            listing: Future[None] | None = None
            while not self._stop.is_set():
                if listing is not None and listing.done():
                    listing.result()
                    listing, listed_s = None, self._clock()
                if listing is None and self._clock() - listed_s >= self._settings.discovery_s:
                    listing = lister.submit(self.discover)
                for progress in self.due(running.values()):
                    running[pool.submit(self.step, progress)] = progress
                on_change()
                if self._settings.once and not running and self.is_done():
                    break
                if running:
                    for future in wait(running, self._pause_s(), FIRST_COMPLETED)[0]:
                        del running[future]
                        future.result()
                else:
                    self._stop.wait(self._pause_s())
        on_change()
        return self.exit_code()

    def discover(self) -> None:
        """Lists the sources. Tables that are no longer listed stay: a listing may be incomplete, and a table that does
        not exist stops by itself."""
        sources = self._list()
        for problem in sources.problems:
            if problem not in self.problems:
                log.warning("%s", problem)
        self.problems = sources.problems
        with self._lock:
            for source in sources.tables:
                restart = source.target_table in self._settings.restart
                key = (str(source.entry.target), source.target_table, source.source)
                self._by_source.setdefault(key, TableProgress(source, restart=restart))

    def due(self, running: Iterable[TableProgress]) -> list[TableProgress]:
        """The tables to look at now, in the order of their due times; at most as many as threads are free. Only one
        source at a time writes into a table."""
        now_s = self._clock()
        places = [one.place for one in running]
        free = self._settings.threads - len(places)
        due: list[TableProgress] = []
        for one in sorted(self.tables(), key=lambda one: one.due_s):
            if len(due) == free or one.due_s > now_s:
                break
            is_finished = one.state is TableState.STOPPED or (self._settings.once and one.state is TableState.CURRENT)
            if not is_finished and one.place not in places:
                places.append(one.place)
                due.append(one)
        return due

    def is_done(self) -> bool:
        """With `once`, whether no table has anything left to do, or to retry."""
        since_s = self._clock() - self._settings.retry_s
        return all(
            one.state in ENDED or (one.state is TableState.RETRYING and one.failed_s <= since_s)
            for one in self.tables()
        )

    def step(self, progress: TableProgress) -> None:
        """One transaction of a table, and what it says about its state. Raises nothing."""
        source = progress.source
        try:
            if progress.sync is None:
                progress.sync = TableSync(
                    source, self._open_feed(source), self._open_target(source), restart=progress.restart
                )
            step = progress.sync.step()
        except BaseException as error:  # noqa: BLE001 - it stops this table alone; a panic of Rust is no Exception
            self._failed(progress, error)
            return
        if step is not None and step.waits:
            progress.due_s = self._clock() + _SHORTEST_WAIT_S
            return
        if progress.failures:
            log_event_to(log, "sync continues", table=source.target_table, source=source.source)
        progress.succeeded(restarted=not progress.sync.restarts)
        if step is None:
            progress.state, progress.current_at_s = TableState.CURRENT, self._wall_clock()
            progress.due_s = self._clock() + self._settings.interval_s
        else:
            self._advanced(progress, step)

    def exit_code(self) -> int:
        """See `run`."""
        classes = all_error_classes()
        once = self._settings.once
        for one in self.tables():
            if one.state is TableState.STOPPED or (once and one.state is not TableState.CURRENT):
                return classes[one.error_code].exit_code if one.error_code in classes else 1
        return 1 if once and self.problems else 0

    def _check_restarts(self) -> None:
        tables = {one.source.target_table for one in self.tables()}
        unknown = sorted(self._settings.restart - tables)
        if unknown:
            raise ConfigurationError(
                f"--restart {unknown[0]}: the job has no such table; it has {', '.join(sorted(tables)[:20]) or 'none'}"
            )

    def _pause_s(self) -> float:
        now_s = self._clock()
        later = [one.due_s - now_s for one in self.tables() if one.due_s > now_s]
        return max(min(later, default=_LONGEST_WAIT_S), _SHORTEST_WAIT_S)

    def _advanced(self, progress: TableProgress, step: Step) -> None:
        progress.rows += step.rows
        progress.loaded, progress.total = step.loaded, step.total
        progress.order_key = step.order_key or progress.order_key
        progress.state = TableState.FOLLOWING if step.order_key else TableState.LOADING
        progress.due_s = self._clock()
        log_event_to(
            log,
            "synced",
            table=progress.source.target_table,
            source=progress.source.source,
            rows=step.rows,
            upto=step.order_key,
        )

    def _failed(self, progress: TableProgress, error: BaseException) -> None:
        code, text = code_and_text(error)
        is_retryable = isinstance(error, PenstockError) and error.retryable
        state = TableState.RETRYING if is_retryable else TableState.STOPPED
        progress.failed(code, text, state, self._clock())
        delay_s = min(FIRST_DELAY_S * 2 ** min(progress.failures - 1, 16), LONGEST_DELAY_S)
        progress.due_s = self._clock() + delay_s
        if progress.failures == 1 or not is_retryable:
            log_event_to(
                log,
                "sync retries" if is_retryable else "sync stopped",
                level=logging.WARNING if is_retryable else logging.ERROR,
                exc_info=error if code == INVARIANT_CODE else None,
                table=progress.source.target_table,
                source=progress.source.source,
                code=code,
                error=text,
            )
