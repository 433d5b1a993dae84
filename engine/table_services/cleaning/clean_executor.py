"""Plans cleans and carries them out, on the timeline of a table.

Source: Hudi `CleanPlanActionExecutor`, `CleanActionExecutor`. The steps: requested, inflight, files, completed. A
process that is killed at any of them leaves a plan that the next clean carries out, Hudi's or Penstock's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping

from penstock.engine.table_services.cleaning.clean_inputs import (
    archived_writes,
    cleaning_facts,
    pending_cleans,
    reads_archived_writes,
)
from penstock.engine.table_services.serviced_table import ServicedTable
from penstock.proto.errors import TableError, WriteConflict
from penstock.proto.model.positions import InstantTime, Position
from penstock.table.files.listing import PARTITION_MARKER
from penstock.table.hudi_table import HudiTable
from penstock.table.metadata.record_encoder import PartitionFiles
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action, Instant, State, instant_file_name
from penstock.table.timeline.services.clean_encoder import (
    CleanPlan,
    encode_clean,
    encode_clean_plan,
    savepoints_entry,
)
from penstock.table.timeline.services.plans import CleanMetadata
from penstock.writer.metadata_table.update import record_files
from penstock.writer.table_services.cleaning import files_to_delete, needed_files
from penstock.writer.table_services.retention import CleanPolicy, KeepFileVersions, KeepHours, needed_from, retention
from penstock.writer.transaction.clock import newest_time
from penstock.writer.transaction.marked_files import joined
from penstock.writer.transaction.running_writes import timeline_path
from penstock.writer.transaction.transaction import locked, new_time, refuse_restoring


def plan_clean(
    table: HudiTable,
    serviced: ServicedTable,
    policy: CleanPolicy,
    oldest_reader: Position | None,
    extra: Mapping[str, str] | None = None,
) -> CleanPlan | None:
    """What a clean of a pinned table deletes now; None if there is nothing to delete. The plan has the `extra`
    metadata."""
    timeline = table.timeline()
    refuse_restoring(serviced.table, timeline)
    environment = serviced.environment
    reads_archived = reads_archived_writes(table, timeline, oldest_reader)
    # A metadata table has no states of the last hours that a reader asks for, and its archival does not leave them.
    counts_hours = isinstance(policy, KeepHours) and serviced.partitions is None
    archived = archived_writes(table, timeline) if counts_hours else {}
    retained = retention(
        timeline,
        policy,
        oldest_reader,
        environment.now(),
        environment.zone,
        reads_archived=reads_archived,
        newest_archived=max(archived, default=""),
    )
    if retained is None:
        return None
    facts = cleaning_facts(table)
    savepoints = [item.requested_time for item in timeline.savepoints]
    earliest = "" if retained.earliest is None else str(retained.earliest.requested_time)
    files: dict[str, tuple[str, ...]] = {}
    empty: list[str] = []
    partitions = serviced.partitions or _partitions(table, timeline, earliest, savepoints, policy)
    for partition in partitions:
        present = table.list_partition(partition)
        names = files_to_delete(present, facts, policy, retained.protected_from)
        if names:
            files[partition] = names
        if partition and not timeline.pending and len(names) == len(present):
            empty.append(partition)
    if not files and not empty:
        return None
    completed = timeline.completed_writes
    return CleanPlan(
        policy=policy.hudi_name,
        earliest=earliest,
        earliest_action="" if retained.earliest is None else str(retained.earliest.action),
        last_completed=completed[-1].requested_time if completed else "",
        files=files,
        partitions=tuple(empty),
        extra={**(savepoints_entry(savepoints) if table.properties.partition_fields else {}), **(extra or {})},
    )


def _partitions(
    table: HudiTable, timeline: Timeline, earliest: str, savepoints: Iterable[str], policy: CleanPolicy
) -> Iterable[str]:
    """The partitions to look at: those that writes since the last clean touched, or all."""
    if not table.properties.partition_fields:
        return ("",)
    cleans = timeline.completed_cleans
    last = table.clean(cleans[-1]) if cleans else None
    if last is None or isinstance(policy, KeepFileVersions) or not _is_incremental(last, timeline, savepoints):
        return table.list_partitions()
    commits = (
        table.commit(item)
        for item in timeline.completed_writes
        if last.earliest_to_retain <= item.requested_time < earliest
    )
    touched: set[str] = set()
    for commit in commits:
        touched.update(stat.partition for stat in commit.stats)
        touched.update(partition for partition, _ in commit.replaced)
    return sorted(touched)


def _is_incremental(last: CleanMetadata, timeline: Timeline, savepoints: Iterable[str]) -> bool:
    """Whether a clean needs to look only at what was written since the earliest instant that the last one retained. Not
    if that was archived, nor if a savepoint was deleted: its files can be in any partition."""
    begin = last.earliest_to_retain.strip()
    return bool(begin) and begin >= timeline.first_active and {*last.savepoints} <= {*savepoints}


def schedule_clean(
    serviced: ServicedTable,
    policy: CleanPolicy,
    oldest_reader: Position | None,
    extra: Mapping[str, str] | None = None,
) -> Instant | None:
    """Plans a clean, as an instant. None if there is nothing to delete.

    The table is looked at before the lock is taken, and once more under it if the timeline changed meanwhile.
    WriteConflict if another process planned a clean.
    """
    early = serviced.table.pinned()
    plan = plan_clean(early, serviced, policy, oldest_reader, extra)
    with locked(serviced.storage, serviced.environment) as check_lock:
        table = serviced.unchanged().pinned()
        timeline = table.timeline()
        if timeline != early.timeline():
            plan = plan_clean(table, serviced, policy, oldest_reader, extra)
        if plan is None:
            return None
        for other in pending_cleans(timeline):
            raise WriteConflict(
                f"{serviced.where}: another process planned clean {other.requested_time}: nothing was deleted; clean "
                "again"
            )
        environment = serviced.environment
        instant = new_time(table, environment, timeline)
        check_lock()
        planned = _instant(table, instant, State.REQUESTED)
        data = encode_clean_plan(plan, serviced.storage.base_path)
        serviced.storage.create(timeline_path(table.properties, planned.file_name), data)
        return planned


def carry_out(serviced: ServicedTable, planned: Instant, oldest_reader: Position | None) -> CleanPlan:
    """Carries out a planned clean, also one that another process began. Returns its plan.

    TableError, and nothing is deleted, if the plan would delete a file that is still needed.
    """
    table = serviced.unchanged()
    plan = table.clean_plan(planned)
    _check_needed(table.pinned(), serviced, planned, plan, oldest_reader)
    storage, environment = serviced.storage, serviced.environment
    layout, instant = table.properties.layout, planned.requested_time
    with contextlib.suppress(FileExistsError):
        content = b"" if layout == 2 else encode_clean_plan(plan, storage.base_path)
        inflight = _instant(table, instant, State.INFLIGHT).file_name
        storage.create(timeline_path(table.properties, inflight), content)
    began = environment.monotonic()
    for partition, names in plan.files.items():
        for name in names:
            storage.remove(joined(partition, name))
    took_ms = int((environment.monotonic() - began) * 1000)
    with locked(storage, environment) as check_lock:
        table = serviced.unchanged()
        timeline = table.timeline()
        if any(item.requested_time == instant for item in pending_cleans(timeline)):  # else another process did it too
            removed = [partition for partition in plan.partitions if _remove_partition(serviced, timeline, partition)]
            recorded = record_files(
                table,
                storage,
                timeline,
                planned.requested_time,
                _deleted(plan, removed),
                lambda inner: new_time(table, environment, timeline, newest_time(inner)),
            )
            completion = new_time(table, environment, timeline, recorded or "")
            name = instant_file_name(
                instant, Action.CLEAN, State.COMPLETED, completion if layout == 2 else None, layout
            )
            check_lock()
            data = encode_clean(plan, instant, took_ms, removed)
            storage.create(timeline_path(table.properties, name), data)
    return plan


def _deleted(plan: CleanPlan, removed: Collection[str]) -> list[PartitionFiles]:
    """What a clean changes in a metadata table. A removed partition may have had no file."""
    return [
        PartitionFiles(
            partition=partition, deleted=frozenset(plan.files.get(partition, ())), is_deleted=partition in removed
        )
        for partition in sorted({*plan.files, *removed})
    ]


def _check_needed(
    table: HudiTable, serviced: ServicedTable, planned: Instant, plan: CleanPlan, oldest_reader: Position | None
) -> None:
    timeline = table.timeline()
    refuse_restoring(serviced.table, timeline)
    facts = cleaning_facts(table)
    reads_archived = reads_archived_writes(table, timeline, oldest_reader)
    protected_from = needed_from(timeline, oldest_reader, reads_archived=reads_archived)
    for partition, names in plan.files.items():
        reasons: Mapping[str, str] = needed_files(table.list_partition(partition), facts, protected_from)
        for name in names:
            if name in reasons:
                path = timeline_path(
                    table.properties, _instant(table, planned.requested_time, State.REQUESTED).file_name
                )
                raise TableError(
                    f"{serviced.where}: the plan of clean {planned.requested_time} would delete "
                    f"{joined(partition, name)[:300]}, but {reasons[name]}: nothing was deleted. The plan ({path}) is "
                    "outdated or wrong; if no reader, service or savepoint may lose the file, delete the plan's files, "
                    "requested and inflight, and clean again"
                )


def _remove_partition(serviced: ServicedTable, timeline: Timeline, partition: str) -> bool:
    """Removes the folder of a partition that has no data file, under the lock; whether it is gone.

    It stays while a write is pending, which may be about to create files in it, and if it has other files.
    """
    if timeline.pending or not partition:
        return False
    names = {info.name for info in serviced.storage.list_dir(partition)}
    if any(not name.startswith((PARTITION_MARKER, f".{PARTITION_MARKER}")) for name in names):
        return False
    serviced.storage.remove_folder(partition)
    return True


def _instant(table: HudiTable, instant: str, state: State) -> Instant:
    name = instant_file_name(instant, Action.CLEAN, state, None, table.properties.layout)
    return Instant(
        requested_time=InstantTime(instant), completion_time=None, action=Action.CLEAN, state=state, file_name=name
    )
