"""Runs a job: several tables side by side, each retried or stopped on its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final

from penstock.engine.sync.feed import TableFeed
from penstock.engine.sync.sources import Sources, SourceTable
from penstock.engine.sync.table_sync import Step, TableSync
from penstock.engine.sync.targets.target import Target
from penstock.proto.errors import PenstockError, code_and_text
from penstock.proto.logging import log_event_to

log = logging.getLogger("penstock.engine.sync")

FIRST_DELAY_S: Final = 1.0
LONGEST_DELAY_S: Final = 60.0


class TableState(StrEnum):
    """What a table of a job does."""

    WAITING = "waiting"
    """It was not looked at yet."""
    LOADING = "loading"
    """Its rows are copied for the first time."""
    FOLLOWING = "following"
    """Changes are copied as they are committed."""
    CURRENT = "current"
    """The target had everything at the last look."""
    RETRYING = "retrying"
    """Source or target cannot be used now; nothing is lost."""
    STOPPED = "stopped"
    """An error needs a decision; the other tables continue."""


@dataclass(slots=True)
class TableProgress:
    """The progress of one table. Written by one thread at a time."""

    source: SourceTable
    """The table."""
    state: TableState = TableState.WAITING
    """What it does."""
    rows: int = 0
    """Rows written or removed since the start of this process."""
    loaded: int = 0
    """Splits of the first load in the target."""
    total: int = 0
    """Splits of the first load."""
    order_key: str = ""
    """The newest instant up to which the target is complete."""
    error_code: str = ""
    """The code of the last error, while the state is RETRYING or STOPPED."""
    error: str = ""
    """Its text."""
    current_at_s: float | None = None
    """When the target last had everything (`time.time`); None: not in this process."""
    _sync: TableSync | None = field(default=None, repr=False)
    _failures: int = 0
    _due_s: float = 0.0

    @property
    def place(self) -> tuple[str, str]:
        """The target and its table: one source at a time writes into it."""
        return str(self.source.entry.target), self.source.target_table


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
    """With `once`, how long a table is retried before it counts as failed."""
    restart: frozenset[str] = frozenset()
    """Target tables that are loaded again."""


class Runner:
    """Runs a job until `stop` is set, or with `once` until every table is current or stopped."""

    def __init__(
        self,
        list_: Callable[[], Sources],
        open_target: Callable[[SourceTable], Target],
        settings: RunSettings,
        *,
        stop: threading.Event | None = None,
        open_feed: Callable[[SourceTable], TableFeed] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._list, self._open_target, self._settings = list_, open_target, settings
        self._open_feed = open_feed or (lambda source: TableFeed(source.table, source.entry.options))
        self._stop, self._clock, self._wall_clock = stop or threading.Event(), clock, wall_clock
        self._lock = threading.Lock()
        self._by_source: dict[tuple[str, str], TableProgress] = {}
        self._restarts = set(settings.restart)
        self._began_s = clock()
        self.problems: tuple[str, ...] = ()
        """What the last listing could not list."""

    def tables(self) -> list[TableProgress]:
        """The progress of all tables, in the order of the job."""
        with self._lock:
            return list(self._by_source.values())

    def run(self, on_change: Callable[[], None] = lambda: None) -> int:
        """Runs the job. Returns the exit code: 0, or that of the first stopped or failed table, or 1 for a source that
        could not be listed."""
        running: dict[Future[None], TableProgress] = {}
        listed_s = float("-inf")
        with ThreadPoolExecutor(self._settings.threads, "penstock-sync") as pool:
            while not self._stop.is_set():
                if self._clock() - listed_s >= self._settings.discovery_s:
                    self._discover()
                    listed_s = self._clock()
                for progress in self._due(running.values()):
                    if len(running) >= self._settings.threads:
                        break
                    if progress.place not in {one.place for one in running.values()}:
                        running[pool.submit(self._step, progress)] = progress
                on_change()
                if self._settings.once and not running and self._is_done():
                    break
                done, _ = wait(running, self._pause(running), FIRST_COMPLETED) if running else (set(), None)
                for future in done:
                    del running[future]
                    future.result()
                if not done and not running:
                    self._stop.wait(self._pause(running))
            for future in running:
                future.result()
        on_change()
        return self._exit_code()

    def _pause(self, running: Mapping[Future[None], TableProgress]) -> float:
        busy = set(map(id, running.values()))
        due = [one._due_s for one in self.tables() if id(one) not in busy and one.state is not TableState.STOPPED]
        return min(max(min(due, default=0.2) - self._clock(), 0.02), 0.2)

    def _discover(self) -> None:
        sources = self._list()
        for problem in sources.problems:
            if problem not in self.problems:
                log.warning("%s", problem)
        self.problems = sources.problems
        with self._lock:
            for source in sources.tables:
                self._by_source.setdefault((str(source.entry.target), source.source), TableProgress(source))

    def _due(self, busy: Iterable[TableProgress]) -> list[TableProgress]:
        """The tables to look at now, those first that have waited longest."""
        now, taken = self._clock(), set(map(id, busy))
        due = [
            one
            for one in self.tables()
            if id(one) not in taken
            and one.state is not TableState.STOPPED
            and one._due_s <= now
            and not (self._settings.once and one.state is TableState.CURRENT)
        ]
        return sorted(due, key=lambda one: one._due_s)

    def _is_done(self) -> bool:
        late = self._clock() - self._began_s >= self._settings.retry_s
        ended = {TableState.CURRENT, TableState.STOPPED, *([TableState.RETRYING] if late else [])}
        return all(one.state in ended for one in self.tables())

    def _step(self, progress: TableProgress) -> None:
        """One transaction of a table, and what it says about its state. Raises nothing."""
        try:
            if progress._sync is None:
                source = progress.source
                restart = source.target_table in self._restarts
                progress._sync = TableSync(source, self._open_feed(source), self._open_target(source), restart=restart)
            step = progress._sync.step()
        except Exception as error:
            self._failed(progress, error)
            return
        progress._failures, progress.error, progress.error_code = 0, "", ""
        self._restarts.discard(progress.source.target_table)
        if step is None:
            progress.state, progress.current_at_s = TableState.CURRENT, self._wall_clock()
            progress._due_s = self._clock() + self._settings.interval_s
        else:
            self._advanced(progress, step)

    def _advanced(self, progress: TableProgress, step: Step) -> None:
        progress.rows += step.rows
        progress.loaded, progress.total = step.loaded, step.total
        progress.order_key = step.order_key or progress.order_key
        progress.state = TableState.FOLLOWING if step.order_key else TableState.LOADING
        progress._due_s = self._clock()
        log_event_to(
            log,
            "synced",
            table=progress.source.target_table,
            source=progress.source.source,
            rows=step.rows,
            upto=step.order_key,
        )

    def _failed(self, progress: TableProgress, error: Exception) -> None:
        code, text = code_and_text(error)
        retryable = isinstance(error, PenstockError) and error.retryable
        progress.error_code, progress.error, progress._sync = code, text, None
        progress.state = TableState.RETRYING if retryable else TableState.STOPPED
        progress._failures += 1
        delay = min(FIRST_DELAY_S * 2 ** (progress._failures - 1), LONGEST_DELAY_S)
        progress._due_s = self._clock() + delay
        if progress._failures == 1 or not retryable:
            level = logging.WARNING if retryable else logging.ERROR
            log.log(level, "table %s [%s]: %s", progress.source.target_table, code, text, exc_info=code == "BUG")

    def _exit_code(self) -> int:
        from penstock.proto.errors import all_error_classes

        classes = all_error_classes()
        for one in self.tables():
            if one.state is TableState.STOPPED or (self._settings.once and one.state is not TableState.CURRENT):
                found = classes.get(one.error_code)
                return found.exit_code if found else 1
        return 1 if self._settings.once and self.problems else 0


def shared_targets(open_one: Callable[[object], Target]) -> Callable[[SourceTable], Target]:
    """Opens each target once, for all tables that it has."""
    opened: dict[str, Target] = {}
    lock = threading.Lock()

    def target_of(source: SourceTable) -> Target:
        url = source.entry.target
        with lock:
            if str(url) not in opened:
                opened[str(url)] = partial(open_one, url)()
            return opened[str(url)]

    return target_of
