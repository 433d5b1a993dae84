"""Lag and time to loss of groups on a table, and the earliest position that can still be read.

Reads the timeline and the newest clean, and plans ranges to test positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import cache
from typing import TYPE_CHECKING

from penstock.enumerator.clocks import wall_ms
from penstock.enumerator.continuous.consistency import just_before
from penstock.enumerator.continuous.lag import Retention, lag_of
from penstock.enumerator.continuous.round_limits import data_instants_after
from penstock.enumerator.continuous.types import ReaderPlace
from penstock.enumerator.planning.archived_timeline import with_archive
from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.planning.plan import plan_request
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.errors import PositionExpired, StorageError
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import Changes, Incremental, Latest, PlanRequest
from penstock.table.hudi_table import HudiTable
from penstock.table.timeline.instants import Instant
from penstock.table.timeline.zones import instant_ms

if TYPE_CHECKING:
    from penstock.proto.model.groups import GroupLag


def lags(
    table: HudiTable,
    readers: Sequence[ReaderPlace],
    *,
    zone: tzinfo | None = None,
    clock_ms: Callable[[], int] = wall_ms,
) -> list[GroupLag]:
    """The lag and the time to loss of each reader, by the wall clock. Reads the table once, and its archive only for a
    reader that holds the cleaner and has not read archived instants.

    `zone` is that of a timeline in its writer's local time. Without it the completion time of an instant on such a
    timeline is the modification time of its file, if the storage keeps it, and the seconds until loss are unknown.
    """
    table = table.refreshed()
    facts = read_timeline(table)
    known = UTC if table.properties.timezone.upper() == "UTC" else zone

    @cache
    def completed_ms(item: Instant) -> int | None:
        if item.completion_time and known is not None:
            return instant_ms(item.completion_time, known)
        info = table.storage.file_info(f"{table.properties.timeline_folder}/{item.file_name}")
        if info is None or not info.modified_ns:
            return instant_ms(facts.timeline.order_key(item), known)
        return info.modified_ns // 1_000_000

    @cache
    def with_archived() -> TimelineFacts:
        return with_archive(facts, table.archive())

    def needs_archive(reader: ReaderPlace) -> bool:
        is_held = retention is not None and retention.hold_of(reader.name) is not None
        return is_held and reader.needed.order_key < facts.complete_from

    retention, now_ms = _newest_clean(table, facts.timeline.completed_cleans), clock_ms()
    return [
        lag_of(
            facts,
            reader,
            now_ms=now_ms,
            completed_ms=completed_ms,
            retention=retention,
            zone=known,
            whole=with_archived() if needs_archive(reader) else None,
        )
        for reader in readers
    ]


def earliest_position(table: HudiTable, request: PlanRequest) -> Position:
    """The earliest position from which a range up to now can be answered exactly; in the worst case the newest one.

    For changes this may be EARLIEST; for rows it is at best the position before the oldest known instant, because a
    range from EARLIEST is a snapshot. Candidates are tested by bisection, since a range that can be answered from one
    position can be from every later one: about twenty plans at most. Errors of planning other than PositionExpired.
    """
    table = table.refreshed()
    facts = read_timeline(table)
    if facts.complete_from:
        facts = with_archive(facts, table.archive())
    keys = [key for key, _ in data_instants_after(facts, EARLIEST)]
    if not keys:
        return EARLIEST
    changes = isinstance(request.query, Changes)
    candidates = [EARLIEST if changes else Position(just_before(keys[0])), *map(Position, keys)]
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if _can_answer(table, request, candidates[middle]):
            high = middle
        else:
            low = middle + 1
    return candidates[low]


def _can_answer(table: HudiTable, request: PlanRequest, after: Position) -> bool:
    query = request.query
    to_now = Changes(query.format, after, Latest()) if isinstance(query, Changes) else Incremental(after, Latest())
    try:
        plan_request(table, request.table, replace(request, query=to_now, event_time="", event_time_unit=""))
    except PositionExpired:
        return False
    return True


def _newest_clean(table: HudiTable, cleans: tuple[Instant, ...]) -> Retention | None:
    """None without a completed clean, or if it is archived while this reads it."""
    if not cleans:
        return None
    newest = cleans[-1]
    try:
        return Retention(newest.requested_time, table.clean(newest))
    except StorageError:
        return None
