"""The start of a stream and its next batch: where the batch ends, its plan, and its watermark.

Reads the table. The caller decides when to ask for a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from penstock.enumerator.continuous.advance import advance, start_progress
from penstock.enumerator.continuous.retention import earliest_position
from penstock.enumerator.continuous.round_limits import data_instants_after
from penstock.enumerator.continuous.types import Following, NextRound, NothingNew
from penstock.enumerator.handover.topic_access import TopicSource
from penstock.enumerator.log import log_event
from penstock.enumerator.planning.commit_order import horizon
from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.planning.plan import Planning
from penstock.enumerator.snapshots.split_list import batch_end, digest_of, verified
from penstock.enumerator.streams.alignment import units_within
from penstock.enumerator.streams.known_commits import (
    KnownCommits,
    check_rule,
    instant_us,
    listed_snapshot,
    newest_within,
    timeline_zone,
)
from penstock.enumerator.streams.plan_cache import StreamPlanCache
from penstock.enumerator.streams.watermark import next_watermark, span_of, watermark_at_end
from penstock.proto.errors import ConfigurationError, PositionExpired
from penstock.proto.model.hybrid import Hybrid, HybridMode
from penstock.proto.model.positions import InstantTime, OnLostRange, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.proto.model.splits import Plan, Split
from penstock.proto.model.streams import (
    CommitsBatch,
    EventTimeRule,
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
    batch_request,
    commits_request,
)
from penstock.table.hudi_table import HudiTable

SETTLED_MS: Final = 60_000
"""No instant completes at a time this many milliseconds after that time, whatever the clocks of the writers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlanner:
    """Plans one call of a stream on a table."""

    table: HudiTable
    """The table as it is now."""
    path: str
    """The table's path, which identifies it in `cache`."""
    name: str
    """The table's name in plans."""
    scope: StreamScope
    """The stream's request and options."""
    planned: Planning
    """Plans a request."""
    cache: StreamPlanCache
    """The caches of the streams of this process."""
    side: TopicSource
    """The topic of a hybrid stream."""
    clock_ms: Callable[[], int]
    """The wall clock, UTC milliseconds since 1970."""
    max_rows_of: Callable[[HudiTable, Split], int]
    """An upper bound for the rows of a split."""

    def start(self, start: StreamStart) -> StreamPoint:
        """See `Enumerator.start_stream`."""
        check_rule(self.table, self.name, self.scope.request, self.scope.rule)
        match start:
            case StartAfter(position):
                return StreamPoint(progress=start_progress(self.table, position))
            case StartLatest():
                return StreamPoint(progress=start_progress(self.table, None))
            case StartSnapshot():
                return self._start_snapshot(Watermark())

    def next_batch(self, point: StreamPoint) -> NextBatch:
        """See `Enumerator.next_batch`."""
        if point.ended:
            return NextBatch(point=point)
        try:
            return self._batch_after(point)
        except PositionExpired as error:
            hybrid = self.scope.request.hybrid
            if hybrid is not None and (hybrid.mode is HybridMode.CHANGELOG or point.progress.kafka is not None):
                raise  # later commits of the lake lack what a topic lost; the lake of a changelog is a single state
            return self._batch_after_loss(point, error)

    def _batch_after(self, point: StreamPoint) -> NextBatch:
        place, hybrid = point.snapshot, self.scope.request.hybrid
        if place is not None and place.done < place.total:
            return self._in_snapshot(point, place)
        if hybrid is None:
            return self._in_commits(point)
        if point.progress.kafka is None:
            in_lake = self._in_lake_of(hybrid, point)
            if in_lake is not None:
                return in_lake
        from penstock.enumerator.streams.topic_batches import batch_after_lake  # late: few streams have a topic

        batch, plan = batch_after_lake(self.table, self.name, self.scope, hybrid, point, self.side)
        if plan is not None:
            self._keep(batch.point, plan)
        return batch

    def _in_lake_of(self, hybrid: Hybrid, point: StreamPoint) -> NextBatch | None:
        """The next batch of the lake; None at its end. The lake of a changelog is its snapshot only, because the newest
        rows of later commits do not show deletes."""
        empty = point.progress.position.is_earliest
        if hybrid.mode is HybridMode.CHANGELOG:
            started = self._start_snapshot(point.watermark) if empty else point
            if started.snapshot is None or started.snapshot.done == started.snapshot.total:
                return NextBatch(point=point) if started.progress.position.is_earliest else None
            return self._in_snapshot(started, started.snapshot)
        batch = self._in_commits(point)
        return batch if batch.held or batch.point != point or empty else None

    def _batch_after_loss(self, point: StreamPoint, error: PositionExpired) -> NextBatch:
        """Apply the scope's `on_lost_range`, because the range after the point can no longer be answered."""
        match self.scope.on_lost_range:
            case OnLostRange.FAIL:
                raise error
            case OnLostRange.EARLIEST:
                earliest = earliest_position(self.table, self._request)
                restart = StreamPoint(progress=start_progress(self.table, earliest), watermark=point.watermark)
            case OnLostRange.SNAPSHOT:
                restart = self._start_snapshot(point.watermark)
        if restart.snapshot is None and restart.progress.position <= point.progress.position:
            # The range can be answered after all: a listing was stale. A point never moves back.
            return self._batch_after(point)
        log_event(
            "range lost",
            table=self.name,
            after=point.progress.position,
            continues_after=restart.progress.position,
            snapshot=restart.snapshot is not None,
            reason=str(error)[:500],
        )
        return replace(self._batch_after(restart), lost=str(error))

    def _start_snapshot(self, watermark: Watermark) -> StreamPoint:
        newest = newest_within(self.table, self.scope.upto)
        _, splits = self._list(newest.position)
        place = SnapshotPlace(done=0, total=len(splits), digest=digest_of(splits)) if splits else None
        return StreamPoint(progress=newest, snapshot=place, watermark=watermark)

    def _in_snapshot(self, point: StreamPoint, place: SnapshotPlace) -> NextBatch:
        plan, splits = self._list(point.progress.position, place.digest)
        verified(splits, place.digest, self.name, str(point.progress.position))
        end = batch_end(splits, place.done, self.scope.limits, lambda split: self.max_rows_of(self.table, split))
        rule, ceiling = self.scope.rule, self.scope.ceiling
        if ceiling is not None and rule is not None:
            spans = (span_of((split,), rule, self._instant_us) for split in splits[place.done : end])
            end = place.done + units_within(spans, ceiling)
            if end == place.done:
                return NextBatch(point=point, held=True)
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
        upto, limits = min(bounds, default=None), self.scope.limits
        if self.scope.ceiling is not None and self.scope.rule is not None:
            known = replace(self._known_commits(self.scope.rule), upto=upto)
            commits = known.commits_within(self.scope.ceiling, point.progress)
            if commits == 0:
                return NextBatch(point=point, held=True)
            limits = replace(limits, max_commits=min(limits.max_commits or commits, commits))
        following = Following(request=self._request, progress=point.progress, limits=limits, upto=upto)
        round_ = advance(self.table.pinned(), self.name, following, clock_ms=self.clock_ms, planned=self.planned)
        match round_:
            case NothingNew():
                end = self._ended(replace(point, content=NoBatch()))
                return NextBatch(point=end if end.ended else point)
            case NextRound(plan=plan, commit_range=commit_range, progress=progress):
                reached = StreamPoint(
                    progress=progress,
                    watermark=self._watermark(point, plan.splits, progress, ()),
                    content=CommitsBatch(commit_range.after, round_.without),
                )
                self._keep(reached, plan)
                return NextBatch(point=self._ended(reached), schema_json=plan.scan.schema_json)

    def _keep(self, reached: StreamPoint, plan: Plan) -> None:
        """Cache the batch's plan, which the client requests next."""
        request = batch_request(self.scope, reached)
        if request is not None:
            self.cache.keep_plan(self.path, request, plan)

    @property
    def _request(self) -> PlanRequest:
        return commits_request(self.scope)

    def _instant_us(self, instant: InstantTime) -> int | None:
        return instant_us(instant, timeline_zone(self.table, self.scope.rule))

    def _known_commits(self, rule: EventTimeRule) -> KnownCommits:
        return KnownCommits(
            table=self.table,
            path=self.path,
            name=self.name,
            request=self._request,
            rule=rule,
            upto=self.scope.upto,
            planned=self.planned,
            cache=self.cache,
        )

    def _list(self, at: Position, digest: str = "") -> tuple[Plan, tuple[Split, ...]]:
        """The plan of the whole snapshot, and its splits in order; see `listed_snapshot`."""
        return listed_snapshot(self.table, self.path, self.name, self._request, at, self.planned, self.cache, digest)

    def _watermark(
        self, point: StreamPoint, planned: tuple[Split, ...], progress: Progress, later: tuple[Split, ...]
    ) -> Watermark:
        """The watermark of the batch with the splits `planned`. `later` are the snapshot's splits after it."""
        rule = self.scope.rule
        if rule is None:
            return self._commit_watermark(point.watermark, progress.position)
        coming = span_of(later, rule, self._instant_us) | self._known_commits(rule).span_after(progress)
        return next_watermark(point.watermark, span_of(planned, rule, self._instant_us), coming, rule)

    def _commit_watermark(self, before: Watermark, position: Position) -> Watermark:
        """The watermark without an event-time column: the commit's time is the event time."""
        at_us = self._instant_us(position.order_key)
        if at_us is None:
            return before
        return Watermark(at_us if before.at_us is None else max(before.at_us, at_us), at_us)

    def _ended(self, point: StreamPoint) -> StreamPoint:
        """The point, marked as the end of the stream if nothing can follow it up to the scope's end."""
        upto, place = self.scope.upto, point.snapshot
        if upto is None or (place is not None and place.done < place.total):
            return point
        if point.progress.position < upto and not self._is_past(point.progress.position, upto):
            return point
        return replace(point, watermark=watermark_at_end(point.watermark, self.scope), ended=True)

    def _is_past(self, position: Position, upto: Position) -> bool:
        """Whether, by the clock, no further instant completes at or before `upto`, and no completed one is unread."""
        facts = read_timeline(self.table)
        pending = horizon(facts.timeline, facts.pending_clusterings)
        upto_us = self._instant_us(upto.order_key)
        if pending is not None and pending.requested_time <= upto.order_key:
            return False
        if upto_us is None or self.clock_ms() - SETTLED_MS < upto_us // 1000:
            return False
        return next(data_instants_after(facts, position, upto), None) is None


def check_scope(scope: StreamScope) -> None:
    """ConfigurationError for an invalid scope."""
    query = scope.request.query
    if not isinstance(query, Incremental | Changes):
        raise ConfigurationError(f"a stream of {type(query).__name__}: expected rows of commits, or changes")
    if scope.rule is not None and not scope.request.event_time:
        raise ConfigurationError("a watermark without an event-time column: give the option eventTime")
    if scope.alignment is not None and scope.rule is None:
        raise ConfigurationError("an aligned stream without a watermark: give the options eventTime, maxOutOfOrderness")
    if scope.on_lost_range is OnLostRange.SNAPSHOT and isinstance(query, Changes):
        raise ConfigurationError(
            "onLostRange=snapshot: a stream of changes cannot restart from a snapshot, which lacks the rows deleted "
            "in the meantime; use earliest, or start with a new checkpoint and an empty sink"
        )
