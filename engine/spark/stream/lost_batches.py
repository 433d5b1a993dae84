"""Replaces a micro-batch whose files were cleaned after its end was fixed, by `onLostRange` (`failOnDataLoss`).

The checkpoint contains the offset of such a batch, so without a replacement the query would always fail there.
`enumerator.streams.stream_planner` handles a range that is lost before its end is fixed, and `task.read` a file that
does not exist when a task reads it.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import PositionExpired
from penstock.proto.model.positions import WHOLE_INSTANT, OnLostRange
from penstock.proto.model.queries import NO_LIMITS, Changes
from penstock.proto.model.streams import CommitsBatch, NoBatch, StreamPoint, StreamScope


def remaining_batch(
    enumerator: Enumerator, scope: StreamScope, start: StreamPoint, end: StreamPoint, error: PositionExpired
) -> StreamPoint:
    """A point whose batch replaces that of `end`, which began at `start` and can no longer be planned.

    Rows: those that the batch's commits wrote last, as they are in the table now; rows that later commits overwrote
    come with those commits. Changes: those of the commits up to `end` that can still be read. The batch may be empty.
    Raises `error` with FAIL, for a batch of a snapshot or of a topic, and if SNAPSHOT would need to return the table,
    which only a batch whose end is not fixed can do.
    """
    if scope.on_lost_range is OnLostRange.FAIL or not isinstance(end.content, CommitsBatch):
        raise error
    open_start = replace(start, ended=False)
    if isinstance(scope.request.query, Changes):
        bounded = replace(scope, limits=NO_LIMITS, target=end.progress.position)
        remaining = enumerator.next_batch(bounded, open_start).point
        if remaining.progress.position > end.progress.position:
            remaining = replace(remaining, content=NoBatch())
    else:
        newest = enumerator.next_batch(replace(scope, limits=NO_LIMITS, target=None), open_start).point
        if scope.on_lost_range is OnLostRange.SNAPSHOT and not isinstance(newest.content, CommitsBatch):
            raise error
        remaining = replace(newest, content=_rows_up_to(end, newest))
    return replace(remaining, watermark=end.watermark, ended=end.ended)


def _rows_up_to(end: StreamPoint, newest: StreamPoint) -> CommitsBatch | NoBatch:
    """The rows of the batch ending at `newest` that instants up to `end` wrote last. NoBatch if the instants after
    `end` cannot all be named, because `end` is inside one or all up to it are archived: then the rows come later."""
    if not isinstance(newest.content, CommitsBatch) or newest.content.after >= end.progress.position:
        return NoBatch()
    if end.progress.position.index != WHOLE_INSTANT or not newest.progress.consumed & end.progress.consumed:
        return NoBatch()
    later = newest.progress.consumed - end.progress.consumed
    return CommitsBatch(newest.content.after, newest.content.without | later)
