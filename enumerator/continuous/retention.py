"""What a table's cleaner leaves a group: lag and time to loss, and from where a lost range can begin again.

Shell: reads the timeline and the newest clean, has ranges planned. Not here: the numbers (`lag`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import cache
from typing import TYPE_CHECKING

from penstock.enumerator.clocks import wall_ms
from penstock.enumerator.continuous.consistency import just_before
from penstock.enumerator.continuous.lag import Retention, instant_ms, lag_of
from penstock.enumerator.continuous.round_limits import data_instants_behind
from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.planning.archived_timeline import with_archive
from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import PositionExpired, StorageError
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import Changes, Incremental, Latest, PlanRequest
from penstock.table.hudi_table import HudiTable
from penstock.table.timeline.instants import Instant

if TYPE_CHECKING:
    from penstock.proto.model.groups import GroupLag


def lag(
    table: HudiTable,
    progress: Progress,
    committed: Position,
    *,
    zone: tzinfo | None = None,
    clock_ms: Callable[[], int] = wall_ms,
) -> GroupLag:
    """`lags` of one."""
    return lags(table, [(progress, committed)], zone=zone, clock_ms=clock_ms)[0]


def lags(
    table: HudiTable,
    places: Sequence[tuple[Progress, Position]],
    *,
    zone: tzinfo | None = None,
    clock_ms: Callable[[], int] = wall_ms,
) -> list[GroupLag]:
    """How far groups that committed up to a position are behind, by the wall clock, and their times to loss. The table
    is read once.

    `zone` is that of a timeline that is written in its writer's local time; without it an instant of such a timeline
    completed when its file was last changed, where the storage tells, and no seconds of loss are told.
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

    retention, now_ms = _newest_clean(table, facts.timeline.completed_cleans), clock_ms()
    return [
        lag_of(
            facts,
            committed,
            progress.ahead,
            now_ms=now_ms,
            completed_ms=completed_ms,
            retention=retention,
            zone=known,
        )
        for progress, committed in places
    ]


def earliest_position(table: HudiTable, request: PlanRequest) -> Position:
    """The earliest position from which a range to now can be answered exactly; the newest one at worst.

    For changes EARLIEST if that can be; for rows never EARLIEST, which is the table's snapshot, but at best the place
    before the oldest known instant. Candidates are tried by bisection: what can be answered from one place can be from
    every later one. At most about twenty plans. Errors of planning other than PositionExpired as they come.
    """
    table = table.refreshed()
    facts = read_timeline(table)
    if facts.complete_from:
        facts = with_archive(facts, table.archive())
    keys = [key for key, _ in data_instants_behind(facts, EARLIEST)]
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
    query = Incremental(after, Latest())
    asked = request.query
    ranged = Changes(asked.format, after, Latest()) if isinstance(asked, Changes) else query
    try:
        plan_request(table, request.table, replace(request, query=ranged, event_time="", event_time_unit=""))
    except PositionExpired:
        return False
    return True


def _newest_clean(table: HudiTable, cleans: tuple[Instant, ...]) -> Retention | None:
    """None without a completed clean, or if it is archived while it is read."""
    if not cleans:
        return None
    newest = cleans[-1]
    try:
        return Retention(newest.requested_time, table.clean(newest))
    except StorageError:
        return None
