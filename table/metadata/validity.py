"""Determines the valid content of a metadata table, and whether it is up to date with its data table. Pure.

Source: Hudi `HoodieTableMetadataUtil.getValidInstantTimestamps`. A writer completes an instant in the metadata table
first, and then in the data table. So the metadata table may be ahead; it lags only if a writer did not update it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from penstock.proto.value_classes import dataclass
from penstock.table.files.slices import CommittedInstants
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action

INITIAL: Final = "00000000000000"
"""Prefix of instants with the state of the table when the metadata table, or an index in it, was created."""

_NOT_RECORDED: Final = (Action.SAVEPOINT, Action.INDEXING, Action.RESTORE)
"""Actions without an instant of the same time in the metadata table. They change no data file; a restore has instants
of its own there. The files that a restore removes belong to removed instants, and so are not valid."""


@dataclass(frozen=True, slots=True)
class ValidBlocks:
    """Determines the valid log blocks: of instants that completed in the metadata table and are not pending in the data
    table.

    Hudi counts the completed instants of the data table, those that completed only in the metadata table and are not
    pending (an index being built; older than the data table's active timeline), and those that a rollback names. For
    completed instants of the metadata table this is equivalent: an instant that is neither completed nor pending in the
    data table was archived or rolled back, and the instant of the rollback removes its files again.
    """

    committed: CommittedInstants
    """Completed instants of the metadata table."""
    pending: frozenset[str]
    """Pending instants of the data table."""

    def holds(self, instant_time: str) -> bool:
        """Whether blocks of this instant are valid."""
        return self.committed.holds(instant_time) and instant_time not in self.pending


def pending_instants(data: Timeline) -> frozenset[str]:
    """Requested times of all pending instants of the data table, table services included."""
    pending = frozenset([item.requested_time for item in data.instants if not item.is_completed])
    return (
        pending.difference([item.requested_time for item in data.instants if item.is_completed]) if pending else pending
    )


def first_not_recorded(data: Timeline, metadata: Timeline) -> str:
    """The oldest completed instant of the data table that is missing in the metadata table; '' if none is.

    Every instant of the data table has one of the same requested time in the metadata table. An instant older than the
    oldest one there was archived, or completed before the metadata table was created; so did one whose completion time
    says it (layout 2). On layout 2 a rollback may have none if the metadata table has no instant that the data table
    lacks: then what it removed was never recorded. On layout 2 an instant that completed before a restore may have none
    if the metadata table was restored too: Hudi restores it to an older instant, and then records the difference to
    the folders.
    """
    recorded = {item.requested_time for item in metadata.instants if item.is_completed}
    needed = [item.requested_time for item in data.instants if item.is_completed and item.action not in _NOT_RECORDED]
    if recorded.issuperset(needed):
        return ""
    not_recorded: tuple[Action, ...] = _NOT_RECORDED
    restores = _recorded_restores(data, metadata)
    if metadata.layout == 2 and not _has_removed_instant(data, metadata, restores):
        not_recorded = (*_NOT_RECORDED, Action.ROLLBACK)
    first = min((time for time in recorded if not time.startswith(INITIAL)), default="")
    complete_at = max((created_at(metadata), *(began for began, _ in restores)))
    missing = (
        item.requested_time
        for item in data.instants
        if item.is_completed
        and item.action not in not_recorded
        and item.requested_time not in recorded
        and item.requested_time >= first
        and (not complete_at or (item.completion_time or "") > complete_at)
    )
    return min(missing, default="")


def created_at(metadata: Timeline) -> str:
    """When the partition `files` of a metadata table was created, from the files of all instants that had completed; ''
    on layout 1, and if that was archived."""
    times = (item.completion_time for item in metadata.instants if item.requested_time.startswith(INITIAL))
    return min(filter(None, times), default="")


def _recorded_restores(data: Timeline, metadata: Timeline) -> list[tuple[str, str]]:
    """(Requested time, completion time) of the restores of the data table that restored the metadata table too; none on
    layout 1. The metadata table has the files of all instants that had completed when such a restore began.

    Source: Hudi `HoodieBackedTableMetadataWriter.update(HoodieRestoreMetadata, String)`, which completes before the
    restore of the data table does.
    """
    own = [item.requested_time for item in metadata.instants if item.action is Action.RESTORE and item.is_completed]
    return [
        (item.requested_time, item.completion_time)
        for item in data.instants
        if item.action is Action.RESTORE
        and item.completion_time is not None
        and any(item.requested_time < time < item.completion_time for time in own)
    ]


def has_older_instants(data: Timeline, metadata: Timeline) -> bool:
    """Whether the data table's active timeline has instants that completed before the metadata table was created.

    Only the creation time tells that the metadata table does not lack them: see `first_not_recorded`.
    """
    created = created_at(metadata)
    return any(
        item.is_completed and item.action not in _NOT_RECORDED and (item.completion_time or created) <= created
        for item in data.instants
        if created
    )


def _has_removed_instant(data: Timeline, metadata: Timeline, restores: Collection[tuple[str, str]]) -> bool:
    """Whether the metadata table has a completed deltacommit that the data table has not, and has not archived, such as
    one that was rolled back. Not: those of `restores`, which have times of their own."""
    known = {item.requested_time for item in data.instants}
    return any(
        item.is_completed
        and item.action is Action.DELTA_COMMIT
        and item.requested_time not in known
        and not item.requested_time.startswith(INITIAL)
        and item.requested_time >= data.first_active
        and not any(began < item.requested_time < ended for began, ended in restores)
        for item in metadata.instants
    )
