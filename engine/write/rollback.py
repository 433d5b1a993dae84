"""`penstock.rollback`: rolls back pending writes."""

from __future__ import annotations

from penstock.engine.write.settings import refuse_unwritten, timeline_zone
from penstock.proto.errors import ConfigurationError, WriteConflict
from penstock.table.config.properties import load_properties
from penstock.table.files.names import parse_file_name
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage, open_writable
from penstock.table.timeline.instants import Action, Instant
from penstock.writer.table_services.restore import dependents
from penstock.writer.transaction.failed_writes import (
    finish_rollback,
    pending_rollback_of,
    plan_rollback,
    roll_back,
    roll_back_failed,
)
from penstock.writer.transaction.heartbeat import EXPIRES_S, age_s, writer_is_dead
from penstock.writer.transaction.rollback_requests import requests_of
from penstock.writer.transaction.transaction import WriteEnvironment, locked

_PLANS = (Action.COMPACTION, Action.LOG_COMPACTION)


def rollback(path: str, instant: str | None = None, *, timeline_timezone: str = "") -> tuple[str, ...]:
    """Rolls back the write `instant`; without it, all pending writes whose writers no longer run. Returns the instants
    that were rolled back. A rollback of the instant that another process began is completed.

    Of the completed writes only the newest can be rolled back: its rows are gone then, and replaced ones are back.
    Consumers that have read it must be reset. The caller vouches that the writer of a pending write without a heartbeat
    no longer runs, by naming it.

    WriteConflict for a writer that runs, or may run, and for a completed write that later instants depend on, that has
    a savepoint, or whose older files a clean deleted; ConfigurationError for an unknown instant, and for a pending
    compaction; UnsupportedFeature for a table that is not written.
    """
    storage = open_writable(str(path))
    table = HudiTable(storage, load_properties(storage))
    refuse_unwritten(table, keeps_metadata=False)  # one that is not kept current is removed
    environment = WriteEnvironment(zone=timeline_zone(table.properties, timeline_timezone))
    if instant is None:
        return roll_back_failed(table, storage, environment, sole_writer=False)
    timeline = table.timeline()
    completed = timeline.completed_write(instant)
    if completed is not None:
        _roll_back_completed(table, storage, environment, completed)
        return (instant,)
    pending = {item.requested_time for item in timeline.pending}
    if instant not in pending:
        raise ConfigurationError(
            f"table {storage.base_path}: {instant[:40]!r} is no write of the active timeline; pending are "
            f"{', '.join(sorted(pending)) or 'none'}"
        )
    if any(item.requested_time == instant and item.action in _PLANS for item in table.timeline().pending):
        raise ConfigurationError(
            f"table {storage.base_path}: {instant} is a pending compaction, which is not rolled back: on version 6 the "
            "rows of logs that belong to it would be lost; carry it out by `penstock compact`"
        )
    age = age_s(storage, instant, environment.now().timestamp())
    if age is not None and age <= EXPIRES_S and not writer_is_dead(storage, instant):
        raise WriteConflict(
            f"table {storage.base_path}: the writer of {instant} runs: its last heartbeat is {age:.0f} s old; wait "
            f"until it ends, or {EXPIRES_S:.0f} s after it was killed"
        )
    roll_back(table, storage, environment, instant)
    return (instant,)


def _roll_back_completed(
    table: HudiTable, storage: WritableStorage, environment: WriteEnvironment, instant: Instant
) -> None:
    where = f"table {storage.base_path}: {instant.requested_time}"
    with locked(storage, environment):
        timeline = table.timeline()
        if any(item.requested_time == instant.requested_time for item in timeline.savepoints):
            raise WriteConflict(f"{where} has a savepoint: delete that first")
        for item in dependents(timeline, instant):
            raise WriteConflict(
                f"{where} is not the newest write: {item.action} {item.requested_time} came after it; roll that back "
                "first, or restore a savepoint"
            )
        commit = table.commit(instant)
        written = {*((stat.partition, stat.file_id) for stat in commit.stats), *commit.replaced}
        for clean in timeline.instants:
            if clean.action is not Action.CLEAN or clean.requested_time < instant.requested_time:
                continue
            if not clean.is_completed:
                raise WriteConflict(f"{where}: clean {clean.requested_time} is pending: complete it first")
            for partition in table.clean(clean).partitions:
                names = [parse_file_name(name) for name in partition.file_names]
                if any(name is not None and (partition.partition, name.file_id) in written for name in names):
                    raise WriteConflict(
                        f"{where}: clean {clean.requested_time} deleted older files of the file groups that it wrote, "
                        "so that a rollback would lose rows"
                    )
        begun = pending_rollback_of(table, storage, timeline, instant.requested_time)
        planned = begun or plan_rollback(
            table, storage, environment, timeline, instant, requests_of(table, storage, instant)
        )
    finish_rollback(table, storage, environment, planned)
