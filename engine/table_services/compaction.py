"""`penstock.compact`: merges the logs of a merge-on-read table into base files."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.table_services.results import (
    ServiceResult,
    ServiceState,
    completed_result,
    planned_result,
)
from penstock.engine.table_services.runs import run_service
from penstock.engine.table_services.serviced_table import (
    ServicedTable,
    busy_groups,
    check_parts,
    open_rewritten,
    pending,
    pending_clusterings,
    planned_slices,
)
from penstock.engine.write.current_table import CurrentTable, current_table
from penstock.proto.errors import ConfigurationError, WriteConflict
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import TouchedGroups
from penstock.table.hudi_table import HudiTable
from penstock.table.timeline.instants import Action, Instant
from penstock.table.timeline.services.service_plan_encoder import encode_compaction_plan
from penstock.writer.index.slices import LatestSlice
from penstock.writer.table_services.compaction import CompactionPlan, pending_deltas, plan_compaction
from penstock.writer.transaction.failed_writes import roll_back_failed
from penstock.writer.transaction.services import ScheduledService, leave, schedule


def compact(
    path: str,
    *,
    partitions: Sequence[str] = (),
    dry_run: bool = False,
    schedule_only: bool = False,
    run_only: bool = False,
    timeline_timezone: str = "",
    sole_writer: bool = False,
) -> tuple[ServiceResult, ...]:
    """Compacts the table at `path`: carries out the pending plans, Hudi's too and those of killed processes, then plans
    the other groups with logs and carries that out. Returns one result for each instant, in this order.

    * partitions: only groups of these partition paths are planned.
    * dry_run: returns what would be done, and writes nothing.
    * schedule_only: writes the plan, for another process to carry it out; pending plans stay.
    * run_only: carries out pending plans alone.
    * timeline_timezone, sole_writer: as of `penstock.write`.

    Rows and their commit times do not change, and readers go on meanwhile. Writers do too: their logs belong to the
    new base files. Memory: the logs of a file group, and a few row groups.

    ConfigurationError for a copy-on-write table, which has no logs. WriteConflict if another process carries out the
    plan, or, on version 6, if a write is pending, whose logs might belong to the old slices. After an error the plan
    stays, and the next call carries it out.
    """
    check_parts(schedule_only=schedule_only, run_only=run_only)
    serviced = _open(path, timeline_timezone)
    if dry_run:
        return _dry_run(serviced, partitions)
    roll_back_failed(serviced.table, serviced.storage, serviced.environment, sole_writer=sole_writer)
    results = []
    if not schedule_only:
        for instant in pending(serviced.table.timeline(), Action.COMPACTION):
            results.append(_run(serviced, instant, sole_writer=sole_writer))
    planned = None if run_only else _schedule(serviced, partitions, begins=not schedule_only)
    if planned is None:
        return tuple(results)
    scheduled, plan = planned
    if schedule_only:
        results.append(planned_result(scheduled.instant, plan.slices, ServiceState.SCHEDULED))
    else:
        try:
            instant = _pending(serviced, scheduled.instant)
            results.append(_run(serviced, instant, sole_writer=False, heartbeat=scheduled.heartbeat))
        except BaseException:
            leave(serviced.storage, scheduled)
            raise
    return tuple(results)


def schedule_compactions(path: str, most_bytes: int, timeline_timezone: str) -> tuple[ServiceResult, ...]:
    """Plans the compaction of all groups with logs, in plans whose files have about `most_bytes` (0: in one plan).
    Errors as `compact`; plans that were written before the error stay."""
    serviced = _open(path, timeline_timezone)
    roll_back_failed(serviced.table, serviced.storage, serviced.environment, sole_writer=False)
    results: list[ServiceResult] = []
    while (planned := _schedule(serviced, (), begins=False, most_bytes=most_bytes)) is not None:
        results.append(planned_result(planned[0].instant, planned[1].slices, ServiceState.SCHEDULED))
    return tuple(results)


def run_compaction(path: str, instant: str, timeline_timezone: str) -> ServiceResult:
    """Carries out a pending compaction. WriteConflict if it is no longer pending; other errors as `compact`."""
    serviced = _open(path, timeline_timezone)
    return _run(serviced, _pending(serviced, instant), sole_writer=False)


def _open(path: str, timeline_timezone: str) -> ServicedTable:
    serviced = open_rewritten(str(path), timeline_timezone)
    if not serviced.table.properties.is_merge_on_read:
        raise ConfigurationError(f"{serviced.where} is copy-on-write: it has no logs to compact")
    return serviced


def _dry_run(serviced: ServicedTable, partitions: Sequence[str]) -> tuple[ServiceResult, ...]:
    current = current_table(serviced.table)
    results = []
    for instant in pending(current.table.timeline(), Action.COMPACTION):
        results.append(planned_result(instant.requested_time, _slices(current, instant), ServiceState.DUE))
    plan = plan_compaction(current.slices, busy_groups(current), partitions)
    if plan.slices:
        results.append(planned_result("", plan.slices, ServiceState.DUE))
    return tuple(results)


def _pending(serviced: ServicedTable, requested_time: str) -> Instant:
    for instant in pending(serviced.table.timeline(), Action.COMPACTION):
        if instant.requested_time == requested_time:
            return instant
    raise WriteConflict(f"{serviced.where}: another process removed or completed compaction {requested_time}")


def _schedule(
    serviced: ServicedTable, partitions: Sequence[str], *, begins: bool, most_bytes: int = 0
) -> tuple[ScheduledService, CompactionPlan] | None:
    """Writes the plan of a compaction; None if no group has logs."""
    plans: list[CompactionPlan] = []

    def planned(table: HudiTable, instant: InstantTime) -> bytes | None:
        current = current_table(table)
        plan = plan_compaction(current.slices, busy_groups(current), partitions, most_bytes)
        if not plan.slices:
            return None
        timeline = table.timeline()
        clusterings = {item.requested_time for item in pending_clusterings(table, timeline)}
        writes = pending_deltas(timeline, clusterings) if table.properties.layout == 1 else ()
        if writes:
            raise WriteConflict(
                f"{serviced.where}: {writes[0].action} {writes[0].requested_time} is pending, and on version 6 its "
                f"logs might belong to slices that compaction {instant} reads: nothing was planned; compact when it "
                "has completed or was rolled back"
            )
        plans.append(plan)
        return encode_compaction_plan(plan.groups(), plan.left_out)

    scheduled = schedule(
        serviced.table, serviced.storage, serviced.environment, Action.COMPACTION, planned, begins=begins
    )
    return None if scheduled is None else (scheduled, plans[0])


def _slices(current: CurrentTable, instant: Instant) -> tuple[LatestSlice, ...]:
    where = f"compaction {instant.requested_time} of table {current.table.base_path}"
    return planned_slices(current, current.table.compaction_plan(instant), where)


def _run(serviced: ServicedTable, planned: Instant, *, sole_writer: bool, heartbeat: bytes = b"") -> ServiceResult:
    """Carries out a pending compaction."""
    with run_service(serviced, planned, "COMPACT", sole_writer=sole_writer, heartbeat=heartbeat) as run:
        slices = _slices(run.current, planned)
        _check_bases(run.current, slices, planned)
        stats = [run.files.compacted(item) for item in slices]
        touched = TouchedGroups(groups=frozenset(item.group for item in slices))
        completion = run.complete(stats, touched)
    return completed_result(planned.requested_time, completion, slices, stats)


def _check_bases(current: CurrentTable, slices: Sequence[LatestSlice], planned: Instant) -> None:
    """WriteConflict if another writer replaced a base file that the plan reads, so that its rows would be lost."""
    newest = {item.group: item for items in current.slices.by_partition.values() for item in items}
    for item in slices:
        known = newest.get(item.group)  # a group that was replaced has none
        if known is not None and known.base_name != item.base_name:
            raise WriteConflict(
                f"table {current.table.base_path}: compaction {planned.requested_time} reads base file "
                f"{item.base_name or '(none)'} of file group {item.file_id} in partition {item.partition!r}, and the "
                f"newest one is {known.base_name or '(none)'}: its rows would be lost; nothing was done"
            )
