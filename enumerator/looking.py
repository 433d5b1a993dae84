"""Looks at the tables of consumer groups and tells the keeper what lies behind their positions.

Shell: tables, a thread. Belongs here: when a table is looked at, and what each failure means for the group. Not here:
what a round is (`watch`), whether it still counts (`core`).

A table that is not there (yet) is waited for. A storage that fails is asked again, after pauses that double up to a
minute; the position stands meanwhile. Everything else that cannot be planned stops the group, with the error.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.facts import facts_of, hash_of
from penstock.enumerator.core.positions import round_id, wants_more
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.state import Group, State
from penstock.enumerator.events import tell
from penstock.enumerator.group_metrics import gauges_of
from penstock.enumerator.keeper import Keeper
from penstock.enumerator.observer import Duration, GroupGauges, TableGauges
from penstock.enumerator.watch.table_watch import Look, nothing_changed
from penstock.enumerator.watch.values import Advance, Following, NextRound, NothingNew, Progress
from penstock.proto.errors import PenstockError, PositionExpired, StorageError, TableNotFound
from penstock.proto.groups import GroupLag, OnLostRange
from penstock.proto.positions import EARLIEST, Position
from penstock.proto.queries import PlanRequest
from penstock.proto.splits import Plan

LONGEST_PAUSE_MS: Final = 60_000
MEASURE_MS: Final = 30_000
CLOSE_COMMITS: Final = 2
CLOSE_SECONDS: Final = 3600.0
"""A group that is closer to losing its next range than either is warned of, every MEASURE_MS."""


class Follows(Protocol):
    """What is asked of followed tables, by path. Any thread."""

    def glance(self, path: str) -> Look:
        """The table's file times now: cheap, and to be taken before the table is read."""
        ...

    def advance(self, path: str, name: str, following: Following) -> Advance:
        """See `watch.advance.advance`."""
        ...

    def earliest(self, path: str, name: str, request: PlanRequest) -> Position:
        """The earliest position from which the range up to now can be answered."""
        ...

    def start(self, path: str, position: Position | None) -> Progress:
        """See `watch.advance.start_progress`."""
        ...

    def lag(self, path: str, progress: Progress, committed: Position) -> GroupLag:
        """See `watch.retention.lag`."""
        ...


@dataclass(slots=True)
class Trouble:
    """Failures of storage in a row, and when to ask again."""

    count: int = 0
    until_ms: int = 0
    text: str = ""
    waiting: bool = False


