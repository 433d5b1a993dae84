"""Whether a write that has begun still runs: nobody has rolled it back, or may do so."""

from __future__ import annotations

from datetime import datetime

from penstock.table.config.properties import TableProperties
from penstock.table.files.markers import MAX_MARKER_BYTES
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action, Instant, State, instant_file_name
from penstock.table.timeline.services.rollback_encoder import RollbackPlan, parse_rollback_plan
from penstock.writer.transaction.conflicts import pending_rollbacks
from penstock.writer.transaction.heartbeat import EXPIRES_S, age_s


def can_complete(
    table: HudiTable, storage: WritableStorage, timeline: Timeline, requested_time: str, now: datetime
) -> bool:
    """Whether a write that has begun may take files and complete: its instant is inflight, its heartbeat has not
    expired, and nobody has planned to roll it back."""
    age = age_s(storage, requested_time, now.timestamp())
    if age is None or age > EXPIRES_S:
        return False
    inflight = {item.requested_time for item in timeline.pending if item.state is State.INFLIGHT}
    targets = {rollback_plan(table, storage, item).target for item in pending_rollbacks(timeline)}
    return requested_time in inflight - targets


def rollback_plan(table: HudiTable, storage: WritableStorage, instant: Instant) -> RollbackPlan:
    """The plan of a pending rollback."""
    name = instant_file_name(instant.requested_time, Action.ROLLBACK, State.REQUESTED, None, table.properties.layout)
    data = storage.read_bytes(timeline_path(table.properties, name), MAX_MARKER_BYTES)
    return parse_rollback_plan(data, instant, table.base_path)


def timeline_path(properties: TableProperties, name: str) -> str:
    """The path of a file of the active timeline."""
    return f"{properties.timeline_folder}/{name}"
