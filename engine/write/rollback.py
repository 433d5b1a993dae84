"""`penstock.rollback`: rolls back pending writes."""

from __future__ import annotations

from penstock.engine.write.settings import timeline_zone
from penstock.proto.errors import ConfigurationError, WriteConflict
from penstock.table.config.properties import load_properties
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import open_writable
from penstock.table.timeline.instants import Action
from penstock.writer.transaction.failed_writes import roll_back, roll_back_failed
from penstock.writer.transaction.heartbeat import EXPIRES_S, age_s, writer_is_dead
from penstock.writer.transaction.transaction import WriteEnvironment

_PLANS = (Action.COMPACTION, Action.LOG_COMPACTION)


def rollback(path: str, instant: str | None = None, *, timeline_timezone: str = "") -> tuple[str, ...]:
    """Rolls back the pending write `instant`; without it, all pending writes whose writers no longer run. Returns the
    instants that were rolled back.

    The caller vouches that the writer of a write without a heartbeat no longer runs, by naming it. WriteConflict for a
    writer that runs, or may run; ConfigurationError for an instant that is not pending.
    """
    storage = open_writable(str(path))
    table = HudiTable(storage, load_properties(storage))
    environment = WriteEnvironment(zone=timeline_zone(table.properties, timeline_timezone))
    if instant is None:
        return roll_back_failed(table, storage, environment, sole_writer=False)
    pending = {item.requested_time for item in table.timeline().pending}
    if instant not in pending:
        raise ConfigurationError(
            f"table {storage.base_path}: {instant[:40]!r} is no pending write; pending are "
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
