"""Discovers rounds of consumer groups: reads their tables and reports the next round to the coordinator.

Discovery of a group is retried if the table does not exist (yet), storage fails or denies access, or memory is short.
The delays double up to a minute, and the position of the group does not change. Every other Penstock error stops the
group with that error. Any other exception affects only its group: it is logged, counted and reported with the group,
and discovery is retried after a delay.
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
from penstock.enumerator.groups.open_rounds import OpenRounds, TableFiles, may_lose_rounds
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
"""Failed discoveries in a row; with their delays about half a minute."""


class GroupTables(TableFiles, Protocol):
    """Reads of tables for consumer groups, by path: `tables.followed_tables.FollowedTables`. Any thread."""

    def allow_topic(self, name: str, hybrid: Hybrid) -> None:
        """ConfigurationError if the topic of the table of that name cannot be reached from now on."""
        ...

    def probe(self, path: str) -> TableFingerprint:
        """A cheap fingerprint of the table, which changes with the table; take it before the table is read."""
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
        """The `lag` of each group, from one read of the table."""
        ...


@dataclass(slots=True)
class Trouble:
    """Failed discoveries of a group."""

    count: int = 0
    """Failures in a row."""
    until_ms: int = 0
    """When discovery is retried."""
    text: str = ""
    """Text of the last error."""
    code: str = ""
    """Code of the last error."""
    waiting: bool = False
    """Whether the table does not exist yet."""


@dataclass(slots=True)
class SplitDiscovery:
    """Discovery of the rounds of all groups. Any thread; one discovery per table at a time."""

    coordinator: Coordinator
    """Holds the state of the groups."""
    follows: GroupTables
    """Reads the tables."""
    path_of: Callable[[str], str]
    """The path of a table by name."""
    clock_ms: Callable[[], int]
    """The clock of intervals and delays."""
    published: Callable[[Plan], Plan] = lambda plan: plan
    """Removes credentials from a plan."""
    every_ms: dict[str, int] = field(default_factory=dict)
    """Interval of discovery in idle tables, by table; tables that are not listed are due at once."""
    troubles: dict[GroupKey, Trouble] = field(default_factory=dict)
    """Failed discoveries, by group."""
    discovered_ms: dict[GroupKey, int] = field(default_factory=dict)
    """When the last discovery succeeded, by group."""
    issued: dict[GroupKey, Issued] = field(default_factory=dict)
    """Newest instant of the newest round, by group."""
    running_since_ms: dict[str, int] = field(default_factory=dict)
    """When the running discovery began, by table."""
    _idle: dict[GroupKey, tuple[int, Position, TableFingerprint]] = field(default_factory=dict)
    _open: OpenRounds = field(init=False)

    def __post_init__(self) -> None:
        self._open = OpenRounds(self.coordinator, self.follows, self.clock_ms)

    def discover(self) -> int:
        """Discovers rounds in every table that is due, one after the other. Returns how many were planned."""
        return sum(self.discover_table(table) for table in self.due())

    def due(self) -> frozenset[str]:
        """The tables of groups whose discovery is due."""
        due_groups, known_groups = self.coordinator.read(
            lambda state: ((*self._due_groups(state), *self._with_rounds(state)), set(state.groups))
        )
        self._open.forget(known_groups)
        for by_group in (self.troubles, self._idle, self.discovered_ms, self.issued):
            for removed in set(by_group) - known_groups:
                by_group.pop(removed, None)
        return frozenset(key.table for key, *_ in due_groups)

    def discover_table(self, table: str) -> int:
        """Plans the next round of each group of the table. Returns how many were planned. One call at a time."""
        fingerprints: dict[str, TableFingerprint] = {}
        self.running_since_ms[table] = self.clock_ms()
        try:
            for item in self.coordinator.read(self._with_rounds):
                if item[0].table == table:
                    self._isolated(self._check_rounds, *item, fingerprints)
            due_groups = [item for item in self.coordinator.read(self._due_groups) if item[0].table == table]
            return sum(self._isolated(self._discover_round, *item, fingerprints) for item in due_groups)
        finally:
            self.running_since_ms.pop(table, None)

    def trouble_of(self, key: GroupKey) -> Trouble | None:
        """Why a group that is not stopped makes no progress: failed discoveries, or a discovery that does not end."""
        since_ms = self.running_since_ms.get(key.table)
        spent_ms = 0 if since_ms is None else self.clock_ms() - since_ms
        if spent_ms < SLOW_DISCOVERY_MS:
            return self.troubles.get(key)
        begun = f"table {key.table}: its discovery began {spent_ms // 1000} s ago and has not ended"
        return Trouble(text=f"{begun}: storage does not answer", code=StorageError.code)

    def _due_groups(self, state: State) -> list[tuple[GroupKey, int, Following, OnLostRange]]:
        now_ms = self.clock_ms()
        return [
            (key, group.number, _following(group), group.scope.on_lost_range)
            for key, group in state.groups.items()
            if needs_discovery(group, self.coordinator.settings) and self._is_due(key, group, now_ms)
        ]

    def _with_rounds(self, state: State) -> list[tuple[GroupKey, int, Following, OnLostRange]]:
        """Groups whose open rounds a cleaner may remove; also those that back-pressure pauses."""
        now_ms = self.clock_ms()
        return [
            (key, group.number, _following(group), group.scope.on_lost_range)
            for key, group in state.groups.items()
            if may_lose_rounds(group)
            and self.troubles.get(key, Trouble()).until_ms <= now_ms
            and self._open.is_due(key, self.every_ms.get(key.table, 0))
        ]

    def _is_due(self, key: GroupKey, group: Group, now_ms: int) -> bool:
        """After a failure: once its delay is over. Otherwise at once, or after the interval of an idle table."""
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
        fingerprints: dict[str, TableFingerprint],
    ) -> int:
        """Runs the step. Its exceptions affect only this group; raises only if the coordinator has lost its store."""
        try:
            return step(key, number, following, on_lost, fingerprints)
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
        fingerprints: dict[str, TableFingerprint],
    ) -> int:
        """Moves the group if a cleaner removed files of a planned round: no reader could ever finish it."""
        path = self.path_of(key.table)
        if path not in fingerprints:
            fingerprints[path] = self.follows.probe(path)
        lost = self._open.lost(key, path, fingerprints[path])
        if key in self.troubles and self.coordinator.read(lambda state: not self._needs_discovery(state, key)):
            self._succeeded(key)  # a paused group has no discovery that would clear its trouble
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

    def _discover_round(
        self,
        key: GroupKey,
        number: int,
        following: Following,
        on_lost: OnLostRange,
        fingerprints: dict[str, TableFingerprint],
    ) -> int:
        start, in_lake = following.progress.position, following.request.hybrid is None
        idle = self._idle.pop(key, None)
        try:
            path = self.path_of(key.table)
            if path not in fingerprints:
                fingerprints[path] = self.follows.probe(path)
            if (
                in_lake
                and idle is not None
                and idle[:2] == (number, start)
                and is_unchanged(idle[2], fingerprints[path])
            ):
                self._idle[key] = idle
                self._succeeded(key)
                return 0
            begin_s = time.perf_counter()
            discovery = self.follows.advance(path, key.table, following)
            spent_s = time.perf_counter() - begin_s
            kind = Duration.TIMELINE_REFRESH if isinstance(discovery, NothingNew) else Duration.PLAN
            self.coordinator.observer.observe(DurationMeasured(kind, spent_s))
        except PositionExpired as error:
            self._range_lost(key, number, following, on_lost, error)
            return 0
        except PenstockError as error:
            if is_repeated(error):
                raise
            if error.missing_file:
                self._retry_or_stop(key, number, start, error)
            else:
                self._stop(key, number, start, error)
            return 0
        if isinstance(discovery, NextRound):
            self._round_planned(key, number, start, discovery)
        else:
            if in_lake or following.drained:  # else the topic was not read: open rounds come first
                self.coordinator.handle(ev.NothingFound(key=key, number=number, start=start))
            self._idle[key] = (number, start, fingerprints[path])
        self._succeeded(key)
        return int(isinstance(discovery, NextRound))

    def _round_planned(self, key: GroupKey, number: int, start: Position, discovery: NextRound) -> None:
        plan = self.published(discovery.plan)
        event = ev.Discovered(
            key=key,
            number=number,
            start=start,
            commit_range=discovery.commit_range,
            progress=discovery.progress,
            facts=facts_of((split.size_bytes, split.partition, split.file_group) for split in plan.splits),
            reshaped=frozenset(map(hash_of, discovery.reshaped)),
            commits=discovery.commits,
        )
        plan_id = round_id(key, number, discovery.commit_range)
        self.coordinator.handle(event, (plan_id, plan))
        if discovery.issued is not None:
            self.issued[key] = discovery.issued
        discovered = RoundDiscovered(
            table=key.table,
            group=key.group,
            commits=discovery.commits,
            splits=len(plan.splits),
            size_bytes=sum(split.size_bytes for split in plan.splits),
            instant_ms=None if discovery.issued is None else discovery.issued.instant_ms,
        )
        self.coordinator.observer.observe(discovered)
        if discovery.lost_records:
            self.coordinator.observer.observe(RecordsExpired(key.table, key.group, discovery.lost_records))
        log_event("round planned", table=key.table, group=key.group, plan=plan_id,
                  after=discovery.commit_range.after, upto=discovery.commit_range.upto, splits=len(plan.splits),
                  commits=discovery.commits)  # fmt: skip

    def _range_lost(
        self, key: GroupKey, number: int, following: Following, on_lost: OnLostRange, error: PositionExpired
    ) -> None:
        """The range after the position is lost: moves or stops the group, as its scope says."""
        start = following.progress.position
        if on_lost is OnLostRange.FAIL or following.request.hybrid is not None:
            self._stop(key, number, start, error)
            return
        if on_lost is OnLostRange.EARLIEST and not following.drained:
            self._failed(key, error)  # the group moves past the lost range after its planned rounds are read
            return
        try:
            path = self.path_of(key.table)
            after = EARLIEST
            if on_lost is OnLostRange.EARLIEST:
                after = self.follows.earliest(path, key.table, following.request)
            progress = self.follows.start(path, after)
        except PenstockError as start_error:
            if is_repeated(start_error):
                raise
            self._stop(key, number, start, start_error)
            return
        if on_lost is OnLostRange.EARLIEST and progress.position <= start:
            self._retry_or_stop(key, number, start, error)
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

    def _retry_or_stop(self, key: GroupKey, number: int, start: Position, error: PenstockError) -> None:
        """Retries after contradictory reads; stops the group after MOST_CONTRADICTIONS in a row. Either the range was
        lost and could be planned a moment later, or a completed instant refers to a missing file that no service
        removed: the file may be invisible for a time (a stale listing, an upload, a restored backup)."""
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
        delay_ms = round(RETRY.backoff_ms(trouble.count, chance=0))
        trouble.until_ms = self.clock_ms() + delay_ms
        self.coordinator.observer.observe(DiscoveryFailed(key.table, key.group, trouble.code))
        log_event("table not there yet" if trouble.waiting else "discovery failed",
                  level=logging.WARNING if isinstance(error, PenstockError) else logging.ERROR,
                  table=key.table, group=key.group, failures=trouble.count, again_in_ms=delay_ms,
                  code=trouble.code, reason=trouble.text[:500],
                  exc_info=None if isinstance(error, PenstockError) else error)  # fmt: skip

    def _succeeded(self, key: GroupKey) -> None:
        self.troubles.pop(key, None)
        self.discovered_ms[key] = self.clock_ms()


def is_repeated(error: PenstockError) -> bool:
    """Whether a retry may succeed without a decision of an operator about the group."""
    return error.retryable or isinstance(error, StorageDenied | TableNotFound | OutOfMemory)


def _following(group: Group) -> Following:
    return Following(
        request=group.scope.request,
        progress=group.progress,
        limits=group.limits,
        upto=group.scope.upto,
        drained=not group.rounds,
    )
