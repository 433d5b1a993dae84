"""Check a progress against the timeline: late instants, consumed instants that are gone, a recreated table. Pure.

Also moves a progress to another timeline layout after a table upgrade.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.errors import DataInvalidated, LateInstant
from penstock.proto.model.positions import WHOLE_INSTANT, InstantTime, Position
from penstock.table.timeline.instants import Instant

_RESET = (
    "reset the group (`penstock groups reset`; a Spark query begins with a new checkpoint), or read a snapshot and "
    "continue from `latest`"
)


def refuse_late(facts: TimelineFacts, progress: Progress) -> None:
    """LateInstant if a data instant that was not consumed is completed at or before the position.

    Instants older than the active timeline are not late: they were archived when the position moved and are no longer
    tracked, or a savepoint keeps them before the active timeline.
    """
    if progress.position.is_earliest:
        return
    known = progress.consumed | progress.ahead
    for item in facts.timeline.completed_writes:
        if item.requested_time in known:
            continue
        order_key = facts.timeline.order_key(item)
        if not progress.position.holds(order_key) or not facts.is_data(item):
            continue
        if item.requested_time < facts.timeline.first_active:
            continue
        raise _late(facts.table, item, order_key, progress)


def refuse_archived_late(
    active: TimelineFacts, whole: TimelineFacts, progress: Progress, gone: Collection[InstantTime]
) -> None:
    """LateInstant if a data instant completed at or before the position and was archived before it was read.

    `whole` are the active facts with the archive, `gone` the consumed instants that were archived since the position
    moved. Hudi archives in order of requested time (`TimelineArchiverV2.getInstantsToArchive`). So an instant that was
    archived when the position moved was requested before all of `gone`; an instant requested after the first of them
    was active or not completed at that time.
    """
    if not gone or progress.position.is_earliest:
        return
    first, known = min(gone), progress.consumed | progress.ahead
    for item in whole.timeline.completed_writes:
        order_key = whole.timeline.order_key(item)
        if item.requested_time <= first or item.requested_time in known or not progress.position.holds(order_key):
            continue
        if active.timeline.completed_write(item.requested_time) is None and whole.is_data(item):
            raise _late(active.table, item, order_key, progress)


def _late(table: str, item: Instant, order_key: InstantTime, progress: Progress) -> LateInstant:
    return LateInstant(
        f"instant {item.requested_time} of table {table} completed at order key {order_key}, at or before "
        f"position {progress.position}, which had moved past it before it completed: its rows were not delivered and "
        f"will not be. Read range ({just_before(order_key)}, {order_key}] once, then {_RESET}; "
        "writers whose clocks agree, or table version 8 and above, prevent this"
    )


def missing_instants(facts: TimelineFacts, progress: Progress) -> frozenset[InstantTime]:
    """Consumed instants that are not completed on the active timeline: archived, or rolled back."""
    return frozenset(
        item for item in progress.consumed | progress.ahead if facts.timeline.completed_write(item) is None
    )


def refuse_invalidated(
    facts: TimelineFacts, progress: Progress, gone: Collection[str], archived: Collection[str], table_id: str
) -> None:
    """DataInvalidated if one of the `gone` instants was not archived. `archived` are requested times of the archive."""
    lost = sorted(set(gone) - set(archived))
    if lost:
        pending = {item.requested_time for item in facts.timeline.pending}
        state = "pending again" if lost[0] in pending else "neither active nor archived"
        raise DataInvalidated(
            f"instant {lost[0]} of table {facts.table}{_others(lost)} was consumed at position {progress.position} and "
            f"is {state}: it was rolled back, the table was restored to before it, or {_recreated(progress, table_id)}."
            f" Its rows are no longer part of the table; remove them from the sink, then {_RESET}"
        )


def refuse_newer_position(facts: TimelineFacts, progress: Progress, reaches: bool, table_id: str) -> None:
    """DataInvalidated for a position after everything in the timeline and its archive."""
    if not reaches:
        raise DataInvalidated(
            f"position {progress.position} of table {facts.table} is after everything in its timeline: it was "
            f"restored to before that, or {_recreated(progress, table_id)}. Remove the rows that were read from the "
            f"sink, then {_RESET}"
        )


def newest_active(facts: TimelineFacts) -> str:
    """The greatest order key of an active completed write; '' if there is none."""
    return max(map(facts.timeline.order_key, facts.timeline.completed_writes), default="")


def progress_at(
    facts: TimelineFacts, position: Position, before: Progress | None, layout: int, whole: TimelineFacts | None = None
) -> Progress:
    """The progress at a position of these facts, with the active data instants that it has consumed.

    `whole`: the facts with the archive, if the position moved over archived instants. Archived instants are dropped,
    except for the newest if no active one is left: it is needed to detect a recreated table. Instants that a savepoint
    keeps before the active timeline are dropped too, because later ones may already be archived
    (`hoodie.archive.beyond.savepoint`).
    """
    inside = facts.timeline.completed_writes
    consumed = {
        item.requested_time
        for item in inside
        if item.requested_time >= facts.timeline.first_active
        and position.touches(facts.timeline.order_key(item))
        and facts.is_data(item)
    }
    ahead = frozenset(
        item.requested_time
        for item in inside
        if before is not None and item.requested_time in before.ahead and item.requested_time not in consumed
    )
    if not consumed and before is not None and not position.is_earliest and before.consumed:
        consumed = {max(before.consumed | _consumed_at(whole, position))}
    return Progress(position, layout, frozenset(consumed), ahead, before.table_id if before is not None else "")


def _consumed_at(facts: TimelineFacts | None, position: Position) -> frozenset[InstantTime]:
    """Requested times of the completed data instants before the position; none without facts."""
    return frozenset(
        item.requested_time
        for item in (() if facts is None else facts.timeline.completed_writes)
        if facts is not None and position.touches(facts.timeline.order_key(item)) and facts.is_data(item)
    )


def moved_to_layout(facts: TimelineFacts, progress: Progress, layout: int) -> Progress:
    """The progress on another timeline layout after an upgrade. No instant is skipped or read twice.

    `facts` include archived instants. Consumed instants are those in the progress, and archived ones with a requested
    time up to the old position. The new position is before the first instant, in the new order, that was not consumed;
    consumed instants after it become `ahead`. DataInvalidated if the old position lies inside an instant that other
    instants precede in the new order.
    """
    if progress.layout in (0, layout) or progress.position.is_earliest:
        return replace(progress, layout=layout)
    order_key = facts.timeline.order_key
    known = progress.consumed | progress.ahead
    cut = progress.position.order_key if progress.position.index != WHOLE_INSTANT else ""

    def is_consumed(item: Instant) -> bool:
        archived = item.requested_time < facts.timeline.first_active and item.requested_time <= _requested_up_to(
            progress
        )
        return item.requested_time in known or archived

    data = [item for item in facts.timeline.completed_writes if facts.is_data(item)]
    ordered = sorted(data, key=lambda item: (order_key(item), item.requested_time))
    fresh = next((order_key(item) for item in ordered if not is_consumed(item)), None)
    before = [order_key(item) for item in ordered if fresh is None or order_key(item) < fresh]
    position = Position(before[-1]) if before else Position(just_before(fresh or progress.position.order_key))
    if cut:
        partial = next((item for item in ordered if item.requested_time == cut), None)
        if partial is None or not before or order_key(partial) != before[-1]:
            raise DataInvalidated(
                f"position {progress.position} of table {facts.table} lies inside an instant, and an upgrade of the "
                f"table placed other instants before that one; {_RESET}"
            )
        position = Position(before[-1], progress.position.index)
    ahead = frozenset(
        item.requested_time for item in ordered if is_consumed(item) and not position.touches(order_key(item))
    )
    return Progress(
        position=position,
        layout=layout,
        consumed=progress.consumed - ahead,
        ahead=ahead,
        table_id=progress.table_id,
    )


def _requested_up_to(progress: Progress) -> str:
    """The requested time up to which archived instants were consumed: on layout 1 the position itself."""
    return (
        max((progress.position.order_key, *progress.consumed))
        if progress.layout == 1
        else max(progress.consumed, default="")
    )


def just_before(order_key: str) -> InstantTime:
    """The greatest order key below this one, of the same length."""
    return InstantTime(str(max(int(order_key) - 1, 0)).zfill(len(order_key)))


def _recreated(progress: Progress, table_id: str) -> str:
    renamed = progress.table_id and progress.table_id != table_id
    return f"it is another table now ({table_id}, it was {progress.table_id})" if renamed else "the table was recreated"


def _others(lost: list[InstantTime] | list[str]) -> str:
    return f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
