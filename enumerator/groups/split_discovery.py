"""Discovers rounds of consumer groups: reads their tables and reports the next round to the coordinator.

An exception affects only its group; `discovery_failures` describes retries. `lost_ranges` moves groups past data that
a cleaner removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from penstock.enumerator.continuous.change_probe import TableFingerprint, is_unchanged
from penstock.enumerator.continuous.types import Issued, NextRound, NothingNew
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.group_lifecycle import needs_discovery, round_id
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.split_facts import facts_of, hash_of
from penstock.enumerator.core.state import Group, State
from penstock.enumerator.groups.discovery_failures import DiscoveryFailures, Trouble, is_repeated
from penstock.enumerator.groups.group_tables import FollowedGroup, GroupTables, followed
from penstock.enumerator.groups.lost_ranges import LostRanges
from penstock.enumerator.groups.open_rounds import OpenRounds, may_lose_rounds
from penstock.enumerator.log import log_event
from penstock.enumerator.observer import Duration, DurationMeasured, RecordsExpired, RoundDiscovered
from penstock.enumerator.tables.table_checks import SLOW_DISCOVERY_MS
from penstock.proto.errors import PenstockError, PositionExpired, StorageError
from penstock.proto.model.positions import Position
from penstock.proto.model.splits import Plan


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
    interval_ms: Callable[[str], int] = lambda table: 0
    """Interval of discovery in an idle table, by its name; 0: it is due at once."""
    discovered_ms: dict[GroupKey, int] = field(default_factory=dict)
    """When the last discovery succeeded, by group."""
    issued: dict[GroupKey, Issued] = field(default_factory=dict)
    """Newest instant of the newest round, by group."""
    running_since_ms: dict[str, int] = field(default_factory=dict)
    """When the running discovery began, by table."""
    failures: DiscoveryFailures = field(init=False)
    """Failed discoveries of all groups."""
    _idle: dict[GroupKey, tuple[int, Position, TableFingerprint]] = field(default_factory=dict)
    _open: OpenRounds = field(init=False)
    _lost: LostRanges = field(init=False)

    def __post_init__(self) -> None:
        self.failures = DiscoveryFailures(self.coordinator, self.clock_ms)
        self._open = OpenRounds(self.coordinator, self.follows, self.clock_ms)
        self._lost = LostRanges(self.coordinator, self.follows, self.path_of, self.failures)

    def discover(self) -> int:
        """Discovers rounds in every table that is due, one after the other. Returns how many were planned."""
        return sum(self.discover_table(table) for table in self.due())

    def due(self) -> frozenset[str]:
        """The tables of groups whose discovery is due."""
        due_groups, known_groups = self.coordinator.read(
            lambda state: ((*self._due_groups(state), *self._with_rounds(state)), set(state.groups))
        )
        self._open.forget(known_groups)
        for by_group in (self.failures.troubles, self._idle, self.discovered_ms, self.issued):
            for removed in set(by_group) - known_groups:
                by_group.pop(removed, None)
        return frozenset(group.key.table for group in due_groups)

    def discover_table(self, table: str) -> int:
        """Plans the next round of each group of the table. Returns how many were planned. One call at a time."""
        fingerprints: dict[str, TableFingerprint] = {}
        self.running_since_ms[table] = self.clock_ms()
        try:
            for group in self.coordinator.read(lambda state: tuple(self._with_rounds(state))):
                if group.key.table == table:
                    self._isolated(self._check_rounds, group, fingerprints)
            due_groups = self.coordinator.read(lambda state: tuple(self._due_groups(state)))
            return sum(
                self._isolated(self._discover_round, group, fingerprints)
                for group in due_groups
                if group.key.table == table
            )
        finally:
            self.running_since_ms.pop(table, None)

    def trouble_of(self, key: GroupKey) -> Trouble | None:
        """Why a group that is not stopped makes no progress: failed discoveries, or a discovery that does not end."""
        since_ms = self.running_since_ms.get(key.table)
        spent_ms = 0 if since_ms is None else self.clock_ms() - since_ms
        if spent_ms < SLOW_DISCOVERY_MS:
            return self.failures.troubles.get(key)
        begun = f"table {key.table}: its discovery began {spent_ms // 1000} s ago and has not ended"
        return Trouble(text=f"{begun}: storage does not answer", code=StorageError.code)

    def _due_groups(self, state: State) -> Iterator[FollowedGroup]:
        now_ms = self.clock_ms()
        for key, group in state.groups.items():
            if needs_discovery(group, self.coordinator.settings) and self._is_due(key, group, now_ms):
                yield followed(key, group)

    def _with_rounds(self, state: State) -> Iterator[FollowedGroup]:
        """Groups whose open rounds a cleaner may remove; also those that back-pressure pauses."""
        now_ms = self.clock_ms()
        for key, group in state.groups.items():
            if not may_lose_rounds(group) or self.failures.is_delayed(key, now_ms):
                continue
            if self._open.is_due(key, self.interval_ms(key.table)):
                yield followed(key, group)

    def _is_due(self, key: GroupKey, group: Group, now_ms: int) -> bool:
        """After a failure: once its delay is over. Otherwise at once, or after the interval of an idle table."""
        if self.failures.is_delayed(key, now_ms):
            return False
        idle = self._idle.get(key)
        if idle is None or idle[:2] != (group.number, group.progress.position):
            return True
        return now_ms - self.discovered_ms.get(key, now_ms) >= self.interval_ms(key.table)

    def _isolated(
        self,
        step: Callable[[FollowedGroup, dict[str, TableFingerprint]], int],
        group: FollowedGroup,
        fingerprints: dict[str, TableFingerprint],
    ) -> int:
        """Runs the step. Its exceptions affect only this group; raises only if the coordinator has lost its store."""
        try:
            return step(group, fingerprints)
        except BaseException as error:
            if self.coordinator.lost is not None or isinstance(error, KeyboardInterrupt):
                raise
            self.failures.retry(group.key, error)
            return 0

    def _check_rounds(self, group: FollowedGroup, fingerprints: dict[str, TableFingerprint]) -> int:
        """Moves the group if a cleaner removed files of a planned round: no reader could ever finish it."""
        key = group.key
        path = self.path_of(key.table)
        if path not in fingerprints:
            fingerprints[path] = self.follows.probe(path)
        lost = self._open.lost(key, path, fingerprints[path])
        if key in self.failures.troubles and self.coordinator.read(lambda state: not self._needs_discovery(state, key)):
            self._succeeded(key)  # a paused group has no discovery that would clear its trouble
        if lost is not None:
            self._lost.skip_round(group, lost)
        return 0

    def _needs_discovery(self, state: State, key: GroupKey) -> bool:
        return key in state.groups and needs_discovery(state.groups[key], self.coordinator.settings)

    def _discover_round(self, group: FollowedGroup, fingerprints: dict[str, TableFingerprint]) -> int:
        key, number, start, following = group.key, group.number, group.start, group.following
        if group.at_newest:
            progress = self.follows.start(self.path_of(key.table), None)
            self.coordinator.handle(ev.Started(key, number, progress))
            self._succeeded(key)
            return 1
        in_lake = following.request.hybrid is None
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
            self._lost.skip_range(group, error)
            return 0
        except PenstockError as error:
            if is_repeated(error):
                raise
            if error.missing_file:
                self.failures.retry_or_stop(group, error)
            else:
                self.failures.stop(group, error)
            return 0
        if isinstance(discovery, NextRound):
            self._round_planned(group, discovery)
        else:
            if in_lake or following.drained:  # else the topic was not read: open rounds come first
                self.coordinator.handle(ev.NothingFound(key=key, number=number, start=start))
            self._idle[key] = (number, start, fingerprints[path])
        self._succeeded(key)
        return int(isinstance(discovery, NextRound))

    def _round_planned(self, group: FollowedGroup, discovery: NextRound) -> None:
        key = group.key
        plan = self.published(discovery.plan)
        event = ev.Discovered(
            key=key,
            number=group.number,
            start=group.start,
            commit_range=discovery.commit_range,
            progress=discovery.progress,
            facts=facts_of((split.size_bytes, split.partition, split.file_group) for split in plan.splits),
            reshaped=frozenset(map(hash_of, discovery.reshaped)),
            commits=discovery.commits,
        )
        plan_id = round_id(key, group.number, discovery.commit_range)
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

    def _succeeded(self, key: GroupKey) -> None:
        self.failures.troubles.pop(key, None)
        self.discovered_ms[key] = self.clock_ms()
