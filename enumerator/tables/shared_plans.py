"""Plans of ranges that several streams, groups or readers of one table ask for: each is computed once. Any thread.

A plan holds as long as the table's timeline and properties are the same, because only an instant changes what a range
holds. Losing an entry costs time only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from penstock.enumerator.streams.plan_cache import LruCache
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.proto.model.splits import Plan
from penstock.proto.value_classes import dataclass
from penstock.table.config.properties import TableProperties
from penstock.table.hudi_table import HudiTable
from penstock.table.timeline.active import Timeline

MAX_PLANS: Final = 128
MAX_PLAN_SPLITS: Final = 1_000
"""A plan with more splits is not kept: it is not that of a new commit, but of a backlog."""


@dataclass(frozen=True, slots=True)
class _Shared:
    plan: Plan
    timeline: Timeline
    """The timeline of which it was planned."""
    properties: TableProperties
    """The properties of the table then."""


class SharedPlans:
    """The plans of ranges that were asked for last."""

    def __init__(self) -> None:
        self._plans: LruCache[tuple[str, PlanRequest, frozenset[str]], _Shared] = LruCache(MAX_PLANS)

    def plan(
        self,
        table: HudiTable,
        name: str,
        request: PlanRequest,
        passed_over: Collection[str],
        planned: Callable[[], Plan],
    ) -> Plan:
        """The plan of the request for a table of this name: `planned()`, or the result of an equal request before.

        Only ranges between positions are shared, and none with `onCorrupt=skip`, which depends on files that are
        missing now. A kept plan costs one listing of the timeline, which must be the one of which it was planned.
        """
        query = request.query
        is_range = isinstance(query, Incremental | Changes) and isinstance(query.upto, Position)
        if not is_range or request.hybrid is not None or request.skip_corrupt:
            return planned()
        key = (table.base_path, replace(request, table="", slots=0, of_stream=""), frozenset(passed_over))
        shared = self._plans.get(key)
        if shared is not None and shared.properties == table.properties and table.timeline() is shared.timeline:
            return replace(shared.plan, scan=replace(shared.plan.scan, table=name))
        before = table.last_timeline
        plan = planned()
        if before is not None and table.last_timeline is before and len(plan.splits) <= MAX_PLAN_SPLITS:
            self._plans.put(key, _Shared(plan, before, table.properties))
        return plan
