"""`penstock.restore`: takes a table back to a savepoint."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.engine.table_services.serviced_table import open_serviced, pending_clusterings
from penstock.proto.errors import ConfigurationError, TableError, WriteConflict
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline, list_timeline
from penstock.table.timeline.instants import (
    Action,
    Instant,
    State,
    comparable_action,
    instant_file_name,
    parse_instant_file,
)
from penstock.table.timeline.services.restores import (
    RestorePlan,
    encode_restore,
    encode_restore_plan,
    parse_restore_plan,
)
from penstock.table.timeline.services.rollback_encoder import CompletedRollback
from penstock.writer.metadata_table.restored import (
    check_no_other_files,
    create_after_restore,
    remove_before_restore,
)
from penstock.writer.table_services.reader_savepoints import owners_of
from penstock.writer.table_services.restore import removed_instants
from penstock.writer.transaction.clock import newest_time
from penstock.writer.transaction.conflicts import pending_restores
from penstock.writer.transaction.failed_writes import (
    completed_name,
    finish_rollback,
    plan_rollback,
    roll_back_failed,
)
from penstock.writer.transaction.heartbeat import is_beating
from penstock.writer.transaction.marked_files import joined
from penstock.writer.transaction.rollback_requests import requests_of
from penstock.writer.transaction.running_writes import timeline_path
from penstock.writer.transaction.transaction import (
    WriteEnvironment,
    locked,
    new_time,
)

_MAX_BYTES = 1 << 28


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """A restore that was carried out, or would be."""

    savepoint: str
    """Requested time of the savepoint: the table's newest write afterwards."""
    instant: str
    """Requested time of the restore; '' if it was not carried out."""
    removed: tuple[str, ...]
    """Requested times of the instants that it removes, in this order."""


def restore(
    path: str,
    savepoint: str | None = None,
    *,
    dry_run: bool = False,
    sole_writer: bool = False,
    timeline_timezone: str = "",
) -> RestoreResult:
    """Takes the table back to a savepoint, by default the newest that is not for readers: removes all later writes and
    table services, the newest first, and their files. Their rows are gone. The savepoint stays.

    Nobody else may write or read meanwhile: readers see the table as of each write that is not removed yet, and may
    miss files. Consumers that have read removed commits must be reset. A restore that was interrupted goes on with the
    next call, and nothing can be written before.

    dry_run: only tells what it would remove. sole_writer, timeline_timezone: as of `penstock.write`.

    ConfigurationError without such a savepoint, or if a later one is left; WriteConflict while a write is running;
    TableError if a later instant was archived, or a file of the savepoint does not exist. Nothing is changed then.
    """
    serviced = open_serviced(str(path), timeline_timezone)
    table, storage, environment = serviced.table, serviced.storage, serviced.environment
    if not dry_run:
        roll_back_failed(table, storage, environment, sole_writer=sole_writer)
    with locked(storage, environment):
        timeline = table.timeline()
        pending = next(iter(pending_restores(timeline)), None)
        if pending is None:
            plan = _plan(table, storage, timeline, savepoint, environment.now().timestamp())
            if dry_run or not plan.removed:
                return _result(plan, "")
            pending = _create_plan(table, storage, environment, timeline, plan)
        else:
            plan = _planned(table, storage, pending)
            if savepoint not in (None, plan.savepoint):
                raise ConfigurationError(
                    f"table {redacted_uri(table.base_path)}: restore {pending.requested_time} to {plan.savepoint} was "
                    f"interrupted; it must be completed first: run `penstock restore` without {str(savepoint)[:40]!r}"
                )
            if dry_run:
                return _result(plan, "")
    _carry_out(table, storage, environment, pending, plan)
    return _result(plan, pending.requested_time)


def _result(plan: RestorePlan, instant: str) -> RestoreResult:
    return RestoreResult(
        savepoint=plan.savepoint, instant=instant, removed=tuple(item.requested_time for item in plan.removed)
    )


def _readers_text(savepoints: Sequence[str]) -> str:
    """A sentence on savepoints for readers that are in the way; '' without one."""
    if not savepoints:
        return ""
    return (
        f". Savepoints for readers: {', '.join(savepoints)[:2000]}; `penstock savepoint TABLE --for-group NAME "
        "--release` deletes those of a reader, which must be reset after the restore"
    )


