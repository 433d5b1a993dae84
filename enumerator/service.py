"""The enumerator as a service: plans and consumer groups on one coordinator, and the threads that discover splits.

`EnumeratorService` composes the parts and passes each call to one of them: `EmbeddedEnumerator` (plans),
`ConsumerGroups` (groups).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from typing import Final

from penstock.enumerator.catalog.administration import TableAdministration
from penstock.enumerator.catalog.catalogs import Catalogs
from penstock.enumerator.clocks import monotonic_ms, wall_ms
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.embedded import EmbeddedEnumerator, TableReads, random_plan_id
from penstock.enumerator.groups.activity import Activity
from penstock.enumerator.groups.aligned_groups import AlignedGroups
from penstock.enumerator.groups.consumer_groups import ConsumerGroups
from penstock.enumerator.groups.discovery_threads import DiscoveryThreads
from penstock.enumerator.groups.group_tables import GroupTables
from penstock.enumerator.groups.split_discovery import SplitDiscovery
from penstock.enumerator.service_splits.hand_out import NO_TABLE_SERVICES, ServiceHandOut, TableServices
from penstock.enumerator.streams.alignment_sets import AlignmentSets
from penstock.enumerator.streams.stream_monitor import StreamMonitor
from penstock.enumerator.streams.stream_registry import StreamRegistry
from penstock.enumerator.tables.followed_tables import FollowedTables
from penstock.enumerator.tables.inotify import open_inotify
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.enumerator.tables.registry import RegistryChange, TableRegistry
from penstock.enumerator.tables.table_checks import TableChecks
from penstock.enumerator.tables.table_watch import WHOLE_INTERVAL, CallLooks, TableWatch
from penstock.enumerator.tables.timeline_watcher import FolderEvents, TimelineWatcher
from penstock.enumerator.tick_thread import TickThread
from penstock.enumerator.writes.table_timeline import Timelines
from penstock.enumerator.writes.transactions import WriteTransactions
from penstock.proto.errors import code_and_text
from penstock.proto.model.catalogs import CatalogStatus, ServedTable, TableList
from penstock.proto.model.groups import (
    GroupAnswer,
    GroupDescription,
    GroupSpec,
    GroupStart,
    GroupSummary,
    Joined,
    Member,
    ResetOutcome,
    ServerStatus,
    SplitProgress,
)
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.reports import OpenedPlan, SplitAnswer, SplitReport, TableDescription, TimelinePage
from penstock.proto.model.splits import Plan, Scan
from penstock.proto.model.streams import NextBatch, StreamPoint, StreamScope, StreamStart

POLL_MS = 1_000


WRITES_TICK_S: Final = 2.0
"""How often write transactions go on without calls."""


class EnumeratorService:
    """An `Enumerator`, a `GroupService` and a `TableService`. With a durable coordinator it continues where the last
    process ended.

    `start` begins discovery for the groups, `stop` ends it. With `poll_ms` None there are no threads: call
    `split_discovery.discover` and `coordinator.tick`. `poll_ms` is the shortest interval; those of the tables are in
    the registry, whose tables may change while the service runs. `reads` and `follows` are the reads of tables for
    plans and for groups. `catalogs` are listed on request; whoever passes them starts and stops them. `add_from`: see
    `Settings.add_from`. `timelines`: see `WriteTransactions`; `services`: see `ServiceHandOut`. `activity` is shown by
    `describe_server`: the caller that passes a `coordinator` makes the activity one of its observers. `folder_events`
    opens the source of events of local folders (`TimelineWatcher`).
    """

    def __init__(
        self,
        tables: Mapping[str, str] | TableRegistry | None = None,
        *,
        reads: TableReads | None = None,
        follows: GroupTables | None = None,
        clock_ms: Callable[[], int] = monotonic_ms,
        new_id: Callable[[], str] = random_plan_id,
        cpus: int | None = None,
        coordinator: Coordinator | None = None,
        poll_ms: int | None = POLL_MS,
        activity: Activity | None = None,
        catalogs: Catalogs | None = None,
        add_from: tuple[str, ...] | None = None,
        timelines: Timelines | None = None,
        services: TableServices = NO_TABLE_SERVICES,
        folder_events: Callable[[], FolderEvents | None] = open_inotify,
    ) -> None:
        if reads is None or follows is None:
            open_tables = reads if isinstance(reads, OpenTables) else OpenTables()
            reads, follows = reads or open_tables, follows or FollowedTables(open_tables)
        self.activity = activity or Activity(wall_ms, threading.Lock())
        settings = CoordinatorSettings()
        self.coordinator = coordinator or Coordinator(clock_ms=clock_ms, settings=settings, observer=self.activity)
        chance = WHOLE_INTERVAL if poll_ms is None else random.Random().random
        self.watch = watch = TableWatch(lambda path: follows.probe(path), clock_ms, chance)
        self.plans = EmbeddedEnumerator(
            tables,
            reads=reads,
            clock_ms=clock_ms,
            new_id=new_id,
            cpus=cpus,
            coordinator=self.coordinator,
            observer=self.coordinator.observer,
            looks=self._looks,
        )
        self.tables = names = self.plans.tables
        self.split_discovery = SplitDiscovery(
            self.coordinator, follows, names.path, clock_ms, names.published, names.interval_ms, chance, watch
        )
        check, observer = reads.check, self.coordinator.observer
        self.checks = TableChecks(names.names, lambda name: check(names.path(name)), clock_ms, observer)
        self.streams, self.alignment_sets = StreamRegistry(clock_ms), AlignmentSets(clock_ms)
        self.stream_monitor = StreamMonitor(
            self.streams, lambda name, readers: follows.lags(names.path(name), readers), clock_ms, observer
        )
        aligned = AlignedGroups(self.coordinator, self.alignment_sets)
        shared = (self.checks, self.stream_monitor, aligned, names.names)
        self._threads = None if poll_ms is None else DiscoveryThreads(self.split_discovery, poll_ms, *shared)
        self.groups = ConsumerGroups(
            self.coordinator,
            names,
            self.split_discovery,
            self.checks,
            self.activity,
            clock_ms,
            aligned,
            self._wake,
            self.streams.statuses,
            (lambda: ()) if catalogs is None else catalogs.statuses,
        )
        self.administration = TableAdministration(
            names, self.coordinator, self.checks, check, catalogs, add_from, self._wake
        )
        self.administration.restore()
        self.writes = WriteTransactions(self.coordinator, names.path, timelines, clock_ms)
        self.service_splits = ServiceHandOut(self.coordinator, names, services, self.streams.statuses, clock_ms)
        self._watcher = self._timeline_watcher(folder_events)
        self._ticking = [] if poll_ms is None else self._tick_threads(timelines, services)

    def _looks(self, table: str) -> CallLooks:
        """The looks at a table, shared with its groups and other streams, for a call that arrives now."""
        return CallLooks(self.watch, self.tables.path(table), self.tables.interval_ms(table))

    def _timeline_watcher(self, folder_events: Callable[[], FolderEvents | None]) -> TimelineWatcher:
        """Watches the timelines of tables after each look, if there are threads that look again."""
        watcher = TimelineWatcher(folder_events, self._table_changed, measured=self.coordinator.observer.observe)
        if self._threads is not None:
            self.watch.follow = self._follow
            self.tables.subscribe(self._forget)
        return watcher

    def _follow(self, path: str, timeline_folder: str) -> None:
        """Watches the timeline of a table after a look, unless it was removed during the look."""
        self._watcher.follow(path, timeline_folder)
        if not self.tables.serves(path):
            self._watcher.forget(path)

    def _forget(self, change: RegistryChange) -> None:
        """Ends the watches of paths that are no longer served."""
        for entry in (*change.removed, *(before for before, _ in change.changed)):
            if not self.tables.serves(entry.path):
                self._watcher.forget(entry.path)

    def _tick_threads(self, timelines: Timelines | None, services: TableServices) -> list[TickThread]:
        threads = []
        if timelines is not None:
            threads.append(TickThread("penstock-writes", self.writes.tick, WRITES_TICK_S))
            threads.append(TickThread("penstock-heartbeats", self.writes.beat, WRITES_TICK_S))
        if services.due is not None:
            thread = TickThread("penstock-services", self.service_splits.tick, min(1.0, services.limits.look_ms / 1000))
            self.service_splits.wake = thread.wake
            threads.append(thread)
        return threads

    # --- threads

    def on_trouble(self, call: Callable[[str], object]) -> None:
        """`call` receives the reason when a background thread does not make progress, and '' once all of them do."""
        if self._threads is not None:
            self._threads.on_trouble = call

    def check_threads(self) -> None:
        """Restarts background threads that have ended. Call it from time to time; the threads check each other too."""
        if self._threads is not None:
            self._threads.check()

    def start(self) -> None:
        """Begins discovery for the groups, and goes on with the writes of the process before."""
        if self._ticking:
            self.writes.recover()
        for thread in self._ticking:
            thread.start()
        if self._threads is not None:
            self._threads.start()

    def stop(self) -> None:
        """Ends discovery; discoveries under way are completed."""
        for thread in self._ticking:
            thread.stop()
        self.service_splits.close()
        self._watcher.close()
        if self._threads is not None:
            self._threads.stop()

    def _table_changed(self, path: str) -> None:
        """Makes the next look at the table earlier: its timeline may have a new completed instant."""
        due_ms = self.watch.changed(path)
        if due_ms is not None and self._threads is not None:
            for table in self.split_discovery.tables_at(path):
                self._threads.hasten(table, due_ms)

    def _wake(self) -> None:
        if self._threads is not None:
            self._threads.wake()

    # --- plans: see `Enumerator`

    def check_tables(self) -> None:
        """See `EmbeddedEnumerator.check_tables`."""
        self.plans.check_tables()

    def describe_table(self, table: str) -> TableDescription:
        """See `Enumerator.describe_table`."""
        return self.plans.describe_table(table)

    def newest_position(self, table: str, after: Position | None = None, max_commits: int = 0) -> Position:
        """See `Enumerator.newest_position`."""
        return self.plans.newest_position(table, after, max_commits)

    def list_instants(self, table: str, *, after: str = "", as_of: str = "", max_instants: int = 0) -> TimelinePage:
        """See `Enumerator.list_instants`."""
        return self.plans.list_instants(table, after=after, as_of=as_of, max_instants=max_instants)

    def start_stream(self, scope: StreamScope, start: StreamStart) -> StreamPoint:
        """See `Enumerator.start_stream`. The stream is registered."""
        point = self.plans.start_stream(scope, start)
        self.streams.started(scope, point)
        return point

    def next_batch(self, scope: StreamScope, point: StreamPoint) -> NextBatch:
        """See `Enumerator.next_batch`. The stream is registered, also if the call fails."""
        self.tables.path(scope.request.table)  # a stream of an unknown table is not registered
        try:
            if scope.alignment is None:
                batch = self.plans.next_batch(scope, point)
            else:
                scope, batch = self.alignment_sets.next_batch(scope, scope.alignment, point, self.plans.next_batch)
        except Exception as error:
            self.streams.failed(scope, point, code_and_text(error)[0])
            raise
        self.streams.answered(scope, point, batch)
        return batch

    def plan(self, request: PlanRequest) -> Plan:
        """See `EmbeddedEnumerator.plan`."""
        return self.plans.plan(request)

    def open_plan(self, request: PlanRequest, request_id: str = "") -> OpenedPlan:
        """See `Enumerator.open_plan`."""
        return self.plans.open_plan(request, request_id)

    def describe_plan(self, plan_id: str) -> Scan:
        """See `Enumerator.describe_plan`."""
        return self.plans.describe_plan(plan_id)

    def next_split(self, plan_id: str, slot: int, index: int) -> SplitAnswer:
        """See `Enumerator.next_split`."""
        return self.plans.next_split(plan_id, slot, index)

    def finish_split(self, plan_id: str, slot: int, index: int, report: SplitReport) -> None:
        """See `Enumerator.finish_split`."""
        self.plans.finish_split(plan_id, slot, index, report)

    def reports(self, plan_id: str) -> dict[tuple[int, int], SplitReport]:
        """See `EmbeddedEnumerator.reports`."""
        return self.plans.reports(plan_id)

    def totals(self, plan_id: str) -> SplitReport:
        """See `EmbeddedEnumerator.totals`."""
        return self.plans.totals(plan_id)

    # --- tables: see `TableService`

    def list_tables(self, pattern: str = "*", *, catalogs: bool = False) -> TableList:
        """See `TableService.list_tables`."""
        return self.administration.list_tables(pattern, catalogs=catalogs)

    def add_table(self, table: str, path: str, *, poll_interval_ms: int = 0, principal: str = "") -> ServedTable:
        """See `TableService.add_table`."""
        return self.administration.add_table(table, path, poll_interval_ms=poll_interval_ms, principal=principal)

    def remove_table(self, table: str) -> None:
        """See `TableService.remove_table`."""
        self.administration.remove_table(table)

    def refresh_tables(self, catalog: str = "") -> tuple[CatalogStatus, ...]:
        """See `TableService.refresh_tables`."""
        return self.administration.refresh_tables(catalog)

    # --- groups: see `GroupService`

    def join_group(self, group: str, reader_id: str, spec: GroupSpec, request_id: str) -> Joined:
        """See `GroupService.join_group`."""
        return self.groups.join_group(group, reader_id, spec, request_id)

    def heartbeat(self, member: Member) -> int:
        """See `GroupService.heartbeat`."""
        return self.groups.heartbeat(member)

    def request_splits(
        self,
        member: Member,
        max_splits: int,
        sequence: int,
        without: tuple[str, ...] = (),
        received: int | None = None,
        wait_ms: int = 0,
    ) -> GroupAnswer:
        """See `GroupService.request_splits`."""
        return self.groups.request_splits(member, max_splits, sequence, without, received, wait_ms)

    def commit_splits(self, member: Member, done: tuple[SplitProgress, ...]) -> None:
        """See `GroupService.commit_splits`."""
        self.groups.commit_splits(member, done)

    def leave_group(self, member: Member) -> None:
        """See `GroupService.leave_group`."""
        self.groups.leave_group(member)

    def list_groups(self, table: str = "") -> tuple[GroupSummary, ...]:
        """See `GroupService.list_groups`."""
        return self.groups.list_groups(table)

    def describe_group(self, table: str, group: str) -> GroupDescription:
        """See `GroupService.describe_group`."""
        return self.groups.describe_group(table, group)

    def reset_group(self, table: str, group: str, start: GroupStart, *, dry_run: bool) -> ResetOutcome:
        """See `GroupService.reset_group`."""
        return self.groups.reset_group(table, group, start, dry_run=dry_run)

    def delete_group(self, table: str, group: str) -> None:
        """See `GroupService.delete_group`."""
        self.groups.delete_group(table, group)

    def describe_server(self, table: str = "") -> ServerStatus:
        """See `GroupService.describe_server`."""
        return self.groups.describe_server(table)
