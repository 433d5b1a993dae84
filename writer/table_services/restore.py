"""Which instants a restore to a savepoint removes, in which order, and whether an instant may be rolled back. Pure.

Source: Hudi `RestorePlanActionExecutor`, `RestoreInstantComparatorFactory`, `BaseRollbackActionExecutor`.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.table.timeline.active import Timeline
from penstock.table.timeline.instants import WRITE_ACTIONS, Action, Instant
from penstock.table.timeline.services.restores import RemovedInstant

_COMPACTIONS = (Action.COMMIT, Action.COMPACTION)
"""Actions of compactions in a merge-on-read table, in any state."""


def removed_instants(
    timeline: Timeline, savepoint: Instant, *, is_merge_on_read: bool, clusterings: Collection[str]
) -> tuple[RemovedInstant, ...]:
    """The writes and table services that a restore to `savepoint` removes: pending clusterings first, then those that
    completed after the instant of the savepoint or are pending, the newest first.

    A compaction counts by its requested time: logs that were written after it was planned belong to its slice.
    clusterings: requested times of the pending clusterings. On layout 1 all count by their requested time.
    """
    target = timeline.completed_write(savepoint.requested_time)
    if target is None:
        return ()
    saved = timeline.order_key(target)
    later = []
    for item in timeline.instants:
        if item.action not in WRITE_ACTIONS or item.requested_time == savepoint.requested_time:
            continue
        if timeline.layout == 1 or (is_merge_on_read and item.action in _COMPACTIONS):
            is_later = item.requested_time > savepoint.requested_time
        else:
            is_later = not item.is_completed or timeline.order_key(item) > saved
        if is_later:
            later.append(item)
    ordered = sorted(later, key=lambda item: _age(timeline, item, clusterings), reverse=True)
    return tuple(RemovedInstant(item.requested_time, item.action) for item in ordered)


def _age(timeline: Timeline, item: Instant, clusterings: Collection[str]) -> tuple[bool, bool, str]:
    is_pending = not item.is_completed
    key = item.requested_time if is_pending else timeline.order_key(item)
    return (is_pending and item.requested_time in clusterings, is_pending, key)


def dependents(timeline: Timeline, instant: Instant) -> tuple[Instant, ...]:
    """The instants that forbid to roll back the completed write `instant`: writes and services that were requested or
    completed after it, by requested time. They may have read its rows, or changed its files."""
    own = timeline.order_key(instant)
    return tuple(
        item
        for item in timeline.instants
        if item.action in WRITE_ACTIONS
        and item.requested_time != instant.requested_time
        and (item.requested_time > instant.requested_time or (item.is_completed and timeline.order_key(item) > own))
    )