def _plan(
    table: HudiTable, storage: WritableStorage, timeline: Timeline, savepoint: str | None, now_s: float
) -> RestorePlan:
    where = f"table {redacted_uri(table.base_path)}"
    savepoints: dict[str, Instant] = {item.requested_time: item for item in timeline.savepoints}
    if not savepoints:
        raise ConfigurationError(f"{where} has no savepoint; `penstock savepoint` makes one")
    readers = {time for time, item in savepoints.items() if owners_of(table.savepoint(item).comment)}
    if savepoint is None and not savepoints.keys() - readers:
        raise ConfigurationError(
            f"{where} has only savepoints for readers ({', '.join(sorted(readers))}): name the one to restore"
        )
    time = max(savepoints.keys() - readers) if savepoint is None else savepoint
    if time not in savepoints or timeline.completed_write(time) is None:
        raise ConfigurationError(f"{where}: {time[:40]!r} has no savepoint; {', '.join(sorted(savepoints))} have one")
    clusterings = {item.requested_time for item in pending_clusterings(table, timeline)}
    removed = removed_instants(
        timeline, savepoints[time], is_merge_on_read=table.properties.is_merge_on_read, clusterings=clusterings
    )
    later = sorted({item.requested_time for item in removed} & savepoints.keys())
    if later:  # as Hudi `BaseRollbackActionExecutor`
        raise ConfigurationError(
            f"{where}: a restore to {time} would remove {later[0]}, which has a savepoint: delete that savepoint first"
            f"{_readers_text(sorted(readers.intersection(later)))}"
        )
    running = [
        item
        for item in timeline.pending
        if not (item.action is Action.COMPACTION or item.requested_time in clusterings)
        or is_beating(storage, item.requested_time, now_s)
    ]
    if running:
        raise WriteConflict(
            f"{where}: {running[0].action} {running[0].requested_time} is running: nothing was restored; stop all "
            "writers first"
        )
    archived = table.archive().instants if table.has_archived() else ()
    gone = [item.requested_time for item in archived if item.requested_time > time]
    if gone:
        raise TableError(
            f"{where}: {gone[0]}, later than the savepoint {time}, was archived, so that its files are unknown: "
            "nothing was restored"
        )
    _check_files(table, storage, savepoints[time], where)
    check_no_other_files(table)
    return RestorePlan(savepoint=time, removed=removed)


def _check_files(table: HudiTable, storage: WritableStorage, savepoint: Instant, where: str) -> None:
    """TableError if a file of the savepoint does not exist."""
    for partition, names in table.savepoint(savepoint).files.items():
        there = {info.name for info in storage.list_dir(partition)}
        missing = [name for name in names if name not in there]
        if missing:
            raise TableError(
                f"{where}: {joined(partition, missing[0])} of the savepoint {savepoint.requested_time} does not exist: "
                "nothing was restored"
            )


def _create_plan(
    table: HudiTable, storage: WritableStorage, environment: WriteEnvironment, timeline: Timeline, plan: RestorePlan
) -> Instant:
    instant = new_time(table, environment, timeline)
    name = instant_file_name(instant, Action.RESTORE, State.REQUESTED, None, table.properties.layout)
    storage.create(timeline_path(table.properties, name), encode_restore_plan(plan))
    return Instant(
        requested_time=instant, completion_time=None, action=Action.RESTORE, state=State.REQUESTED, file_name=name
    )


def _planned(table: HudiTable, storage: WritableStorage, pending: Instant) -> RestorePlan:
    """The plan of a restore that was interrupted."""
    name = instant_file_name(pending.requested_time, Action.RESTORE, State.REQUESTED, None, table.properties.layout)
    data = storage.read_bytes(timeline_path(table.properties, name), _MAX_BYTES)
    return parse_restore_plan(data, pending, table.base_path)


def _carry_out(
    table: HudiTable, storage: WritableStorage, environment: WriteEnvironment, restore: Instant, plan: RestorePlan
) -> None:
    with locked(storage, environment):
        table = table.refreshed()
        has_metadata = remove_before_restore(table, storage)
    table = table.refreshed()
    properties = table.properties
    inflight = instant_file_name(restore.requested_time, Action.RESTORE, State.INFLIGHT, None, properties.layout)
    with contextlib.suppress(FileExistsError):
        storage.create(timeline_path(properties, inflight), b"")
    began = environment.monotonic()
    rollbacks: list[CompletedRollback] = []
    for removed in plan.removed:
        with locked(storage, environment):
            timeline = table.timeline()
            item = next(
                (
                    item
                    for item in timeline.instants
                    if item.requested_time == removed.requested_time
                    and comparable_action(item.action) is comparable_action(removed.action)
                ),
                None,
            )
            if item is None:  # the process that began the restore removed it
                continue
            planned = plan_rollback(table, storage, environment, timeline, item, requests_of(table, storage, item))
        rollbacks.append(finish_rollback(table, storage, environment, planned))
    took_ms = int((environment.monotonic() - began) * 1000)
    with locked(storage, environment):
        timeline = table.timeline()
        if any(item.requested_time == restore.requested_time for item in pending_restores(timeline)):
            name = completed_name(table, timeline, environment, restore.requested_time, Action.RESTORE)
            data = encode_restore(restore.requested_time, plan, rollbacks, took_ms, storage.base_path)
            if has_metadata:
                create_after_restore(
                    table,
                    storage,
                    timeline,
                    lambda inner: new_time(table, environment, timeline, newest_time(inner)),
                )
            _remove_rollbacks(table, storage, plan.savepoint)  # before: a restore that is killed here goes on
            storage.create(timeline_path(properties, name), data)


def _remove_rollbacks(table: HudiTable, storage: WritableStorage, savepoint: str) -> None:
    """Removes the timeline files of rollbacks after the savepoint, as Hudi does: the restore's metadata has them."""
    rollbacks = [
        item
        for name in list_timeline(storage, table.properties)
        if (item := parse_instant_file(name, table.properties.layout, savepoint)) is not None
        and item.action is Action.ROLLBACK
        and item.requested_time > savepoint
    ]
    for item in sorted(rollbacks, key=lambda item: not item.is_completed):
        storage.remove(timeline_path(table.properties, item.file_name))
