"""The enumerator inside a process: `EmbeddedEnumerator`. The server offers the same over gRPC."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from penstock.enumerator.clocks import monotonic_ms
from penstock.enumerator.log import log_event
from penstock.enumerator.report_totals import total
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.enumerator.tables.registry import TableRegistry
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import PlanRequest
from penstock.proto.model.reports import OpenedPlan, SplitAnswer, SplitReport, TableDescription, TimelinePage
from penstock.proto.model.splits import Plan, Scan

if TYPE_CHECKING:
    from penstock.enumerator.coordinator.coordinator import Coordinator
    from penstock.enumerator.coordinator.held_plans import HeldPlans
    from penstock.enumerator.core.results import CoordinatorSettings
    from penstock.enumerator.observer import Observer
    from penstock.enumerator.tables.table_watch import CallLooks
    from penstock.proto.model.streams import NextBatch, StreamPoint, StreamScope, StreamStart


class TableReads(Protocol):
    """Reads of tables by path: `tables.open_tables.OpenTables`. Any thread."""

    def check(self, path: str, /) -> None:
        """Fails if no table can be opened at `path`."""
        ...

    def describe(self, path: str, /, name: str) -> TableDescription:
        """See `Enumerator.describe_table`."""
        ...

    def newest(self, path: str, /, after: Position | None, max_commits: int) -> Position:
        """See `Enumerator.newest_position`."""
        ...

    def instants(self, path: str, /, after: str, as_of: str, max_instants: int) -> TimelinePage:
        """See `Enumerator.list_instants`."""
        ...

    def plan(self, path: str, /, name: str, request: PlanRequest) -> Plan:
        """The plan of a request: same table state, same splits in the same order."""
        ...

    def start_stream(self, path: str, /, name: str, scope: StreamScope, start: StreamStart) -> StreamPoint:
        """See `Enumerator.start_stream`."""
        ...

    def next_batch(
        self, path: str, /, name: str, scope: StreamScope, point: StreamPoint, looks: CallLooks | None = None
    ) -> NextBatch:
        """See `Enumerator.next_batch`. `looks` are those that the call shares with other calls; None: it looks
        itself."""
        ...


def random_plan_id() -> str:
    """A unique plan id that cannot be guessed."""
    return uuid.uuid4().hex


def available_cpus() -> int:
    """CPUs this process may use, at least 1."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class EmbeddedEnumerator:
    """An `Enumerator` without a server: plans in this process and keeps the plans in its memory.

    `tables` maps names of tables to paths or URIs, or is a registry, whose tables may change. None: each name is a
    path itself, and plans and log lines have it without credentials (`redacted_uri`). With `tables` plans leave this
    process, so they contain no credentials of a URI (`uri_without_credentials`): readers have their own. `looks`
    returns the looks at a table, by name, that a call of a stream shares with others; None: each call looks itself.
    Clock, ids and CPUs are parameters for tests.
    Needs no closing. Plans are held while the object exists, and at most `settings.plan_ttl_ms` without use; with a
    `coordinator`, in its plan store.
    """

    def __init__(
        self,
        tables: Mapping[str, str] | TableRegistry | None = None,
        *,
        reads: TableReads | None = None,
        clock_ms: Callable[[], int] = monotonic_ms,
        new_id: Callable[[], str] = random_plan_id,
        cpus: int | None = None,
        settings: CoordinatorSettings | None = None,
        coordinator: Coordinator | None = None,
        observer: Observer | None = None,
        looks: Callable[[str], CallLooks] | None = None,
    ) -> None:
        self.tables = tables if isinstance(tables, TableRegistry) else TableRegistry(tables)
        self._reads: TableReads = OpenTables() if reads is None else reads
        self._clock_ms = clock_ms
        self._new_id = new_id
        self._observer, self._looks = observer, looks
        self._cpus = available_cpus() if cpus is None else cpus
        self._coordinator, self._settings = coordinator, settings
        self._lock = threading.Lock()
        self._held_plans: HeldPlans | None = None

    def check_tables(self) -> None:
        """Opens every registered table: a wrong path fails now, not at the first request."""
        for name in self.tables.names():
            self._reads.check(self.tables.path(name))

    def describe_table(self, table: str) -> TableDescription:
        """See `Enumerator.describe_table`."""
        return self._reads.describe(self.tables.path(table), self.tables.display_name(table))

    def newest_position(self, table: str, after: Position | None = None, max_commits: int = 0) -> Position:
        """See `Enumerator.newest_position`."""
        if max_commits < 0:
            raise ConfigurationError(f"cap on commits: got {max_commits}, expected 0 (no cap) or more")
        return self._reads.newest(self.tables.path(table), after, max_commits)

    def list_instants(self, table: str, *, after: str = "", as_of: str = "", max_instants: int = 0) -> TimelinePage:
        """See `Enumerator.list_instants`."""
        if max_instants < 0:
            raise ConfigurationError(f"cap on instants: got {max_instants}, expected 0 (no cap) or more")
        return self._reads.instants(self.tables.path(table), after, as_of, max_instants)

    def start_stream(self, scope: StreamScope, start: StreamStart) -> StreamPoint:
        """See `Enumerator.start_stream`."""
        table = scope.request.table
        return self._reads.start_stream(self.tables.path(table), self.tables.display_name(table), scope, start)

    def next_batch(self, scope: StreamScope, point: StreamPoint) -> NextBatch:
        """See `Enumerator.next_batch`."""
        from penstock.enumerator.observer import Duration, DurationMeasured, WatermarkPlanned  # late: few reads stream
        from penstock.proto.model.streams import END_OF_TIME_US

        table = scope.request.table
        begin_ms = self._clock_ms()
        looks = None if self._looks is None else self._looks(table)
        path, name = self.tables.path(table), self.tables.display_name(table)
        batch = self._reads.next_batch(path, name, scope, point, looks)
        if batch.point != point:
            waited_ms = 0 if looks is None else looks.waited_ms
            took = DurationMeasured(Duration.PLAN, (self._clock_ms() - begin_ms - waited_ms) / 1000)
            if self._observer is not None:
                self._observer.observe(took)
            at_us = batch.point.watermark.at_us
            if self._observer is not None and at_us is not None and at_us < END_OF_TIME_US:
                self._observer.observe(WatermarkPlanned(self.tables.display_name(table), at_us))
            log_event(
                "batch of a stream",
                table=self.tables.display_name(table),
                after=point.progress.position,
                upto=batch.point.progress.position,
                watermark_us=batch.point.watermark.at_us,
                ended=batch.point.ended,
            )
        return batch

    def plan(self, request: PlanRequest) -> Plan:
        """The plan of a request, which is not held: for a caller that distributes the splits itself."""
        if request.target_split_bytes <= 0:
            raise ConfigurationError(f"size of a split: got {request.target_split_bytes} bytes, expected at least 1")
        return self.tables.published(
            self._reads.plan(self.tables.path(request.table), self.tables.display_name(request.table), request)
        )

    def open_plan(self, request: PlanRequest, request_id: str = "") -> OpenedPlan:
        """See `Enumerator.open_plan`. A request id that opened a plan before gives that plan again."""
        return self._held.open_plan(request, request_id)

    def describe_plan(self, plan_id: str) -> Scan:
        """See `Enumerator.describe_plan`."""
        return self._held.describe_plan(plan_id)

    def next_split(self, plan_id: str, slot: int, index: int) -> SplitAnswer:
        """See `Enumerator.next_split`."""
        return self._held.next_split(plan_id, slot, index)

    def finish_split(self, plan_id: str, slot: int, index: int, report: SplitReport) -> None:
        """See `Enumerator.finish_split`."""
        self._held.finish_split(plan_id, slot, index, report)

    def reports(self, plan_id: str) -> dict[tuple[int, int], SplitReport]:
        """The reports of readers on the splits of a plan, by (slot, index). UnknownPlan as in `describe_plan`."""
        return self._held.reports(plan_id)

    def totals(self, plan_id: str) -> SplitReport:
        """The sum of `reports`; `max_event_time_us` is the highest."""
        return total(self.reports(plan_id).values())

    @property
    def _held(self) -> HeldPlans:
        """Created by the first call that holds a plan: a process that only plans never loads the coordinator."""
        with self._lock:
            if self._held_plans is None:
                from penstock.enumerator.coordinator.coordinator import Coordinator
                from penstock.enumerator.coordinator.held_plans import HeldPlans
                from penstock.enumerator.core.results import CoordinatorSettings
                from penstock.enumerator.observer import NO_OBSERVER

                coordinator = self._coordinator or Coordinator(
                    clock_ms=self._clock_ms, settings=self._settings or CoordinatorSettings()
                )
                self._held_plans = HeldPlans(
                    coordinator,
                    make_plan=self.plan,
                    display_name=self.tables.display_name,
                    clock_ms=self._clock_ms,
                    new_id=self._new_id,
                    cpus=self._cpus,
                    observer=self._observer or NO_OBSERVER,
                )
            return self._held_plans
