"""Which content of a metadata table counts, and whether it keeps up with its data table. Pure.

Source: Hudi `HoodieTableMetadataUtil.getValidInstantTimestamps`. A writer completes an instant in the metadata table
first and in the data table then, so the metadata table may be ahead; it is behind only if a writer left it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.table.files.slices import CommittedInstants
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import Action

INITIAL: Final = "00000000000000"
"""Instants that begin so hold what the table had when the metadata table, or an index in it, was made."""

_NOT_RECORDED: Final = (Action.SAVEPOINT, Action.INDEXING, Action.RESTORE)
"""Actions without an instant of the same time in the metadata table: they change no data file, or (restore) are done
there by instants of its own. What a restore takes away belongs to instants that are gone, and so does not count."""


@dataclass(frozen=True, slots=True)
class ValidBlocks:
    """Which log blocks count: of instants that completed in the metadata table (`committed`) and are not `pending` in
    the data table.

    Hudi counts the completed instants of the data table, those completed in the metadata table alone that are not
    pending (an index being built; older than the data table's active timeline), and those that a rollback named. For
    completed instants of the metadata table that is the same: what is neither completed nor pending in the data table
    was archived or rolled back, and the rollback's own instant takes its files out again.
    """

    committed: CommittedInstants
    pending: frozenset[str]

    def holds(self, instant_time: str) -> bool:
        """Whether a block of this instant counts."""
        return self.committed.holds(instant_time) and instant_time not in self.pending


def pending_instants(data: Timeline) -> frozenset[str]:
    """Requested times of everything that is pending in the data table, services too."""
    done = {item.requested_time for item in data.instants if item.is_completed}
    return frozenset(item.requested_time for item in data.instants if not item.is_completed) - done


def first_not_recorded(data: Timeline, metadata: Timeline) -> str:
    """The oldest completed instant of the data table that the metadata table should hold and does not; '' if none.

    Every instant of the data table has one of the same requested time in the metadata table. Older than the oldest of
    those that are there, it was archived or is part of what the metadata table was made from.
    """
    recorded = {item.requested_time for item in metadata.instants if item.is_completed}
    first = min((time for time in recorded if not time.startswith(INITIAL)), default="")
    missing = (
        item.requested_time
        for item in data.instants
        if item.is_completed
        and item.action not in _NOT_RECORDED
        and item.requested_time not in recorded
        and item.requested_time >= first
    )
    return min(missing, default="")
