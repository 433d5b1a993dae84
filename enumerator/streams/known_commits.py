"""The event times of the known commits after a progress, and the snapshot at the start, for streams and groups.

Reads the timeline, and plans each later commit once; the spans are cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo

from penstock.enumerator.continuous.advance import reaching_back, start_progress
from penstock.enumerator.continuous.round_limits import data_instants_after
from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.planning.plan import Planning, newest_schema
from penstock.enumerator.planning.scan import check_event_time, event_time_column
from penstock.enumerator.snapshots.plan import plan_snapshot
from penstock.enumerator.snapshots.split_list import digest_of
from penstock.enumerator.streams.alignment import units_within
from penstock.enumerator.streams.plan_cache import StreamPlanCache
from penstock.enumerator.streams.watermark import span_of
from penstock.proto.errors import ConfigurationError, PositionExpired
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.proto.model.splits import Plan, Split
from penstock.proto.model.streams import EventTimeCeiling, EventTimeRule, Progress, WatermarkFallback
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.changes import change_schema
from penstock.table.timeline.zones import instant_ms, named_zone


def timeline_zone(table: HudiTable, rule: EventTimeRule | None) -> tzinfo | None:
    """The time zone of the timeline; None if it is LOCAL and no option names the zone."""
    if table.properties.timezone.upper() == "UTC":
        return UTC
    name = rule.timezone if rule is not None else ""
    return named_zone(name) if name else None


def instant_us(instant: InstantTime, zone: tzinfo | None) -> int | None:
    """UTC microseconds of an instant; None without a zone."""
    time_ms = instant_ms(instant, zone)
    return None if time_ms is None else time_ms * 1000


def check_rule(table: HudiTable, name: str, request: PlanRequest, rule: EventTimeRule | None) -> None:
    """ConfigurationError for a watermark rule that does not fit the table."""
    if rule is None:
        return
    if rule.fallback is WatermarkFallback.COMMIT_TIME and timeline_zone(table, rule) is None:
        raise ConfigurationError(
            f"watermarkFallback=commitTime: the timeline of table {name} is in its writer's local time "
            "(hoodie.table.timeline.timezone=LOCAL), so the time of a commit is not known: give the option "
            "timelineTimezone, or use watermarkFallback=scan"
        )
    schema = newest_schema(table)
    if schema is not None:
        returned = schema.arrow
        if isinstance(request.query, Changes):
            returned = change_schema(returned, request.query.format)
        column = event_time_column(request.event_time, returned)
        check_event_time(column, returned.field(column).type, request.event_time_unit, unit_needed=True)


def listed_snapshot(
    table: HudiTable,
    path: str,
    name: str,
    request: PlanRequest,
    at: Position,
    planned: Planning,
    cache: StreamPlanCache,
    digest: str = "",
) -> tuple[Plan, tuple[Split, ...]]:
    """The plan of the snapshot at a position, and its splits in event-time order.

    `digest` is that of the list that a read is in: then a cached list is used. Without it the snapshot is planned now,
    because files of an earlier list may be cleaned after a service replaced them.
    """
    changes = request.query.format if isinstance(request.query, Changes) else None
    key = (path, replace(request, table="", slots=0, of_stream="", query=Incremental(EARLIEST, at)), changes)
    snapshot = cache.lists.get((*key, digest)) if digest else None
    if snapshot is None:
        snapshot = plan_snapshot(table, name, request, at, changes, planned)
        cache.lists.put((*key, digest_of(snapshot[1])), snapshot)
    return snapshot


def newest_within(table: HudiTable, upto: Position | None) -> Progress:
    """The progress at the newest position of the table, or at `upto` if that is earlier."""
    newest = start_progress(table, None)
    return start_progress(table, upto) if upto is not None and upto < newest.position else newest


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCommits:
    """The event times of what a stream or group reads of a table."""

    table: HudiTable
    """The table as it is now."""
    path: str
    """The table's path, which identifies it in `cache`."""
    name: str
    """The table's name in plans."""
    request: PlanRequest
    """The read, with the event-time column; the bounds of its query are ignored."""
    rule: EventTimeRule
    """How event times are bounded."""
    upto: Position | None
    """The end of the read; None: it does not end."""
    planned: Planning
    """Plans a request."""
    cache: StreamPlanCache
    """Has the spans of ranges."""

    def instant_us(self, instant: InstantTime) -> int | None:
        """UTC microseconds of an instant of the table; None if its time zone is unknown."""
        return instant_us(instant, timeline_zone(self.table, self.rule))

    def span_after(self, progress: Progress) -> EventTimeSpan:
        """The span of the known commits after `progress`: each commit's rows as of that commit."""
        span = EventTimeSpan()
        for _, of_range in self.each_after(progress, self.upto):
            span |= of_range
            if span.is_unbounded:
                return span
        return span

    def each_after(self, progress: Progress, upto: Position | None) -> Iterator[tuple[int, EventTimeSpan]]:
        """Ranges of the known commits after `progress`, mostly one commit each: the number of data commits as
        `max_commits` counts them, and the span of their rows."""
        facts = reaching_back(self.table, read_timeline(self.table), progress.position, self.request)
        count, before = 0, progress.position
        for order_key, instants in data_instants_after(facts, before, upto):
            new = sum(item.requested_time not in progress.ahead for item in instants)
            if not new:
                continue
            if not progress.position.is_earliest or order_key >= facts.complete_from:
                count += new
            end = Position(order_key) if upto is None else min(Position(order_key), upto)
            of_range = self._span_of_range(before, end, progress)
            if of_range is None:
                continue  # no batch can end at a state that cannot be read; the next readable one covers its rows
            yield count, of_range
            count, before = 0, end

    def commits_within(self, ceiling: EventTimeCeiling, progress: Progress) -> int:
        """How many data commits after `progress` the next batch or round may contain. At least 1 if no later commit is
        known: one that completes meanwhile is then read alone. 0: none."""
        counts: list[int] = []

        def spans() -> Iterator[EventTimeSpan]:
            for count, span in self.each_after(progress, self.upto):
                counts.append(count)
                yield span

        within = units_within(spans(), ceiling)
        return max(sum(counts[:within]), 1) if within or not counts else 0

    def _span_of_range(self, after: Position, upto: Position, progress: Progress) -> EventTimeSpan | None:
        """The span of the rows of a range; None if its end can no longer be answered."""
        request = replace(self.request, columns=())  # a later schema may lack some
        if isinstance(request.query, Changes):
            request = replace(request, query=Changes(request.query.format, after, upto, progress.ahead))
        else:
            request = replace(request, query=Incremental(after, upto, progress.ahead))
        key = (self.path, replace(request, table="", slots=0, of_stream=""), self.rule)
        span = self.cache.spans.get(key)
        if span is None:
            try:
                plan = self.planned(self.table, self.name, request, ())
            except PositionExpired:
                return None
            span = span_of(plan.splits, self.rule, self.instant_us)
            self.cache.spans.put(key, span)
        return span
