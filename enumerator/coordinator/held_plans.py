"""Held plans, which readers pull split by split: the plan API over a coordinator."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.events import FinishEntry, NextEntry, OpenPlan, UsePlan
from penstock.enumerator.core.plans import opened_by
from penstock.enumerator.core.records import PlanQuery, QueryKind
from penstock.enumerator.core.results import PlanHeld
from penstock.enumerator.core.slot_assigner import Assigned, choose_slots
from penstock.enumerator.core.split_facts import sizes_alone
from penstock.enumerator.log import log_event
from penstock.enumerator.observer import (
    Duration,
    DurationMeasured,
    Observer,
    SplitEvent,
    SplitKind,
    SplitReported,
    SplitsCounted,
)
from penstock.proto.codec.serialized import encode_request
from penstock.proto.errors import ConfigurationError, UnknownPlan
from penstock.proto.model.queries import (
    Changes,
    Incremental,
    PlanRequest,
    Query,
    ReadOptimized,
    Snapshot,
    SnapshotAsOf,
    SnapshotPart,
    TopicRanges,
)
from penstock.proto.model.reports import EndOfSlot, NextSplit, OpenedPlan, SplitAnswer, SplitReport
from penstock.proto.model.splits import Plan, Scan

QUERY_KINDS: Final[Mapping[type[Query], QueryKind]] = {
    Snapshot: QueryKind.SNAPSHOT,
    SnapshotAsOf: QueryKind.SNAPSHOT_AS_OF,
    SnapshotPart: QueryKind.SNAPSHOT_PART,
    ReadOptimized: QueryKind.READ_OPTIMIZED,
    Incremental: QueryKind.INCREMENTAL,
    Changes: QueryKind.CHANGES,
    TopicRanges: QueryKind.TOPIC_RANGES,
}
_LABELS: Final[Mapping[QueryKind, str]] = {
    QueryKind.SNAPSHOT: "snapshot",
    QueryKind.SNAPSHOT_AS_OF: "snapshot",
    QueryKind.SNAPSHOT_PART: "snapshot",
    QueryKind.READ_OPTIMIZED: "read_optimized",
    QueryKind.INCREMENTAL: "incremental",
    QueryKind.CHANGES: "cdc",
    QueryKind.TOPIC_RANGES: "topic",
    QueryKind.OTHER: "other",
}


def plan_query(request: PlanRequest) -> PlanQuery:
    """The query of a request, as records of held plans name it."""
    kind = QUERY_KINDS[type(request.query)]
    if isinstance(request.query, SnapshotAsOf) and request.query.base_files_only:
        kind = QueryKind.READ_OPTIMIZED
    return PlanQuery(kind, of_stream=bool(request.of_stream))


def query_label(query: PlanQuery) -> str:
    """The label `query` of metrics."""
    return "stream" if query.of_stream else _LABELS[query.kind]


def split_kind(query: PlanQuery) -> SplitKind:
    """The content of the splits of a plan."""
    if query.kind is QueryKind.TOPIC_RANGES:
        return SplitKind.KAFKA
    return SplitKind.CDC if query.kind is QueryKind.CHANGES else SplitKind.MOR


class HeldPlans:
    """The plans of one coordinator. Any thread."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        make_plan: Callable[[PlanRequest], Plan],
        display_name: Callable[[str], str],
        clock_ms: Callable[[], int],
        new_id: Callable[[], str],
        cpus: int,
        observer: Observer,
    ) -> None:
        """`make_plan` plans a request; `display_name` is the name of a table in log lines."""
        self._coordinator, self._make_plan, self._display_name = coordinator, make_plan, display_name
        self._clock_ms, self._new_id, self._cpus, self._observer = clock_ms, new_id, cpus, observer

    def open_plan(self, request: PlanRequest, request_id: str = "") -> OpenedPlan:
        """See `Enumerator.open_plan`. A request id that opened a plan before gives that plan again; RequestIdReused if
        it was for other content."""
        if request.slots < 0:
            raise ConfigurationError(f"slots: got {request.slots}, expected 0 (let the planner choose) or more")
        digest = hashlib.sha256(encode_request(request)).hexdigest() if request_id else ""
        before = self._coordinator.read(lambda state: opened_by(state, request_id, request.table, digest))
        if before is not None:
            return self._opened(self._coordinator.handle(UsePlan(before)))
        begin_ms = self._clock_ms()
        plan = self._make_plan(request)
        facts = sizes_alone(split.size_bytes for split in plan.splits)
        size_bytes = int(facts.sizes.sum())
        plan_id = self._new_id()
        query = plan_query(request)
        event = OpenPlan(
            plan_id=plan_id,
            request_id=request_id,
            table=request.table,
            query=query,
            facts=facts,
            slots=choose_slots(len(facts), size_bytes, request.slots, self._cpus),
            stream=request.of_stream,
            digest=digest,
        )
        opened = self._opened(self._coordinator.handle(event, (plan_id, plan)))
        took_ms = self._clock_ms() - begin_ms
        self._observer.observe(DurationMeasured(Duration.PLAN, took_ms / 1000))
        self._count(SplitEvent.DISCOVERED, request.table, query, len(facts))
        log_event(
            "plan opened",
            plan=opened.plan_id,
            table=self._display_name(request.table),
            query=query,
            splits=opened.splits,
            slots=opened.slots,
            bytes=opened.size_bytes,
            ms=took_ms,
        )
        return opened

    def _opened(self, held: PlanHeld) -> OpenedPlan:
        return OpenedPlan(
            plan_id=held.plan_id,
            slots=held.slots,
            splits=held.splits,
            size_bytes=held.size_bytes,
            scan=self.scan(held.plan_id),
        )

    def describe_plan(self, plan_id: str) -> Scan:
        """See `Enumerator.describe_plan`; rounds of groups are plans too."""
        if not self._coordinator.read(lambda state: any(plan_id in group.rounds for group in state.groups.values())):
            self._coordinator.handle(UsePlan(plan_id))
        return self.scan(plan_id)

    def next_split(self, plan_id: str, slot: int, index: int) -> SplitAnswer:
        """See `Enumerator.next_split`."""
        begin_s = time.perf_counter()
        entry = self._coordinator.handle(NextEntry(plan_id, slot, index))
        assignment, replayed = entry.assignment, entry.assignment.replayed
        self._observer.observe(DurationMeasured(Duration.ASSIGN, time.perf_counter() - begin_s))
        if not isinstance(assignment, Assigned):
            level = logging.DEBUG if replayed else logging.INFO
            log_event("slot sealed", level=level, plan=plan_id, slot=slot, splits=index)
            return EndOfSlot()
        try:
            split = self._coordinator.plan_store.splits(plan_id, [assignment.split])[0]
        except KeyError:
            raise UnknownPlan(f"plan {plan_id!r} was forgotten meanwhile: run the query again") from None
        if not replayed:
            self._count(SplitEvent.ASSIGNED, entry.table, entry.query)
        what = "split repeated" if replayed else "split assigned"
        log_event(what, level=logging.DEBUG, plan=plan_id, slot=slot, index=index, split=split.split_id)
        return NextSplit(split)

    def finish_split(self, plan_id: str, slot: int, index: int, report: SplitReport) -> None:
        """See `Enumerator.finish_split`."""
        event = FinishEntry(plan_id, slot, index, report)
        reported = self._coordinator.handle(event)
        if reported.is_first:
            self._observer.observe(SplitReported(reported.table, "", "", report))
            self._count(SplitEvent.FINISHED, reported.table, reported.query)
        log_event(
            "split finished",
            level=logging.DEBUG,
            plan=plan_id,
            slot=slot,
            index=index,
            rows=report.rows,
            bytes=report.size_bytes,
            ms=round(sum(spent_ms for _, spent_ms in report.phase_ms), 3),
        )

    def _count(self, event: SplitEvent, table: str, query: PlanQuery, count: int = 1) -> None:
        self._observer.observe(SplitsCounted(event, table, "", split_kind(query), count, query_label(query)))

    def reports(self, plan_id: str) -> dict[tuple[int, int], SplitReport]:
        """The reports of readers on the splits of a plan, by (slot, index). UnknownPlan as in `describe_plan`."""
        self._coordinator.handle(UsePlan(plan_id))
        reports = self._coordinator.read(
            lambda state: dict(state.plans[plan_id].reports) if plan_id in state.plans else None
        )
        if reports is None:
            raise UnknownPlan(f"plan {plan_id!r} was forgotten meanwhile: run the query again")
        return dict(sorted(reports.items()))

    def scan(self, plan_id: str) -> Scan:
        """The scan of a plan, which its splits share. Does not count as a use of the plan. UnknownPlan."""
        try:
            return self._coordinator.plan_store.scan(plan_id)
        except KeyError:
            raise UnknownPlan(f"plan {plan_id!r} was forgotten meanwhile: run the query again") from None
