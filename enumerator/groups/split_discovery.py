"""Discovers rounds of consumer groups: reads their tables and reports the next round to the coordinator.

An exception affects only its group; `discovery_failures` describes retries. `lost_ranges` moves groups past data that
a cleaner removed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from penstock.enumerator.continuous.change_probe import TableFingerprint, is_unchanged
from penstock.enumerator.continuous.types import Advance, Issued, NextRound, NothingNew, Progress
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.group_lifecycle import needs_discovery, round_id
from penstock.enumerator.core.records import UNKNOWN_SPAN, GroupKey
from penstock.enumerator.core.rounds import NO_ROWS
from penstock.enumerator.core.split_facts import facts_of, hash_of
from penstock.enumerator.core.state import Group, State
from penstock.enumerator.groups.discovery_failures import DiscoveryFailures, Trouble, is_repeated
from penstock.enumerator.groups.group_tables import FollowedGroup, GroupTables, followed
from penstock.enumerator.groups.lost_ranges import LostRanges
from penstock.enumerator.groups.open_rounds import OpenRounds, may_lose_rounds
from penstock.enumerator.log import log_event
from penstock.enumerator.observer import Duration, DurationMeasured, RecordsExpired, RoundDiscovered
from penstock.enumerator.tables.table_checks import SLOW_DISCOVERY_MS
from penstock.enumerator.tables.table_watch import WHOLE_INTERVAL, Look, TableWatch
from penstock.proto.errors import PenstockError, PositionExpired, StorageError, TableNotFound
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import PlanRequest, RoundLimits
from penstock.proto.model.splits import Plan
from penstock.proto.model.streams import EventTimeRule

_Scope = tuple[PlanRequest, Progress, RoundLimits, Position | None, EventTimeRule | None, int | None]
"""What the next round of a group in the lake depends on, besides the table."""


@dataclass(slots=True)
class _Visit:
    """One discovery of a table: what its groups share."""

    table: str
    """Name of the table."""
    seen: tuple[str, TableFingerprint] | None = None
    """The path of the table and what the look at it showed; None before the look."""
    groups: tuple[FollowedGroup, ...] = ()
    """The groups whose rounds are discovered."""
    asked: Counter[_Scope] | None = None
    """How many groups may still ask for the round of a scope; None until the first asks."""
    rounds: dict[_Scope, Advance] = field(default_factory=dict)
    """The rounds that other groups ask for too."""
    announced: list[Callable[[], None]] = field(default_factory=list)
    """Called once the planned rounds are durable."""


@dataclass(slots=True)
class SplitDiscovery:
    """Discovery of the rounds of all groups. Any thread; one discovery per table at a time.

    All groups of a table share one look at it, and groups of one scope at one position share one plan.
    """

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
    """Interval of looks at an idle table, by its name; 0: it is due at once."""
    chance: Callable[[], float] = WHOLE_INTERVAL
    """Spreads looks and measurements; see `TableWatch`."""
    watch: TableWatch | None = None
    """The looks at tables, which streams share; None: those of the groups only."""
    discovered_ms: dict[GroupKey, int] = field(default_factory=dict)
    """When the last discovery succeeded, by group."""
    issued: dict[GroupKey, Issued] = field(default_factory=dict)
    """Newest instant of the newest round, by group."""
    running_since_ms: dict[str, int] = field(default_factory=dict)
    """When the running discovery began, by table."""
    failures: DiscoveryFailures = field(init=False)
    """Failed discoveries of all groups."""
    _watch: TableWatch = field(init=False)
    _looks: dict[str, Look] = field(default_factory=dict)
    _idle: dict[GroupKey, tuple[int, Position, TableFingerprint]] = field(default_factory=dict)
    _open: OpenRounds = field(init=False)
    _lost: LostRanges = field(init=False)

    def __post_init__(self) -> None:
        self.failures = DiscoveryFailures(self.coordinator, self.clock_ms)
        self._watch = self.watch or TableWatch(lambda path: self.follows.probe(path), self.clock_ms, self.chance)
        self._open = OpenRounds(self.coordinator, self.follows, self.clock_ms)
        self._lost = LostRanges(self.coordinator, self.follows, self.path_of, self.failures)

    def discover(self) -> int:
        """Discovers rounds in every table that is due, one after the other. Returns how many were planned."""
        return sum(self.discover_table(table) for table in self.due())

    def due(self) -> frozenset[str]:
        """The tables of groups whose discovery is due."""
        now_ms = self.clock_ms()
        return frozenset(table for table, due_ms in self.due_times().items() if due_ms <= now_ms)

    def due_times(self) -> dict[str, int]:
        """When each table is due that groups follow. Forgets deleted groups."""

        def read(state: State) -> tuple[dict[str, int | None], set[GroupKey]]:
            return {table: self._due_ms(table, state) for table in state.names.of_table}, set(state.groups)

        times, groups = self.coordinator.peek(read)
        self._open.forget(groups)
        self._lost.forget(groups)
        for by_group in (self.failures.troubles, self._idle, self.discovered_ms, self.issued):
            for removed in set(by_group) - groups:
                by_group.pop(removed, None)
        for gone in set(self._looks) - times.keys():
            self._looks.pop(gone, None)
        return {table: due_ms for table, due_ms in times.items() if due_ms is not None}

    def due_ms(self, table: str) -> int | None:
        """When the table is due; None if no group needs it."""
        return self.coordinator.peek(lambda state: self._due_ms(table, state))

    def discover_table(self, table: str) -> int:
        """Plans the next round of each group of the table. Returns how many were planned. One call at a time."""
        self.running_since_ms[table] = self.clock_ms()
        try:
            visit = _Visit(table)
            for group in self.coordinator.peek(lambda state: tuple(self._with_rounds(table, state))):
                self._isolated(self._check_rounds, group, visit)
            visit.groups = self.coordinator.peek(lambda state: tuple(self._undelayed(table, state)))
            planned = sum(self._isolated(self._discover_round, group, visit) for group in visit.groups)
            if visit.announced:
                self.coordinator.settle()
                for announce in visit.announced:
                    announce()
            return planned
        finally:
            self.running_since_ms.pop(table, None)

    def tables_at(self, path: str) -> tuple[str, ...]:
        """The names of the tables at the path that were looked at."""

        def is_at(table: str) -> bool:
            try:
                return self.path_of(table) == path
            except TableNotFound:
                return False  # no longer served; its groups remain

        return tuple(table for table in tuple(self._looks) if is_at(table))

    def look(self, table: str) -> Look:
        """The last look at the table, or a new one if it is due. Errors of storage."""
        return self._watch.look(self.path_of(table), self.interval_ms(table))

    def trouble_of(self, key: GroupKey) -> Trouble | None:
        """Why a group that is not stopped makes no progress: failed discoveries, or a discovery that does not end."""
        since_ms = self.running_since_ms.get(key.table)
        spent_ms = 0 if since_ms is None else self.clock_ms() - since_ms
        if spent_ms < SLOW_DISCOVERY_MS:
            return self.failures.troubles.get(key)
        begun = f"table {key.table}: its discovery began {spent_ms // 1000} s ago and has not ended"
        return Trouble(text=f"{begun}: storage does not answer", code=StorageError.code)

    def _due_ms(self, table: str, state: State) -> int | None:
        groups = state.names.of_table.get(table, {}).items()
        times = (
            due_ms
            for key, group in groups
            for due_ms in (self._round_due_ms(key, group), self._check_due_ms(key, group))
            if due_ms is not None
        )
        return min(times, default=None)

    def _round_due_ms(self, key: GroupKey, group: Group) -> int | None:
        """At once, after the delay of a failure, or with the next look at a table that had nothing new."""
        if not needs_discovery(group, self.coordinator.settings):
            return None
        delayed_ms = self.failures.delayed_until_ms(key)
        idle, look = self._idle.get(key), self._looks.get(key.table)
        if look is None or idle is None or idle[:2] != (group.number, group.progress.position):
            return delayed_ms
        return max(delayed_ms, min(look.until_ms, look.at_ms + self.interval_ms(key.table)))

    def _check_due_ms(self, key: GroupKey, group: Group) -> int | None:
        """When the open rounds of the group are checked; None if no cleaner can remove them."""
        if not may_lose_rounds(group):
            return None
        return max(self.failures.delayed_until_ms(key), self._open.due_ms(key, self.interval_ms(key.table)))

    def _undelayed(self, table: str, state: State) -> Iterator[FollowedGroup]:
        """The groups of the table that need a round: also those that had nothing new, because they share the look."""
        now_ms = self.clock_ms()
        for key, group in state.names.of_table.get(table, {}).items():
            if needs_discovery(group, self.coordinator.settings) and not self.failures.is_delayed(key, now_ms):
                yield followed(key, group)

    def _with_rounds(self, table: str, state: State) -> Iterator[FollowedGroup]:
        """Groups whose open rounds a cleaner may remove; also those that back-pressure pauses."""
        now_ms = self.clock_ms()
        for key, group in state.names.of_table.get(table, {}).items():
            due_ms = self._check_due_ms(key, group)
            if due_ms is not None and due_ms <= now_ms:
                yield followed(key, group)

    def _seen(self, visit: _Visit) -> tuple[str, TableFingerprint]:
        """The path of the table, and what the look at it shows: one look for all groups."""
        if visit.seen is None:
            look = self._looks[visit.table] = self.look(visit.table)
            visit.seen = self.path_of(visit.table), look.fingerprint
        return visit.seen

    def _isolated(self, step: Callable[[FollowedGroup, _Visit], int], group: FollowedGroup, visit: _Visit) -> int:
        """Runs the step. Its exceptions affect only this group; raises only if the coordinator has lost its store."""
        try:
            return step(group, visit)
        except BaseException as error:
            if self.coordinator.lost is not None or isinstance(error, KeyboardInterrupt):
                raise
            self.failures.retry(group.key, error)
            return 0

    def _check_rounds(self, group: FollowedGroup, visit: _Visit) -> int:
        """Moves the group if a cleaner removed files of a planned round: no reader could ever finish it."""
        key = group.key
        path, fingerprint = self._seen(visit)
        lost = self._open.lost(key, path, fingerprint)
        if key in self.failures.troubles and self.coordinator.peek(lambda state: not self._needs_discovery(state, key)):
            self._succeeded(key)  # a paused group has no discovery that would clear its trouble
        if lost is not None:
            self._lost.skip_round(group, lost)
        return 0

    def _needs_discovery(self, state: State, key: GroupKey) -> bool:
        return key in state.groups and needs_discovery(state.groups[key], self.coordinator.settings)

    def _discover_round(self, group: FollowedGroup, visit: _Visit) -> int:
        key, number, start, following = group.key, group.number, group.start, group.following
        if group.at_newest or group.snapshot_scope is not None:
            return self._start(group)
        in_lake = following.request.hybrid is None
        idle = self._idle.pop(key, None)
        try:
            path, fingerprint = self._seen(visit)
            if in_lake and idle is not None and idle[:2] == (number, start) and is_unchanged(idle[2], fingerprint):
                self._idle[key] = (number, start, fingerprint)
                if group.has_idle_timeout:
                    self.coordinator.handle(ev.NothingFound(key=key, number=number, start=start))
                self._succeeded(key)
                return 0
            discovery = self._advance(path, group, visit)
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
            visit.announced.append(self._planned(group, discovery))
            times = discovery.event_times
            nothing_comes = times is None or times.coming == NO_ROWS
            if discovery.is_last and nothing_comes and in_lake and not group.has_idle_timeout:
                end = discovery.progress.position
                self.coordinator.post(ev.NothingFound(key=key, number=number, start=end))
                self._idle[key] = (number, end, fingerprint)
        else:
            if in_lake or following.drained:  # else the topic was not read: open rounds come first
                self.coordinator.post(ev.NothingFound(key=key, number=number, start=start))
            self._idle[key] = (number, start, fingerprint)
        self._succeeded(key)
        return int(isinstance(discovery, NextRound))

    def _start(self, group: FollowedGroup) -> int:
        """Reads where the group starts: after the newest instant, or with a snapshot. If files of the snapshot are
        cleaned meanwhile, the next try plans a newer one."""
        key, path = group.key, self.path_of(group.key.table)
        try:
            if group.snapshot_scope is None:
                progress = self.follows.start(path, None)
            else:
                progress = self.follows.start_snapshot(path, key.table, group.snapshot_scope)
        except TableNotFound:
            progress = Progress(EARLIEST)  # the group reads all of a table that is created later
        except PenstockError as error:
            if is_repeated(error) or isinstance(error, PositionExpired):
                raise
            self.failures.stop(group, error)
            return 0
        self.coordinator.handle(ev.Started(key, group.number, progress))
        self._succeeded(key)
        return 1

    def _advance(self, path: str, group: FollowedGroup, visit: _Visit) -> Advance:
        """The next round of the group. The table is read once for all groups of this visit that have equal scopes and
        progress: the round is the one that each of them would get at that time. Errors are not shared."""
        scope = _scope_of(group)
        if visit.asked is None:
            visit.asked = Counter(map(_scope_of, visit.groups))
        visit.asked[scope] -= 1
        shared = visit.rounds.get(scope)
        if shared is None:
            begin_s = time.perf_counter()
            shared = self.follows.advance(path, group.key.table, group.following)
            spent_s = time.perf_counter() - begin_s
            kind = Duration.TIMELINE_REFRESH if isinstance(shared, NothingNew) else Duration.PLAN
            self.coordinator.observer.observe(DurationMeasured(kind, spent_s))
        if visit.asked[scope] and group.following.request.hybrid is None:
            visit.rounds[scope] = shared
        else:
            visit.rounds.pop(scope, None)
        return shared

    def _planned(self, group: FollowedGroup, discovery: NextRound) -> Callable[[], None]:
        """Posts the round. Returns the function that announces it."""
        key = group.key
        plan, times = self.published(discovery.plan), discovery.event_times
        sized = ((split.size_bytes, split.partition, split.file_group) for split in plan.splits)
        event = ev.Discovered(
            key=key,
            number=group.number,
            start=group.start,
            commit_range=discovery.commit_range,
            progress=discovery.progress,
            facts=facts_of(sized, None if times is None else times.of_splits),
            reshaped=frozenset(map(hash_of, discovery.reshaped)),
            commits=discovery.commits,
            coming=UNKNOWN_SPAN if times is None else times.coming,
        )
        plan_id = round_id(key, group.number, discovery.commit_range)
        self.coordinator.post(event, (plan_id, plan))
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

        def announce() -> None:
            self.coordinator.observer.observe(discovered)
            if discovery.lost_records:
                self.coordinator.observer.observe(RecordsExpired(key.table, key.group, discovery.lost_records))
            log_event("round planned", table=key.table, group=key.group, plan=plan_id,
                      after=discovery.commit_range.after, upto=discovery.commit_range.upto, splits=discovered.splits,
                      commits=discovery.commits)  # fmt: skip

        return announce

    def _succeeded(self, key: GroupKey) -> None:
        self.failures.troubles.pop(key, None)
        self.discovered_ms[key] = self.clock_ms()


def _scope_of(group: FollowedGroup) -> _Scope:
    of = group.following
    return of.request, of.progress, of.limits, of.upto, of.rule, of.max_drift_us