@dataclass(slots=True)
class Looker:
    """`path_of` turns a table's name into its path, `published` takes credentials out of a plan. `every_ms`: tables
    that are looked at less often than `look` is called. `look` is one look at every group that wants one; any thread,
    one at a time."""

    keeper: Keeper
    follows: Follows
    path_of: Callable[[str], str]
    clock_ms: Callable[[], int]
    published: Callable[[Plan], Plan] = lambda plan: plan
    every_ms: dict[str, int] = field(default_factory=dict)
    troubles: dict[GroupKey, Trouble] = field(default_factory=dict)
    looked_ms: dict[GroupKey, int] = field(default_factory=dict)
    _measured_ms: int = -MEASURE_MS
    _idle: dict[GroupKey, tuple[int, Position, Look]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> int:
        """Looks for each group that wants more; how many rounds were found."""
        with self._lock:
            wanted, known = self.keeper.look(lambda state: (self._wanted(state), set(state.groups)))
            for gone in (self.troubles.keys() | self._idle.keys() | self.looked_ms.keys()) - known:
                for noted in (self.troubles, self._idle, self.looked_ms):
                    noted.pop(gone, None)
            glances: dict[str, Look] = {}
            found = sum(self._look_for(*item, glances) for item in wanted)
            self._measure()
            return found

    def _measure(self) -> None:
        """Tells the observer where the groups stand; at most every MEASURE_MS how far they are from a loss."""
        observer = self.keeper.observer
        now_ms = self.clock_ms()
        for key, gauges in self.keeper.look(self._gauges).items():
            observer.group_gauges(key.table, key.group, gauges)
        if now_ms - self._measured_ms < MEASURE_MS:
            return
        self._measured_ms = now_ms
        losses: dict[str, list[GroupLag]] = {}
        for key, (progress, committed) in self.keeper.look(_places).items():
            try:
                lag = self.follows.lag(self.path_of(key.table), progress, committed)
            except PenstockError:
                continue
            losses.setdefault(key.table, []).append(lag)
            if _is_close(lag):
                tell("range will be lost", level=logging.WARNING, table=key.table, group=key.group, committed=committed,
                     commits_left=lag.loss_commits, seconds_left=lag.loss_seconds)  # fmt: skip
        for table, lags in losses.items():
            commits = min((lag.loss_commits for lag in lags if lag.loss_commits is not None), default=None)
            seconds = min((lag.loss_seconds for lag in lags if lag.loss_seconds is not None), default=None)
            observer.table_gauges(table, TableGauges(loss_commits=commits, loss_s=seconds))

    def _gauges(self, state: State) -> dict[GroupKey, GroupGauges]:
        now_s, now_ms = self.keeper.observer.now_s(), self.clock_ms()
        ago_s = {key: (now_ms - looked_ms) / 1000 for key, looked_ms in self.looked_ms.items()}
        return {
            key: gauges_of(group, looked_at_s=now_s - ago_s[key] if key in ago_s else None)
            for key, group in state.groups.items()
        }

    def _wanted(self, state: State) -> list[tuple[GroupKey, int, Following, OnLostRange]]:
        now_ms = self.clock_ms()
        return [
            (key, group.number, _following(group), group.scope.on_lost_range)
            for key, group in state.groups.items()
            if wants_more(group, self.keeper.settings) and self._is_due(key, group, now_ms)
        ]

    def _is_due(self, key: GroupKey, group: Group, now_ms: int) -> bool:
        """After a failure not before its pause; else what nobody read yet at once, an idle table by its interval."""
        if self.troubles.get(key, Trouble()).until_ms > now_ms:
            return False
        idle = self._idle.get(key)
        if idle is None or idle[:2] != (group.number, group.progress.position):
            return True
        return now_ms - self.looked_ms.get(key, now_ms) >= self.every_ms.get(key.table, 0)

    def _look_for(
        self,
        key: GroupKey,
        number: int,
        following: Following,
        on_lost: OnLostRange,
        glances: dict[str, Look],
    ) -> int:
        start = following.progress.position
        idle = self._idle.pop(key, None)
        try:
            path = self.path_of(key.table)
            if path not in glances:
                glances[path] = self.follows.glance(path)
            if idle is not None and idle[:2] == (number, start) and nothing_changed(idle[2], glances[path]):
                self._idle[key] = idle
                self._seen(key)
                return 0
            begin_s = time.perf_counter()
            found = self.follows.advance(path, key.table, following)
            spent_s = time.perf_counter() - begin_s
            kind = Duration.TIMELINE_REFRESH if isinstance(found, NothingNew) else Duration.PLAN
            self.keeper.observer.observe(kind, spent_s)
        except (StorageError, TableNotFound) as error:
            self._failed(key, error)
            return 0
        except PositionExpired as error:
            self._lost(key, number, following, on_lost, error)
            return 0
        except PenstockError as error:
            self._stop(key, number, start, error)
            return 0
        self._seen(key)
        match found:
            case NothingNew():
                self._idle[key] = (number, start, glances[path])
                self._tell(ev.NothingFound(key=key, number=number, start=start))
                return 0
            case NextRound():
                self._found(key, number, start, found)
                return 1

    def _found(self, key: GroupKey, number: int, start: Position, found: NextRound) -> None:
        plan = self.published(found.plan)
        event = ev.Discovered(
            key=key,
            number=number,
            start=start,
            commit_range=found.commit_range,
            progress=found.progress,
            facts=facts_of((split.size_bytes, split.partition, split.file_group) for split in plan.splits),
            reshaped=frozenset(map(hash_of, found.reshaped)),
            commits=found.commits,
        )
        plan_id = round_id(key, number, found.commit_range)
        self.keeper.handle(event, lambda state, answer: None, (plan_id, plan))
        tell(
            "round planned",
            table=key.table,
            group=key.group,
            plan=plan_id,
            after=found.commit_range.after,
            upto=found.commit_range.upto,
            splits=len(plan.splits),
            commits=found.commits,
        )

    def _lost(
        self, key: GroupKey, number: int, following: Following, on_lost: OnLostRange, error: PositionExpired
    ) -> None:
        """The range behind the position is gone: what the group's scope says is done, and always told."""
        start = following.progress.position
        if on_lost is OnLostRange.FAIL:
            self._stop(key, number, start, error)
            return
        try:
            path = self.path_of(key.table)
            behind = EARLIEST
            if on_lost is OnLostRange.EARLIEST:
                behind = self.follows.earliest(path, key.table, following.request)
            progress = self.follows.start(path, behind)
        except (StorageError, TableNotFound) as failed:
            self._failed(key, failed)
            return
        except PenstockError as failed:
            self._stop(key, number, start, failed)
            return
        if progress.position == start:
            self._stop(key, number, start, error)
            return
        tell(
            "range lost",
            level=logging.WARNING,
            table=key.table,
            group=key.group,
            after=start,
            goes_on_behind=progress.position,
            reason=str(error)[:500],
        )
        self._tell(ev.RangeLost(key=key, number=number, start=start, progress=progress))

    def _stop(self, key: GroupKey, number: int, start: Position, error: PenstockError) -> None:
        tell("group stopped", level=logging.ERROR, table=key.table, group=key.group, at=start, code=error.code,
             reason=str(error)[:1000])  # fmt: skip
        self._tell(ev.CannotGoOn(key=key, number=number, start=start, code=error.code, text=str(error)))

    def _failed(self, key: GroupKey, error: PenstockError) -> None:
        trouble = self.troubles.setdefault(key, Trouble())
        trouble.count += 1
        trouble.text = str(error)
        trouble.waiting = isinstance(error, TableNotFound)
        pause_ms = min(LONGEST_PAUSE_MS, 250 << min(trouble.count, 10))
        trouble.until_ms = self.clock_ms() + pause_ms
        tell(
            "table not there yet" if trouble.waiting else "discovery failed",
            level=logging.WARNING,
            table=key.table,
            group=key.group,
            failures=trouble.count,
            again_in_ms=pause_ms,
            reason=str(error)[:500],
        )

    def _seen(self, key: GroupKey) -> None:
        self.troubles.pop(key, None)
        self.looked_ms[key] = self.clock_ms()

    def _tell(self, event: ev.Event) -> None:
        self.keeper.handle(event, lambda state, answer: None)


class LookingThread:
    """Looks at tables and lets the keeper's time pass, every `interval_ms`, until it is stopped; at once when woken."""

    def __init__(self, looker: Looker, interval_ms: int) -> None:
        self._looker = looker
        self._interval_s = interval_ms / 1000
        self._wake = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="penstock-look", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def wake(self) -> None:
        """Has it look now."""
        self._wake.set()

    def stop(self) -> None:
        """Returns when the look that is under way is over."""
        self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended:
            try:
                self._looker.keeper.tick()
                found = self._looker.look()
            except PenstockError as error:  # the keeper's store failed: nothing more can be remembered
                tell("the service cannot go on", level=logging.CRITICAL, reason=str(error)[:1000])
                return
            if not found:
                self._wake.wait(self._interval_s)
            self._wake.clear()


def _following(group: Group) -> Following:
    return Following(request=group.scope.request, progress=group.progress, limits=group.limits, upto=group.scope.upto)


def _places(state: State) -> dict[GroupKey, tuple[Progress, Position]]:
    return {key: (group.progress, group.committed) for key, group in state.groups.items() if not group.ended}


def _is_close(lag: GroupLag) -> bool:
    few = lag.loss_commits is not None and lag.loss_commits <= CLOSE_COMMITS
    soon = lag.loss_seconds is not None and lag.loss_seconds <= CLOSE_SECONDS
    return lag.commits > 0 and (few or soon)
