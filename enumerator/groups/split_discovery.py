"""Discovers rounds of consumer groups: reads their tables and reports the next round to the coordinator.

Shell: tables. Belongs here: when a table is due, and what each failure means for the group. Not here: threads
(`discovery_threads`), what a round is (`continuous`), whether it still counts (`core`).

A table that is not there (yet) is waited for. Where storage fails or refuses, or memory is short, the look is repeated
after pauses that double up to a minute; the position stands meanwhile. Everything else that cannot be planned stops
the group, with the error. Any other exception, of whatever class and from whichever step of a look, is trouble of that
group alone: it is logged, counted, shown with the group, and the look is repeated after a pause.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from penstock.enumerator.continuous.change_probe import TableFingerprint, is_unchanged
from penstock.enumerator.continuous.types import Advance, Following, Issued, NextRound, NothingNew, Progress
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.group_lifecycle import needs_discovery, round_id
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.split_facts import facts_of, hash_of
from penstock.enumerator.core.state import Group, State
from penstock.enumerator.groups.open_rounds import ChecksFiles, OpenRounds, may_lose_rounds
from penstock.enumerator.log import log_event
from penstock.enumerator.observer import DiscoveryFailed, Duration, DurationMeasured, RecordsExpired, RoundDiscovered
from penstock.enumerator.tables.table_checks import RETRY, SLOW_DISCOVERY_MS
from penstock.proto.errors import (
    OutOfMemory,
    PenstockError,
    PositionExpired,
    StorageDenied,
    StorageError,
    TableNotFound,
    code_and_text,
)
from penstock.proto.model.groups import GroupLag, OnLostRange
from penstock.proto.model.hybrid import Hybrid
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.splits import Plan

MOST_CONTRADICTIONS: Final = 6
"""Looks in a row, with their pauses about half a minute."""


class GroupTables(ChecksFiles, Protocol):
    """Reads of tables for consumer groups, by path: `tables.followed_tables.FollowedTables`. Any thread."""

    def allow_topic(self, name: str, hybrid: Hybrid) -> None:
        """ConfigurationError if the topic of the table of that name cannot be reached from now on."""
        ...

    def probe(self, path: str) -> TableFingerprint:
        """A cheap sign of whether the table changed; take it before the table is read."""
        ...

    def advance(self, path: str, name: str, following: Following) -> Advance:
        """See `continuous.advance`."""
        ...

    def earliest(self, path: str, name: str, request: PlanRequest) -> Position:
        """The earliest position from which the range up to now can be answered."""
        ...

    def start(self, path: str, position: Position | None) -> Progress:
        """See `continuous.advance.start_progress`."""
        ...

    def lag(self, path: str, progress: Progress, committed: Position) -> GroupLag:
        """See `continuous.retention.lag`."""
        ...

    def lags(self, path: str, places: Sequence[tuple[Progress, Position]]) -> list[GroupLag]:
        """`lag` of each, by one reading of the table."""
        ...


@dataclass(slots=True)
class Trouble:
    """Failed looks in a row, and when to look again."""

    count: int = 0
    until_ms: int = 0
    text: str = ""
    code: str = ""
    waiting: bool = False


@dataclass(slots=True)
class SplitDiscovery:
    """`path_of` turns a table's name into its path, `published` takes credentials out of a plan. `every_ms`: tables
    that are looked at less often than they are due. Any thread; a table is looked at by one at a time."""

    coordinator: Coordinator
    follows: GroupTables
    path_of: Callable[[str], str]
    clock_ms: Callable[[], int]
    published: Callable[[Plan], Plan] = lambda plan: plan
    every_ms: dict[str, int] = field(default_factory=dict)
    troubles: dict[GroupKey, Trouble] = field(default_factory=dict)
    discovered_ms: dict[GroupKey, int] = field(default_factory=dict)
    issued: dict[GroupKey, Issued] = field(default_factory=dict)
    running_since_ms: dict[str, int] = field(default_factory=dict)
    _idle: dict[GroupKey, tuple[int, Position, TableFingerprint]] = field(default_factory=dict)
    _open: OpenRounds = field(init=False)

    def __post_init__(self) -> None:
        self._open = OpenRounds(self.coordinator, self.follows, self.clock_ms)

    def discover(self) -> int:
        """Looks at every table that is due, one after the other; how many rounds were found."""
        return sum(self.discover_table(table) for table in self.due())

    def due(self) -> frozenset[str]:
        """The tables of groups that want a look now."""
        wanted, known = self.coordinator.read(
            lambda state: ((*self._wanted(state), *self._with_rounds(state)), set(state.groups))
        )
        self._open.forget(known)
        for noted in (self.troubles, self._idle, self.discovered_ms, self.issued):
            for gone in set(noted) - known:
                noted.pop(gone, None)
        return frozenset(key.table for key, *_ in wanted)

    def discover_table(self, table: str) -> int:
        """Discovers the next round of each group of the table. Returns how many were planned. One call per table at a
        time."""
        glances: dict[str, TableFingerprint] = {}
        self.running_since_ms[table] = self.clock_ms()
        try:
            for item in self.coordinator.read(self._with_rounds):
                if item[0].table == table:
                    self._isolated(self._check_rounds, *item, glances)
            wanted = [item for item in self.coordinator.read(self._wanted) if item[0].table == table]
            return sum(self._isolated(self._look_for, *item, glances) for item in wanted)
        finally:
            self.running_since_ms.pop(table, None)

    def trouble_of(self, key: GroupKey) -> Trouble | None:
        """Why the group does not go on, as far as it is not stopped: failed looks, or a look that does not end."""
        since_ms = self.running_since_ms.get(key.table)
        spent_ms = 0 if since_ms is None else self.clock_ms() - since_ms
        if spent_ms < SLOW_DISCOVERY_MS:
            return self.troubles.get(key)
        begun = f"table {key.table}: the look at it began {spent_ms // 1000} s ago and has not ended"
        return Trouble(text=f"{begun}: storage does not answer", code=StorageError.code)

    def _wanted(self, state: State) -> list[tuple[GroupKey, int, Following, OnLostRange]]:
        now_ms = self.clock_ms()
        return [
            (key, group.number, _following(group), group.scope.on_lost_range)
            for key, group in state.groups.items()
            if needs_discovery(group, self.coordinator.settings) and self._is_due(key, group, now_ms)
        ]

    def _with_rounds(self, state: State) -> list[tuple[GroupKey, int, Following, OnLostRange]]:
        """Groups whose open rounds a cleaner may take; also those that back-pressure pauses."""
        now_ms = self.clock_ms()
        return [
            (key, group.number, _following(group), group.scope.on_lost_range)
            for key, group in state.groups.items()
            if may_lose_rounds(group)
            and self.troubles.get(key, Trouble()).until_ms <= now_ms
            and self._open.is_due(key, self.every_ms.get(key.table, 0))
        ]

    def _is_due(self, key: GroupKey, group: Group, now_ms: int) -> bool:
        """After a failure not before its pause; else what nobody read yet at once, an idle table by its interval."""
        if self.troubles.get(key, Trouble()).until_ms > now_ms:
            return False
        idle = self._idle.get(key)
        if idle is None or idle[:2] != (group.number, group.progress.position):
            return True
        return now_ms - self.discovered_ms.get(key, now_ms) >= self.every_ms.get(key.table, 0)

    def _isolated(
        self,
        step: Callable[[GroupKey, int, Following, OnLostRange, dict[str, TableFingerprint]], int],
        key: GroupKey,
        number: int,
        following: Following,
        on_lost: OnLostRange,
        glances: dict[str, TableFingerprint],
    ) -> int:
        """The step, whose exceptions are this group's trouble. Raises only if the coordinator has lost its store."""
        try:
            return step(key, number, following, on_lost, glances)
        except BaseException as error:
            if self.coordinator.lost is not None or isinstance(error, KeyboardInterrupt):
                raise
            self._failed(key, error)
            return 0

    def _check_rounds(
        self,
        key: GroupKey,
        number: int,
        following: Following,
        on_lost: OnLostRange,
        glances: dict[str, TableFingerprint],
    ) -> int:
        """Moves the group if a cleaner took files of a round that was planned: no reader could ever finish it."""
        path = self.path_of(key.table)
        if path not in glances:
            glances[path] = self.follows.probe(path)
        lost = self._open.lost(key, path, glances[path])
        if key in self.troubles and self.coordinator.read(lambda state: not self._needs_discovery(state, key)):
            self._seen(key)  # no other look of a paused group would say that storage answers again
        if lost is None:
            return 0
        after = EARLIEST
        if on_lost is OnLostRange.EARLIEST:
            after = max(self.follows.earliest(path, key.table, following.request), lost.committed)
        progress = self.follows.start(path, after)
        reason = f"file {lost.file} of the planned round {lost.plan_id} is gone"
        self._move(key, number, following.progress.position, progress, reason, lost.plan_id)
        return 0

    def _needs_discovery(self, state: State, key: GroupKey) -> bool:
        return key in state.groups and needs_discovery(state.groups[key], self.coordinator.settings)

    def _look_for(
        self,
        key: GroupKey,
        number: int,
        following: Following,
        on_lost: OnLostRange,
        glances: dict[str, TableFingerprint],
    ) -> int:
        start, in_lake = following.progress.position, following.request.hybrid is None
        idle = self._idle.pop(key, None)
        try:
            path = self.path_of(key.table)
            if path not in glances:
                glances[path] = self.follows.probe(path)
            if in_lake and idle is not None and idle[:2] == (number, start) and is_unchanged(idle[2], glances[path]):
                self._idle[key] = idle
                self._seen(key)
                return 0
            begin_s = time.perf_counter()
            found = self.follows.advance(path, key.table, following)
            spent_s = time.perf_counter() - begin_s
            kind = Duration.TIMELINE_REFRESH if isinstance(found, NothingNew) else Duration.PLAN
            self.coordinator.observer.observe(DurationMeasured(kind, spent_s))
        except PositionExpired as error:
            self._lost(key, number, following, on_lost, error)
            return 0
        except PenstockError as error:
            if is_repeated(error):
                raise
            if error.missing_file:
                self._contradicted(key, number, start, error)
            else:
                self._stop(key, number, start, error)
            return 0
        if isinstance(found, NextRound):
            self._found(key, number, start, found)
        else:
            if in_lake or following.drained:  # else the topic was not asked: what is held must be done first
                self.coordinator.handle(ev.NothingFound(key=key, number=number, start=start))
            self._idle[key] = (number, start, glances[path])
        self._seen(key)
        return int(isinstance(found, NextRound))

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
        self.coordinator.handle(event, (plan_id, plan))
        if found.issued is not None:
            self.issued[key] = found.issued
        discovered = RoundDiscovered(
            table=key.table,
            group=key.group,
            commits=found.commits,
            splits=len(plan.splits),
            size_bytes=sum(split.size_bytes for split in plan.splits),
            instant_ms=None if found.issued is None else found.issued.instant_ms,
        )
        self.coordinator.observer.observe(discovered)
        if found.lost_records:
            self.coordinator.observer.observe(RecordsExpired(key.table, key.group, found.lost_records))
        log_event("round planned", table=key.table, group=key.group, plan=plan_id,
                  after=found.commit_range.after, upto=found.commit_range.upto, splits=len(plan.splits),
                  commits=found.commits)  # fmt: skip

    def _lost(
        self, key: GroupKey, number: int, following: Following, on_lost: OnLostRange, error: PositionExpired
    ) -> None:
        """The range after the position is lost: acts as the group's scope says, and always logs it."""
        start = following.progress.position
        if on_lost is OnLostRange.FAIL or following.request.hybrid is not None:
            self._stop(key, number, start, error)
            return
        if on_lost is OnLostRange.EARLIEST and not following.drained:
            self._failed(key, error)  # what is planned can be read: it is, before the group moves past what is lost
            return
        try:
            path = self.path_of(key.table)
            after = EARLIEST
            if on_lost is OnLostRange.EARLIEST:
                after = self.follows.earliest(path, key.table, following.request)
            progress = self.follows.start(path, after)
        except PenstockError as failed:
            if is_repeated(failed):
                raise
            self._stop(key, number, start, failed)
            return
        if on_lost is OnLostRange.EARLIEST and progress.position <= start:
            self._contradicted(key, number, start, error)
            return
        if progress.position == start:
            self._stop(key, number, start, error)
            return
        self._move(key, number, start, progress, str(error))

    def _move(
        self, key: GroupKey, number: int, start: Position, progress: Progress, reason: str, plan_id: str = ""
    ) -> None:
        log_event("range lost", level=logging.WARNING, table=key.table, group=key.group, after=start,
                  goes_on_behind=progress.position, reason=reason[:500])  # fmt: skip
        self.coordinator.handle(ev.RangeLost(key=key, number=number, start=start, progress=progress, plan_id=plan_id))

    def _contradicted(self, key: GroupKey, number: int, start: Position, error: PenstockError) -> None:
        """The table says that the range is lost, and a moment later that it can be answered; or a completed instant
        names a file that is not there, and nothing took it. A file may be out of sight (a stale listing, an upload, a
        restored backup): the position stands; after MOST_CONTRADICTIONS looks in a row the group stops."""
        trouble = self.troubles.get(key, Trouble())
        if trouble.code == error.code and trouble.count >= MOST_CONTRADICTIONS:
            self._stop(key, number, start, error)
        else:
            self._failed(key, error)

    def _stop(self, key: GroupKey, number: int, start: Position, error: PenstockError) -> None:
        log_event("group stopped", level=logging.ERROR, table=key.table, group=key.group, at=start,
                  code=error.code, reason=str(error)[:1000])  # fmt: skip
        self.coordinator.handle(ev.CannotGoOn(key=key, number=number, start=start, code=error.code, text=str(error)))
        self.coordinator.observer.observe(DiscoveryFailed(key.table, key.group, error.code))

    def _failed(self, key: GroupKey, error: BaseException) -> None:
        trouble = self.troubles.setdefault(key, Trouble())
        trouble.count += 1
        trouble.code, trouble.text = code_and_text(error)
        trouble.waiting = isinstance(error, TableNotFound)
        pause_ms = round(RETRY.backoff_ms(trouble.count, chance=0))
        trouble.until_ms = self.clock_ms() + pause_ms
        self.coordinator.observer.observe(DiscoveryFailed(key.table, key.group, trouble.code))
        log_event("table not there yet" if trouble.waiting else "discovery failed",
                  level=logging.WARNING if isinstance(error, PenstockError) else logging.ERROR,
                  table=key.table, group=key.group, failures=trouble.count, again_in_ms=pause_ms,
                  code=trouble.code, reason=trouble.text[:500],
                  exc_info=None if isinstance(error, PenstockError) else error)  # fmt: skip

    def _seen(self, key: GroupKey) -> None:
        self.troubles.pop(key, None)
        self.discovered_ms[key] = self.clock_ms()


def is_repeated(error: PenstockError) -> bool:
    """Whether what failed so may succeed later without a person's decision about the group."""
    return error.retryable or isinstance(error, StorageDenied | TableNotFound | OutOfMemory)


def _following(group: Group) -> Following:
    return Following(
        request=group.scope.request,
        progress=group.progress,
        limits=group.limits,
        upto=group.scope.upto,
        drained=not group.rounds,
    )
