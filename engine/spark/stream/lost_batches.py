"""What a micro-batch still holds whose files were cleaned after its end was fixed: the offset stands in the checkpoint,
so the batch must have an answer, or the query fails at it for ever.

Belongs here: that answer, by `onLostRange` (`failOnDataLoss`). Not here: a range that is lost before its end is fixed
(`enumerator.streams.stream_planner`), a file that is gone when a task reads it (`tasks`).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import PositionExpired
from penstock.proto.model.lost_ranges import OnLostRange
from penstock.proto.model.positions import WHOLE_INSTANT
from penstock.proto.model.queries import NO_LIMITS, Changes
from penstock.proto.model.streams import CommitsBatch, NoBatch, StreamPoint, StreamScope


def remaining_batch(
    enumerator: Enumerator, scope: StreamScope, start: StreamPoint, end: StreamPoint, error: PositionExpired
) -> StreamPoint:
    """A point whose batch takes the place of that of `end`, which began at `start` and can no longer be planned.

    Rows: those that the batch's commits wrote last, as the table has them now; what later commits wrote over comes with
    those. Changes: of the commits up to `end` those that can still be answered. Nothing where that is all that is left.
    `error` with FAIL, for a batch of a snapshot or of a topic, and where SNAPSHOT would have to hand out the table:
    only a batch whose end is not fixed yet can do that.
    """
    if scope.on_lost_range is OnLostRange.FAIL or not isinstance(end.content, CommitsBatch):
        raise error
    open_start = replace(start, ended=False)
    if isinstance(scope.request.query, Changes):
        bounded = replace(scope, limits=NO_LIMITS, target=end.progress.position)
        left = enumerator.next_batch(bounded, open_start).point
        if left.progress.position > end.progress.position:
            left = replace(left, content=NoBatch())
    else:
        newest = enumerator.next_batch(replace(scope, limits=NO_LIMITS, target=None), open_start).point
        if scope.on_lost_range is OnLostRange.SNAPSHOT and not isinstance(newest.content, CommitsBatch):
            raise error
        left = replace(newest, content=_rows_up_to(end, newest))
    return replace(left, watermark=end.watermark, ended=end.ended)


def _rows_up_to(end: StreamPoint, newest: StreamPoint) -> CommitsBatch | NoBatch:
    """Of the batch that ends at `newest` the rows that instants up to `end` wrote last. Nothing where the instants
    behind `end` cannot all be named: it lies inside one, or all up to it are archived; their rows come later."""
    if not isinstance(newest.content, CommitsBatch) or newest.content.after >= end.progress.position:
        return NoBatch()
    if end.progress.position.index != WHOLE_INSTANT or not newest.progress.consumed & end.progress.consumed:
        return NoBatch()
    later = newest.progress.consumed - end.progress.consumed
    return CommitsBatch(newest.content.after, newest.content.without | later)
