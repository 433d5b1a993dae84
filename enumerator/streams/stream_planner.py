"""Where a stream begins, and how far its next batch goes: one look at the table, planned, with its watermark.

Shell: reads the table through `watch` and planning, asks the pure parts. Not here: decisions (`watermark`,
`snapshot_list`), caches (`memory`), when to look (the caller).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Final

from penstock.enumerator.continuous.advance import advance, reaching_back, start_progress
from penstock.enumerator.continuous.lag import instant_ms
from penstock.enumerator.continuous.retention import earliest_position
from penstock.enumerator.continuous.round_limits import data_instants_behind
from penstock.enumerator.continuous.types import Following, NextRound, NothingNew
from penstock.enumerator.handover.topic_source import TopicSide
from penstock.enumerator.log import log_event
from penstock.enumerator.planning.commit_order import horizon, is_earliest
from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.planning.plan import Planning, newest_schema
from penstock.enumerator.planning.scan import check_event_time, event_time_column
from penstock.enumerator.snapshots.plan import plan_list
from penstock.enumerator.snapshots.split_list import checked, cut, digest_of
from penstock.enumerator.streams.plan_cache import StreamMemory
from penstock.enumerator.streams.watermark import Reach, next_watermark, reach_of, watermark_at_end
from penstock.proto.errors import ConfigurationError, InvariantViolation, PositionExpired
from penstock.proto.model.hybrid import Hybrid, HybridMode
from penstock.proto.model.lost_ranges import OnLostRange
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.proto.model.splits import Plan, Split
from penstock.proto.model.streams import (
    CommitsBatch,
    NextBatch,
    NoBatch,
    Progress,
    SnapshotBatch,
    SnapshotPlace,
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamPoint,
    StreamScope,
    StreamStart,
    Watermark,
    WatermarkFallback,
    batch_request,
    commits_request,
)
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.changes import change_schema
from penstock.table.timeline.zones import named_zone

SETTLED_MS: Final = 60_000
"""So long behind a time no instant completes at it any more, whatever the writers' clocks say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLook:
    """One look at a table for a stream. `path` tells tables apart in `memory`, `name` is what plans call the table."""

    table: HudiTable
    path: str
    name: str
    scope: StreamScope
    planned: Planning
    memory: StreamMemory
    side: TopicSide
    clock_ms: Callable[[], int]
    rows_of: Callable[[HudiTable, Split], int]

    def start(self, start: StreamStart) -> StreamPoint:
        """See `Enumerator.start_stream`."""
        self._check_event_time()
        match start:
            case StartAfter(position):
                return StreamPoint(progress=start_progress(self.table, position))
            case StartLatest():
                return StreamPoint(progress=start_progress(self.table, None))
            case StartSnapshot():
                return self._start_snapshot(Watermark())

    def _check_event_time(self) -> None:
        """ConfigurationError for a watermark that this table cannot have."""
        rule, request = self.scope.rule, self.scope.request
        if rule is None:
            return
        if rule.fallback is WatermarkFallback.COMMIT_TIME and self._zone is None:
            raise ConfigurationError(
                f"watermarkFallback=commitTime: the timeline of table {self.name} is in its writer's local time "
                "(hoodie.table.timeline.timezone=LOCAL), so the time of a commit is not known: give the option "
                "timelineTimezone, or use watermarkFallback=scan"
            )
        schema = newest_schema(self.table)
        if schema is not None:
            returned = schema.arrow
            if isinstance(request.query, Changes):
                returned = change_schema(returned, request.query.format)
            column = event_time_column(request.event_time, returned)
            check_event_time(column, returned.field(column).type, request.event_time_unit, unit_needed=True)

    def next_batch(self, point: StreamPoint) -> NextBatch:
        """See `Enumerator.next_batch`."""
        if point.ended:
            return NextBatch(point=point)
        try:
            return self._behind(point)
        except PositionExpired as error:
            hybrid = self.scope.request.hybrid
            if hybrid is not None and (hybrid.mode is HybridMode.CHANGELOG or point.progress.kafka is not None):
                raise  # what a topic has lost is not in the lake's later commits; a changelog's lake is one state
            return self._behind_loss(point, error)

    def _behind(self, point: StreamPoint) -> NextBatch:
        place, hybrid = point.snapshot, self.scope.request.hybrid
        if place is not None and place.done < place.total:
            return self._in_snapshot(point, place)
        if hybrid is None:
            return self._in_commits(point)
        if point.progress.kafka is None:
            found = self._in_lake_of(hybrid, point)
            if found is not None:
                return found
        from penstock.enumerator.streams.topic_batches import behind_lake  # late: few streams have a topic

        batch, plan = behind_lake(self.table, self.name, self.scope, hybrid, point, self.side)
        if plan is not None:
            self._keep(batch.point, plan)
        return batch

    def _in_lake_of(self, hybrid: Hybrid, point: StreamPoint) -> NextBatch | None:
        """The next batch of the lake; None once the lake has no more. A changelog's is the state alone: the newest rows
        of later commits do not tell what was deleted."""
        empty = is_earliest(point.progress.position)
        if hybrid.mode is HybridMode.CHANGELOG:
            again = self._start_snapshot(point.watermark) if empty else point
            if again.snapshot is None or again.snapshot.done == again.snapshot.total:
                return NextBatch(point=point) if is_earliest(again.progress.position) else None
            return self._in_snapshot(again, again.snapshot)
        found = self._in_commits(point)
        return found if found.point != point or empty else None

    def _behind_loss(self, point: StreamPoint, error: PositionExpired) -> NextBatch:
        """What lies behind the point cannot be answered any more: what the scope says is done, and told."""
        match self.scope.on_lost_range:
            case OnLostRange.FAIL:
                raise error
            case OnLostRange.EARLIEST:
                behind = earliest_position(self.table, self._request)
                again = StreamPoint(progress=start_progress(self.table, behind), watermark=point.watermark)
            case OnLostRange.SNAPSHOT:
                again = self._start_snapshot(point.watermark)
        if again.snapshot is None and again.progress.position <= point.progress.position:
            # the range can be answered after all: a file was out of sight. A point never moves back
            return self._behind(point)
        log_event(
            "range lost",
            table=self.name,
            after=point.progress.position,
            goes_on_behind=again.progress.position,
            snapshot=again.snapshot is not None,
            reason=str(error)[:500],
        )
        return replace(self._behind(again), lost=str(error))

    def _start_snapshot(self, watermark: Watermark) -> StreamPoint:
        newest = start_progress(self.table, None)
        upto = self.scope.upto
        if upto is not None and upto < newest.position:
            newest = start_progress(self.table, upto)
        _, splits = self._list(newest.position)
        place = SnapshotPlace(done=0, total=len(splits), digest=digest_of(splits)) if splits else None
        return StreamPoint(progress=newest, snapshot=place, watermark=watermark)

    def _in_snapshot(self, point: StreamPoint, place: SnapshotPlace) -> NextBatch:
        plan, splits = self._list(point.progress.position)
        checked(splits, place.digest, self.name, str(point.progress.position))
        end = cut(splits, place.done, self.scope.limits, lambda split: self.rows_of(self.table, split))
        planned, later = splits[place.done : end], splits[end:]
        watermark = self._watermark(point, planned, point.progress, later)
        reached = replace(
            point,
            snapshot=replace(place, done=end),
            watermark=watermark,
            content=SnapshotBatch(place.done),
        )
        self._keep(reached, replace(plan, splits=planned))
        return NextBatch(point=self._ended(reached), schema_json=plan.scan.schema_json)

    def _in_commits(self, point: StreamPoint) -> NextBatch:
        bounds = [end for end in (self.scope.upto, self.scope.target) if end is not None]
        following = Following(
            request=self._request,
            progress=point.progress,
            limits=self.scope.limits,
            upto=min(bounds, default=None),
        )
        found = advance(self.table, self.name, following, clock_ms=self.clock_ms, planned=self.planned)
        match found:
            case NothingNew():
                end = self._ended(replace(point, content=NoBatch()))
                return NextBatch(point=end if end.ended else point)
            case NextRound(plan=plan, commit_range=commit_range, progress=progress):
                reached = StreamPoint(
                    progress=progress,
                    watermark=self._watermark(point, plan.splits, progress, ()),
                    content=CommitsBatch(commit_range.after, found.without),
                )
                self._keep(reached, plan)
                return NextBatch(point=self._ended(reached), schema_json=plan.scan.schema_json)

    def _keep(self, reached: StreamPoint, plan: Plan) -> None:
        """The caller will ask for the batch's plan next."""
        request = batch_request(self.scope, reached)
        if request is not None:
            self.memory.keep_plan(self.path, request, plan)

    @property
    def _request(self) -> PlanRequest:
        return commits_request(self.scope)

    @property
    def _zone(self) -> tzinfo | None:
        """The zone of the timeline; None for a LOCAL one that nobody tells."""
        if self.table.properties.timezone.upper() == "UTC":
            return UTC
        told = self.scope.rule.timezone if self.scope.rule is not None else ""
        return named_zone(told) if told else None

    def _instant_us(self, instant: InstantTime) -> int | None:
        told_ms = instant_ms(instant, self._zone)
        return None if told_ms is None else told_ms * 1000

    def _list(self, at: Position) -> tuple[Plan, tuple[Split, ...]]:
        """The snapshot's splits, all of them, in their order."""
        request = self._request
        changes = request.query.format if isinstance(request.query, Changes) else None
        alike = replace(request, table="", slots=0, of_stream="", query=Incremental(EARLIEST, at))
        key = (self.path, alike, changes)
        held = self.memory.lists.get(key)
        if held is None:
            held = plan_list(self.table, self.name, request, at, changes, self.planned)
            self.memory.lists.put(key, held)
        return held

    def _watermark(
        self, point: StreamPoint, planned: tuple[Split, ...], progress: Progress, later: tuple[Split, ...]
    ) -> Watermark:
        """Of the batch that holds `planned`; `later` are splits of the snapshot that come behind it."""
        rule = self.scope.rule
        if rule is None:
            return self._commit_watermark(point.watermark, progress.position)
        coming = reach_of(later, rule, self._instant_us) | self._coming(progress)
        return next_watermark(point.watermark, reach_of(planned, rule, self._instant_us), coming, rule)

    def _commit_watermark(self, before: Watermark, position: Position) -> Watermark:
        """Without an event-time column the commit's time is the event time."""
        at_us = self._instant_us(position.order_key)
        if at_us is None:
            return before
        return Watermark(at_us if before.at_us is None else max(before.at_us, at_us), at_us)

    def _coming(self, progress: Progress) -> Reach:
        """What known commits hold that no batch up to `progress` does: each commit's rows as it left them."""
        rule = self.scope.rule
        if rule is None:
            raise InvariantViolation(f"table {self.name}: a stream without a rule of watermarks")
        facts = reaching_back(self.table, read_timeline(self.table), progress.position, self._request)
        found, before = Reach(), progress.position
        for order_key, instants in data_instants_behind(facts, before, self.scope.upto):
            if all(item.requested_time in progress.ahead for item in instants):
                continue
            end = Position(order_key) if self.scope.upto is None else min(Position(order_key), self.scope.upto)
            reach = self._reach(before, end, progress)
            if reach is None:
                continue  # a state that cannot be read any more is no batch's end: the next one that can tells of it
            found, before = found | reach, end
            if found.is_open:
                return found
        return found

    def _reach(self, after: Position, upto: Position, progress: Progress) -> Reach | None:
        """Of the rows of a range; None if its end cannot be answered any more."""
        rule, request = self.scope.rule, replace(self._request, columns=())  # a later schema may lack some
        if rule is None:
            raise InvariantViolation(f"table {self.name}: a stream without a rule of watermarks")
        if isinstance(request.query, Changes):
            request = replace(request, query=Changes(request.query.format, after, upto, progress.ahead))
        else:
            request = replace(request, query=Incremental(after, upto, progress.ahead))
        key = (self.path, replace(request, table="", slots=0, of_stream=""), rule)
        held = self.memory.reaches.get(key)
        if held is None:
            try:
                plan = self.planned(self.table, self.name, request, ())
            except PositionExpired:
                return None
            held = reach_of(plan.splits, rule, self._instant_us)
            self.memory.reaches.put(key, held)
        return held

    def _ended(self, point: StreamPoint) -> StreamPoint:
        """The point, as the stream's end if nothing can come behind it up to the scope's end."""
        upto, place = self.scope.upto, point.snapshot
        if upto is None or (place is not None and place.done < place.total):
            return point
        if point.progress.position < upto and not self._is_past(point.progress.position, upto):
            return point
        return replace(point, watermark=watermark_at_end(point.watermark, self.scope), ended=True)

    def _is_past(self, position: Position, upto: Position) -> bool:
        """Whether the clock says that no instant completes at or before `upto` any more, and none is there unread."""
        facts = read_timeline(self.table)
        hole = horizon(facts.timeline, facts.pending_clusterings)
        upto_us = self._instant_us(upto.order_key)
        if hole is not None and hole.requested_time <= upto.order_key:
            return False
        if upto_us is None or self.clock_ms() - SETTLED_MS < upto_us // 1000:
            return False
        return next(data_instants_behind(facts, position, upto), None) is None


def check_scope(scope: StreamScope) -> None:
    """ConfigurationError for a scope that no stream can have."""
    query = scope.request.query
    if not isinstance(query, Incremental | Changes):
        raise ConfigurationError(f"a stream of {type(query).__name__}: expected rows of commits, or changes")
    if scope.rule is not None and not scope.request.event_time:
        raise ConfigurationError("a watermark without an event-time column: give the option eventTime")
    if scope.on_lost_range is OnLostRange.SNAPSHOT and isinstance(query, Changes):
        raise ConfigurationError(
            "onLostRange=snapshot: a stream of changes cannot begin again with a snapshot, which does not tell what "
            "was deleted meanwhile; use earliest, or begin with a new checkpoint and an empty sink"
        )
