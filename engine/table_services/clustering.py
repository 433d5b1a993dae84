"""`penstock.cluster`: joins small file groups of a table, and sorts their rows."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from penstock.engine.table_services.results import (
    ServiceResult,
    ServiceState,
    completed_result,
    planned_result,
)
from penstock.engine.table_services.runs import ServiceRun, run_service
from penstock.engine.table_services.serviced_table import (
    ServicedTable,
    busy_groups,
    check_parts,
    open_rewritten,
    pending_clusterings,
    planned_slices,
)
from penstock.engine.table_services.slice_rows import check_sortable
from penstock.engine.write.current_table import CurrentTable, current_table
from penstock.proto.errors import ConfigurationError, PenstockError, UnsupportedFeature, WriteConflict
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import TouchedGroups
from penstock.table.files.buckets import INDEX_TYPE
from penstock.table.files.slices import GroupId
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.arrow import arrow_schema
from penstock.table.timeline.commits import WriteStat
from penstock.table.timeline.instants import Action, Instant
from penstock.table.timeline.services.plans import RequestedReplace
from penstock.table.timeline.services.service_plan_encoder import encode_clustering_plan
from penstock.writer.index.slices import LatestSlice
from penstock.writer.table_services.clustering import ClusteringPlan, ClusteringSizes, plan_clustering, slice_bytes
from penstock.writer.transaction.failed_writes import roll_back, roll_back_failed
from penstock.writer.transaction.heartbeat import has_heartbeat, heartbeat_path
from penstock.writer.transaction.services import ScheduledService, schedule

__all__ = ["ClusteringSizes", "cluster", "completed_clusterings", "refuse_buckets"]

log = logging.getLogger("penstock.writer")

_MAX_SORTED_BYTES: Final = 1 << 30
"""Bytes of files whose rows are sorted in memory."""


def cluster(
    path: str,
    *,
    sort_by: Sequence[str] = (),
    partitions: Sequence[str] = (),
    sizes: ClusteringSizes | None = None,
    index: str | None = None,
    dry_run: bool = False,
    schedule_only: bool = False,
    run_only: bool = False,
    timeline_timezone: str = "",
    sole_writer: bool = False,
) -> tuple[ServiceResult, ...]:
    """Clusters the table at `path`: carries out the pending plans, Hudi's too and those of killed processes, then joins
    the small file groups of each partition into new ones. Returns one result for each instant, in this order.

    * sort_by: columns by which the rows of each new group are sorted, nulls first.
    * partitions: only groups of these partition paths.
    * sizes: which groups are small, and the size of new ones.
    * index: the index of the table's writers, for a table that does not record it (`penstock.write`).
    * dry_run: returns what would be done, and writes nothing.
    * schedule_only: writes the plan, for another process to carry it out; pending plans stay.
    * run_only: carries out pending plans alone.
    * timeline_timezone, sole_writer: as of `penstock.write`.

    Rows and their commit times do not change, and readers go on meanwhile; writers cannot change the groups. Memory: to
    sort, the rows of a new group.

    UnsupportedFeature for a table with a bucket index, whose groups cannot be joined. WriteConflict if another process
    carries out the plan, or changed its groups. After an error the clustering is rolled back; the plan of another
    process stays.
    """
    check_parts(schedule_only=schedule_only, run_only=run_only)
    serviced = _open(path, index, timeline_timezone)
    sizes = sizes or ClusteringSizes()
    if dry_run:
        return _dry_run(serviced, sort_by, partitions, sizes)
    roll_back_failed(serviced.table, serviced.storage, serviced.environment, sole_writer=sole_writer, clusterings=False)
    results = []
    if not schedule_only:
        for instant in pending_clusterings(serviced.table, serviced.table.timeline()):
            results.append(_run(serviced, instant, sizes, sole_writer=sole_writer))
    planned = None if run_only else _schedule(serviced, sort_by, partitions, sizes, begins=not schedule_only)
    if planned is None:
        return tuple(results)
    scheduled, plan = planned
    if schedule_only:
        results.append(planned_result(scheduled.instant, plan.slices, ServiceState.SCHEDULED))
    else:
        results.append(_run_own(serviced, scheduled, sizes))
    return tuple(results)


def schedule_clustering(
    path: str, sort_by: Sequence[str], index: str | None, avoided: Collection[GroupId], timeline_timezone: str
) -> ServiceResult | None:
    """Plans a clustering of all groups but the `avoided` ones; None without groups to join. Errors as `cluster`."""
    serviced = _open(path, index, timeline_timezone)
    roll_back_failed(serviced.table, serviced.storage, serviced.environment, sole_writer=False, clusterings=False)
    planned = _schedule(serviced, sort_by, (), ClusteringSizes(), begins=False, avoided=avoided)
    return None if planned is None else planned_result(planned[0].instant, planned[1].slices, ServiceState.SCHEDULED)


def run_clustering(path: str, instant: str, index: str | None, timeline_timezone: str) -> ServiceResult:
    """Carries out a pending clustering. WriteConflict if it is no longer pending. If another writer changed its groups,
    it can never be carried out: it is rolled back, so that it no longer blocks them. Other errors as `cluster`."""
    serviced = _open(path, index, timeline_timezone)
    planned = _pending(serviced, instant)
    try:
        return _attempt(serviced, planned, ClusteringSizes(), sole_writer=False)
    except _GroupsChanged as changed:
        if serviced.storage.file_info(heartbeat_path(planned.requested_time)) is None:  # nobody else has begun it
            roll_back(serviced.table, serviced.storage, serviced.environment, planned.requested_time)
        raise WriteConflict(str(changed)) from None


def _open(path: str, index: str | None, timeline_timezone: str) -> ServicedTable:
    serviced = open_rewritten(str(path), timeline_timezone)
    refuse_buckets(serviced, index)
    return serviced


def _pending(serviced: ServicedTable, instant: str) -> Instant:
    for planned in pending_clusterings(serviced.table, serviced.table.timeline()):
        if planned.requested_time == instant:
            return planned
    raise WriteConflict(f"{serviced.where}: another process removed or completed clustering {instant}")


class _GroupsChanged(Exception):
    """Another writer changed the groups of a plan."""


def refuse_buckets(serviced: ServicedTable, index: str | None) -> None:
    """UnsupportedFeature for a bucket index, ConfigurationError if neither the call nor the table names the index."""
    stored = serviced.table.properties.raw.get(INDEX_TYPE, "").strip().upper()
    name = (index or stored).upper()
    if not name:
        raise ConfigurationError(
            f"{serviced.where} does not say which index its writers use, as Hudi stores none: give index='simple', or "
            "the one of all its writers; groups of a bucket index cannot be joined"
        )
    if stored not in ("", name):
        raise ConfigurationError(
            f"{serviced.where}: got index={name.lower()[:40]!r}, and the table was created with {stored.lower()!r}"
        )
    if name == "BUCKET":
        raise UnsupportedFeature(
            f"{serviced.where} has a bucket index: the hash of a key determines its file group, so that groups cannot "
            "be joined: writers would not find their keys; nothing was done. The number of buckets determines the size "
            "of its files"
        )


def _dry_run(
    serviced: ServicedTable, sort_by: Sequence[str], partitions: Sequence[str], sizes: ClusteringSizes
) -> tuple[ServiceResult, ...]:
    current = current_table(serviced.table)
    results = []
    for instant in pending_clusterings(current.table, current.table.timeline()):
        slices = [item for group in _groups(current, instant) for item in group]
        results.append(planned_result(instant.requested_time, slices, ServiceState.DUE))
    plan = _plan(serviced, current, sort_by, partitions, sizes)
    if plan.groups:
        results.append(planned_result("", plan.slices, ServiceState.DUE))
    return tuple(results)


def _plan(
    serviced: ServicedTable,
    current: CurrentTable,
    sort_by: Sequence[str],
    partitions: Sequence[str],
    sizes: ClusteringSizes,
    avoided: Collection[GroupId] = (),
) -> ClusteringPlan:
    if current.record is not None:
        check_sortable(arrow_schema(current.record), sort_by, serviced.where)
    return plan_clustering(
        current.slices,
        busy_groups(current) | {*avoided},
        partitions,
        sizes,
        completed_clusterings(current.table) if sort_by else None,
    )


def completed_clusterings(table: HudiTable) -> frozenset[str]:
    """The requested times of completed clusterings."""
    replacements = (item for item in table.timeline().completed_writes if item.action is Action.REPLACE_COMMIT)
    return frozenset(item.requested_time for item in replacements if table.commit(item).operation == "CLUSTER")


def _schedule(
    serviced: ServicedTable,
    sort_by: Sequence[str],
    partitions: Sequence[str],
    sizes: ClusteringSizes,
    *,
    begins: bool,
    avoided: Collection[GroupId] = (),
) -> tuple[ScheduledService, ClusteringPlan] | None:
    """Writes the plan of a clustering; None if there is nothing to join."""
    plans: list[ClusteringPlan] = []

    def planned(table: HudiTable, instant: InstantTime) -> bytes | None:
        del instant  # the plan does not depend on it
        current = current_table(table)
        plan = _plan(serviced, current, sort_by, partitions, sizes, avoided)
        if not plan.groups:
            return None
        plans.append(plan)
        return encode_clustering_plan(plan.encoded(), sort_by, table.storage.base_path, plan.left_out)

    action = Action.CLUSTERING if serviced.table.properties.layout == 2 else Action.REPLACE_COMMIT
    scheduled = schedule(serviced.table, serviced.storage, serviced.environment, action, planned, begins=begins)
    return None if scheduled is None else (scheduled, plans[0])


def _run_own(serviced: ServicedTable, scheduled: ScheduledService, sizes: ClusteringSizes) -> ServiceResult:
    """Carries out the plan of this call. After an error it is rolled back: it would block writes to its groups."""
    requested_time = scheduled.instant
    planned = _pending(serviced, requested_time)
    try:
        return _run(serviced, planned, sizes, sole_writer=False, heartbeat=scheduled.heartbeat)
    except BaseException:
        try:
            if has_heartbeat(serviced.storage, requested_time, scheduled.heartbeat):  # else it is another process's
                roll_back(serviced.table, serviced.storage, serviced.environment, requested_time)
        except PenstockError as error:
            log.warning("%s: clustering %s stays pending: %s", serviced.where, requested_time, error)
        raise


def _run(
    serviced: ServicedTable,
    planned: Instant,
    sizes: ClusteringSizes,
    *,
    sole_writer: bool,
    heartbeat: bytes = b"",
) -> ServiceResult:
    """Carries out a pending clustering."""
    try:
        return _attempt(serviced, planned, sizes, sole_writer=sole_writer, heartbeat=heartbeat)
    except _GroupsChanged as changed:
        raise WriteConflict(str(changed)) from None


def _attempt(
    serviced: ServicedTable,
    planned: Instant,
    sizes: ClusteringSizes,
    *,
    sole_writer: bool,
    heartbeat: bytes = b"",
) -> ServiceResult:
    """As `_run`; _GroupsChanged if another writer changed the groups of the plan."""
    most_bytes = sizes.target_file_bytes + sizes.target_file_bytes // 2
    with run_service(
        serviced, planned, "CLUSTER", sole_writer=sole_writer, heartbeat=heartbeat, most_bytes=most_bytes
    ) as run:
        request = run.current.table.requested_replace(planned)
        groups = _groups(run.current, planned)
        slices = [item for group in groups for item in group]
        _check_unchanged(run.current, slices, planned)
        stats = [stat for group in groups for stat in _clustered(run, group, request)]
        replaced = frozenset(item.group for item in slices)
        written = {(stat.partition, stat.file_id) for stat in stats}
        completion = run.complete(stats, TouchedGroups(groups=frozenset({*replaced, *written})), replaced)
    return completed_result(planned.requested_time, completion, slices, stats)


def _clustered(run: ServiceRun, group: Sequence[LatestSlice], request: RequestedReplace) -> list[WriteStat]:
    where = f"table {run.current.table.base_path}"
    if len({item.partition for item in group}) > 1:
        raise UnsupportedFeature(
            f"{where}: clustering {run.transaction.requested_time} joins groups of several partitions, which is "
            "not carried out here: run it by Hudi, or roll it back"
        )
    if request.sort_by:
        check_sortable(arrow_schema(run.files.record), request.sort_by, where)
        if (read_bytes := sum(map(slice_bytes, group))) > _MAX_SORTED_BYTES:
            raise UnsupportedFeature(
                f"{where}: clustering {run.transaction.requested_time} sorts {read_bytes} bytes of files together, "
                f"at most {_MAX_SORTED_BYTES} are sorted in memory: run it by Hudi, or roll it back"
            )
    return run.files.clustered(group, request.sort_by)


def _groups(current: CurrentTable, instant: Instant) -> list[tuple[LatestSlice, ...]]:
    """The slices that a plan joins, those of each new group together."""
    where = f"clustering {instant.requested_time} of table {current.table.base_path}"
    groups = current.table.requested_replace(instant).groups
    return [planned_slices(current, group.slices, where) for group in groups if group.slices]


def _check_unchanged(current: CurrentTable, slices: Sequence[LatestSlice], planned: Instant) -> None:
    """_GroupsChanged unless the planned slices are the newest ones: a later write would be lost."""
    newest = {item.group: item for items in current.slices.by_partition.values() for item in items}
    for item in slices:
        known = newest.get(item.group)
        if known is None or (known.base_name, {*known.log_names}) != (item.base_name, {*item.log_names}):
            raise _GroupsChanged(
                f"table {current.table.base_path}: clustering {planned.requested_time} would join file group "
                f"{item.file_id} of partition {item.partition!r}, which another writer changed or replaced since its "
                f"plan: nothing was done; roll it back by `penstock rollback TABLE {planned.requested_time}`"
            )
